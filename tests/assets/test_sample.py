"""Sampling through Dagster: a file, a page with a picture, and errors that name the fix."""

from __future__ import annotations

import base64
import json
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from perdix.assets.performance.pictures import samples_picture
from perdix.assets.resources import Workspace
from perdix.models.performance.samples import Sample
from perdix.models.sampling.rows import FailedSize, OperatorSamples, newest_samples
from perdix.profiling.live.job import LiveJob
from perdix.settings.home import Home
from perdix.settings.yaml_files import SettingsError
from perdix.twin.operators.parameters import load_operator
from tests.profiling.live_rig import MOST_PER_S, OneWorker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.sample import SampleConfig, operator_samples, what_is_sampled

PNG = b"\x89PNG"
SMALL = """
compute: {cost_us: 100, threads: 2}
memory: {live_mb: 40, working_set_mb: 30, miss_factor: 3}
workload: {per_s: 90000}
sizes:
  cpu: {least: 0.5, most: 3.0, unit: 0.5}
  memory: {least: 32, most: 128, unit: 16}
"""


@dataclass
class Run:
    """A run of the asset alone."""

    home: Home
    instance: dg.DagsterInstance
    workspace: Workspace

    def go(self, jobs: tuple[str, str], **config: Any) -> dg.ExecuteInProcessResult:
        tags = {"dagster/asset_partition_range_start": jobs[0], "dagster/asset_partition_range_end": jobs[1]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries' own
            return dg.materialize(
                [operator_samples],
                instance=self.instance,
                resources={"workspace": self.workspace},
                run_config={"ops": {"operator_samples": {"config": config}}},
                tags=tags,
                raise_on_error=False,
            )

    def metadata(self, job: str) -> dict[str, Any]:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey("operator_samples"), asset_partitions=[job])
        (record,) = self.instance.fetch_materializations(wanted, limit=1).records
        assert record.asset_materialization is not None
        return {name: value.value for name, value in record.asset_materialization.metadata.items()}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    home, conf = Home(tmp_path / "home").make(), tmp_path / "conf"
    (conf / "operators").mkdir(parents=True)
    (conf / "perdix.yaml").write_text("{}\n")
    for job in ("parse", "score"):
        (conf / "operators" / f"{job}.yaml").write_text(SMALL)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        instance.add_dynamic_partitions("stream_jobs", ["parse", "score", "unknown"])
        yield Run(home, instance, Workspace(home=str(home.root), conf=str(conf)))


