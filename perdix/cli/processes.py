"""Several child processes as one: started in order, watched, ended together; and what signals that end a command do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn, TypeAlias

import httpx

from perdix.cli.output import UserError, complaints

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, a polite end, a closed terminal
Handler: TypeAlias = Callable[[int, FrameType | None], object] | signal.Handlers


@contextmanager
def handled(signs: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Let ``handler`` take these signals until the block ends; in any but the main thread nothing is changed.

    Python lets only the main thread set handlers. A closed terminal that is ignored, as under nohup, stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    before = {sign: signal.signal(sign, handler) for sign in signs if sign not in ignored}
    try:
        yield
    finally:
        for sign, earlier in before.items():
            signal.signal(sign, earlier)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Yield an event that a signal of :data:`ENDS` sets, so that what runs ends after the step it is at."""
    stop = threading.Event()
    with handled(ENDS, lambda *_: stop.set()):
        yield stop


@contextmanager
def restoring(what: str) -> Iterator[None]:
    """Let the first Ctrl-C, SIGTERM or closed terminal end what runs; while that restores ``what``, others wait."""
    begun: list[int] = []

    def once(sign: int, _: FrameType | None) -> None:
        begun.append(sign)
        first = len(begun) == 1
        with suppress(OSError, SystemExit):  # the terminal was closed; Rich ends who writes to a pipe that nobody reads
            complaints.print(f"ending: {what}; a moment" if first else "still ending; SIGKILL would leave it as it is")
        if first:
            raise KeyboardInterrupt

    with handled(ENDS, once):
        yield


def interrupt(*_: object) -> NoReturn:
    """Be a handler that ends what runs as Ctrl-C does, so that it cleans up."""
    raise KeyboardInterrupt


LOOPBACK = "127.0.0.1"


def free_port(preferred: int) -> int:
    """Return ``preferred`` when nothing listens there on loopback, else any free port."""
    for port in (preferred, 0):
        with suppress(OSError), socket.create_server((LOOPBACK, port)) as candidate:
            return int(candidate.getsockname()[1])
    raise UserError("no free port on loopback")


@dataclass
class Processes:
    """Children in process groups of their own, with a log file each.

    ``holds``: a locked file that they keep locked, should this process be killed; their groups are written to it.
    """

    logs: Path
    holds: IO[str] | None = None
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _signals: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    def __enter__(self) -> Processes:
        self.logs.mkdir(parents=True, exist_ok=True)
        self._signals.enter_context(handled(ENDS, interrupt))
        return self

    def __exit__(self, *_: object) -> None:
        with self._signals, handled(ENDS, signal.SIG_IGN):  # a second Ctrl-C must not leave half of them behind
            self._signal_all(signal.SIGTERM)
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline and any(_alive(child) for child in self.children.values()):
                time.sleep(0.1)
            self._signal_all(signal.SIGKILL)
            for child in self.children.values():
                child.wait()

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start one child; its output goes to ``<logs>/<name>.log``."""
        with (self.logs / f"{name}.log").open("wb") as log:
            self.children[name] = subprocess.Popen(  # noqa: S603 - our own commands
                list(command),
                env={**os.environ, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[] if self.holds is None else [self.holds.fileno()],
            )
        if self.holds is not None:
            self.holds.write(f"{self.children[name].pid}\n")
            self.holds.flush()

    def wait_until_answers(self, name: str, url: str, timeout_s: float = 120.0) -> None:
        """Wait for an answer of this machine; ``UserError`` with the end of the log when a child ends or is late."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.children[name].poll() is not None:
                raise UserError(f"{name} ended at once:\n{self.end_of_log(name)}")
            try:
                httpx.get(url, timeout=2.0, trust_env=False)  # a proxy does not lead back here
            except httpx.HTTPError:
                time.sleep(0.3)
            else:
                return
        raise UserError(f"{name} did not answer at {url} within {timeout_s:.0f} s:\n{self.end_of_log(name)}")

    def watch(self) -> NoReturn:
        """Return never: raise ``UserError`` when a child ends, ``KeyboardInterrupt`` on Ctrl-C."""
        while True:
            for name, child in self.children.items():
                if child.poll() is not None:
                    raise UserError(f"{name} ended with code {child.returncode}:\n{self.end_of_log(name)}")
            time.sleep(0.5)

    def end_of_log(self, name: str, lines: int = 15) -> str:
        """Return the last lines of a child's log."""
        text = (self.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _signal_all(self, sign: signal.Signals) -> None:
        for child in reversed(list(self.children.values())):
            with suppress(ProcessLookupError):
                os.killpg(child.pid, sign)


def _alive(child: subprocess.Popen[bytes]) -> bool:
    """Whether a child runs, or children of its own that outlive it."""
    with suppress(ProcessLookupError):
        if child.poll() is not None:
            os.killpg(child.pid, 0)
        return True
    return False
