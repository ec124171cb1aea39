"""One way out: a table for people or one JSON document for machines, plain words for errors; and shared options."""

import errno
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdix.settings.counting import in_few_digits
from perdix.settings.json_values import plain
from perdix.settings.moments import in_utc
from perdix.settings.outside_text import printable
from perdix.settings.plain_error import PlainError

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output (docs/json.md).")]
JobArgument = Annotated[str, typer.Argument(help="Name of the stream job.", show_default=False)]


class _PlainConsole(Console):
    """Prints text as it is: what stands in brackets is no markup, and what would move the cursor becomes visible."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as it is rendered, in a cell or by itself."""
        return super().render_str(printable(text), **options)


WHOLE_WORD = 20  # characters: words and numbers of a table up to here are not broken into lines
LEAST_ROOM = 20  # characters that sentences of a table's last column need beside the others
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_NO_RIGHTS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
console = _PlainConsole()
complaints = _PlainConsole(stderr=True)


class UserError(PlainError):
    """Something that the user can fix; the message says what and how. Shown without a stack trace."""


def emit(schema: str, document: Mapping[str, Any], *, as_json: bool, show: Callable[[], None]) -> None:
    """Print ``document`` as JSON under ``schema`` (for example ``perdix.ingest/1``), or call ``show`` for people."""
    if as_json:
        sys.stdout.write(json.dumps(plain({"schema": schema, **document}), indent=2, allow_nan=False) + "\n")
        sys.stdout.flush()
    else:
        show()


def emit_line(schema: str, document: Mapping[str, Any]) -> None:
    """Print ``document`` as JSON on a line of its own, as commands do that go on; else as :func:`emit`."""
    sys.stdout.write(json.dumps(plain({"schema": schema, **document}), allow_nan=False) + "\n")
    sys.stdout.flush()


def require_nothing_left(left: str) -> None:
    """End the command with exit code 1, and say it, where a job was not given back what it had."""
    if left:
        complaints.print(left, soft_wrap=True)
        raise typer.Exit(1)


@contextmanager
def surviving_a_full_disk() -> Iterator[None]:
    """Go on when what is said cannot be written where standard output leads; whoever closed it ends us as ever."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; every column but the first is right-aligned when its cells are numbers.

    Sentences of the last column stand below it where the others leave no room for them. Where even words and numbers
    find no room, lines are longer than the terminal is wide: half a number is another number.
    """
    texts = [[number(cell) if isinstance(cell, int | float) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    room = console.width - sum(widths[:-1]) - 3 * len(widths) - 1  # a line, and a space on either side of each
    below = max((len(row[-1]) for row in texts), default=0) > LEAST_ROOM > room
    grid = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns[:-1] if below else columns):
        cells = [column, *(row[index] for row in texts)]
        numeric = index > 0 and all(isinstance(row[index], int | float) or _numeric(str(row[index])) for row in rows)
        grid.add_column(
            column,
            justify="right" if numeric else "left",
            overflow="fold",
            min_width=min(WHOLE_WORD, max(len(word) for cell in cells for word in cell.split(" "))),
        )
    for row in texts:
        grid.add_row(*(row[:-1] if below else row))
    console.print(grid, crop=False)
    for row in texts if below else ():
        if row[-1]:
            console.print(f"{row[0]}: {row[-1]}")


def styled(text: str, style: str) -> Text:
    """Return a text in a style, to be printed beside others."""
    return Text(printable(text), style)


def number(value: float | None, digits: int = 3) -> str:
    """Return a number as a person would write it: thousands separated, few digits; ``-`` for unknown."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    return f"{value:,}" if isinstance(value, int) else in_few_digits(value, digits)


def percent(share: float | None) -> str:
    """Return a share (1.0 = 100 %) in percent; ``-`` for unknown."""
    return "-" if share is None else f"{100 * share:.1f} %"


def mean_and_sd(spread: Mapping[str, float | None] | None) -> str:
    """Return a mean and, unless it is 0 or unknown, the standard deviation; ``-`` without a spread."""
    if spread is None:
        return "-"
    sd = spread["sd"]
    return number(spread["mean"]) + (f" ± {number(sd)}" if sd else "")


def clock_time(epoch_s: float) -> str:
    """Return epoch seconds as UTC, for example ``2026-01-31 03:12:00Z``."""
    return in_utc(epoch_s, "%Y-%m-%d %H:%M:%SZ")


FIX_OF_LIBRARIES = (
    "an environment for the controller alone has not what this needs: install perdix with all that it depends on "
    "(pip install perdix-*.whl, or make install)"
)


def run_guarded(main: Callable[[], None], known: Callable[[], tuple[type[Exception], ...]]) -> int:
    """Run ``main``; known errors become one plain message and exit code 2, unknown ones a short report and 1.

    ``known`` is asked only when something was raised, because naming the types imports what defines them.
    """
    try:
        main()
    except KeyboardInterrupt:
        with suppress(OSError, SystemExit):  # the terminal was closed, or the pipe, where Rich ends the process
            complaints.print("interrupted")
        return 130
    except Exception as error:  # the last line of defence: a user never sees a stack trace unless asked for
        if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("perdix"):
            error = UserError(f"'{error.name}' is not installed here; {FIX_OF_LIBRARIES}")
        if isinstance(error, known()):
            complaints.print(styled("perdix:", "bold red"), str(error))
            return 2
        if os.environ.get("PERDIX_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno in _NO_ROOM | _NO_RIGHTS:
            fix = "check its rights, and that its disk has room"
            where = f"{error.filename or 'standard output'}: {error.strerror}; {fix}"
            complaints.print(styled("perdix:", "bold red"), where)
            return 2
        complaints.print(
            styled("perdix:", "bold red"),
            f"unexpected {type(error).__name__}: {error}\n"
            "This is a defect of perdix. Run again with PERDIX_DEBUG=1 for the trace and report it.",
        )
        return 1
    return 0


def _numeric(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("%", "").replace("-", "").replace("x", "").strip().isdigit()
