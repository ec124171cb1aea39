"""How many records are due in each second: a trace or a pattern, compressed, scaled to a peak, as whole numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from perdix.cli.output import UserError
from perdix.replay.workload import Trace, recorded
from perdix.settings.strict import Strict
from perdix.telemetry.window import Values
from perdix.twin.workloads import Shape, WorkloadSpec, workload

Counts = NDArray[np.int64]
LONGEST_S = 7 * 86_400  # of a load, as an array of seconds


class Load(Strict):
    """A load."""

    trace: Path | None = None  # CSV or Parquet file with a time and a rate, as `perdix replay --workload` reads it
    # Instead of a trace: a pattern of the twin's. Its period is ``period_s`` seconds of the trace
    shape: Shape | None = None
    # Records per second at the highest point of the trace once it is compressed, before noise
    peak_per_s: Annotated[float, Field(gt=0, le=1_000_000)] = 500.0
    # Seconds of the trace that one second plays: the mean of their rates
    compress: Annotated[float, Field(gt=0, le=100_000)] = 1.0
    # Length of the load. The trace once by default; longer, and it starts anew
    seconds: Annotated[int, Field(ge=1, le=LONGEST_S)] | None = None
    start_s: Annotated[float, Field(ge=0)] = 0.0  # second of the trace to begin at
    period_s: Annotated[int, Field(ge=2, le=30 * 86_400)] = 86_400
    low: Annotated[float, Field(ge=0, le=1)] = 0.2
    noise: Annotated[float, Field(ge=0, le=1)] = 0.02  # relative standard deviation from second to second
    fill_gaps: bool = False
    # Exponent of Zipf's law over the words: 0 means that every word is as likely
    skew: Annotated[float, Field(ge=0, le=10)] = 0.0
    # words_per_record, vocabulary: words of a record, and how many different ones there are
    words_per_record: Annotated[int, Field(ge=1, le=1_000)] = 1
    vocabulary: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    seed: Annotated[int, Field(ge=0)] = 1  # of the words, the noise and the pattern


def trace_of(load: Load) -> Trace:
    """Return the trace that a load follows.

    Raises ``UserError`` when neither a trace nor a shape was named, or both; ``SettingsError``, naming file, line and
    fix, when the trace cannot be read.
    """
    if (load.trace is None) == (load.shape in {None, "csv"}):
        raise UserError("name either a trace (--trace FILE) or a pattern (--shape sine)")
    if load.trace is not None:
        return recorded(load.trace, fill_gaps=load.fill_gaps)
    assert load.shape is not None
    bare = WorkloadSpec(
        shape=load.shape, peak_per_s=1.0, low=load.low, period_s=load.period_s, noise=0.0, slow_noise=0.0
    )
    # Once through its period, rounded up to a whole second of the load.
    seconds = max(load.period_s, math.ceil(load.compress))
    rates = workload(bare, seconds, load.seed)
    return Trace(load.shape, np.arange(seconds, dtype=np.float64), rates, float(seconds), float(rates.max()))


def rates(load: Load, trace: Trace) -> Values:
    """Return records/s in each second of the load, before they are whole numbers.

    Raises ``UserError`` when the trace is too long to be played in one go, or shorter than a second once compressed.
    """
    once = int(trace.length_s / load.compress)
    seconds = once if load.seconds is None else load.seconds
    if once < 1:
        raise UserError(f"a trace of {trace.length_s:.0f} s, {load.compress:g} s of it in one, is not even a second")
    if seconds > LONGEST_S:
        raise UserError(f"the trace would take {seconds / 3600:,.0f} h; give --seconds or --compress")
    per_second = _means(trace, load.compress, 0.0, once)
    highest = float(per_second.max())
    if load.seconds is not None or load.start_s:
        per_second = _means(trace, load.compress, load.start_s, seconds)
    unit = WorkloadSpec(shape="constant", peak_per_s=1.0, noise=load.noise, slow_noise=0.0)
    return np.asarray(load.peak_per_s / highest * per_second * workload(unit, seconds, load.seed), dtype=np.float64)


def whole(rates_per_s: Values) -> Counts:
    """Return records in each second: their sum up to any second is that of the rates, rounded down."""
    total = np.floor(np.cumsum(rates_per_s) + 1e-6).astype(np.int64)
    return np.diff(total, prepend=0)


def _means(trace: Trace, compress: float, start_s: float, seconds: int) -> Values:
    """Return the mean rate in each of ``seconds`` stretches of ``compress`` seconds of a trace that repeats itself."""
    length = math.ceil(trace.length_s)
    grid = np.minimum(np.arange(length + 1, dtype=np.float64), trace.length_s)
    total = np.concatenate(([0.0], np.cumsum(trace.relative(length) * np.diff(grid))))
    edges = start_s + compress * np.arange(seconds + 1, dtype=np.float64)
    times, rest = np.divmod(edges, trace.length_s)
    arrived: Values = times * total[-1] + np.interp(rest, grid, total)
    means: Values = np.maximum(np.diff(arrived), 0.0) / compress
    return means
