"""Only what was started is ended, whatever has become of its number since."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdix.cli.output import UserError
from testbed import processes
from testbed.processes import PidFiles, Started, identify, interruptible, is_running, uninterrupted

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
SLEEP = ["sleep", "60"]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[PidFiles]:
    found = PidFiles(tmp_path / "pids", tmp_path / "logs")
    found.pids.mkdir()
    found.logs.mkdir()
    yield found
    found.stop(list(found.recorded()), signal.SIGKILL)


def test_what_was_started_runs_until_it_is_stopped(files: PidFiles) -> None:
    started = files.start("kafka", SLEEP)
    assert files.is_running("kafka")
    assert files.running()["kafka"].pid == started.pid
    assert files.stop(["kafka"]) == ["kafka"]
    assert not is_running(started)
    assert files.recorded() == {}


def test_stopping_twice_is_harmless(files: PidFiles) -> None:
    files.start("kafka", SLEEP)
    files.stop(["kafka"])
    assert files.stop(["kafka", "never-started"]) == []


@pytest.mark.parametrize("changed", [{"start_ticks": 1}, {"boot_id": "another start of the machine"}])
def test_another_process_with_the_same_number_is_left_alone(files: PidFiles, changed: dict[str, object]) -> None:
    stranger = subprocess.Popen(SLEEP)
    try:
        ours = identify("kafka", stranger.pid, "sleep")
        assert ours is not None
        record = dataclasses.replace(ours, **changed)
        (files.pids / "kafka.json").write_text(json.dumps(dataclasses.asdict(record)))
        assert files.running() == {}
        assert files.stop(["kafka"]) == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_zombie_does_not_run() -> None:
    child = subprocess.Popen(SLEEP)
    started = identify("kafka", child.pid, "sleep")
    assert started is not None
    assert is_running(started)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and nobody has collected it
    assert not is_running(started)
    child.wait()


def test_what_does_not_end_by_itself_is_killed(files: PidFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE_S", 0.3)
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    started = files.start("kafka", [sys.executable, "-c", code])
    deadline = time.monotonic() + 30
    while "deaf" not in files.end_of_log("kafka") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert files.stop(["kafka"]) == ["kafka"]
    assert not is_running(started)


def test_the_process_is_out_of_reach_of_a_ctrl_c(files: PidFiles) -> None:
    started = files.start("kafka", SLEEP)
    assert os.getsid(started.pid) == started.pid != os.getsid(0)


def test_its_output_is_kept_with_where_it_is(files: PidFiles) -> None:
    files.start("kafka", ["sh", "-c", "echo out; echo err >&2; seq 100; exec sleep 60"])
    deadline = time.monotonic() + 30
    while not (files.logs / "kafka.log").read_text().endswith("\n100\n") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (files.logs / "kafka.log").read_text().startswith("out\nerr\n1\n")
    end = files.end_of_log("kafka", lines=2)
    assert end == f"99\n100\n(the end of {files.logs / 'kafka.log'})"


def test_a_program_that_is_not_there_is_named(files: PidFiles) -> None:
    with pytest.raises(UserError, match="no-such-program cannot be started"):
        files.start("kafka", ["no-such-program"])
    assert files.recorded() == {}


def test_a_process_joins_its_cgroup_at_once(files: PidFiles) -> None:
    joined: list[int] = []
    started = files.start("tm-1", SLEEP, joins=joined.append)
    assert joined == [started.pid]


def test_a_pid_file_that_somebody_broke_names_nothing(files: PidFiles) -> None:
    (files.pids / "kafka.json").write_text("{")
    (files.pids / "tm-1.json").write_text('{"pid": 1}')
    assert files.recorded() == {}


def test_a_name_with_brackets_and_blanks_does_not_confuse(tmp_path: Path, files: PidFiles) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/sleep")
    started = files.start("odd", [str(odd), "60"])
    assert is_running(started)
    assert started == Started("odd", started.pid, started.start_ticks, started.boot_id, str(odd))


def test_cleaning_up_is_not_interrupted_but_said_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    steps: list[str] = []

    def clean_up() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("done")

    with pytest.raises(KeyboardInterrupt):
        clean_up()
    assert steps == ["done"]
    assert signal.getsignal(signal.SIGINT) is before


def test_being_asked_to_end_is_as_good_as_a_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
