"""A Dagster logger for runs in the foreground: which step runs, and what asset bodies say."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg

Say = Callable[[str], None]


class _Handler(logging.Handler):
    say: Say | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.say is None:
            return
        meta = getattr(record, "dagster_meta", {})
        event = meta.get("dagster_event")
        if event is None and record.levelno >= logging.INFO:
            said = str(meta.get("orig_message", record.getMessage())).strip()
            self.say("  " + (said.splitlines() or [""])[0])
        elif event is not None and event.event_type_value == "STEP_START":
            self.say(f"{event.step_key} ...")


_handler = _Handler()


@dg.logger(None, description="One line per step and per message of an asset, for runs in the foreground.")
def progress_logger(_: dg.InitLoggerContext) -> logging.Logger:
    """Log through whatever :func:`showing` has set; silent otherwise."""
    logger = logging.getLogger("perdix.progress")
    logger.setLevel(logging.DEBUG)
    logger.handlers = [_handler]
    logger.propagate = False
    return logger


@contextmanager
def showing(say: Say | None) -> Iterator[None]:
    """Send progress to ``say`` while the block runs."""
    before, _handler.say = _handler.say, say
    try:
        yield
    finally:
        _handler.say = before
