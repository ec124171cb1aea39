"""The dynamic programme: every plan that holds the objectives, from decision instant to decision instant."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from perdix.replay.clairvoyant.physics import Physics
from perdix.replay.clairvoyant.stretches import Stretches, guarded, hopeful_at_most, stretches
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.window import Values

Whole = NDArray[np.int64]
CALM = -1  # recovering from nothing: the latency objective is in force


@dataclass(frozen=True)
class Labels:
    """Beginnings of plans that have come to the same decision instant, one per row of every array."""

    cost: Whole  # worker-seconds so far
    backlog: Values  # records that wait
    scale_out: Whole  # index of the scale-out that runs
    since: Whole  # decision instant of the first rescale that has not been recovered from; ``CALM`` without one
    # from_instant, from_row: the label that this one goes on from; ``from_row`` is -1 at the start
    from_instant: Whole
    from_row: Whole

    @classmethod
    def start(cls, scale_outs: int) -> Self:
        """Return a plan for every scale-out: caught up, and at no cost yet."""
        none, unknown = np.zeros(scale_outs, dtype=np.int64), np.full(scale_outs, -1)
        return cls(none, np.zeros(scale_outs), np.arange(scale_outs), np.full(scale_outs, CALM), none, unknown)

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Return all labels of some parts."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __len__(self) -> int:
        return len(self.cost)

    def take(self, rows: Whole | NDArray[np.bool_]) -> Self:
        """Return some of the labels."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def undominated(self) -> Self:
        """Return the labels that no other makes needless.

        A label is needless beside one at the same scale-out that costs no more, has no more waiting, and no less time
        for it: whatever the first goes on to do, the second can do as well. Recovering and calm labels do not compare:
        the one may let more wait, the other has nothing to finish.
        """
        best = self.take(_least_waiting(self.scale_out, self.since, self.cost, self.backlog))
        needless = np.zeros(len(best), dtype=np.bool_)
        for scale_out in np.unique(best.scale_out):
            rows = np.flatnonzero((best.scale_out == scale_out) & (best.since != CALM))
            cost, backlog, since = best.cost[rows], best.backlog[rows], best.since[rows]
            later = since[:, None] > since  # of one instant, only the best are left
            needless[rows] = np.any(later & (cost[:, None] <= cost) & (backlog[:, None] <= backlog), axis=0)
        return best.take(~needless)


def _least_waiting(scale_out: Whole, since: Whole, cost: Whole, backlog: Values) -> Whole:
    """Return the rows that, among those of their scale-out and instant, none undercuts in cost and backlog."""
    group = scale_out * (int(since.max(initial=0)) + 2) + since - CALM
    order = np.lexsort((backlog, cost, group))
    number = np.cumsum(np.diff(group[order], prepend=group[order][:1]) != 0)
    waiting = np.unique(backlog, return_inverse=True)[1][order]
    # Ranks that fall from group to group by more than any of them: one running minimum serves all groups.
    rank = waiting - number * (len(order) + 1)
    before = np.concatenate(([len(order) + 1], np.minimum.accumulate(rank)[:-1]))
    return np.asarray(order[rank < before])


