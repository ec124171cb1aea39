"""Profiling through Dagster: a file, a page with a picture, and errors that name the fix."""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest

from perdix.assets.latency.pictures import profile_picture
from perdix.assets.resources import Workspace
from perdix.models.profiling.profile import Profile
from perdix.models.profiling.rows import newest_profile
from perdix.profiling.live.job import LiveJob
from perdix.settings.home import Home
from perdix.settings.yaml_files import SettingsError
from perdix.targets.contract import TargetError
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.parameters import load_twin
from perdix.twin.prometheus_face import PrometheusFace
from tests.models.measured_profile import known_job
from tests.profiling.live_rig import Running

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.profile import ProfileConfig, found_metadata, plan_of, profiles, recorded, rows_of_deployments

PNG = b"\x89PNG"
QUICK = {"maximum": 3, "deployments": 2, "step_per_s": 12_000.0, "settle_s": 60, "measure_s": 60}
SMALL = """
workers: {capacity_per_s: 20000, maximum: 4}
keys: {skew_spread: 0.05}
workload: {shape: constant, peak_utilisation: 0.5}
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
                [profiles],
                instance=self.instance,
                resources={"workspace": self.workspace},
                run_config={"ops": {"profiles": {"config": {**QUICK, **config}}}},
                tags=tags,
                raise_on_error=False,
            )

    def metadata(self, job: str) -> dict[str, Any]:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey("profiles"), asset_partitions=[job])
        (record,) = self.instance.fetch_materializations(wanted, limit=1).records
        assert record.asset_materialization is not None
        return {name: value.value for name, value in record.asset_materialization.metadata.items()}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    home, conf = Home(tmp_path / "home").make(), tmp_path / "conf"
    (conf / "twins").mkdir(parents=True)
    (conf / "perdix.yaml").write_text("{}\n")
    for job in ("orders", "returns"):
        (conf / "twins" / f"{job}.yaml").write_text(SMALL)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        instance.add_dynamic_partitions("stream_jobs", ["orders", "returns", "unknown", "../../evil"])
        yield Run(home, instance, Workspace(home=str(home.root), conf=str(conf)))


def failure(result: dg.ExecuteInProcessResult) -> str:
    error = next(event.step_failure_data.error for event in result.all_events if event.is_step_failure)
    assert error is not None
    return error.message


def test_the_page_of_a_profile_shows_what_it_found_and_cost(run: Run) -> None:
    assert run.go(("orders", "orders")).success
    kept = newest_profile(run.home.profiles, "orders")
    assert kept is not None
    path, found = kept
    told = run.metadata("orders")
    assert told["file"] == str(path)
    assert told["cost_worker_h"] == pytest.approx(found.worker_s / 3_600.0)
    assert told["points"] == len(found.points)
    assert told["downtime_s"] == found.downtime_s
    assert told["notes"] == ""
    (drawn,) = re.findall(r"base64,([A-Za-z0-9+/=]+)", told["profile"])
    assert base64.b64decode(drawn).startswith(PNG)
    assert set(found.maximum_per_s) == {2, 3}
    assert found.maximum_per_s[3] == pytest.approx(60_000.0, rel=0.25)


def test_several_jobs_have_a_page_and_a_profile_each(run: Run) -> None:
    assert run.go(("orders", "returns"), fail=False).success
    assert run.metadata("orders")["file"] != run.metadata("returns")["file"]
    assert "downtime_s" not in run.metadata("returns"), "no failure was tried"
    assert newest_profile(run.home.profiles, "returns") is not None


def test_a_job_that_cannot_be_profiled_fails_alone_and_its_page_says_why(run: Run) -> None:
    """A running job takes hours: those after one without a twin, or a file, must not wait for the next run."""
    (run.workspace.conf_folder() / "twins" / "orders.yaml").unlink()
    result = run.go(("orders", "returns"), fail=False)
    assert result.success
    (check,) = result.get_asset_check_evaluations()[-1:]
    assert (check.check_name, check.passed, [*check.metadata]) == ("every_job_was_measured", False, ["orders"])
    assert "there is no twin 'orders'" in run.metadata("orders")["error"]
    assert newest_profile(run.home.profiles, "returns") is not None
    assert "error" not in run.metadata("returns")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"maximum": 9}, "returns: maximum 9: the twin 'returns' has 4 workers; ask for fewer"),
        ({"twin": "nosuch"}, "there is no twin 'nosuch'"),
    ],
)
def test_what_cannot_be_profiled_is_said_with_the_mend(run: Run, config: dict[str, Any], words: str) -> None:
    result = run.go(("returns", "returns"), **config)
    assert not result.success
    assert words in failure(result)


def test_a_job_that_cannot_be_called_so_is_not_profiled(run: Run) -> None:
    """Its profile was written outside of the home."""
    result = run.go(("../../evil", "../../evil"), twin="orders", fail=False)
    assert not result.success
    assert "'../../evil' is no name of a stream job" in failure(result)
    assert not run.home.profiles.exists() or not list(run.home.profiles.rglob("*.parquet"))


class TestPlan:
    def test_by_default_twenty_rates_reach_the_most_that_fits(self) -> None:
        plan = plan_of(ProfileConfig(), load_twin("wordcount"))
        assert plan.scale_outs == (2, 3, 5, 6, 8, 9, 11, 12)
        assert plan.first_per_s == plan.step_per_s
        assert plan.rate_per_s(19) == pytest.approx(500_000, rel=0.2)
        assert (plan.settle_s, plan.measure_s, plan.fail) == (300, 120, True)

    def test_what_is_asked_for_is_planned(self) -> None:
        config = ProfileConfig(minimum=1, maximum=4, deployments=2, step_per_s=5_000.0, settle_s=9, measure_s=12)
        plan = plan_of(config, load_twin("wordcount"))
        assert (plan.scale_outs, plan.rate_per_s(1), plan.settle_s, plan.measure_s) == ((1, 4), 10_000.0, 9, 12)

    def test_more_workers_than_there_are_cannot_be_profiled(self) -> None:
        with pytest.raises(SettingsError, match="'wordcount' has 12 workers; ask for fewer"):
            plan_of(ProfileConfig(maximum=13), load_twin("wordcount"))

    def test_fewer_workers_than_were_asked_for_are_not_profiled_in_their_place(self) -> None:
        with pytest.raises(SettingsError, match="minimum 13: the twin 'wordcount' has 12 workers; ask for fewer"):
            plan_of(ProfileConfig(minimum=13), load_twin("wordcount"))

    def test_a_time_in_which_nothing_is_scraped_twice_measures_nothing(self) -> None:
        with pytest.raises(SettingsError, match="measure_s 5: less than two scrape intervals of 5 s; "):
            plan_of(ProfileConfig(measure_s=5), load_twin("wordcount"))

    @pytest.mark.parametrize("config", [{"settle_s": 10**9}, {"measure_s": 10**9}])
    def test_a_rate_is_held_for_a_day_at_most(self, config: dict[str, int]) -> None:
        with pytest.raises(ValueError, match="less than or equal to 86400"):
            ProfileConfig(**config)


class TestPictures:
    def test_a_profile_is_drawn(self) -> None:
        points, most = known_job()
        assert profile_picture(Profile("cars", tuple(points), most, 5_000.0)).startswith(PNG)

    @pytest.mark.parametrize("most", [{}, {2: 20_000.0}])
    def test_one_that_found_little_can_be_drawn_and_told(self, most: dict[int, float]) -> None:
        points, _ = known_job()
        few = Profile("cars", tuple(point for point in points if point.scale_out == 2)[-1:], most, 5_000.0)
        assert profile_picture(few).startswith(PNG)
        (row,) = rows_of_deployments(few)
        assert (row["rates_held"], row["latency_ms"]) == (0, None)
        assert "downtime_s" not in found_metadata(few, Path("p.parquet"))


class TestRecording:
    """The live workload is what is replayed, where there is one."""

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Workspace:
        (tmp_path / "conf" / "jobs").mkdir(parents=True)
        return Workspace(home=str(tmp_path / "home"), conf=str(tmp_path / "conf"))

    def job_at(self, workspace: Workspace, url: str) -> None:
        (workspace.conf_folder() / "jobs" / "wordcount.yaml").write_text(
            f"prometheus: {{url: '{url}', scrape_interval_s: 5,"
            " selector: {namespace: wordcount, topic: wordcount, job_name: wordcount}}\n"
        )

    def test_of_a_job_with_a_prometheus(self, workspace: Workspace) -> None:
        twin = JobTwin(load_twin("wordcount"), 3, start_s=1_700_000_100, scale_out=8)
        twin.step(900)
        living = LivingTwin({"wordcount": twin}, SimulatedClock(twin.now_s), scraping=Scraping(5.0))
        with PrometheusFace(living) as face:
            self.job_at(workspace, face.url)
            found = recorded(dg.build_asset_context(), workspace, "wordcount", twin.now_s)
        assert found is not None
        truth = twin.history.column("arrived")[-600:]
        assert np.nanmean(found.per_s) == pytest.approx(truth.mean(), rel=0.03)

    def test_of_a_job_whose_prometheus_is_down(self, workspace: Workspace) -> None:
        self.job_at(workspace, "http://127.0.0.1:9")
        assert recorded(dg.build_asset_context(), workspace, "wordcount", 1_700_000_100) is None

    def test_of_a_job_without_a_file(self, workspace: Workspace) -> None:
        assert recorded(dg.build_asset_context(), workspace, "wordcount", 1_700_000_100) is None


class TestTheRunningJob:
    """The job itself, whose commands its file names; here a twin in simulated time."""

    FILE = """
