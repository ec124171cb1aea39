"""``perdix doctor`` on the metrics of jobs: what it prints, its JSON, and that no server delays another."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from perdix.cli import doctor, doctor_metrics
from perdix.cli.doctor_metrics import metrics_of_jobs
from perdix.cli.findings import Finding
from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import UserError, run_guarded
from perdix.cli.twin_jobs import write_twin_jobs
from perdix.control.champions import Champions
from perdix.control.checkup.facts import JobCheckup, QueryFact, Verdict
from perdix.control.clock import WallClock
from perdix.control.job_files import stream_jobs
from perdix.control.state.store import StateStore
from perdix.models.registry import FORECAST, FleetVersion, TableGone
from perdix.models.registry.fleet_table import Fleet, write_fleet
from perdix.settings.home import Home
from perdix.settings.stream_job import StreamJob
from perdix.telemetry.spark.cluster import require_master
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.parameters import load_twin
from perdix.twin.prometheus_face import PrometheusFace
from perdix.twin.workloads import arrivals_from
from tests.cli.width import wide
from tests.control.published import a_status
from tests.targets.kubernetes_api import kubernetes_target

GONE = "http://127.0.0.1:9"
FACTS = {"job", "metric", "query", "needed", "unit", "series", "newest", "age_s", "rejected", "verdict", "found", "fix"}


@pytest.fixture(scope="module")
def face() -> Iterator[PrometheusFace]:
    now_s = int(time.time())
    arrivals = arrivals_from(np.full(7_200, 20_000.0), now_s - 900)
    twin = JobTwin(load_twin("wordcount"), 3, start_s=now_s - 900, scale_out=4, arrivals=arrivals)
    twin.step(900)
    with PrometheusFace(LivingTwin({"wordcount": twin}, SimulatedClock(now_s), scraping=Scraping(5.0))) as face:
        yield face


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home; its job files are written by :func:`write`."""
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    wide(monkeypatch)
    (tmp_path / "jobs").mkdir()
    return tmp_path


def write(place: Path, name: str, url: str, **labels: str) -> None:
    selector = {"namespace": "wordcount", "job_name": "wordcount", "topic": "wordcount", **labels}
    document = {"prometheus": {"url": url, "selector": selector, "scrape_interval_s": 5}}
    (place / "jobs" / f"{name}.yaml").write_text(json.dumps(document, indent=1))


def run(*arguments: str) -> tuple[int, str]:
    answer = CliRunner().invoke(app, ["doctor", "--no-spark", *arguments])
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.exit_code, answer.stdout


def as_json(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(run(*arguments, "--json")[1]))


def findings(place: Path) -> list[Finding]:
    """Those on metrics alone: the other checks of the machine take seconds."""
    home = Home(place)
    return list(metrics_of_jobs(home, stream_jobs(home)))


def test_the_queries_of_a_job_are_shown_with_series_value_unit_and_age(place: Path, face: PrometheusFace) -> None:
    write(place, "wordcount", face.url)
    code, text = run("--job", "wordcount")
    assert code == 0
    assert re.search(r"ok +prometheus http://127.0.0.1:\d+: answers", text)
    assert re.search(r"ok +metrics of wordcount: \d+ queries, all well", text) or "perdix can do without" in text
    assert re.search(r"throughput_per_s .* 4 .* (19|20),\d{3} records/s .* \d+ s .* ok", text)


def test_json_has_the_facts_of_each_query(place: Path, face: PrometheusFace) -> None:
    write(place, "wordcount", face.url)
    said = as_json("--job", "wordcount")
    facts = {query["metric"]: query for query in said["queries"]}
    assert set(facts["cpu_load"]) == FACTS
    assert facts["cpu_load"]["verdict"] == "ok"
    assert facts["cpu_load"]["series"] == 4
    assert 0 < facts["cpu_load"]["newest"] < 1
    assert facts["latency_p95_ms"]["unit"] == "ms"


def test_a_wrong_label_is_said_once_with_the_line_of_the_file(place: Path, face: PrometheusFace) -> None:
    write(place, "wordcount", face.url, job_name="wordcont")
    code, text = run("--job", "wordcount")
    assert code == 1
    said = " ".join(text.split())
    fix = "no series has job_name 'wordcont': set prometheus.selector.job_name to 'wordcount'"
    assert said.count(fix) == 1
    assert re.search(r"fix: no series has job_name .* \(\S+wordcount\.yaml:4\)", said)
    assert "broken metrics of wordcount: throughput_per_s, cpu_load" in said