def runs_as_parse(job: OneWorker, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job in process be the running job ``parse``, with the commands of its file."""

    @contextmanager
    def opened(*_: object) -> Iterator[LiveJob]:
        yield job.live

    monkeypatch.setattr("perdix.assets.sample.running_job", opened)
    jobs = run.workspace.conf_folder() / "jobs"
    jobs.mkdir()
    document = {
        "prometheus": {"url": "http://in.process"},
        "profiling": job.commands().model_dump(mode="json", exclude_none=True),
    }
    (jobs / "parse.yaml").write_text(json.dumps(document))


def failure(result: dg.ExecuteInProcessResult) -> str:
    error = next(event.step_failure_data.error for event in result.all_events if event.is_step_failure)
    assert error is not None
    return error.message


def test_the_page_shows_samples_and_what_they_cost(run: Run) -> None:
    assert run.go(("parse", "parse")).success
    kept = newest_samples(run.home.operator_samples, "parse")
    assert kept is not None
    path, found = kept
    told = run.metadata("parse")
    assert (told["file"], told["digest"], told["method"]) == (str(path), path.stem, "dsa")
    assert (told["samples"], told["failed"]) == (len(found.samples), len(found.failed))
    assert told["cost_core_h"] == pytest.approx(found.core_s / 3_600.0)
    assert told["cost_worker_h"] == pytest.approx(found.worker_s / 3_600.0)
    (drawn,) = re.findall(r"base64,([A-Za-z0-9+/=]+)", told["sampled"])
    assert base64.b64decode(drawn).startswith(PNG)
    best = max(sample.per_s for sample in found.samples)
    assert best == pytest.approx(20_000, rel=0.1)
    assert [size.memory_mb for size in found.failed] == [32.0]


def test_several_jobs_have_a_page_and_samples_each_and_the_method_is_chosen(run: Run) -> None:
    assert run.go(("parse", "score"), method="fssa-2", operator="parse").success
    assert run.metadata("parse")["file"] != run.metadata("score")["file"]
    kept = newest_samples(run.home.operator_samples, "score")
    assert kept is not None
    assert (kept[1].operator, kept[1].method) == ("score", "fssa-2")


def test_a_job_that_cannot_be_sampled_fails_alone_and_its_page_says_why(run: Run) -> None:
    (run.workspace.conf_folder() / "operators" / "parse.yaml").unlink()
    assert run.go(("parse", "score")).success
    assert "there is no operator 'parse'" in run.metadata("parse")["error"]
    assert newest_samples(run.home.operator_samples, "score") is not None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"operator": "nosuch"}, "operators; known: cmo1, cmo2, co1, co2, parse, score"),
        ({"method": "halving"}, "there is no sampling method 'halving'; there are 'dsa'"),
    ],
)
def test_what_cannot_be_sampled_is_said_with_the_mend(run: Run, config: dict[str, Any], words: str) -> None:
    result = run.go(("score", "score"), **config)
    assert not result.success
    assert words in failure(result)


def test_an_operator_that_can_never_be_full_fails_and_says_why(run: Run) -> None:
    quiet = run.workspace.conf_folder() / "operators" / "score.yaml"
    quiet.write_text(SMALL.replace("90000", "100"))
    result = run.go(("score", "score"))
    assert not result.success
    assert "it takes all of the live workload; sample it again when there is more" in failure(result)


def test_a_job_cannot_be_called_like_a_path() -> None:
    with pytest.raises(SettingsError, match="is no name of a stream job"):
        what_is_sampled(SampleConfig(operator="co1"), "../co1", Workspace())


@pytest.mark.parametrize("failed", [(), (FailedSize(4.0, 32.0, "out of memory"),)])
def test_any_samples_can_be_drawn(failed: tuple[FailedSize, ...]) -> None:
    few = OperatorSamples("co1", "dsa", (Sample(1.0, 256.0, 9_000.0),), failed)
    assert samples_picture(few, load_operator("co1").sizes, load_operator("co1")).startswith(PNG)
    assert samples_picture(few, load_operator("co1").sizes).startswith(PNG), "of a running job nobody knows the truth"


def test_a_running_job_is_sampled_by_the_commands_of_its_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = OneWorker(tmp_path)
    runs_as_parse(job, run, monkeypatch)
    assert run.go(("parse", "parse"), live=True, method="fssa-1", first_share=0.1).success
    kept = newest_samples(run.home.operator_samples, "parse")
    assert kept is not None
    assert {sample.cpu_cores for sample in kept[1].samples} == {1.0, 2.0, 3.0}
    assert job.load.rates_per_s[0] == pytest.approx(0.1 * MOST_PER_S)
    assert (run.metadata("parse")["samples"], run.metadata("parse")["left"]) == (3, "")


def test_a_size_that_a_running_job_does_not_get_back_is_on_the_page(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = OneWorker(tmp_path)
    job.restore = (sys.executable, "-c", "import sys; sys.exit('no node')")
    runs_as_parse(job, run, monkeypatch)
    assert run.go(("parse", "parse"), live=True, method="fssa-2", first_share=0.1).success
    left = run.metadata("parse")["left"]
    assert left.endswith("no node (the command 'profiling.restore' gives it its size); restore it by hand")


def test_a_running_job_whose_file_names_no_sizes_is_not_sampled(run: Run) -> None:
    jobs = run.workspace.conf_folder() / "jobs"
    jobs.mkdir()
    (jobs / "parse.yaml").write_text("{prometheus: {url: 'http://in.process'}, profiling: {load: 'x {per_s}'}}\n")
    result = run.go(("parse", "parse"), live=True)
    assert not result.success
    assert "'profiling' in its file needs 'resize', 'restore', 'sizes' and 'most_per_s'" in failure(result)


@pytest.mark.parametrize(("window_s", "first_share"), [(121, 0.01), (300, 0.01), (2_400, 1.0)])
def test_windows_in_which_no_size_converges_in_time_are_refused(window_s: int, first_share: float) -> None:
    """A size is given up after 40 minutes: with windows of 5 minutes each of 43 sizes failed, after 28 hours."""
    with pytest.raises(SettingsError, match=f"window of {window_s} s: no size would converge within 2400 s; "):
        what_is_sampled(SampleConfig(operator="co1", window_s=window_s, first_share=first_share), "co1", Workspace())
    assert what_is_sampled(SampleConfig(operator="co1", window_s=120), "co1", Workspace()).plan.window_s == 120