@dataclass(frozen=True)
class Programme:
    """All that can be said about a trace before any plan is made."""

    # seconds, interval_s, instants: length of the trace, seconds between decisions, and how many there are
    seconds: int
    interval_s: int
    instants: int
    workers: Whole  # every scale-out within the bounds, smallest first
    guarded: NDArray[np.bool_]  # where a scale-out may be decided on, shape ``(instants, scale_outs)``
    # staying, out, in_: what a stretch does without a rescale, and after one; their limits go by a recovery's age in
    # instants
    staying: Stretches
    out: Stretches
    in_: Stretches
    hopeful_at_most: Values  # the backlog above which a recovery is hopeless, by its age, instant and scale-out

    @classmethod
    def of(cls, arrivals: Values, physics: Physics, objectives: Objectives, bounds: Bounds, *, interval_s: int) -> Self:
        """Prepare a programme for a trace of records in each second."""
        capacities = physics.capacities(bounds)
        recovery_s = int(objectives.recovery_time_s)
        limits_s = range(recovery_s, 0, -interval_s)  # seconds left, by the recovery's age in instants

        def stretch(down_s: int) -> Stretches:
            seconds = max(-(-down_s // interval_s), 1) * interval_s
            return stretches(
                arrivals,
                capacities,
                capacities * objectives.latency_p95_ms / 1_000.0,
                interval_s=interval_s,
                seconds=seconds,
                down_s=down_s,
                limits_s=[min(limit_s, seconds) for limit_s in limits_s],
            )

        return cls(
            seconds=len(arrivals),
            interval_s=interval_s,
            instants=-(-len(arrivals) // interval_s),
            workers=np.arange(bounds.minimum, bounds.maximum + 1),
            guarded=guarded(
                arrivals,
                capacities,
                interval_s=interval_s,
                failure_s=physics.failure_s,
                replay_s=physics.checkpoint_interval_s,
                within_s=recovery_s,
            ),
            staying=stretch(0),
            out=stretch(physics.out_s),
            in_=stretch(physics.in_s),
            hopeful_at_most=hopeful_at_most(
                arrivals,
                capacities,
                interval_s=interval_s,
                least_down_s=min(physics.out_s, physics.in_s),
                limits_s=limits_s,
            ),
        )

    def run(self) -> list[Labels]:
        """Return the labels of every instant and, last, of the end; none where no plan has come so far.

        Those of the end are calm, with nothing waiting.
        """
        arriving: list[list[Labels]] = [[Labels.start(0)] for _ in range(self.instants + 1)]
        arriving[0].append(Labels.start(len(self.workers)))
        found: list[Labels] = []
        for instant, parts in enumerate(arriving):
            here = Labels.together(parts).undominated()
            parts.clear()
            if instant == self.instants:
                here = here.take((here.since == CALM) & (here.backlog == 0.0))
            else:
                for reached, labels in self._onwards(instant, here):
                    arriving[reached].append(labels)
            found.append(here)
        return found

    def _onwards(self, instant: int, here: Labels) -> Iterator[tuple[int, Labels]]:
        """Yield what becomes of the labels of an instant, and when."""
        higher, may = np.arange(len(self.workers)) - here.scale_out[:, None], self.guarded[instant]
        yield from self._pass(instant, here, np.nonzero((higher == 0) & may), self.staying)
        if instant > 0:  # the start is free, so there is nothing to change yet
            yield from self._pass(instant, here, np.nonzero((higher > 0) & may), self.out)
            yield from self._pass(instant, here, np.nonzero((higher < 0) & may), self.in_)

    def _pass(
        self, instant: int, here: Labels, pairs: tuple[Whole, ...], stretch: Stretches
    ) -> Iterator[tuple[int, Labels]]:
        """Let a stretch pass for some labels: ``pairs`` holds their rows, and the scale-out that each goes on at."""
        row, to = pairs
        reached = min(instant + stretch.seconds // self.interval_s, self.instants)
        passed_s = min(stretch.seconds, self.seconds - instant * self.interval_s)
        down_s = min(stretch.down_s, passed_s)
        backlog, since = here.backlog[row], here.since[row]
        # While a rescale is under way, the old workers are paid.
        cost = here.cost[row] + self.workers[here.scale_out[row]] * down_s + self.workers[to] * (passed_s - down_s)
        empty = stretch.empty[instant, to]
        after = np.maximum(empty, backlog + stretch.surplus[instant, to])

        def labels(which: NDArray[np.bool_], waiting: Values, state: Whole) -> tuple[int, Labels]:
            origin = np.full(np.count_nonzero(which), instant)
            return reached, Labels(cost[which], waiting[which], to[which], state[which], origin, row[which])

        calm = np.full(len(row), CALM)
        if stretch is self.staying:
            yield labels((since == CALM) & (backlog <= stretch.calm_at_most[instant, to]), after, calm)
        else:
            since = np.where(since == CALM, instant, since)
        if len(self.hopeful_at_most) == 0:
            return  # there is no time to recover in
        recovering = since != CALM
        age = np.where(recovering, instant - since, 0)
        yield labels(recovering & (backlog <= stretch.gone_at_most[age, instant, to]), empty, calm)
        older = age + reached - instant
        lasting = recovering & (older < len(self.hopeful_at_most))
        lasting[lasting] = after[lasting] <= self.hopeful_at_most[older[lasting], reached, to[lasting]]
        yield labels(lasting, after, since)
