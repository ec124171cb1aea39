"""A day of live jobs, pulled by its asset: one job's dead Prometheus keeps no other from being pulled."""

from __future__ import annotations

import gzip
import json
import warnings
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from perdix.assets.resources import Workspace
from perdix.settings.home import PROJECT, Home
from perdix.telemetry.live_range import landing_file
from perdix.twin.emission import Scraping
from perdix.twin.living import SimulatedClock, revive
from perdix.twin.parameters import load_twin
from perdix.twin.prometheus_face import PrometheusFace

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.ingest import exports

DAY = "2026-03-04"
NOW_S = datetime(2026, 3, 4, 15, tzinfo=UTC).timestamp()
JOB = "prometheus: {{url: '{url}', selector: {{namespace: ads, topic: ads, job_name: ads}}}}\n"


def test_a_day_is_pulled_and_a_dead_server_fails_its_own_job_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdix.control.clock.WallClock.now_s", lambda _: NOW_S)
    conf, home = tmp_path / "conf", Home(tmp_path / "home").make()
    (conf / "jobs").mkdir(parents=True)
    (conf / "queries").symlink_to(PROJECT / "conf" / "queries")
    living = revive({"ads": load_twin("ads")}, SimulatedClock(NOW_S), hours=1.0, scraping=Scraping(15.0))
    with PrometheusFace(living) as face, dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        (conf / "jobs" / "ads.yaml").write_text(JOB.format(url=face.url))
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
        assert set(instance.get_dynamic_partitions("stream_jobs")) == {"ads", "dead", "by-hand"}
    (event,) = done.get_asset_materialization_events()
    said = {name: value.value for name, value in event.materialization.metadata.items()}
    assert said["samples"] > 240
    (problem,) = said["problems"]
    assert problem.startswith(f"dead, {DAY}: http://127.0.0.1:9 cannot be reached")
    lines = gzip.decompress(landing_file(home, "ads", DAY).read_bytes()).decode().splitlines()
    times_ms = [time for line in lines for time in json.loads(line)["timestamps"]]
    assert 1000 * (NOW_S - 3_600) <= min(times_ms) <= max(times_ms) <= 1000 * NOW_S
