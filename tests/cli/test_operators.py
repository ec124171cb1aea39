"""``perdix operators`` on a job that answers as Flink does."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
from perdix.control.operators.memory import recall
from perdix.control.state.store import StateStore
from perdix.settings.home import Home
from perdix.targets.flink.dataflow import DataflowReading
from perdix.targets.flink.target import FlinkTarget
from tests.targets.flink_api import FlinkCluster, a_job

NOW = ("--policy", "ds2:warm_up_s=0", "--interval", "1")


@pytest.fixture
def cluster():
    """Two subtasks count 300 words/s and can no more; 80 lines, 240 words, are left waiting in each second."""
    job = a_job()
    source, count = job.vertices
    source.per_s, count.per_s = (50.0, 150.0, 20.0, 500.0), (150.0, 0.0, 1_000.0, 0.0)
    source.pending, source.pending_per_s = 0.0, 80.0
    cluster = FlinkCluster([job], checkpoints_pass=True)
    yield cluster
    cluster.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster) -> Path:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    monkeypatch.delenv("PERDIX_STATE_URL", raising=False)
    (tmp_path / "jobs").mkdir()
    write(tmp_path, f"target: {{kind: flink, url: '{cluster.url}'}}\nbounds: {{maximum: 6}}\n")
    return tmp_path


def write(home: Path, text: str) -> None:
    (home / "jobs" / "orders.yaml").write_text(text)


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, ["operators", *arguments], catch_exceptions=True)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_guarded(lambda: app(["operators", *arguments], standalone_mode=True), known_errors) == 2
    return " ".join(capsys.readouterr().err.split())


def test_it_tells_what_every_operator_needs_and_changes_nothing(home, cluster):
    told = run("orders", *NOW)
    assert told.exit_code == 0, told.output
    assert "count -> sink 2 to 4" in told.output
    assert "Nothing was changed; --apply asks Flink for it." in told.output
    assert cluster.puts() == []


def test_the_document_holds_what_was_measured_of_each(home):
    document = json.loads(run("orders", *NOW, "--json").stdout)
    assert document["schema"] == "perdix.operators/1"
    assert (document["job"], document["reason"], document["done"]) == ("orders", "scale_out", False)
    assert document["changes"] == {"count -> sink": 4}
    source, count = document["operators"]
    assert source["operator"] == "Source: words -> split"
    assert source["arriving_per_s"] == pytest.approx(540.0, rel=0.05)
    assert (count["running"], count["wanted"], count["inputs"]) == (2, 4, ["Source: words -> split"])
    assert count["true_processing_per_s"] == pytest.approx(300.0, rel=0.05)
    assert count["busy"] == pytest.approx(1.0, rel=0.05)


def test_with_apply_flink_is_asked_for_it(home, cluster):
    told = run("orders", *NOW, "--apply")
    assert "Flink was asked for it." in told.output
    assert [vertex.running for vertex in cluster.jobs[0].vertices] == [2, 4]


def test_what_the_policy_remembers_is_kept_for_the_next_command(home, cluster):
    assert run("orders", *NOW, "--apply").exit_code == 0
    store = StateStore(Home.from_environment().state_url)
    try:
        assert recall(store, "orders", NOW[1], time.time())
        assert not recall(store, "orders", "ds2", time.time())
    finally:
        store.close()


def changed_at_the_second_look(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Let the job's file change while the command runs."""
    read, times = FlinkTarget.read_dataflow, iter(range(100))

    def reading(target: FlinkTarget) -> DataflowReading:
        if next(times) == 2:
            change()
        return read(target)

    monkeypatch.setattr(FlinkTarget, "read_dataflow", reading)


def test_it_ends_once_the_job_is_scaled_as_a_whole(home, cluster, monkeypatch, capsys):
    text = (home / "jobs" / "orders.yaml").read_text()
    changed_at_the_second_look(monkeypatch, lambda: write(home, f"{text}mode: act\n"))
    assert "set mode: advise" in complaint(capsys, "orders", *NOW, "--apply", "--decisions", "3")
    assert len(cluster.puts()) == 1


def test_it_ends_once_the_job_has_another_target(home, cluster, monkeypatch, capsys):
    text = (home / "jobs" / "orders.yaml").read_text()
    other = text.replace("kind: flink", "kind: flink, job_name: b")
    changed_at_the_second_look(monkeypatch, lambda: write(home, other))
    assert "its target was changed" in complaint(capsys, "orders", *NOW, "--apply", "--decisions", "3")
    assert len(cluster.puts()) == 1


def test_bounds_that_change_while_it_runs_hold_and_a_file_that_cannot_be_read_changes_nothing(
    home, cluster, monkeypatch
):
    text = (home / "jobs" / "orders.yaml").read_text()
    with monkeypatch.context() as patch:
        changed_at_the_second_look(patch, lambda: write(home, "bounds: ["))
        assert run("orders", *NOW, "--decisions", "2").exit_code == 0
    write(home, text)
    changed_at_the_second_look(monkeypatch, lambda: write(home, text.replace("maximum: 6", "maximum: 3")))
    documents = [json.loads(line) for line in run("orders", *NOW, "--json", "--decisions", "2").stdout.splitlines()]
    assert [document["changes"] for document in documents] == [{"count -> sink": 4}, {"count -> sink": 3}]


def test_what_is_wrong_with_the_file_of_another_job_is_said_once(home, cluster):
    (home / "jobs" / "bids.yaml").write_text("bounds: [")
    assert "".join(run("orders", *NOW, "--decisions", "2").output.split()).count("bids.yaml") == 1


def test_a_paused_job_is_left_alone(home, cluster):
    store = StateStore(Home.from_environment().state_url)
    store.journal.pause("orders", time.time() + 600.0, time.time(), "load test")
    store.close()
    told = run("orders", *NOW, "--apply")
    assert "paused by an operator until" in told.output
    assert cluster.puts() == []


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (None, ("bills",), "job 'bills' is not known; there are: orders"),
        ("target: {kind: advisory}\n", ("orders",), "only Flink's REST API knows operators"),
        ("target: {kind: flink, url: 'http://127.0.0.1:9'}\n", ("orders", *NOW), "cannot be reached"),
        ("target: {kind: flink, url: 'http://127.0.0.1:9'}\nmode: act\n", ("orders", "--apply"), "set mode: advise"),
        (None, ("orders", "--policy", "ds3"), "did you mean 'ds2'?"),
        (None, ("orders", "--policy", "ds2,dhalion"), "name one policy"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_mend(home, capsys, text, arguments, words):
    if text is not None:
        write(home, text)
    assert words in complaint(capsys, *arguments)
