"""Processes that outlive the command that starts them: pid files, and ending only what they really name."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from perdix.cli.output import UserError
from perdix.cli.processes import ENDS, handled, interrupt

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PATIENCE_S = 15.0  # for a process to end by itself once it was asked to


@dataclass(frozen=True)
class Started:
    """A process, distinguished from a later one with the same number by when it started."""

    name: str
    pid: int  # its number
    start_ticks: int  # clock ticks from the machine's start to its own
    boot_id: str  # of the machine's start that the ticks count from
    command: str  # its first words, for people


@dataclass(frozen=True)
class PidFiles:
    """The processes of one testbed: ``<pids>/<name>.json`` and ``<logs>/<name>.log``."""

    pids: Path
    logs: Path

    def start(self, name: str, command: Sequence[str], joins: Callable[[int], None] | None = None) -> Started:
        """Start a process in a session of its own, so that a Ctrl-C does not reach it.

        Raises ``UserError`` when the command cannot be started or ends at once.

        ``joins``: called with the pid at once, for example to put it into a cgroup.
        """
        with (self.logs / f"{name}.log").open("wb") as log, Path(os.devnull).open("rb") as nothing, uninterrupted():
            files = [
                (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, log.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
            ]
            try:
                pid = os.posix_spawnp(command[0], list(command), os.environ, file_actions=files, setsid=True)
            except OSError as error:
                raise UserError(f"{name}: {command[0]} cannot be started ({error.strerror})") from None
            started = identify(name, pid, command[0])
            if started is None:
                raise UserError(f"{name} ended at once:\n{self.end_of_log(name)}")
            (self.pids / f"{name}.json").write_text(json.dumps(asdict(started)) + "\n", encoding="utf-8")
            if joins is not None:
                joins(pid)
        return started

    def recorded(self) -> dict[str, Started]:
        """Return what the pid files name, running or not."""
        found = {}
        for path in sorted(self.pids.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                found[path.stem] = Started(**json.loads(path.read_text(encoding="utf-8")))
        return found

    def running(self) -> dict[str, Started]:
        """Return what the pid files name and still is the process that was started."""
        return {name: started for name, started in self.recorded().items() if is_running(started)}

    def is_running(self, name: str) -> bool:
        """Say whether ``name`` was started and still runs."""
        return name in self.running()

    def stop(self, names: Sequence[str], sign: signal.Signals = signal.SIGTERM) -> list[str]:
        """End processes, all at once; what does not end by itself is killed. Return those that ran.

        A number that now belongs to another process is left alone.
        """
        recorded = self.recorded()
        asked = {name: recorded[name] for name in names if name in recorded and is_running(recorded[name])}
        for started in asked.values():
            _signal(started, sign)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and any(is_running(started) for started in asked.values()):
            time.sleep(0.05)
        for started in asked.values():
            if is_running(started):
                _signal(started, signal.SIGKILL)
        while any(is_running(started) for started in asked.values()):
            time.sleep(0.02)
        for started in asked.values():
            _reap(started)
        for name in names:
            (self.pids / f"{name}.json").unlink(missing_ok=True)
        return list(asked)

    def end_of_log(self, name: str, lines: int = 15) -> str:
        """Return the last lines of a process's log, and where it is."""
        path = self.logs / f"{name}.log"
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return f"(no log at {path})"
        return "\n".join([*text.splitlines()[-lines:], f"(the end of {path})"])


def identify(name: str, pid: int, command: str) -> Started | None:
    """Return what distinguishes the process ``pid`` from others; None when there is none."""
    ticks = _start_ticks(pid)
    return None if ticks is None else Started(name, pid, ticks, _boot_id(), command)


def is_running(started: Started) -> bool:
    """Say whether this very process still runs (a zombie does not)."""
    return started.boot_id == _boot_id() and _start_ticks(started.pid) == started.start_ticks


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that it can clean up."""
    with handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP until the block ends: cleaning up must not be left half-way."""
    held: list[int] = []
    with handled(ENDS, lambda number, _: held.append(number)):
        yield
    if held:
        raise KeyboardInterrupt


def _signal(started: Started, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(started.pid, sign)


def _reap(started: Started) -> None:
    """Collect what ended, if it was a child of this very process; other children are their parents' matter."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(started.pid, os.WNOHANG)


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before may hold blanks and brackets
    state, threads, start_ticks = fields[0], int(fields[17]), int(fields[19])
    # A zombie whose threads still end holds its ports until the last of them has.
    return None if state in "ZX" and threads <= 1 else start_ticks


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
