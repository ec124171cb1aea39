"""The shapes of real traces, where they lie beside the project."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.measured import DATA
from benchmarks.zoo.workloads import DAY_S
from perdix.replay.workload import Trace, recorded
from perdix.telemetry.window import Values

PATTERNS = ("workloads/*.csv", "load-prediction/*_5min.csv")


class NoTracesError(Exception):
    """There is no trace to draw from."""


def available(folder: Path = DATA) -> tuple[Path, ...]:
    """Return the files of traces in ``folder``, in the order of their names; none where it is absent."""
    return tuple(sorted(path for pattern in PATTERNS for path in folder.glob(pattern)))


def digest(folder: Path = DATA) -> str:
    """Return 6 hex digits of the traces in ``folder``: which of them a job gets depends on all that there are."""
    found = hashlib.sha256()
    for path in available(folder):
        found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()[:6]


def drawn(rng: np.random.Generator, seconds: int, folder: Path = DATA) -> tuple[Values, str]:
    """Return relative rates of a stretch of one trace, shape ``(seconds,)``, and the trace's name.

    Half the time a long trace is as it was recorded, else up to a week of it is played in a day.

    Raises ``NoTracesError`` where ``folder`` has none.
    """
    paths = available(folder)
    if not paths:
        raise NoTracesError(f"no traces in {folder}")
    trace = _read(paths[int(rng.integers(len(paths)))])
    fastest = max(1.0, min(7.0, trace.length_s / DAY_S))
    speed = 1.0 if rng.random() < 0.5 else float(rng.uniform(1.0, fastest))
    begin_s = float(rng.uniform(0.0, max(trace.length_s - speed * seconds, 1.0)))
    times_s = begin_s + speed * np.arange(seconds)
    return np.interp(times_s, trace.times_s, trace.rates, period=trace.length_s), trace.name


@cache
def _read(path: Path) -> Trace:
    return recorded(path, fill_gaps=True)