prometheus: {url: "http://in.process"}
bounds: {minimum: 2, maximum: 5}
target: {kind: flink, url: "http://in.process"}
profiling: {load: "load.sh {per_s}"}
"""

    @pytest.fixture
    def job(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> Running:
        job = Running(scale_out=4)

        @contextmanager
        def opened(*_: object) -> Iterator[LiveJob]:
            yield job.live

        monkeypatch.setattr("perdix.assets.profile.running_job", opened)
        self.write(run, self.FILE)
        return job

    def write(self, run: Run, text: str) -> None:
        (run.workspace.conf_folder() / "jobs").mkdir(exist_ok=True)
        (run.workspace.conf_folder() / "jobs" / "orders.yaml").write_text(text)

    def test_its_scale_outs_are_profiled_one_after_the_other(self, run: Run, job: Running) -> None:
        config = {"maximum": 0, "deployments": 2, "settle_s": 180, "step_per_s": 8_000.0}
        assert run.go(("orders", "orders"), live=True, **config).success
        kept = newest_profile(run.home.profiles, "orders")
        assert kept is not None
        assert set(kept[1].maximum_per_s) == {2, 5}, "from the default's minimum to the most that its file allows"
        assert kept[1].downtimes_s == (), "its file names no command that lets a worker fail"
        assert job.twin.scale_out == 4
        told = run.metadata("orders")
        assert told["took_h"] == pytest.approx((kept[1].ended_s - kept[1].began_s) / 3_600.0)
        assert told["left"] == ""

    def test_what_it_does_not_get_back_is_on_the_page(self, run: Run, job: Running) -> None:
        def meanwhile() -> None:
            if job.load.rate_per_s >= 16_000.0:
                job.target.refusing = TargetError("no right to", retriable=False)

        job.meanwhile = meanwhile
        config = {"maximum": 2, "deployments": 1, "settle_s": 180, "step_per_s": 8_000.0}
        assert run.go(("orders", "orders"), live=True, **config).success
        said = "what ran before could not be restored: no right to (it had 4 workers); restore it by hand"
        assert run.metadata("orders")["left"] == said

    @pytest.mark.parametrize(
        ("config", "words"),
        [
            ({"step_per_s": 0.0}, "the rates are not known: give their distance, records/s"),
            ({"maximum": 9}, "maximum 9: job 'orders' may have 5 workers; ask for fewer"),
            ({"minimum": 4, "maximum": 3}, "minimum 4 is above maximum 3; swap or widen them"),
            ({"measure_s": 1}, "measure_s 1: less than two scrape intervals of "),
            ({"minimum": 1, "maximum": 1}, "maximum 1: job 'orders' has 2 workers at least; raise it"),
        ],
    )
    def test_what_cannot_be_is_said_before_the_job_is_touched(
        self, run: Run, job: Running, config: dict[str, Any], words: str
    ) -> None:
        result = run.go(("orders", "orders"), live=True, **config)
        assert not result.success
        assert words in failure(result)
        assert job.target.asked == []

    def test_a_job_that_perdix_scales_is_not_profiled(self, run: Run, job: Running) -> None:
        self.write(run, self.FILE + "mode: act\n")
        result = run.go(("orders", "orders"), live=True)
        assert not result.success
        assert "is scaled by perdix (mode: act); write mode: advise" in failure(result)
