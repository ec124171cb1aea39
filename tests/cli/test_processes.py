"""Children are ended with their own children, and a child that dies is told with the end of its log."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from perdix.cli.output import UserError
from perdix.cli.processes import ENDS, Processes, free_port

pytestmark = pytest.mark.usefixtures("in_a_terminal")


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().split(")")[1].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
def test_grandchildren_end_too(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = (
        "import subprocess, sys, time; from pathlib import Path;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        f"Path({str(mark)!r}).write_text(str(child.pid)); time.sleep(60)"
    )
    with Processes(tmp_path / "logs") as processes:
        processes.start("parent", [sys.executable, "-c", code], {})
        deadline = time.monotonic() + 20
        while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        grandchild = int(mark.read_text())
        assert alive(grandchild)
    assert not alive(grandchild)


@pytest.mark.parametrize("sign", ENDS)
def test_a_signal_ends_them_all_and_means_afterwards_what_it_meant_before(tmp_path: Path, sign: signal.Signals) -> None:
    before = [signal.getsignal(number) for number in ENDS]
    processes = Processes(tmp_path)

    def watched() -> None:
        with processes:
            processes.start("twin", [sys.executable, "-c", "import time; time.sleep(60)"], {})
            os.kill(os.getpid(), sign)

    with pytest.raises(KeyboardInterrupt):
        watched()
    assert processes.children["twin"].poll() is not None
    assert [signal.getsignal(number) for number in ENDS] == before


def test_a_child_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("twin", [sys.executable, "-c", "print('no such file: x.yaml'); raise SystemExit(3)"], {})
        with pytest.raises(UserError, match=r"(?s)twin ended with code 3.*no such file: x\.yaml"):
            processes.watch()


def test_a_server_that_never_answers_is_told(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("web", [sys.executable, "-c", "import time; time.sleep(60)"], {})
        with pytest.raises(UserError, match="did not answer"):
            processes.wait_until_answers("web", f"http://127.0.0.1:{free_port(0)}/", timeout_s=1.0)


def test_a_server_of_this_machine_is_not_asked_through_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a company names one for every address, it does not lead back here."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port(0)}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    port = str(free_port(0))
    with Processes(tmp_path) as processes:
        processes.start("web", [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", port], {})
        processes.wait_until_answers("web", f"http://127.0.0.1:{port}/", timeout_s=10.0)
