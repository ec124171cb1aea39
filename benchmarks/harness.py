"""What benchmarks do alike: options, tables in Markdown, JSON, means over seeds, and how long something takes."""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import pandas as pd

from perdix.replay.side_by_side import Failed
from perdix.settings.json_values import plain

Row = dict[str, Any]
Columns = Mapping[str, str | Callable[[Any], str]]


def options(about: str | None, *, seeds: int | None = None, first: str = "--first-seed") -> argparse.ArgumentParser:
    """Return a parser with ``--json``, and with how many seeds there are and the first of them where some are."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    if seeds is not None:
        parser.add_argument("--seeds", type=int, default=seeds, help="how many")
        parser.add_argument(first, type=int, default=1, dest="first_seed", help="the first")
    return parser


def seeds_of(asked: argparse.Namespace) -> range:
    return range(asked.first_seed, asked.first_seed + asked.seeds)


class _OfARow(Formatter):
    """Takes fields from the keys or attributes of a row; what is not known is a dash."""

    def get_value(self, key: int | str, args: Sequence[Any], _: Mapping[str, Any]) -> Any:
        return args[0].get(key) if isinstance(args[0], Mapping) else getattr(args[0], str(key))

    def format_field(self, value: Any, format_spec: str) -> str:
        return "-" if value is None else str(super().format_field(value, format_spec))


def shown(value: object) -> str:
    """Return a value as a cell: what is not known as a dash, numbers with four digits or all that they have."""
    if not isinstance(value, float):
        return "-" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 1e3 else f"{value:.4g}"


def records(frame: pd.DataFrame) -> list[Row]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def markdown(rows: Iterable[Any], columns: Columns | None = None) -> None:
    """Print a table in Markdown, each row as it comes.

    ``columns``: head -> template over the keys or attributes of a row, or what makes a cell of it; without them, a
    column per key of the first row.
    """
    heads: list[str] = []
    for row in rows:
        if not heads:
            heads = list(columns or row)
            print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        if columns is None:
            cells = [shown(row.get(head)) for head in heads]
        else:
            cells = [_OfARow().vformat(of, (row,), {}) if isinstance(of, str) else of(row) for of in columns.values()]
        print("| " + " | ".join(cells) + " |", flush=True)


def show(rows: Iterable[Any], columns: Columns | None = None, *, as_lines: bool) -> None:
    """Print rows as they come: a line of JSON each, or a table; see :func:`markdown`."""
    if not as_lines:
        return markdown(rows, columns)
    for row in rows:
        write_json(row, indent=None)


def write_json(found: object, indent: int | None = 1) -> None:
    """Print a document; what is no finite number is null."""
    print(json.dumps(plain(found), indent=indent, allow_nan=False), flush=True)


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return the mean, and the standard deviation of samples as ``name_sd``: 0 of one value."""
    return {name: float(np.mean(values)), f"{name}_sd": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def grouped(rows: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """Return key -> rows, in the order in which keys first come."""
    found: dict[Any, list[Any]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def complain(failed: Iterable[Failed]) -> int:
    """Print replays that failed; return how many."""
    every = list(failed)
    for failure in every:
        print(f"FAILED {failure.policy}, seed {failure.seed}: {failure.reason}", file=sys.stderr)
    return len(every)


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long some work takes."""
    began_s = clock()
    work()
    return clock() - began_s


def resident_mib(process: str = "self") -> float:
    """Return the memory of a process as Linux reports it, without this one's garbage; NaN elsewhere."""
    gc.collect()
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return float("nan")
    return pages * resource.getpagesize() / 2**20


def in_turns(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return how long each work takes, by name, in each of some rounds; in a round each is done once."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds(work))
    return times
