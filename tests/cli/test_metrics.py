"""``perdix metrics`` and ``perdix controller --metrics-port`` as a user runs them: real processes, real scrapes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
from perdix.cli.processes import ENDS, free_port
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.store import StateStore

PROJECT = Path(__file__).resolve().parents[2]
NEVER = "http://127.0.0.1:9"  # nothing listens there


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one job, whose Prometheus does not answer."""
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    monkeypatch.delenv("PERDIX_STATE_URL", raising=False)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "orders.yaml").write_text(
        f"prometheus: {{url: '{NEVER}'}}\ntarget: {{kind: twin, url: '{NEVER}'}}\nmode: act\n"
    )
    return tmp_path


def journalled(home: Path, now_s: float) -> None:
    store = StateStore(f"sqlite:///{home / 'state.db'}")
    status = JobStatus("orders", Status.ACTING, now_s, "", {"scale_out": 4, "reason": "hold_good"})
    store.journal.record_tick(Tick(now_s, now_s, "test"), [status])
    store.close()


@contextmanager
def perdix(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "perdix.cli.main", *arguments]
    child = subprocess.Popen(
        command, cwd=PROJECT, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait(timeout=30)


def scraped(child: subprocess.Popen[str], port: int, words: str) -> str:
    """The first scrape that has ``words`` in it."""
    text, deadline = "", time.monotonic() + 60.0
    while time.monotonic() < deadline and child.poll() is None:
        try:
            text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=5.0).text
        except httpx.HTTPError:
            text = ""
        if words in text:
            return text
        time.sleep(0.2)
    raise AssertionError(f"'{words}' was never scraped; the last scrape:\n{text}")


def test_once_prints_what_prometheus_would_get(home: Path) -> None:
    journalled(home, time.time())
    printed = CliRunner().invoke(app, ["metrics", "--once"])
    assert printed.exit_code == 0
    assert 'perdix_current_scale_out{stream_job="orders"} 4.0' in printed.stdout
    assert "# TYPE perdix_current_scale_out gauge" in printed.stdout


def test_once_as_json_holds_the_samples(home: Path) -> None:
    journalled(home, time.time())
    document = json.loads(CliRunner().invoke(app, ["metrics", "--once", "--json"]).stdout)
    assert document["schema"] == "perdix.metrics/1"
    assert document["up"] is True
    assert {"name": "perdix_current_scale_out", "labels": {"stream_job": "orders"}, "value": 4.0} in document["samples"]


def test_once_without_a_store_says_so_and_makes_none(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    printed = CliRunner().invoke(app, ["metrics", "--once"])
    assert printed.exit_code == 1
    assert "perdix_up 0.0" in printed.stdout
    assert 'perdix_rescale_budget_per_day{stream_job="orders"} 48.0' in printed.stdout
    assert "there is none yet" in caplog.text
    assert not (home / "state.db").exists()


@pytest.mark.parametrize("command", ["metrics --port", "controller --metrics-port"])
def test_a_port_that_is_taken_is_told_before_anything_else(
    command: str, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [signal.getsignal(sign) for sign in ENDS]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code = run_guarded(lambda: app([*command.split(), port], standalone_mode=False), known_errors)
    assert code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"cannot serve metrics at 127.0.0.1:{port}" in said
    assert not (home / "state.db").exists(), "no tick was made"
    assert [signal.getsignal(sign) for sign in ENDS] == before


@pytest.mark.slow
def test_both_serve_until_a_signal_ends_them_and_one_may_follow_the_other_at_its_port(home: Path) -> None:
    """The process beside the sensor shows what was journalled, the controller what its own ticks found."""
    journalled(home, time.time())
    port = free_port(0)
    with perdix("metrics", "--port", str(port)) as child:
        text = scraped(child, port, "perdix_up 1.0")
        assert 'perdix_status_info{status="acting",stream_job="orders"} 1.0' in text
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=20) == 0
    with perdix("controller", "--interval", "1", "--metrics-port", str(port)) as child:
        text = scraped(child, port, 'perdix_ticks_total{outcome="complete"} 1')
        assert 'perdix_status_info{status="unreachable",stream_job="orders"} 1.0' in text
        assert "perdix_process_leases 1.0" in text
        assert "perdix_desired_scale_out{" not in text, "nobody could say yet"
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=30) == 0


@pytest.mark.parametrize(("asked", "servers"), [((), 0), (("--metrics-port", str(free_port(0))), 1)])
def test_without_being_asked_the_controller_serves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], servers: int
) -> None:
    listening = []
    real = socket.socket.listen
    monkeypatch.setattr(
        socket.socket, "listen", lambda listener, *how: listening.append(listener) or real(listener, *how)
    )
    ended = CliRunner().invoke(app, ["controller", "--interval", "1", "--ticks", "1", *asked])
    assert ended.exit_code == 0, ended.output
    assert len(listening) == servers
