"""The least worker-seconds of any plan that knows the whole trace and the true capacities.

Belongs here: what such a plan must hold, and what it comes to. How it is found is in
:mod:`perdix.replay.clairvoyant.programme`.

A plan holds the same objectives as a policy:

* It changes its scale-out at decision instants only, every ``decision_interval_s``; the start is free. A rescale stops
  the job for its downtime, in which the old workers are paid, and no other begins meanwhile.
* What waits follows ``b_t = max(0, b_{t-1} + arrivals_t - capacity_t)``, with capacity 0 during a downtime.
* A recovery begins with a rescale and is over when nothing waits any more, at most ``recovery_time_s`` later. A rescale
  within a recovery belongs to it: the time is not counted anew.
* Outside recoveries, no more waits than the scale-out works off in ``latency_p95_ms``.
* At every decision instant, the scale-out that is decided on, kept or new, would recover from a failure then within
  ``recovery_time_s``: it stands still for the failure's downtime and does a whole checkpoint interval again.
* At the end of the trace nothing waits. Nothing arrives thereafter.

Within these rules the result is exact. Where a rule could be read in two ways it is the laxer one, so that no plan
under the same physics that holds the objectives is cheaper:

* A rescale repeats no work, as if it always met a checkpoint; there is no warm-up.
* The latency objective is all for waiting: nothing of it goes to the job's own latency.
* A recovery in which nothing waits for a moment may be declared over at that moment or at a later one like it.
* A failure meets a job that has caught up and is not being rescaled.
* Rescales are not limited in number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perdix.replay.clairvoyant.physics import Physics, checked_arrivals, physics_of
from perdix.replay.clairvoyant.programme import Labels, Programme
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.window import Values

__all__ = ["Clairvoyant", "Impossible", "Physics", "clairvoyant", "physics_of"]

DECISION_INTERVAL_S = 60


@dataclass(frozen=True)
class Clairvoyant:
    """A cheapest plan."""

    worker_s: float  # worker-seconds
    scale_outs: Values  # workers paid in each second, the old number until a restart is over; shape ``(seconds,)``
    changes: tuple[tuple[int, int], ...]  # ``(second, scale-out asked for)`` of each rescale, in order
    # Decision instants at which no failure was allowed for because no scale-out could have recovered from it
    unguarded: int = 0

    @property
    def rescales(self) -> int:
        """How often the scale-out is changed."""
        return len(self.changes)

    @property
    def average_workers(self) -> float:
        """Workers on average over the trace."""
        return self.worker_s / len(self.scale_outs)


@dataclass(frozen=True)
class Impossible:
    """No plan holds the objectives."""

    at_s: int  # second of the trace that no plan gets past
    why: str  # one sentence


def clairvoyant(
    arrivals_per_s: Values,
    physics: Physics,
    objectives: Objectives,
    bounds: Bounds,
    *,
    decision_interval_s: int = DECISION_INTERVAL_S,
    guard_where_possible: bool = False,
) -> Clairvoyant | Impossible:
    """Return a cheapest plan for a trace; what it must hold is written at the top of this module.

    Raises ``ValueError`` when the trace has seconds that are not finite or negative, a capacity within the bounds is
    not known, or the decision interval is not a whole number of seconds above 0.

    ``arrivals_per_s``: records that arrive in each second, shape ``(seconds,)``.
    ``guard_where_possible``: where no scale-out within the bounds would recover from a failure in time, do not ask for
    it, in place of finding the trace impossible: a peak at 95 % of the greatest capacity leaves too little to catch up
    with.
    """
    if decision_interval_s < 1 or decision_interval_s != int(decision_interval_s):
        raise ValueError(f"decisions are a whole number of seconds apart, at least 1, found {decision_interval_s}")
    arrivals = checked_arrivals(arrivals_per_s)
    programme = Programme.of(arrivals, physics, objectives, bounds, interval_s=int(decision_interval_s))
    unguarded = np.logical_not(programme.guarded.any(axis=1))
    if guard_where_possible:
        programme = replace(programme, guarded=programme.guarded | unguarded[:, None])
    found = programme.run()
    if len(found[-1]):
        return _plan(programme, found, int(np.count_nonzero(unguarded)))
    last = max(instant for instant, labels in enumerate(found) if len(labels))
    if not guard_where_possible and unguarded[: last + 1].any():
        at_s = int(np.argmax(unguarded)) * programme.interval_s
        return Impossible(
            at_s,
            f"no scale-out from {bounds.minimum} to {bounds.maximum} would recover from a failure in second {at_s} "
            f"within {objectives.recovery_time_s:.0f} s, of which the job stands still for {physics.failure_s} s",
        )
    at_s = last * programme.interval_s
    return Impossible(at_s, _no_progress(at_s, arrivals[at_s:][: programme.interval_s], physics, objectives, bounds))


def _plan(programme: Programme, found: Sequence[Labels], unguarded: int) -> Clairvoyant:
    """Follow the cheapest label back to the start."""
    interval_s, instant = programme.interval_s, len(found) - 1
    row = int(np.argmin(found[-1].cost))
    worker_s = float(found[-1].cost[row])
    scale_outs = np.empty(programme.seconds)
    changes: list[tuple[int, int]] = []
    while instant > 0:
        labels = found[instant]
        before, row_before = int(labels.from_instant[row]), int(labels.from_row[row])
        old, new = found[before].scale_out[row_before], labels.scale_out[row]
        began_s, until_s = before * interval_s, instant * interval_s
        scale_outs[began_s:until_s] = programme.workers[new]
        if old != new:
            down_s = (programme.out if new > old else programme.in_).down_s
            scale_outs[began_s : min(began_s + down_s, until_s)] = programme.workers[old]
            changes.append((began_s, int(programme.workers[new])))
        instant, row = before, row_before
    return Clairvoyant(worker_s, scale_outs, tuple(reversed(changes)), unguarded)


def _no_progress(at_s: int, arrivals: Values, physics: Physics, objectives: Objectives, bounds: Bounds) -> str:
    load, strongest = float(arrivals.mean()), float(physics.capacities(bounds).max())
    if load > strongest:
        return f"{load:,.0f} records/s arrive from second {at_s} on; at most {strongest:,.0f} can be processed"
    within_s = f"{objectives.recovery_time_s:.0f} s"
    return (
        f"from second {at_s} on ({load:,.0f} records/s; at most {strongest:,.0f} can be processed), what waits is not "
        f"gone within {within_s} of a rescale, waits too long without one, or is left at the end"
    )
