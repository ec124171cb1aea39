"""The commands as a user calls them, on measured-like files: output, JSON, and errors in plain words."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from perdix.assets.kept_answers import Kept, note_promoted
from perdix.assets.training.record import iterate_trained
from perdix.cli.explore import why_no_champion
from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import UserError, run_guarded
from perdix.control import explain
from perdix.control.champions import Champions
from perdix.control.state.schema import StateError
from perdix.control.state.store import StateStore
from perdix.models.registry import FORECAST, Fleet, FleetVersion, Registry, RegistryUnavailable
from perdix.models.registry.fleet_table import write_fleet
from perdix.settings.home import Home
from perdix.targets.flink.cluster import COOLDOWN, SCHEDULER
from perdix.telemetry.lake import Lake
from tests.cli.width import wide
from tests.targets.flink_api import FlinkCluster, a_job

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json.md"
Command = Callable[..., dict[str, object]]


def documented() -> dict[str, set[str]]:
    """Schema -> top-level keys, as docs/json.md says."""
    rows = re.findall(r"^\| `(perdix\.[\w-]+/\d+)` \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    return {schema: set(re.findall(r"`(\w+)`", keys)) for schema, keys in rows}


def grafana_csv(path: Path, column: str, values: np.ndarray) -> Path:
    """Write what Grafana exports: a Time column, a column per series, a byte-order mark."""
    start = datetime(2026, 3, 4, 11, tzinfo=UTC)
    lines = [f"{start + timedelta(seconds=15 * k):%Y-%m-%d %H:%M:%S},{value:.4f}" for k, value in enumerate(values)]
    path.write_text("﻿" + "\n".join([f'"Time","{column}"', *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ramp(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One worker from idle to 65 % CPU: throughput 0 at 9 % CPU, 60,000/s at 100 %."""
    folder = tmp_path_factory.mktemp("exports")
    rng = np.random.default_rng(3)
    throughput = np.linspace(500, 37_000, 240)
    cpu = 0.09 + 0.91 * throughput / 60_000 + rng.normal(0, 0.004, 240)
    return [
        grafana_csv(folder / "cpu_1.csv", "tm-1", cpu),
        grafana_csv(folder / "throughput_1.csv", "tm-1", throughput),
        grafana_csv(folder / "workload_1.csv", "events", throughput * 1.001),
    ]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, home: Path) -> Command:
    """Run a command with --json and return its document, whose keys must be those of docs/json.md."""
    monkeypatch.setenv("PERDIX_HOME", str(home))

    def run(*arguments: str) -> dict[str, object]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, [*arguments, "--json"])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        document = json.loads(result.stdout)
        schema = document.pop("schema")
        assert set(document) == documented()[schema], schema
        return document

    return run


