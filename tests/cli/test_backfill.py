"""``perdix ingest --from-prometheus``: a live job's past out of its own Prometheus, over real HTTP."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import AssetKey
from typer.testing import CliRunner

from perdix.cli.main import app
from perdix.cli.runs import instance
from perdix.control.clock import WallClock
from perdix.settings.home import Home
from perdix.telemetry.lake import Lake
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin
from perdix.twin.prometheus_face import PrometheusFace
from perdix.twin.workloads import arrivals_from
from tests.cli.test_commands import documented
from tests.control.rig import HIGH, constant, parameters

JOB = """\
name: {name}
mode: advise
bounds: {{minimum: 1, maximum: 8}}
prometheus: {{url: "{url}", selector: {{namespace: {name}, job_name: {name}, topic: {name}}}, scrape_interval_s: 60}}
target: {{kind: advisory}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Three live jobs: ``orders`` and ``payments``, whose Prometheus knows two hours, and ``gone``: nobody answers."""
    clock = WallClock()
    start_s = int(clock.now_s()) - 7_200
    load = arrivals_from(constant(HIGH / 4), start_s)
    twins = {
        name: JobTwin(parameters().model_copy(update={"name": name}), 3, start_s=start_s, scale_out=2, arrivals=load)
        for name in ("orders", "payments")
    }
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    (tmp_path / "jobs").mkdir()
    with PrometheusFace(LivingTwin(twins, clock, scraping=Scraping(interval_s=60.0))) as face:
        for name, url in (*((name, face.url) for name in twins), ("gone", "http://127.0.0.1:9")):
            (tmp_path / "jobs" / f"{name}.yaml").write_text(JOB.format(name=name, url=url), encoding="utf-8")
        yield tmp_path


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_what_prometheus_knows_of_a_live_job_becomes_features_and_a_dead_server_is_named(home: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(app, ["ingest", "--from-prometheus", "--days", "1", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) - {"schema"} == documented()["perdix.backfill/1"]
    of = {job["job"]: job for job in document["jobs"]}
    assert of["gone"]["failed"]
    assert "cannot be reached" in of["gone"]["problems"][0]
    for job in ("orders", "payments"):
        assert not of[job]["failed"], of[job]
        assert of[job]["totals"]["kept"] == of[job]["samples"] > 8 * 60
    assert Lake(home / "lake").jobs("workload_features") == ["orders", "payments"], "ready for a training"
    with instance(Home(home)) as opened:
        shown = [opened.get_materialized_partitions(AssetKey(name)) for name in ("samples", "observations", "features")]
    assert shown == [set(of["orders"]["days"])] * 3


@pytest.mark.usefixtures("home")
def test_where_no_server_answers_the_command_fails(home: Path) -> None:
    for job in ("orders", "payments"):
        (home / "jobs" / f"{job}.yaml").unlink()
    result = CliRunner().invoke(app, ["ingest", "--from-prometheus"])
    assert result.exit_code == 1
    assert "gone" in result.output
