"""What a stretch of the trace does to a backlog, worked out once for every decision instant and scale-out.

Within a stretch the scale-out is fixed, so by Lindley's recursion the backlog after ``s`` seconds of one that began at
``b`` is ``max(empty_s, b + surplus_s)``, with ``surplus`` the running sum of arrivals less capacity and ``empty`` the
course of a job that began with none. Whether ``b`` is allowed is then a question of thresholds, and no backlog ever
has to be rounded to a grid.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from perdix.telemetry.window import Values

NEVER = -1.0  # a threshold that no backlog meets


@dataclass(frozen=True)
class Stretches:
    """One stretch from each decision instant on, at each scale-out."""

    seconds: int  # length of a stretch, and ``down_s`` of it in which the job stands still at first
    down_s: int
    # empty, surplus: backlog at the end is ``max(empty, before + surplus)``; shape ``(instants, scale_outs)``, records
    empty: Values
    surplus: Values
    calm_at_most: Values  # largest backlog before that keeps the latency objective throughout; same shape
    # Largest backlog before that is gone within a limit, and keeps the latency objective from there to the end; shape
    # ``(limits, instants, scale_outs)``. What is left at the end is then ``empty``
    gone_at_most: Values


def stretches(
    arrivals: Values,
    capacities: Values,
    allowed: Values,
    *,
    interval_s: int,
    seconds: int,
    down_s: int,
    limits_s: Sequence[int],
) -> Stretches:
    """Work out every stretch of ``seconds`` seconds that begins at a multiple of ``interval_s``.

    ``arrivals``: records in each second, shape ``(n,)``. After the end of the trace time stands still: nothing arrives
    and nothing is processed.
    ``capacities``, ``allowed``: records/s, and the records that may wait while the latency objective holds, by
    scale-out.
    ``down_s``: the job stands still so long at the start of each stretch.
    ``limits_s``: within how many seconds from the start the backlog may have to be gone. It counts as gone only once
    the job runs again.
    """
    instants = -(-len(arrivals) // interval_s)
    padding = (instants - 1) * interval_s + seconds - len(arrivals)
    windows = sliding_window_view(np.pad(arrivals, (0, padding)), seconds)[::interval_s][:instants]
    second = np.arange(seconds)
    passing = (np.arange(instants) * interval_s)[:, None] + second < len(arrivals)
    shape = (instants, len(capacities))
    empty_at_end, surplus_at_end, calm_at_most = np.empty((3, *shape))
    gone_at_most = np.empty((len(limits_s), *shape))
    for index, (capacity, most) in enumerate(zip(capacities, allowed, strict=True)):
        surplus = np.cumsum(windows - capacity * (passing & (second >= down_s)), axis=1)
        empty = surplus - np.minimum(np.minimum.accumulate(surplus, axis=1), 0.0)
        empty_at_end[:, index], surplus_at_end[:, index] = empty[:, -1], surplus[:, -1]
        calm = empty.max(axis=1) <= most
        calm_at_most[:, index] = np.where(calm, most - surplus.max(axis=1), NEVER)
        gone = (empty == 0.0) & passing & (second >= down_s)
        last_above = _last(empty > most)
        for limit_s in set(limits_s):
            # The last second without backlog serves best: most has been worked off by then, least can follow.
            last = _last(gone[:, :limit_s])
            reached = np.where(last > last_above, -surplus[np.arange(instants), np.maximum(last, 0)], NEVER)
            gone_at_most[np.equal(limits_s, limit_s), :, index] = np.where(last >= 0, reached, NEVER)
    return Stretches(seconds, down_s, empty_at_end, surplus_at_end, calm_at_most, gone_at_most)


def guarded(
    arrivals: Values, capacities: Values, *, interval_s: int, failure_s: int, replay_s: int, within_s: int
) -> NDArray[np.bool_]:
    """Return where a failure that finds the job caught up would be recovered from in time.

    From the decision instant on the job stands still for ``failure_s``, does the last ``replay_s`` seconds again and
    has caught up within ``within_s``, at the same scale-out. Nothing arrives after the end of the trace.

    Returns shape ``(instants, scale_outs)``.
    """
    began_s = np.arange(0, len(arrivals), interval_s)
    arrived = _arrived(arrivals)
    again = arrived(began_s) - arrived(began_s - replay_s)
    spare = np.full((len(began_s), len(capacities)), -np.inf)
    for after_s in range(failure_s + 1, within_s + 1):
        meanwhile = arrived(began_s + after_s) - arrived(began_s)
        np.maximum(spare, capacities * (after_s - failure_s) - meanwhile[:, None], out=spare)
    return np.asarray(spare >= again[:, None])


def hopeful_at_most(
    arrivals: Values, capacities: Values, *, interval_s: int, least_down_s: int, limits_s: Sequence[int]
) -> Values:
    """Return a backlog above which nothing can be done: even the greatest capacity is too late.

    Either the scale-out stays, or the job stands still for at least ``least_down_s`` and has the greatest capacity at
    best. This only spares work: it refuses nothing that could be held, so it is a record more than it might be, for
    rounding.

    Returns shape ``(limits, instants + 1, scale_outs)``: within each limit, at each instant and at the end.
    """
    began_s = np.arange(-(-len(arrivals) // interval_s) + 1) * interval_s
    arrived, strongest = _arrived(arrivals), float(capacities.max())
    found = np.full((len(limits_s), len(began_s), len(capacities)), -np.inf)
    most = np.full(found.shape[1:], -np.inf)
    for after_s in range(1, max(limits_s, default=0) + 1):
        done = np.maximum(capacities * after_s, strongest * (after_s - least_down_s))
        np.maximum(most, done - (arrived(began_s + after_s) - arrived(began_s))[:, None] + 1.0, out=most)
        found[[limit for limit, limit_s in enumerate(limits_s) if limit_s == after_s]] = most
    return found


def _arrived(arrivals: Values) -> Callable[[NDArray[np.int64]], Values]:
    """Return the records that have arrived by some seconds, before the trace and after it too."""
    total = np.concatenate(([0.0], np.cumsum(arrivals)))
    return lambda times_s: total[np.clip(times_s, 0, len(arrivals))]


def _last(true: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the last index that is true in each row; -1 where none is."""
    return np.where(true.any(axis=1), true.shape[1] - 1 - np.argmax(true[:, ::-1], axis=1), -1)
