"""A day of live jobs, pulled by its asset: one job's dead Prometheus keeps no other from being pulled."""

from __future__ import annotations

import gzip
import json
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from perdix.assets.resources import Spark, Workspace
from perdix.settings.home import PROJECT, Home
from perdix.settings.stream_job import PrometheusSource
from perdix.telemetry import live_range
from perdix.telemetry.live_range import landing_file
from perdix.telemetry.prometheus import Prometheus
from perdix.twin.emission import Scraping
from perdix.twin.living import SimulatedClock, revive
from perdix.twin.parameters import load_twin
from perdix.twin.prometheus_face import PrometheusFace

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.ingest import exports, samples

DAY = "2026-03-04"
NOW_S = datetime(2026, 3, 4, 15, tzinfo=UTC).timestamp()
JOB = "prometheus: {{url: '{url}', selector: {{namespace: ads, topic: ads, job_name: ads}}}}\n"


def a_broken_manifest(home: Home, table: str, job: str) -> Path:
    """A manifest of which half was written."""
    path = home.lake / table / f"job={job}" / f"day={DAY}" / "source=x.csv" / "_manifest.json"
    path = path if table == "samples" else path.parents[2] / "source=x.csv" / "_manifest.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"tab')
    return path


def ingested(home: Home) -> dg.ExecuteInProcessResult:
    """Materialize the samples of a day of which no file is new, so that Spark is not started."""
    workspace = Workspace(home=str(home.root))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dg.materialize(
            [samples],
            partition_key=DAY,
            resources={"workspace": workspace, "spark": Spark(workspace=workspace)},
            raise_on_error=False,
        )


@pytest.mark.parametrize("table", ["sources", "samples"])
def test_a_job_whose_manifest_is_broken_keeps_no_other_from_being_ingested(tmp_path: Path, table: str) -> None:
    home = Home(tmp_path / "home").make()
    for job in ("a-broken", "sound"):
        (home.landing / job).mkdir(parents=True)
    broken = a_broken_manifest(home, table, "a-broken")
    done = ingested(home)
    (event,) = done.get_asset_materialization_events()
    (problem,) = event.materialization.metadata["problems"].value
    assert problem == f"a-broken: {broken}: not a manifest; remove the folder and ingest its source again"


def test_where_the_only_job_is_broken_the_run_fails(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    (home.landing / "a-broken").mkdir(parents=True)
    a_broken_manifest(home, "sources", "a-broken")
    assert not ingested(home).success


def test_a_day_is_pulled_and_a_dead_server_or_a_broken_manifest_fails_its_own_job_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdix.control.clock.WallClock.now_s", lambda _: NOW_S)
    conf, home = tmp_path / "conf", Home(tmp_path / "home").make()
    (conf / "jobs").mkdir(parents=True)
    (conf / "queries").symlink_to(PROJECT / "conf" / "queries")
    living = revive({"ads": load_twin("ads")}, SimulatedClock(NOW_S), hours=1.0, scraping=Scraping(15.0))
    with PrometheusFace(living) as face, dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        (conf / "jobs" / "ads.yaml").write_text(JOB.format(url=face.url))
        (conf / "jobs" / "a-broken.yaml").write_text(JOB.format(url=face.url))
        broken = a_broken_manifest(home, "sources", "a-broken")
        (conf / "jobs" / "dead.yaml").write_text(JOB.format(url="http://127.0.0.1:9"))
        (conf / "jobs" / "by-hand.yaml").write_text("mode: advise\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = dg.materialize(
                [exports],
                partition_key=DAY,
                instance=instance,
                resources={"workspace": Workspace(home=str(home.root), conf=str(conf))},
            )
        assert set(instance.get_dynamic_partitions("stream_jobs")) == {"a-broken", "ads", "dead", "by-hand"}
    (event,) = done.get_asset_materialization_events()
    said = {name: value.value for name, value in event.materialization.metadata.items()}
    assert said["samples"] > 240
    fault, problem = said["problems"]
    assert fault == f"a-broken, {DAY}: {broken}: not a manifest; remove the folder and ingest its source again"
    assert problem.startswith(f"dead, {DAY}: http://127.0.0.1:9 cannot be reached")
    lines = gzip.decompress(landing_file(home, "ads", DAY).read_bytes()).decode().splitlines()
    times_ms = [time for line in lines for time in json.loads(line)["timestamps"]]
    assert 1000 * (NOW_S - 3_600) <= min(times_ms) <= max(times_ms) <= 1000 * NOW_S


def test_a_dead_server_is_asked_once_for_all_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that is asked waits for a time-out, three times."""
    conf, home, asked = tmp_path / "conf", Home(tmp_path / "home").make(), list[str]()
    (conf / "jobs").mkdir(parents=True)
    for number in range(5):
        (conf / "jobs" / f"job-{number}.yaml").write_text(JOB.format(url="http://127.0.0.1:9"))

    def asking(source: PrometheusSource, *args: Any, **options: Any) -> Prometheus:
        asked.append(str(source.url))
        return Prometheus(source, *args, **options)

    monkeypatch.setattr(live_range.pull_ranges, "__kwdefaults__", {"connect": asking})
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        workspace = Workspace(home=str(home.root), conf=str(conf))
        done = dg.materialize([exports], partition_key=DAY, instance=instance, resources={"workspace": workspace})
    assert asked == ["http://127.0.0.1:9/"]
    (event,) = done.get_asset_materialization_events()
    problems: Any = event.materialization.metadata["problems"].value
    assert len(problems) == 5
    assert all("127.0.0.1:9 cannot be reached" in problem for problem in problems)
