"""Courses made small enough to be drawn, without losing what a reader looks for: no peak is averaged away."""

from collections.abc import Sequence

import numpy as np

from perdix.replay.outcome import Course
from perdix.telemetry.window import Values

PIXELS = 700  # as wide as a panel is ever drawn


def elapsed_h(course: Course) -> Values:
    """Return hours since the start of the run, shape ``(rows,)``."""
    return np.asarray((course.times_s - course.times_s[0]) / 3600.0)


def row_s(course: Course) -> float:
    """Return the seconds from row to row: 1, but more where the twin goes in longer steps."""
    times_s = course.times_s
    return float(times_s[1] - times_s[0]) if len(times_s) > 1 else 1.0


def extremes(times: Values, values: Values, most: int = PIXELS) -> tuple[Values, Values]:
    """Return the lowest and the highest point of each of at most ``most`` stretches, in order of time.

    A line through them covers the same pixels as one through all points. NaN is left out, but a stretch of nothing else
    stays a gap.
    """
    if len(values) <= 2 * most:
        return times, values
    length = -(-len(values) // most)
    whole = np.pad(values, (0, -len(values) % length), mode="edge").reshape(-1, length)
    missing = np.isnan(whole)
    starts = length * np.arange(len(whole))
    ends = np.stack([np.where(missing, np.inf, whole).argmin(axis=1), np.where(missing, -np.inf, whole).argmax(axis=1)])
    chosen = np.minimum((starts + np.sort(ends, axis=0)).T.ravel(), len(values) - 1)
    return times[chosen], values[chosen]


def band(times: Values, low: Values, high: Values, most: int = PIXELS) -> tuple[Values, Values, Values]:
    """Return the starts of at most ``most`` stretches, the least of ``low`` and the greatest of ``high`` in each."""
    starts = np.arange(0, len(times), -(-len(times) // most))
    return times[starts], np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)


def averages(times: Values, values: Values, most: int = PIXELS) -> tuple[Values, Values]:
    """Return the starts of at most ``most`` stretches and their means: for what is noise around a level."""
    starts = np.arange(0, len(times), -(-len(times) // most))
    lengths = np.diff(np.append(starts, len(values)))
    return times[starts], np.add.reduceat(values, starts) / lengths


def over_seeds(courses: Sequence[Course], name: str) -> tuple[Values, Values, Values]:
    """Return mean, least and greatest of a column over courses, row by row, as long as the shortest of them."""
    rows = min(len(course.times_s) for course in courses)
    stacked = np.stack([course.columns()[name][:rows] for course in courses])
    return stacked.mean(axis=0), stacked.min(axis=0), stacked.max(axis=0)


def latency_cdf(courses: Sequence[Course], most: int = PIXELS) -> tuple[Values, Values]:
    """Return latencies in ms, rising, and the share of all records up to each; every record of every seed counts once.

    Latencies that fall onto one pixel of a logarithmic axis become one point, the greatest of them.
    """
    latency_ms = np.concatenate([course.latency_p95_ms for course in courses])
    weights = np.concatenate([course.throughput_per_s for course in courses])
    counted = np.isfinite(latency_ms) & (latency_ms > 0) & (weights > 0)
    if not counted.any():
        return np.empty(0), np.empty(0)
    order = np.argsort(latency_ms[counted])
    rising_ms, share = latency_ms[counted][order], np.cumsum(weights[counted][order])
    decades = np.log10(rising_ms)
    pixel = np.floor((decades - decades[0]) / max(decades[-1] - decades[0], 1e-9) * most)
    last = np.append(np.flatnonzero(np.diff(pixel)), len(pixel) - 1)
    return rising_ms[last], share[last] / share[-1]
