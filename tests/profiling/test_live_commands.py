"""Commands of an operator: what they are given, what is left of them, and what is said of those that fail."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdix.profiling.live.commands import CommandError, Load, filled, run_to_end


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Writes its rate and its pid into files, and then lives on with a child."""
    text = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'written')!r}, 'w').write(f'{{sys.argv[1]}} {{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n"
    )
    found = Load([*script(text), "{per_s}"])
    yield found
    found.stop()


def written(folder: Path) -> tuple[str, int, int]:
    until(lambda: (folder / "written").exists() and len((folder / "written").read_text().split()) == 3)
    rate, pid, child = (folder / "written").read_text().split()
    (folder / "written").unlink()
    return rate, int(pid), int(child)


def test_numbers_stand_where_their_places_are_and_other_braces_stay() -> None:
    words = filled(["kubectl", '{"cpu": "{cpu_cores}"}', "{cpu_cores}"], {"{cpu_cores}": 0.25})
    assert words == ["kubectl", '{"cpu": "0.25"}', "0.25"]


@pytest.mark.parametrize(("value", "text"), [(0.1 + 0.2, "0.3"), (2e7, "20000000"), (128.0, "128"), (1e300, "1e+300")])
def test_numbers_are_written_as_people_write_them(value: float, text: str) -> None:
    assert filled(["{per_s}"], {"{per_s}": value}) == [text]


class TestLoad:
    def test_a_new_rate_ends_the_old_one_with_all_that_it_started(self, load: Load, tmp_path: Path) -> None:
        load.at(1_000.0)
        rate, pid, child = written(tmp_path)
        assert rate == "1000"
        load.at(20_000_000.0)
        assert not alive(pid)
        until(lambda: not alive(child))
        assert written(tmp_path)[0] == "20000000"
        load.check()

    def test_stopped_nothing_is_left_and_twice_is_harmless(self, load: Load, tmp_path: Path) -> None:
        load.at(5.0)
        _, pid, child = written(tmp_path)
        load.stop()
        load.stop()
        until(lambda: not alive(pid) and not alive(child))
        load.check()

    def test_one_that_ends_by_itself_is_named_with_what_it_said(self) -> None:
        load = Load(script("import sys; sys.exit('no broker at 127.0.0.1:9')"))
        load.at(5.0)
        with pytest.raises(CommandError, match=r"the load ended by itself: .*, exit code 1: no broker at 127.0.0.1:9"):
            until(lambda: load.check() is not None)
        load.stop()

    def test_one_that_says_much_is_named_with_what_it_said_last_and_fills_no_disk(self, tmp_path: Path) -> None:
        load = Load(
            script(
                "import os, sys\n"
                "for _ in range(5_000): sys.stderr.write(100 * 'lost ' + '\\n')\n"
                f"open({str(tmp_path / 'size')!r}, 'w').write(str(os.fstat(2).st_size))\n"
                "sys.exit('no broker')"
            )
        )
        load.at(5.0)
        with pytest.raises(CommandError, match=r"exit code 1: .*lost no broker$"):
            until(lambda: load.check() is not None)
        load.stop()
        assert int((tmp_path / "size").read_text()) < 100_000

    def test_a_child_that_outlives_it_does_not_hold_up_what_is_said_of_it(self) -> None:
        child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
        load = Load(script(f"import subprocess, sys; {child}; sys.exit('no broker')"))
        load.at(5.0)
        with pytest.raises(CommandError, match=r"exit code 1: no broker$"):
            until(lambda: load.check() is not None)
        load.stop()

    def test_one_that_is_not_there_is_named(self) -> None:
        with pytest.raises(CommandError, match=r"no-such-program could not be started: .*No such file"):
            Load(["no-such-program", "{per_s}"]).at(1.0)

    def test_one_that_may_not_be_ended_is_to_be_ended_by_hand(
        self, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        load.at(5.0)
        written(tmp_path)

        def refused(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        with monkeypatch.context() as patched:
            patched.setattr("perdix.profiling.live.commands.os.killpg", refused)
            with pytest.raises(CommandError, match=r"could not be ended \(Operation not permitted\); end it by hand"):
                load.stop()
        load.stop()

    @pytest.mark.slow
    def test_one_that_does_not_want_to_end_is_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("perdix.profiling.live.commands.ENDS_S", 0.2)
        text = (
            "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()) + '.')\n"
            "time.sleep(600)"
        )
        load = Load(script(text))
        load.at(1.0)
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("."))
        load.stop()
        assert not alive(int((tmp_path / "pid").read_text()[:-1]))


class TestToItsEnd:
    def test_it_is_waited_for(self, tmp_path: Path) -> None:
        run_to_end(
            [*script(f"import sys; open({str(tmp_path / 'x')!r}, 'w').write(sys.argv[1])"), "{n}"], {"{n}": 3}, 60
        )
        assert (tmp_path / "x").read_text() == "3"

    def test_a_failure_is_an_error_with_what_it_said(self) -> None:
        with pytest.raises(CommandError, match=r"failed with exit code 3: no such pod$"):
            run_to_end(script("import sys; print('no such pod'); sys.exit(3)"), {}, 60.0)

    def test_one_that_never_ends_is_ended(self, tmp_path: Path) -> None:
        text = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
        with pytest.raises(CommandError, match="did not end within 2 s"):
            run_to_end(script(text), {}, 2.0)
        if (tmp_path / "pid").exists():
            assert not alive(int((tmp_path / "pid").read_text() or os.getppid() * 10**6))

    def test_a_worker_that_it_started_stays_when_all_went_well_and_ends_with_a_failure(self, tmp_path: Path) -> None:
        child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
        for code in (0, 1):
            writes = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))"
            text = f"import subprocess, sys; p = {child}; {writes}; sys.exit({code})"
            try:
                run_to_end(script(text), {}, 60.0)
            except CommandError:
                assert code == 1
            pid = int((tmp_path / "pid").read_text())
            until(lambda pid=pid, code=code: alive(pid) is (code == 0))
            if code == 0:
                os.kill(pid, signal.SIGKILL)

    def test_secrets_that_it_says_are_not_passed_on(self) -> None:
        with pytest.raises(CommandError) as caught:
            run_to_end(script("import sys; sys.exit('cannot reach http://me:hunter2@broker:9092/')"), {}, 60.0)
        assert "hunter2" not in str(caught.value)