TOO_FEW = {"promote": False, "verdict": "linear was judged on 1 of the 2 origins that a judgement needs"}
TAKEN = (
    "the one that its newest training knew is no champion in MLflow any more; make it one again, or run perdix train"
)


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ({"promote": True, "verdict": "linear is the first champion", "challenged": None}, TAKEN),
        ({"promote": False, "verdict": "kept the champion: linear", "challenged": "*/ab"}, TAKEN),
        ({**TOO_FEW, "challenged": None}, TOO_FEW["verdict"]),
    ],
)
def test_a_champion_whose_alias_or_version_was_removed_is_reported_as_that(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gate: dict[str, object], why: str
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    folder = Home(tmp_path).trainings / FORECAST
    Kept(folder, "run").write("ads", {"result": {"state": "{}", **gate}})
    if gate["promote"]:
        note_promoted(folder, "ads", next(iterate_trained(folder, ["ads"])).digest)
    assert why_no_champion("ads").startswith(f"no champion for ads: {why}")


def test_a_first_model_that_has_not_been_through_the_gate_was_not_taken_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A training of many jobs still runs, or its last step failed, as MLflow did not answer."""
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    gate = {"promote": True, "verdict": "linear is the first champion", "challenged": None}
    Kept(Home(tmp_path).trainings / FORECAST, "run").write("ads", {"result": {"state": "{}", **gate}})
    assert why_no_champion("ads") == (
        "no champion for ads: its newest training is not registered in MLflow yet; where its run has ended, run "
        "perdix train --job ads"
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
class TestFromFilesToAnswers:
    """A job needs no file before its exports can be ingested and looked at."""

    def test_ingest_counts_what_it_read(self, command: Command, ramp: list[Path]) -> None:
        said = command("ingest", *map(str, ramp), "--job", "ramp")
        assert said["totals"]["read"] == said["totals"]["kept"] == 3 * 240
        assert said["days"] == ["2026-03-04"]
        assert said["problems"] == []

    def test_capacity_is_read_off_the_line_beyond_what_was_seen(self, command: Command) -> None:
        said = command("capacity", "ramp", "--cpu-below", "0.6", "--maximum", "2")
        first = said["capacities"][0]
        assert first["per_s"] == pytest.approx(60_000, rel=0.05)
        assert first["low_per_s"] < 60_000 < first["high_per_s"]

    def test_forecast_falls_back_before_any_training(self, command: Command) -> None:
        said = command("forecast", "ramp")
        assert (said["family"], said["version"]) == ("ensemble", 0)
        assert said["no_champion"] == ("no champion for ramp: it has never been trained; run perdix train --job ramp")
        assert len(said["mean_per_s"]) == 900
        assert said["mean_per_s"][-1] > 37_000
        assert {member["family"] for member in said["members"]} == {"last-value", "damped-trend"}

    def test_forecast_tells_bounds_of_the_highest_rate_and_who_counts(self, command: Command) -> None:
        said = command("forecast", "ramp", "--family", "ensemble")
        assert said["family"] == "ensemble"
        assert sum(member["weight"] for member in said["members"]) == pytest.approx(1.0)
        for name in ("maximum_p50_per_s", "maximum_p90_per_s", "maximum_p95_per_s"):
            assert len(said[name]) == 900
            assert said[name] == sorted(said[name]), "what was reached stays reached"
        assert said["maximum_p90_per_s"][-1] <= said["maximum_p95_per_s"][-1]

    def test_jobs_lists_it(self, command: Command) -> None:
        said = command("jobs")
        assert [(row["job"], row["ingested"], row["configured"]) for row in said["jobs"]] == [("ramp", True, False)]

    def test_an_error_page_is_quarantined_and_the_rest_is_read(
        self, command: Command, ramp: list[Path], tmp_path: Path
    ) -> None:
        page = tmp_path / "page.csv"
        page.write_text("<!doctype html><title>503</title>")
        said = command("ingest", str(page), str(ramp[0]), "--job", "mixed")
        assert said["totals"]["quarantined"] == 1
        assert said["totals"]["kept"] == 240

    def test_an_ingest_says_which_samples_of_an_earlier_file_of_that_name_are_gone(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        counts = dict.fromkeys(("read", "kept", "masked", "quarantined", "unmapped"), 0)
        gone = "m.csv replaced an earlier file: 2,400 samples of 2026-06-03 removed"
        file = {"file": "m.csv", "format": "csv", "reasons": {}, "removal": gone, "remarks": [], **counts}
        document = {"job": "x", "failed": False, "totals": counts, "days": ["2026-06-01"], "files": [file]}
        document |= {"warnings": [], "problems": []}
        monkeypatch.setattr("perdix.cli.ingest.ingest_files", lambda *_, **__: document)
        (tmp_path / "m.csv").write_text("")
        result = CliRunner().invoke(app, ["ingest", str(tmp_path / "m.csv"), "--job", "x"])
        assert result.exit_code == 0
        assert gone in " ".join(result.output.split())

    def test_an_ingest_of_which_no_file_can_be_read_exits_with_1_and_says_why(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PERDIX_HOME", str(home))
        (tmp_path / "[page].csv").write_text("<!doctype html><title>503</title>")
        result = CliRunner().invoke(app, ["ingest", str(tmp_path / "[page].csv"), "--job", "pages"])
        assert result.exit_code == 1
        assert "[page].csv: " in result.stdout
        assert "an HTML or XML page" in result.stdout

    def test_a_misspelt_job_is_answered_with_the_nearest(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("PERDIX_HOME", str(home))
        code = run_guarded(lambda: app(["capacity", "ranp"], standalone_mode=False), known_errors)
        assert code == 2
        assert "did you mean 'ramp'?" in capsys.readouterr().err


def with_workload_of_orders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home that holds an hour of the workload of ``orders``."""
    monkeypatch.setenv("PERDIX_HOME", str(folder))
    times = pd.date_range("2026-03-04T10:00", periods=400, freq="10s", tz="UTC")
    rows = pd.DataFrame({"ts": times, "workload_per_s": 900.0 + np.arange(400) % 7})
    home = Home(folder).make()
    Lake(home.lake).replace("workload_features", "orders", "2026-03-04", rows)
    return home


def test_a_forecast_says_that_the_registry_does_not_answer(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_: object) -> None:
        raise RegistryUnavailable("MLflow at http://mlflow failed; start that server")

    monkeypatch.setattr(Registry, "current_version", refused)
    with_workload_of_orders(tmp_path, monkeypatch)
    said = command("forecast", "orders")
    fault = "perdix-forecast: MLflow at http://mlflow failed; start that server; no champion: fallback"
    assert (said["version"], said["registry_fault"], said["no_champion"]) == (0, fault, fault)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fault in " ".join(CliRunner().invoke(app, ["forecast", "orders"]).output.split())
    assert command("forecast", "orders", "--family", "last-value")["registry_fault"] is None


def test_a_champion_that_cannot_be_read_leaves_the_forecast_to_the_fallback_as_the_loop_does(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As after a version of perdix that keeps its models in another format."""
    home = with_workload_of_orders(tmp_path, monkeypatch)
    path = home.champions / FORECAST / "3.parquet"
    path.parent.mkdir(parents=True)
    fleet = Fleet(pd.DataFrame({"job": ["orders"], "family": ["linear"], "state": ['{"format": 1}']}))
    version = FleetVersion(FORECAST, 3, write_fleet(fleet, path), "run")
    monkeypatch.setattr(Registry, "current_version", lambda _, name: version if name == FORECAST else None)
    said = command("forecast", "orders")
    assert (said["version"], said["family"]) == (0, "ensemble")
    assert said["no_champion"].startswith("perdix-forecast version 3 cannot be used for this job: a forecaster's state")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ingest", "absent.csv", "--job", "x"], "absent.csv: no such file"),
        (["ingest", str(DOCS), "--job", "../x"], "cannot be a job's name"),
        (["ingest", str(DOCS), "--job", "x", "--metric", "cpu"], "not a canonical metric"),
        (["ingest"], "name export files and --job, or --from-prometheus"),
        (["ingest", "x.csv", "--from-prometheus"], "--from-prometheus reads no files"),
        (["ingest", "--from-prometheus", "--timezone", "UTC"], "leave out files, --metric and --timezone"),
        (["ingest", str(DOCS), "--job", "x", "--days", "14"], "--days says how far back --from-prometheus reads"),
        (["ingest", "--from-prometheus"], "no job file names a Prometheus"),
        (["ingest", "--from-prometheus", "--job", "x"], "with 'prometheus'"),
        (["capacity", "nobody"], "ingest its exports first"),
        (["train"], "ingest exports first"),
        (["train", "--job", ""], "job '' is not known"),
        (["ingest", "--from-prometheus", "--job", ""], "job with a Prometheus '' is not known"),
        (["tick"], "no stream job has a file yet"),
        (["explain", "nobody"], "no tick has been made yet"),
        (["explain", "nobody", "--at", "yesterday"], "not a moment"),
        (["explain", "nobody", "--at", "2026-W05"], "not a moment"),
        (["explain", "nobody", "--at", "2026-W05T10:00"], "not a moment"),
        (["explain", "nobody", "--at", "9999-12-31T23:59:59-12:00"], "after the year 9000"),
        (["pause", "nobody", "--for", "soon"], "not a duration"),
        (["pause", "nobody", "--for", "0.0000001s"], "shorter than a second"),
        (["pause", "nobody", "--for", "9999999d"], "longer than 10 years"),
    ],
)
def test_what_a_user_gets_wrong_is_said_in_one_sentence(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    assert run_guarded(lambda: app(arguments, standalone_mode=False), known_errors) == 2
    said = capsys.readouterr().err
    assert words in " ".join(said.split())
    assert "Traceback" not in said


def test_a_job_is_paused_and_resumed(command: Command, home: Path) -> None:
    (home / "jobs").mkdir(parents=True, exist_ok=True)
    (home / "jobs" / "ads.yaml").write_text("{}\n")
    assert command("pause", "ads", "--for", "1d12h", "--why", "load test")["why"] == "load test"
    assert command("resume", "ads")["was_paused"] is True
    assert command("resume", "ads")["was_paused"] is False
    (home / "jobs" / "ads.yaml").unlink()


def test_whoever_pauses_or_resumes_learns_that_the_job_file_pauses_it(
    command: Command, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "jobs" / "ads.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("paused_until: 2999-01-31T06:00:00Z\n")
    until_s = datetime(2999, 1, 31, 6, tzinfo=UTC).timestamp()
    assert command("pause", "ads")["job_file_until_s"] == until_s
    assert command("resume", "ads") == {"job": "ads", "was_paused": True, "job_file_until_s": until_s}
    for arguments in (["pause", "ads"], ["resume", "ads"], ["resume", "ads"]):
        capsys.readouterr()
        app(arguments, standalone_mode=False)
        said = " ".join(capsys.readouterr().out.split())
        assert "its job file pauses it until 2999-01-31 06:00:00Z; remove paused_until" in said
    file.write_text("paused_until: 2026-01-31T06:00:00Z\n")
    assert command("resume", "ads")["job_file_until_s"] is None
    file.unlink()


def test_explain_reads_the_pause_of_the_job_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(home))
    file = home / "jobs" / "ads.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("paused_until: 2999-01-31T06:00:00Z\n")
    asked: list[object] = []
    explained = explain.explain
    monkeypatch.setattr(
        explain, "explain", lambda *given, **named: asked.append(named["job_file_until"]) or explained(*given, **named)
    )
    app(["explain", "ads"], standalone_mode=False)
    assert asked == [datetime(2999, 1, 31, 6, tzinfo=UTC)]
    file.unlink()


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("2026-01-31T03:12:00Z", "03:12:00.999"),
        ("2026-01-31 03:12:10 UTC", "03:12:10.999"),  # as perdix itself writes it
        ("2026-01-31T03:12Z", "03:12:59.999"),
        ("2026-01-31 03:12", "03:12:59.999"),
        ("2026-01-31T04:12+01:00", "03:12:59.999"),
        ("2026-01-31T04:12:10+01:00", "03:12:10.999"),
        ("20260131T0412+0100", "03:12:59.999"),
        ("20260131T031210.5Z", "03:12:10.5"),
        ("2026-01-31T04+01:00", "03:59:59.999"),
        ("2026-01-31", "23:59:59.999"),
        ("2026-W05-6", "23:59:59.999"),
    ],
)
def test_who_asks_by_the_second_minute_hour_or_day_is_answered_what_was_decided_within_it(
    at: str, until: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(home))
    file = home / "jobs" / "ads.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}\n")
    app(["explain", "ads", "--at", at, "--json"], standalone_mode=False)
    said = json.loads(capsys.readouterr().out)
    assert said["at_s"] == pytest.approx(datetime.fromisoformat(f"2026-01-31T{until}+00:00").timestamp(), abs=1e-6)
    file.unlink()


@pytest.mark.parametrize("name", ["capacity", "forecast"])
def test_a_job_with_a_prometheus_but_without_history_is_not_called_unknown(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(home))
    file = home / "jobs" / "live.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("prometheus: {url: 'http://127.0.0.1:9090'}\n")
    assert run_guarded(lambda: app([name, "live"], standalone_mode=False), known_errors) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "job 'live' has no history in the lake yet: perdix ingest --from-prometheus --job live --days 1" in said
    file.unlink()


def test_a_tick_of_a_job_without_prometheus_is_blind_and_scales_nothing(command: Command, home: Path) -> None:
    (home / "jobs").mkdir(parents=True, exist_ok=True)
    (home / "jobs" / "dark.yaml").write_text("mode: act\n")
    said = command("tick")
    assert said["statuses"] == {"blind": 1}
    assert said["reports"][0]["scale_out"] is None
    assert "prometheus" in said["reports"][0]["sentence"]
    assert command("explain", "dark")["decision"] is None
    (home / "jobs" / "dark.yaml").unlink()


def test_the_controller_prints_a_line_per_tick_and_once_why_a_job_is_not_served(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At night the log is what there is: of which job, and why."""
    monkeypatch.setenv("PERDIX_HOME", str(home))
    (home / "jobs").mkdir(parents=True, exist_ok=True)
    (home / "jobs" / "dark.yaml").write_text("mode: act\n")
    line = command("controller", "--ticks", "1")
    assert line["statuses"] == {"blind": 1}
    (new,) = line["news"]
    assert (new["jobs"], new["status"]) == (["dark"], "blind")
    said = CliRunner().invoke(app, ["controller", "--interval", "1", "--ticks", "2"]).output
    assert said.count("1 blind; ") == 2
    assert said.count("  dark (blind): Blind: ") == 1
    (home / "jobs" / "bad.yaml").mkdir()
    said = CliRunner().invoke(app, ["controller", "--interval", "1", "--ticks", "2"]).output
    assert said.count("bad.yaml") == said.count("  bad (broken): Not served: ") == 1
    (home / "jobs" / "bad.yaml").rmdir()
    (home / "jobs" / "dark.yaml").unlink()


def test_the_state_of_a_home_is_copied_into_the_store_that_is_named(
    command: Command, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(StateStore(f"sqlite:///{Home(home).own_state}")) as own:
        own.journal.pause("moved", 4e9, 1_760_000_000.0, "migration")
    new = tmp_path / "new.db"
    for url, says in (("", "PERDIX_STATE_URL is not set"), (f"sqlite:///{Home(home).own_state}", "already")):
        monkeypatch.setenv("PERDIX_STATE_URL", url)
        with pytest.raises((UserError, StateError), match=says):
            command("copy-state")
    monkeypatch.setenv("PERDIX_STATE_URL", f"sqlite:///{new}")
    assert command("copy-state")["rows"] > 0
    with closing(StateStore(f"sqlite:///{new}")) as copied:
        assert copied.journal.pauses(1_760_000_000.0)["moved"].why == "migration"


def test_the_controller_says_once_what_a_tick_could_not_have(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence of counts does not say that MLflow is away, or why a tick could not be journalled."""
    monkeypatch.setenv("PERDIX_HOME", str(home))
    monkeypatch.setattr(Champions, "refresh", lambda *_: ("forecast: MLflow is away",))
    said = CliRunner().invoke(app, ["controller", "--interval", "1", "--ticks", "2"]).output
    assert said.count("MLflow is away") == 1


@pytest.mark.parametrize("arguments", [["controller", "--ticks", "2"], ["operators", "orders"], ["metrics", "--once"]])
def test_an_interval_that_no_clock_waits_for_is_refused(arguments: list[str]) -> None:
    for interval in ("inf", "1e300"):
        answer = CliRunner().invoke(app, [*arguments, "--interval", interval])
        assert answer.exit_code == 2
        assert "less than or equal to 86400" in " ".join(answer.output.split())


def test_every_command_takes_json() -> None:
    for registered in app.registered_commands:
        assert registered.callback is not None
        assert "as_json" in inspect.signature(registered.callback).parameters, registered.name


def test_doctor_finds_this_machine_well(command: Command) -> None:
    said = command("doctor", "--no-spark")
    assert [finding for finding in said["findings"] if not finding["ok"]] == []
    assert {finding["check"] for finding in said["findings"]} >= {"python", "packages", "java", "state store", "mlflow"}


@pytest.fixture
def flink(home: Path) -> Iterator[FlinkCluster]:
    """A Flink cluster, and the file of a job that runs there."""
    cluster = FlinkCluster([a_job()], configuration={SCHEDULER: "adaptive", COOLDOWN: "10 min"})
    home.joinpath("jobs").mkdir(parents=True, exist_ok=True)
    home.joinpath("jobs", "orders.yaml").write_text(f"target: {{kind: flink, url: '{cluster.url}'}}\n")
    yield cluster
    cluster.close()
    home.joinpath("jobs", "orders.yaml").unlink()


def of_flink(said: dict[str, object]) -> dict[str, object]:
    findings: list[dict[str, object]] = said["findings"]  # type: ignore[assignment]
    return next(finding for finding in findings if finding["check"] == "flink of orders")


def test_doctor_reads_from_flink_what_makes_a_rescale_dear(command: Command, flink: FlinkCluster) -> None:
    found = of_flink(command("doctor", "--no-spark"))
    assert found["ok"]
    assert "not within 600 s of the last deployment" in str(found["found"])
    assert f"lower '{COOLDOWN}' from 600 s to at most 30 s" in str(found["better"])


def test_doctor_says_what_flink_cannot_rescale_without(
    command: Command, flink: FlinkCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(home))
    flink.configuration = {}
    flink.refusals = {"GET /jobs/" + "a" * 32 + "/checkpoints/config": (404, "Checkpointing is not enabled")}
    answer = CliRunner().invoke(app, ["doctor", "--no-spark", "--json"])
    assert answer.exit_code == 1
    found = of_flink(json.loads(answer.stdout))
    assert "set 'jobmanager.scheduler: adaptive'" in str(found["fix"])
    assert "without checkpoints a rescale loses the job's state" in str(found["fix"])


def test_doctor_reads_a_flink_that_is_too_old_as_the_loop_does(
    home: Path, flink: FlinkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(home))
    flink.version, flink.refusals = "1.17.2", {"/resource-requirements": (404, "Not found")}
    answer = CliRunner().invoke(app, ["doctor", "--no-spark", "--json"])
    found = of_flink(json.loads(answer.stdout))
    assert not found["ok"]
    assert "Flink is older than 1.18" in str(found["found"])


def test_doctor_says_where_no_flink_answers(home: Path, flink: FlinkCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(home))
    flink.jobs = []
    answer = CliRunner().invoke(app, ["doctor", "--no-spark"])
    assert "no job named 'orders' runs; submit it" in " ".join(answer.stdout.split())


def test_every_command_has_an_example_in_its_help() -> None:
    for registered in app.registered_commands:
        assert registered.callback is not None
        assert f"Example: perdix {registered.name}" in f"{registered.callback.__doc__}{registered.epilog}", (
            registered.name
        )


def test_no_word_of_a_help_is_taken_for_markup() -> None:
    commands = dict(get_command(app).commands)  # type: ignore[attr-defined]
    commands |= commands.pop("replay").commands
    for name, command in commands.items():
        for option in command.params:
            text = str(getattr(option, "help", None) or "")
            assert Text.from_markup(text).plain == text, (name, option.name)


def test_the_version_is_that_of_the_installed_package() -> None:
    answer = CliRunner().invoke(app, ["--version"])
    assert (answer.exit_code, answer.output.strip()) == (0, f"perdix {metadata.version('perdix')}")


@pytest.mark.parametrize("words", [["tick"], ["controller", "--ticks", "1"], ["doctor", "--no-spark"], ["jobs"]])
def test_a_configuration_that_is_not_there_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide(monkeypatch)
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path / "cnof"))
    assert run_guarded(lambda: app(words, standalone_mode=False), known_errors) == 2
    assert f"PERDIX_CONF {tmp_path / 'cnof'}: there is no such folder" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    "words",
    [
        "capacity nobody --maximum 1000000000",
        "capacity nobody --maximum 0",
        "capacity nobody --cpu-below 70",
        "prices visp-10 --worker-memory inf",
        "prices visp-10 --worker-cpu inf",
        "replay job --prices visp-10 --worker-memory inf",
        "scan http://127.0.0.1:9 --prices visp-10 --worker-cpu inf",
        "replay job --recovery-time 1e8",
        "replay job --recovery-time inf",
        "replay job --latency-objective inf",
    ],
)
def test_a_number_of_another_order_is_refused_with_what_is_possible(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    answer = CliRunner().invoke(app, words.split())
    assert (answer.exit_code, f"Invalid value for '{words.split()[-2]}'" in answer.output) == (2, True), answer.output


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("train --job orders --job payments", "--job"),
        ("doctor --no-spark --job orders --job payments", "--job"),
        ("replay --policy static-3 --policies static-4", "--policy"),
    ],
)
def test_no_job_and_no_policy_is_dropped_where_an_option_is_given_twice(
    words: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``perdix scan --job a --job b`` takes both, so somebody tries that elsewhere."""
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    answer = CliRunner().invoke(app, words.split(), env={"COLUMNS": "200"})
    assert (answer.exit_code, f"{option} is given twice" in answer.output) == (2, True), answer.output
    assert "given twice" not in CliRunner().invoke(app, ["scan", "nowhere", "--job", "a", "--job", "b"]).output


def test_no_command_waits_for_what_others_need():
    """Each command, perdix --help, too, took half a second longer: the checks of doctor bring what policies need."""
    code = "import sys, perdix.cli.main; print(*{'scipy', 'sqlalchemy', 'perdix.policies'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "\n"
