"""Ctrl-C, SIGTERM and a closed terminal mean what they meant before, once a block that handled them has ended."""

import errno
import os
import signal
import threading

import pytest

from perdix.cli.output import complaints, run_guarded
from perdix.cli.processes import ENDS, handled, interrupt, restoring, stopping

pytestmark = pytest.mark.usefixtures("in_a_terminal")


def handlers() -> list[object]:
    return [signal.getsignal(sign) for sign in ENDS]


@pytest.mark.parametrize("sign", ENDS)
def test_a_signal_asks_to_stop_and_is_not_kept_for_later(sign: signal.Signals) -> None:
    before = handlers()
    with stopping() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), sign)
        assert stop.wait(5)
    assert handlers() == before


def test_what_handled_signals_before_comes_back_when_the_block_fails() -> None:
    before = handlers()
    with pytest.raises(KeyboardInterrupt), handled(ENDS, interrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    assert handlers() == before


def test_blocks_within_blocks_come_back_in_turn() -> None:
    before = handlers()
    with handled(ENDS, interrupt):
        outer = handlers()
        with handled(ENDS, signal.SIG_IGN):
            os.kill(os.getpid(), signal.SIGINT)
        assert handlers() == outer
    assert handlers() == before


def test_another_thread_changes_nothing() -> None:
    seen: list[list[object]] = []

    def run() -> None:
        with stopping() as stop:
            seen.append(handlers())
            assert not stop.is_set()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [handlers()]


@pytest.mark.parametrize(("terminal", "answered"), [(signal.SIG_DFL, 3), (signal.SIG_IGN, 2)])
def test_the_first_ends_and_those_that_follow_wait_for_what_is_restored(
    terminal: signal.Handlers, answered: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under nohup a closed terminal is ignored, and stays so."""
    restored = []

    def work() -> None:
        with restoring("the job gets its workers back"):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                for sign in ENDS:
                    os.kill(os.getpid(), sign)
                restored.append(True)

    signal.signal(signal.SIGHUP, terminal)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert signal.getsignal(signal.SIGHUP) is terminal
    assert restored == [True]
    said = capsys.readouterr().err
    assert said.count("ending: the job gets its workers back; a moment") == 1
    assert said.count("still ending") == answered


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), SystemExit(1)])
def test_a_command_that_is_interrupted_by_its_closed_terminal_says_so_by_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def gone(*_: object) -> None:
        raise error

    monkeypatch.setattr(complaints, "print", gone)
    assert run_guarded(interrupt, lambda: ()) == 130


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), SystemExit(1)])
def test_a_terminal_or_pipe_that_is_gone_stops_no_restoring(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """A terminal is closed twice: the kernel and the shell each send SIGHUP. Ctrl-C ends ``tee``, too."""
    restored = []

    def gone(*_: object) -> None:
        raise error

    def work() -> None:
        with restoring("the job gets its workers back"):
            try:
                os.kill(os.getpid(), signal.SIGHUP)
            finally:
                os.kill(os.getpid(), signal.SIGHUP)
                restored.append(True)

    monkeypatch.setattr(complaints, "print", gone)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert restored == [True]
