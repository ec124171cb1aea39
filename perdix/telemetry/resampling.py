"""Streams of samples onto one grid: gauges as means that are held for their own interval, counters as rates.

Belongs here: the arithmetic, vectorised over streams. Does not belong here: what a metric means, which streams belong
together, and the counting of what was dropped (``perdix.telemetry.alignment``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.metrics import MOST_PER_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
GAP = 1.5  # a next sample later than this many scrape intervals is a gap: a lost scrape, not jitter


@dataclass(frozen=True)
class Grid:
    """Steps ``(edge[k], edge[k + 1]]`` at multiples of ``step_ms`` since the epoch; a step is named by its end."""

    first_edge_ms: int
    step_ms: int
    n: int

    @classmethod
    def between(cls, start_s: float, end_s: float, step_s: float) -> Grid:
        """Return the whole steps in ``(start_s, end_s]``. Raises ``ValueError`` below 1 ms or when inverted."""
        step_ms = round(step_s * 1000)
        if step_ms < 1:
            raise ValueError(f"a step of {step_s} s is shorter than a millisecond")
        if not start_s <= end_s:
            raise ValueError(f"the window ends at {end_s} before it starts at {start_s}")
        first = math.ceil(round(start_s * 1000) / step_ms)
        last = round(end_s * 1000) // step_ms
        return cls(first * step_ms, step_ms, max(0, last - first))

    @cached_property
    def edges_ms(self) -> Ints:
        """Shape ``(n + 1,)``."""
        return self.first_edge_ms + self.step_ms * np.arange(self.n + 1, dtype=np.int64)

    @property
    def times_s(self) -> Floats:
        """Ends of the steps, epoch seconds, shape ``(n,)``."""
        return self.edges_ms[1:] / 1000.0

    def step_of(self, times_ms: Ints) -> Ints:
        """Return the step of each time; below 0 or at least ``n`` where it lies outside."""
        return -((self.first_edge_ms - times_ms) // self.step_ms) - 1

    def holds(self, times_ms: Ints) -> NDArray[np.bool_]:
        """Return which times lie on the grid."""
        return (times_ms > self.first_edge_ms) & (times_ms <= self.first_edge_ms + self.n * self.step_ms)


@dataclass(frozen=True)
class Streams:
    """Samples of ``count`` streams, sorted by stream and time, finite, without duplicates.

    ``stream`` holds 0 .. count - 1; ``interval_ms`` is each stream's scrape interval, shape ``(count,)``.
    """

    times_ms: Ints
    values: Floats
    stream: Ints
    interval_ms: Floats

    @property
    def count(self) -> int:
        """How many streams there are."""
        return len(self.interval_ms)

    @cached_property
    def first(self) -> Ints:
        """Position of each stream's first sample; where a stream has none, that of the next stream's."""
        return np.searchsorted(self.stream, np.arange(self.count), side="left").astype(np.int64)

    def take(self, low: int, high: int) -> Streams:
        """Return the streams ``low`` .. ``high - 1``, numbered from 0."""
        a, b = np.searchsorted(self.stream, [low, high], side="left")
        return Streams(self.times_ms[a:b], self.values[a:b], self.stream[a:b] - low, self.interval_ms[low:high])

    def gap_limit_ms(self, step_ms: int) -> Floats:
        """Return, per sample, how late the next one may be without being a gap."""
        return np.maximum(GAP * self.interval_ms, step_ms)[self.stream]

    @cached_property
    def to_next_ms(self) -> Floats:
        """Milliseconds to the next sample of the stream, shape of ``times_ms``; infinite for its last."""
        gaps = np.full(len(self.times_ms), np.inf)
        if len(gaps) > 1:
            same = self.stream[1:] == self.stream[:-1]
            gaps[:-1] = np.where(same, np.diff(self.times_ms), np.inf)
        return gaps


def scrape_intervals_ms(times_ms: Ints, stream: Ints, count: int) -> Floats:
    """Return the median spacing per stream, shape ``(count,)``; NaN for a stream of fewer than two samples.

    Of two middle spacings the shorter, so that one outage among few samples does not pass for the interval.
    ``times_ms`` must be sorted by stream and time.
    """
    medians = np.full(count, np.nan)
    if len(times_ms) < 2:
        return medians
    same = stream[1:] == stream[:-1]
    gaps, owner = (times_ms[1:] - times_ms[:-1])[same], stream[1:][same]
    order = np.lexsort((gaps, owner))
    gaps, owner = gaps[order], owner[order]
    size = np.bincount(owner, minlength=count)
    begin = np.cumsum(size) - size
    has = size > 0
    medians[has] = gaps[(begin + (size - 1) // 2)[has]]
    return medians


def last_sample_at_edges(streams: Streams, grid: Grid) -> Ints:
    """Return the position of the newest sample at or before each edge, shape ``(streams, n + 1)``; -1 where none."""
    last = np.full((streams.count, grid.n + 1), -1, dtype=np.int64)
    edge = np.maximum(grid.step_of(streams.times_ms) + 1, 0)
    before_end = edge <= grid.n
    positions = np.flatnonzero(before_end)
    np.maximum.at(last, (streams.stream[positions], edge[positions]), positions)
    return np.maximum.accumulate(last, axis=1)


def gauges_on_grid(streams: Streams, grid: Grid) -> Floats:
    """Return the mean of the samples of each step, shape ``(streams, n)``.

    A step without a sample holds the sample before it (a) for one scrape interval of that stream, or (b) until the
    next sample where that comes within ``max(1.5 intervals, step)``. Anything else is NaN: nothing is interpolated.
    """
    cells = streams.count * grid.n
    step = grid.step_of(streams.times_ms)
    inside = (step >= 0) & (step < grid.n)
    cell = streams.stream[inside] * grid.n + step[inside]
    size = np.bincount(cell, minlength=cells).reshape(streams.count, grid.n)
    total = np.bincount(cell, weights=streams.values[inside], minlength=cells).reshape(streams.count, grid.n)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / size
    if not len(streams.times_ms) or size.all():
        return mean
    held_ms = np.where(
        streams.to_next_ms <= streams.gap_limit_ms(grid.step_ms),
        streams.to_next_ms,
        streams.interval_ms[streams.stream],
    )
    last = last_sample_at_edges(streams, grid)[:, 1:]
    known = (last >= 0) & (grid.edges_ms[1:] - streams.times_ms[last] < held_ms[last])
    return np.where(size > 0, mean, np.where(known, streams.values[last], np.nan))


def rates_on_grid(streams: Streams, grid: Grid) -> tuple[Floats, int]:
    """Return what counters grew by per second, shape ``(streams, n)``, and how many resets were seen.

    Between two samples the counter is taken to grow evenly, so a step finer or coarser than the scrape interval gets
    its own share. A value below the one before it is a reset: it counts from zero, so no rate is negative. A stretch
    between samples longer than ``max(1.5 intervals, step)`` is not used, nor one in which the counter grows by more
    than any job reads, nor its fall after that; a step of which less than half is known is NaN, and so is everything
    after the last sample.
    """
    n_samples = len(streams.times_ms)
    if n_samples < 2:
        return np.full((streams.count, grid.n), np.nan), 0
    grown = np.zeros(n_samples)
    following = streams.values[1:]
    reset = following < streams.values[:-1]
    grown[:-1] = np.where(reset, following, following - streams.values[:-1])
    absurd = grown > MOST_PER_S * streams.to_next_ms / 1000.0  # one alone would swallow all others in a running total
    absurd[1:-1] |= absurd[:-2] & reset[1:]
    usable = (streams.to_next_ms <= streams.gap_limit_ms(grid.step_ms)) & ~absurd
    grown = np.where(usable, grown, 0.0)
    known_ms = np.where(usable, streams.to_next_ms, 0.0)
    last = last_sample_at_edges(streams, grid)
    at = np.where(last >= 0, last, np.minimum(streams.first, n_samples - 1)[:, None])
    with np.errstate(invalid="ignore"):
        passed = np.clip((grid.edges_ms - streams.times_ms[at]) / streams.to_next_ms[at], 0.0, 1.0)
    total = (np.cumsum(grown) - grown)[at] + passed * grown[at]
    covered_ms = np.diff((np.cumsum(known_ms) - known_ms)[at] + passed * known_ms[at], axis=1)
    enough = covered_ms >= 0.5 * grid.step_ms
    rates = np.full(covered_ms.shape, np.nan)
    rates[enough] = np.maximum(np.diff(total, axis=1)[enough], 0.0) / (covered_ms[enough] / 1000.0)
    rates[np.bincount(streams.stream, minlength=streams.count) == 0] = np.nan
    seen = reset & usable[:-1] & grid.holds(streams.times_ms[1:])
    return rates, int(np.count_nonzero(seen))
