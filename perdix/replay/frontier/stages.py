"""What a stage does to a backlog, and which of its seconds are late: worked out once, for every price.

A stage lasts from one decision instant to the next, or as long as a restart and its warm-up. Within it the scale-out is
fixed, so by Lindley's recursion the backlog after ``s`` seconds of one that began at ``b`` is
``max(empty_s, b + surplus_s)`` (as in :mod:`perdix.replay.clairvoyant.stretches`). A second is late once more waits
before it than some number of records: then the oldest has waited too long, or the utilisation is so high that the job's
own latency is above the objective. So each second is late from one ``b`` on, and no backlog is rounded to a grid.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdix.replay.frontier.known import Known
from perdix.telemetry.window import Values
from perdix.twin import physics


@dataclass(frozen=True)
class Stages:
    """One stage from each decision instant on, at each scale-out.

    ``instants``: decision instants that each takes.
    ``down_s``, ``seconds``: what it stands still, and its length within the trace: shape ``(instants,)``.
    ``late_above``: backlog at its beginning above which each second is late, shape ``(instants, sizes, length)``;
    infinite after the end of the trace.
    ``empty``, ``surplus``: what waits at the end is ``max(empty, before + surplus)``; shape ``(instants, sizes)``,
    records.
    """

    instants: int
    down_s: NDArray[np.int64]
    seconds: NDArray[np.int64]
    late_above: Values
    empty: Values
    surplus: Values

    def late_s(self, instant: int | slice, backlogs: Values) -> NDArray[np.int64]:
        """Return the seconds that are late from a backlog on: per instant, size and backlog where it is a slice."""
        above = self.late_above[instant]
        return np.stack([np.count_nonzero(above < backlog, axis=-1) for backlog in backlogs], axis=-1)

    def left(self, instant: int | slice, backlogs: Values) -> Values:
        """Return what waits at the end, of the shape of :meth:`late_s`."""
        return np.maximum(self.empty[instant][..., None], backlogs + self.surplus[instant][..., None])


def staying(known: Known, interval_s: int) -> Stages:
    """Return the stages in which the scale-out stays."""
    return _stages(known, interval_s, down_s=0, restarted=False)


def moving(known: Known, interval_s: int, *, out: bool) -> Stages:
    """Return the stages that begin with a rescale ``out`` or in; sizes are those that it goes to."""
    return _stages(known, interval_s, down_s=known.physics.out_s if out else known.physics.in_s, restarted=True)


def _stages(known: Known, interval_s: int, *, down_s: int, restarted: bool) -> Stages:
    instants = -(-known.seconds // interval_s)
    taken = max(-(-(down_s + known.restart.warm_up_s) // interval_s), 1) if restarted else 1
    began_s = np.arange(instants) * interval_s
    second = np.arange(taken * interval_s)
    at_s = began_s[:, None] + second
    passing = at_s < known.seconds
    at_s = np.minimum(at_s, known.seconds - 1)
    speed = known.speed[at_s] * passing
    if restarted:
        speed = speed * np.where(second < down_s, 0.0, known.warm_up(np.maximum(second - down_s, 0.0)))
    arriving, again = known.arrivals[at_s] * passing, known.again[at_s] * passing
    lost = np.zeros(instants)
    if restarted:
        lost = known.arrived(began_s) - known.arrived(began_s - known.replayed_s)
    shape = (instants, len(known.workers), len(second))
    late_above, empty, surplus = np.empty(shape), np.empty(shape[:2]), np.empty(shape[:2])
    for size, (workers, per_s) in enumerate(zip(known.workers, known.per_s, strict=True)):
        capacity = known.least_records * np.floor(per_s * speed / known.least_records)
        allowed = np.where(passing, _allowed(known, at_s, arriving, capacity, int(workers)) - again, np.inf)
        running = np.cumsum(arriving + again - capacity, axis=1)
        before = np.concatenate((np.zeros((instants, 1)), running[:, :-1]), axis=1)
        least = np.minimum(np.minimum.accumulate(before, axis=1), 0.0)
        late_above[:, size] = np.where(before - least > allowed, -np.inf, allowed - before - lost[:, None])
        empty[:, size] = running[:, -1] - np.minimum(least[:, -1], running[:, -1])
        surplus[:, size] = running[:, -1] + lost
    seconds = passing.sum(axis=1)
    return Stages(taken, np.minimum(down_s, seconds), seconds, late_above, empty, surplus)


def _allowed(known: Known, at_s: NDArray[np.int64], arriving: Values, capacity: Values, workers: int) -> Values:
    """Return how much may wait before each second that is not to be late; all of the shape of ``at_s``."""
    latency, noise, objective_ms = known.latency, known.noise[at_s], known.objectives.latency_p95_ms

    def own_ms(per_s: Values, factor: Values | float) -> Values:
        filling = physics.fill_ms(per_s / workers, latency.fill_records, latency.fill_at_most_ms)
        return np.asarray((latency.base_ms * factor + filling) * noise)

    full = float(physics.queueing_factor(np.ones(1), latency.queueing)[0])
    waits_s = np.maximum(objective_ms - own_ms(capacity, full), 0.0) / 1_000.0
    finished_s = at_s + physics.EARLIEST_SHARE
    waiting = known.arrived(at_s) + physics.EARLIEST_SHARE * capacity - known.arrived(finished_s - waits_s)
    # Of the utilisation that is late by itself: base (1 + q) + filling, times the noise, is the objective.
    spare = (objective_ms / noise - own_ms(arriving, 0.0) / noise) / latency.base_ms - 1.0
    ratio = np.maximum(spare, 0.0) / latency.queueing if latency.queueing > 0 else np.where(spare > 0, np.inf, 0.0)
    highest = np.where(np.isfinite(ratio), ratio / (1.0 + np.minimum(ratio, 1e12)), 1.0)
    # Where a full second is late by itself, one in which more has waited is as well.
    running = np.where(highest < physics.SATURATED, highest * capacity - arriving, waiting)
    return np.where(capacity > 0, running, -arriving)