def test_a_server_that_is_gone_is_one_finding_for_all_its_jobs(place: Path) -> None:
    for name in ("ads", "bids"):
        write(place, name, GONE)
    (broken,) = findings(place)
    assert (broken.ok, broken.check) == (False, f"prometheus {GONE}")
    assert "needed by ads, bids" in broken.found
    assert re.search(r"start it, or correct prometheus.url \(\S+ads\.yaml:3\)", broken.fix)
    assert {query.verdict for query in broken.queries} == {Verdict.NOT_ASKED}
    assert {query.job for query in broken.queries} == {"ads", "bids"}


def test_what_keeps_one_job_from_a_server_is_no_fault_of_the_server(
    place: Path, face: PrometheusFace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOKEN_OF_ADS", raising=False)
    write(place, "wordcount", face.url)
    write(place, "ads", face.url)
    file = place / "jobs" / "ads.yaml"
    file.write_text(file.read_text().replace('"url"', '"token_env": "TOKEN_OF_ADS", "url"'))
    refused, answers, *_ = findings(place)
    assert (refused.ok, refused.check) == (False, f"prometheus {face.url}, asked for ads")
    assert "TOKEN_OF_ADS" in refused.found
    assert (answers.ok, answers.found) == (True, "answers, asked for wordcount")


def test_the_simulator_of_a_demo_that_is_over_is_not_broken(place: Path) -> None:
    names = write_twin_jobs(Home(place), GONE, mode="act")
    (server,) = findings(place)
    assert server.ok
    assert "the simulator of the demo is not running" in server.found
    assert all(name in server.found for name in names)
    assert "perdix dev" in server.better


def test_a_job_of_its_own_name_is_looked_at_alone(place: Path, face: PrometheusFace) -> None:
    write(place, "wordcount", face.url)
    write(place, "gone", GONE)
    said = as_json("--job", "wordcount")
    assert said["ok"]
    assert {query["job"] for query in said["queries"]} == {"wordcount"}
    assert not [finding for finding in said["findings"] if finding["check"] in {"python", "java", "mlflow"}]


def test_a_job_whose_file_cannot_be_used_is_told_with_its_fault(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "jobs" / "ads.yaml").write_text("engin: flink\n")
    assert run_guarded(lambda: app(["doctor", "--job", "ads"], standalone_mode=False), known_errors) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "ads.yaml:1: unknown key 'engin'; did you mean 'engine'?" in said
    assert "no job has a file" not in said


def test_a_fault_of_a_job_file_stands_beside_its_own_fix(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "jobs" / "ads.yaml").write_text("bounds: {min: 1, max: 5}\n")
    (place / "jobs" / "bids.yaml").write_text("target: {kind: flink}\n")
    for check in ("_java", "_mlflow"):
        monkeypatch.setattr(doctor, check, lambda *_: iter(()))
    code, said = run()
    assert code == 1
    fixes = [line.partition("fix: ")[2] for line in said.splitlines() if "fix: " in line]
    assert [fix.partition("jobs/")[2] for fix in fixes] == [
        "ads.yaml:1: unknown key 'bounds.min'; did you mean 'minimum'?",
        "ads.yaml:1: unknown key 'bounds.max'; did you mean 'maximum'?",
        "bids.yaml:1: 'target.url' is missing; add it",
    ]


def test_a_target_on_kubernetes_is_read_as_the_loop_reads_it(place: Path) -> None:
    with kubernetes_target(place):
        target = f"kind: kubernetes, kubeconfig: '{place / 'kubeconfig'}', namespace: prod, name: orders"
        (place / "jobs" / "orders.yaml").write_text(f"target: {{{target}}}\n")
        (well,) = of_kubernetes("orders")
        assert (well["ok"], well["found"]) == (True, "replicas: 2 asked for, 2 run")
        (place / "jobs" / "lost.yaml").write_text(f"target: {{{target.replace('name: orders', 'name: lost')}}}\n")
        (broken,) = of_kubernetes("lost")
        assert not broken["ok"]
        assert "check 'name' and 'namespace'" in broken["found"]


def of_kubernetes(job: str) -> list[dict[str, Any]]:
    return [found for found in as_json("--job", job)["findings"] if found["check"] == f"kubernetes of {job}"]


def test_job_files_that_act_on_one_target_are_named(place: Path) -> None:
    for name, mode in (("orders", "act"), ("copied", "act"), ("compared", "advise")):
        target = {"kind": "kubernetes", "name": "taskmanager", "namespace": "prod", "kubeconfig": "~/none"}
        (place / "jobs" / f"{name}.yaml").write_text(json.dumps({"target": target, "mode": mode}))
    for name in ("clicks", "views"):  # each has the job of its own name
        target = {"kind": "flink", "url": GONE}
        (place / "jobs" / f"{name}.yaml").write_text(json.dumps({"target": target, "mode": "act"}))
    code, said = run()
    assert code == 1
    assert "broken targets: copied, orders all act on deployments prod/taskmanager" in said
    assert "fix: let one of them act and the others advise, or correct 'target' in their files" in said
    assert said.count("all act on") == 1


def test_where_all_is_well_there_is_no_fix(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("_java", "_mlflow"):
        monkeypatch.setattr(doctor, check, lambda *_: iter(()))
    assert {finding["fix"] for finding in as_json()["findings"]} == {""}


def test_a_job_without_prometheus_is_no_fault(place: Path) -> None:
    (place / "jobs" / "dark.yaml").write_text("{}\n")
    (found,) = [finding for finding in as_json("--job", "dark")["findings"] if finding["check"] == "metrics of dark"]
    assert found["ok"]
    assert "none configured" in found["found"]


def test_a_job_that_acts_and_has_no_prometheus_is_broken(place: Path) -> None:
    (place / "jobs" / "orders.yaml").write_text("mode: act\n")
    code, said = run("--job", "orders")
    assert code == 1
    assert "broken metrics of orders: none configured: mode: act, and never scaled" in said
    assert f"fix: add 'prometheus' with its url and selector ({place / 'jobs' / 'orders.yaml'})" in said


def test_a_doubt_is_shown_and_fails_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place, "ads", GONE)

    def check(job: StreamJob, _: float) -> JobCheckup:
        doubt = QueryFact(job.name, "latency_p95_ms", "q", False, "ms", 1, 1.04, 3.0)
        doubt = QueryFact(
            **{**vars(doubt), "verdict": Verdict.DOUBTFUL, "found": "1.04 ms", "fix": "is it in seconds?"}
        )
        return JobCheckup(job.name, GONE, (doubt,))

    monkeypatch.setattr(doctor_metrics, "check_job", check)
    code, text = run("--job", "ads")
    assert code == 0
    assert "check latency_p95_ms: 1.04 ms; is it in seconds?" in " ".join(text.split())


def test_a_slow_server_delays_no_other_and_is_not_asked_by_all_its_jobs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        write(place, f"slow-{number}", "http://slow:9090")
    write(place, "well", "http://well:9090")
    well, asked = threading.Event(), []

    def check(job: StreamJob, _: float) -> JobCheckup:
        assert job.prometheus is not None
        asked.append(job.name)
        if job.name == "well":
            well.set()
            return JobCheckup(job.name, "http://well:9090", ())
        assert well.wait(5), "the other server waits for this one"
        return JobCheckup(job.name, "http://slow:9090", (), False, "http://slow:9090 did not answer in time", "wait")

    monkeypatch.setattr(doctor_metrics, "check_job", check)
    assert [finding.check for finding in findings(place) if not finding.ok] == ["prometheus http://slow:9090"]
    assert len(asked) <= 1 + doctor_metrics.PER_SERVER


def test_what_one_job_meets_costs_no_other_its_checks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place, "ads", "http://one:9090")
    write(place, "bids", "http://two:9090")

    def check(job: StreamJob, _: float) -> JobCheckup:
        if job.name == "ads":
            raise RuntimeError("a defect")
        return JobCheckup(job.name, "http://two:9090", ())

    monkeypatch.setattr(doctor_metrics, "check_job", check)
    found = {finding.check: finding for finding in findings(place)}
    assert "a defect" in found["metrics of ads"].found
    assert found["metrics of bids"].ok


