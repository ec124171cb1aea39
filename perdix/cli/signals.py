"""What Ctrl-C and SIGTERM do while a block runs; what they did before comes back with its end."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, TypeAlias

from perdix.cli.output import complaints

ENDS = (signal.SIGINT, signal.SIGTERM)
Handler: TypeAlias = Callable[[int, FrameType | None], object] | signal.Handlers


@contextmanager
def handled(signs: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Let ``handler`` take these signals until the block ends; in any but the main thread nothing is changed.

    Python lets only the main thread set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {sign: signal.signal(sign, handler) for sign in signs}
    try:
        yield
    finally:
        for sign, earlier in before.items():
            signal.signal(sign, earlier)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets, so that what runs ends after the step it is at."""
    stop = threading.Event()
    with handled(ENDS, lambda *_: stop.set()):
        yield stop


@contextmanager
def restoring(what: str) -> Iterator[None]:
    """Let the first Ctrl-C, SIGTERM or closed terminal end what runs; while that restores ``what``, others wait."""
    begun: list[int] = []

    def once(sign: int, _: FrameType | None) -> None:
        begun.append(sign)
        if len(begun) == 1:
            complaints.print(f"ending: {what}; a moment")
            raise KeyboardInterrupt
        complaints.print("still ending; SIGKILL would leave it as it is")

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as nohup does
    with handled(ENDS if ignored else (*ENDS, signal.SIGHUP), once):
        yield


def interrupt(*_: object) -> NoReturn:
    """Be a handler that ends what runs as Ctrl-C does, so that it cleans up."""
    raise KeyboardInterrupt
