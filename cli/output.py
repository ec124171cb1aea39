"""One way out: a table for people or one JSON document for machines, and plain words for errors."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

console = Console()
complaints = Console(stderr=True)


class UserError(Exception):
    """Something that the user can mend; the message says what and how. Shown without a stack trace."""


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


def plain(value: Any) -> Any:  # noqa: PLR0911 - one return per kind of value
    """Return ``value`` in JSON's own types; a number that JSON cannot hold becomes null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime | Path):
        return value.isoformat() if isinstance(value, datetime) else str(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; every column but the first is right-aligned when its cells are numbers."""
    grid = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        numeric = index > 0 and all(isinstance(row[index], int | float) or _numeric(str(row[index])) for row in rows)
        grid.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(number(cell) if isinstance(cell, int | float) else str(cell) for cell in row))
    console.print(grid)


def number(value: float | None, digits: int = 3) -> str:
    """Return a number as a person would write it: thousands separated, few digits; ``-`` for unknown."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def clock_time(epoch_s: float) -> str:
    """Return epoch seconds as UTC, for example ``2026-01-31 03:12:00Z``."""
    return datetime.fromtimestamp(epoch_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def run_guarded(main: Callable[[], None], known: Callable[[], tuple[type[Exception], ...]]) -> int:
    """Run ``main``; known errors become one plain message and exit code 2, unknown ones a short report and 1.

    ``known`` is asked only when something was raised, because naming the types imports what defines them.
    """
    try:
        main()
    except KeyboardInterrupt:
        complaints.print("interrupted")
        return 130
    except Exception as error:  # the last line of defence: a user never sees a stack trace unless asked for
        if isinstance(error, known()):
            complaints.print(f"[bold red]perdix:[/] {_escape(str(error))}", highlight=False)
            return 2
        if os.environ.get("PERDIX_DEBUG"):
            raise
        complaints.print(
            f"[bold red]perdix:[/] unexpected {type(error).__name__}: {_escape(str(error))}\n"
            "This is a defect of perdix. Run again with PERDIX_DEBUG=1 for the trace and report it.",
            highlight=False,
        )
        return 1
    return 0


def _numeric(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("%", "").replace("-", "").replace("x", "").strip().isdigit()


def _escape(text: str) -> str:
    return text.replace("[", r"\[")