def test_commands_that_profiling_would_run_are_looked_for(place: Path) -> None:
    profiling = {"load": "no-such-generator {per_s}", "fail": "sh -c true"}
    (place / "jobs" / "orders.yaml").write_text(json.dumps({"profiling": profiling}))
    code, said = run("--job", "orders")
    assert code == 0, "only who profiles it needs them"
    assert "profiling of orders: load, fail" in said
    assert "check no-such-generator: not found here, where perdix profile would run it" in said


@pytest.mark.parametrize(
    ("worker", "same"),
    [("/srv/.venv/bin/python", True), ("/srv/app/../.venv/bin/python", True), ("/usr/bin/python", False)],
)
def test_workers_run_this_python_however_its_path_is_written(
    monkeypatch: pytest.MonkeyPatch, worker: str, same: bool
) -> None:
    """``../.venv/bin/python -m perdix doctor``: of the path that was typed a worker has the plain form."""
    monkeypatch.setattr(sys, "executable", "/srv/app/../.venv/bin/python")
    answer = subprocess.CompletedProcess([], 0, stdout=f"4.0.0 {worker}\n", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    (found,) = doctor._spark()
    assert found.ok is same


def test_a_champion_whose_table_is_gone_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Emptied:
        """A registry of which the folder of artifacts was removed."""

        def current_version(self, name: str) -> FleetVersion | None:
            return FleetVersion(name, 3, "ab" * 32, "run") if name == FORECAST else None

        def download(self, name: str, version: int, to: Path) -> Path:
            raise TableGone(f"{name} version {version} is not in {to.parent}; restore it or promote another version")

    monkeypatch.setattr("perdix.models.registry.prepare", lambda _: Emptied())
    (found,) = doctor._mlflow(Home(tmp_path), stream_jobs(Home(tmp_path)))
    assert not found.ok
    assert f"{FORECAST}: {FORECAST} version 3 is not in" in found.found
    assert found.fix == "do as it says, or train anew: perdix train"


def test_a_database_that_is_away_is_reported_and_not_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty one nothing is champion: the loop, which holds on to what it has, would give every job up."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home, table = Home(tmp_path), tmp_path / "champions" / FORECAST / "3.parquet"
    table.parent.mkdir(parents=True)
    digest = write_fleet(Fleet(pd.DataFrame({"job": ["ads"], "family": ["linear"], "state": ["{}"]})), table)
    table.with_name("good.json").write_text(json.dumps({"version": 3, "sha256": digest}))
    (found,) = doctor._mlflow(home, stream_jobs(home))
    assert not found.ok
    assert "mlflow.db is not there; restore it" in found.found
    assert not (tmp_path / "mlflow.db").exists()
    assert Champions(home.champions, None).fleet(FORECAST).version == 3


def test_how_long_ago_the_newest_tick_was_is_said(tmp_path: Path) -> None:
    """Whoever is called at night looks here first: does a controller run at all?"""
    home = Home(tmp_path)
    (found,) = doctor._state(home, stream_jobs(home))
    assert found.found == "readable, 0 jobs known, no tick yet"
    with closing(StateStore(home.state_url)) as store:
        a_status(store, WallClock().now_s() - 3 * 3600.0, "ads")
    (found,) = doctor._state(home, stream_jobs(home))
    assert found.found == "readable, 1 job known, the newest tick began 3 h ago"


def test_a_family_that_nobody_knows_is_found_before_the_night(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "conf").mkdir()
    (place / "conf" / "perdix.yaml").write_text("training: {thorough_families: [liner]}\n")
    monkeypatch.setenv("PERDIX_CONF", str(place / "conf"))
    found, _ = doctor._configuration(Home(place), stream_jobs(Home(place)))
    assert (found.check, found.ok) == ("training", False)
    assert "no family of forecasters is called 'liner'; did you mean 'linear'?" in found.found
    assert str(place / "conf" / "perdix.yaml") in found.fix


@pytest.mark.spark
@pytest.mark.slow
def test_the_spark_that_is_configured_is_tried(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "conf").mkdir()
    (place / "conf" / "perdix.yaml").write_text("spark: {master: nonsense}\n")
    monkeypatch.setenv("PERDIX_CONF", str(place / "conf"))
    (found,) = doctor._spark()
    assert not found.ok
    assert "Spark at nonsense does not start: " in found.found
    assert "perdix.yaml" not in found.found
    assert str(place / "conf" / "perdix.yaml") in found.fix


@pytest.mark.parametrize(
    ("master", "fix"), [("local[*]", "fix java first"), ("localhost:7077", "start that cluster, or correct")]
)
def test_a_spark_that_does_not_start_gets_the_fix_of_its_kind(
    master: str, fix: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "conf").mkdir()
    (place / "conf" / "perdix.yaml").write_text(f"spark: {{master: '{master}'}}\n")
    monkeypatch.setenv("PERDIX_CONF", str(place / "conf"))
    ended = subprocess.CompletedProcess([], 1, "", "it does not start")
    monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: ended)
    (found,) = doctor._spark()
    assert found.fix.startswith(fix)
    assert found.found == "it does not start"


def test_what_keeps_spark_from_starting_is_said_without_a_fix_that_follows_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "conf").mkdir()
    (place / "conf" / "perdix.yaml").write_text("spark: {master: 'spark://127.0.0.1:1'}\n")
    monkeypatch.setenv("PERDIX_CONF", str(place / "conf"))
    # A process has one Spark, and this may have one already.
    monkeypatch.setattr(
        "perdix.telemetry.spark.session.spark_session", lambda _, master, *__, **___: require_master(master)
    )
    with pytest.raises(SystemExit):
        doctor.try_spark()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("Spark at spark://127.0.0.1:1 does not answer: ")
    assert "perdix.yaml" not in line


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_home_that_cannot_be_is_said_with_its_fix(
    more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"PERDIX_HOME .*file: cannot be made: .*; name another folder"):
        app(["doctor", "--no-spark", *more], standalone_mode=False)
