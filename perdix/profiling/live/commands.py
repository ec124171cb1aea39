"""Commands of an operator, as child processes: one that ends, and one that runs until it is ended."""

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from perdix.settings.plain_error import PlainError
from perdix.settings.profiling import PER_S

ENDS_S = 10.0  # that a command may take to end once it was asked to
SHOWN = 300  # characters of what a failed command said last
READ = 10 * SHOWN  # bytes of it that are looked at
TAIL_S = 0.5  # that the last of it may take to be read


class CommandError(PlainError):
    """A command could not be started, failed, or did not end. The message names its program, and what it said."""


def filled(words: Sequence[str], values: Mapping[str, float]) -> list[str]:
    """Return a command with numbers in their places, ``{per_s}`` for example; other braces stay as they are."""
    found = list(words)
    for place, value in values.items():
        found = [word.replace(place, f"{value:.12g}") for word in found]
    return found


def run_to_end(words: Sequence[str], values: Mapping[str, float], within_s: float) -> None:
    """Run a command; raises ``CommandError`` when it cannot be started, fails, or takes longer: then it is ended."""
    with beside(filled(words, values), within_s):
        pass


@contextmanager
def beside(words: Sequence[str], within_s: float) -> Iterator[Callable[[], None]]:
    """Run a command while the block runs, and then wait for it; yields what raises once it has failed.

    Raises ``CommandError`` when it cannot be started, fails, or does not end within this many seconds after the block;
    then it is ended.
    """

    def check() -> None:
        if process.poll() not in (None, 0):
            raise CommandError(f"{words[0]} failed with exit code {process.returncode}{_last_words(said)}")

    with _started(words) as (process, said):
        yield check
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise CommandError(f"{words[0]} did not end within {within_s:g} s") from None
        check()


class Load:
    """A command that makes records arrive for as long as it runs."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        self._running: tuple[subprocess.Popen[bytes], _Tail] | None = None

    def at(self, rate_per_s: float) -> None:
        """Let this many records/s arrive from now on, and no others. Raises :class:`CommandError`."""
        self.stop()
        process = _start(filled(self._words, {PER_S: rate_per_s}), subprocess.DEVNULL, subprocess.PIPE)
        assert process.stderr is not None
        self._running = process, _Tail(process.stderr)

    def check(self) -> None:
        """Raise :class:`CommandError` when it has ended by itself."""
        if self._running is not None and (code := self._running[0].poll()) is not None:
            said = _shown(self._running[1].read())
            raise CommandError(f"the load ended by itself: {self._words[0]}, exit code {code}{said}")

    def stop(self) -> None:
        """Let nothing arrive any more; may be called twice."""
        if self._running is not None:
            _end(self._running[0])
            self._running = None


class _Tail:
    """What a program that may run for hours says last; the rest takes no room."""

    def __init__(self, said: IO[bytes]) -> None:
        self._kept = b""
        self._reading = threading.Thread(target=self._read, args=(said,), daemon=True, name="load")
        self._reading.start()

    def read(self) -> bytes:
        """Return it, once the program has ended; what it started may hold its end of the pipe."""
        self._reading.join(TAIL_S)
        return self._kept

    def _read(self, said: IO[bytes]) -> None:
        with said:
            while some := os.read(said.fileno(), 1 << 16):
                self._kept = (self._kept + some)[-READ:]


@contextmanager
def _started(words: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    with tempfile.TemporaryFile() as said:
        process = _start(words, said, said)
        try:
            yield process, said
        finally:
            if process.returncode != 0:  # what it leaves behind when all went well, a worker it started, stays
                _end(process)


def _start(words: Sequence[str], out: IO[bytes] | int, err: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own: what it starts ends with it, and no Ctrl-C reaches it first."""
    try:
        return subprocess.Popen(  # noqa: S603 # who may write a job file may say what is run
            list(words), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise CommandError(f"{words[0]} could not be started: {error}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started: politely, then at once. Raises ``CommandError`` where that may not be."""
    for how, within_s in ((signal.SIGTERM, ENDS_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:  # nobody of the group is left
            return
        except PermissionError as error:
            raise CommandError(f"process {process.pid} could not be ended ({error.strerror}); end it by hand") from None
        with suppress(subprocess.TimeoutExpired):
            process.wait(within_s)


def _last_words(said: IO[bytes]) -> str:
    said.seek(max(said.seek(0, os.SEEK_END) - READ, 0))
    return _shown(said.read())


def _shown(last: bytes) -> str:
    """Return what a command said last, behind a colon."""
    words = " ".join(last.decode(errors="replace").split())
    return f": {words[-SHOWN:]}" if words else ""
