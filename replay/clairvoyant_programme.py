"""The dynamic programme: every plan that holds the objectives, from decision instant to decision instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from replay.clairvoyant_labels import CALM, Labels, Whole
from replay.clairvoyant_physics import Physics, Values
from replay.clairvoyant_stretches import NEVER, Stretches, hopeful_at_most, recovered_at_most, replayed, stretches
from settings.stream_job import Bounds, Objectives


@dataclass(frozen=True)
class Rules:
    """What a plan must hold, and when it may decide.

    Attributes
    ----------
    guard_where_possible, recover_in_place
        As :func:`replay.clairvoyant.clairvoyant` says.
    """

    objectives: Objectives
    bounds: Bounds
    interval_s: int
    guard_where_possible: bool
    recover_in_place: bool

    @property
    def recovery_s(self) -> int:
        """Whole seconds that a recovery may take."""
        return int(self.objectives.recovery_time_s)


@dataclass(frozen=True)
class Programme:
    """All that can be said about a trace before any plan is made.

    Attributes
    ----------
    seconds, interval_s, instants
        Length of the trace, seconds between decisions, and how many there are.
    workers
        Every scale-out within the bounds, smallest first.
    staying, out, in_
        What a stretch does without a rescale, and after one; their limits go by a recovery's age in instants.
    hopeful_at_most
        The backlog above which a recovery is hopeless, by its age, instant and scale-out.
    unguarded
        Decision instants at which no scale-out would recover from a failure in time.
    """

    seconds: int
    interval_s: int
    instants: int
    workers: Whole
    staying: Stretches
    out: Stretches
    in_: Stretches
    hopeful_at_most: Values
    unguarded: NDArray[np.intp]

    @classmethod
    def of(cls, arrivals: Values, physics: Physics, rules: Rules) -> Self:
        """Prepare a programme for a trace of records in each second."""
        interval_s, recovery_s = rules.interval_s, rules.recovery_s
        capacities = physics.capacities(rules.bounds)
        limits_s = range(recovery_s, 0, -interval_s)  # seconds left, by the recovery's age in instants

        def alone(down_s: int) -> Values:
            return recovered_at_most(arrivals, capacities, interval_s=interval_s, down_s=down_s, within_s=recovery_s)

        def stretch(down_s: int, entered_at_most: Values) -> Stretches:
            seconds = max(-(-down_s // interval_s), 1) * interval_s
            return stretches(
                arrivals,
                capacities,
                capacities * rules.objectives.latency_p95_ms / 1_000.0,
                entered_at_most,
                interval_s=interval_s,
                seconds=seconds,
                down_s=down_s,
                limits_s=[min(limit_s, seconds) for limit_s in limits_s],
            )

        def rescaled(down_s: int) -> Stretches:
            recovered = alone(down_s)
            return stretch(down_s, recovered if rules.recover_in_place else np.full(recovered.shape, np.inf))

        again = replayed(arrivals, interval_s=interval_s, checkpoint_interval_s=physics.checkpoint_interval_s)
        guarded = alone(physics.failure_s) >= again[:, None]
        hopeless = np.logical_not(guarded.any(axis=1))
        may_stay = guarded | hopeless[:, None] if rules.guard_where_possible else guarded
        return cls(
            seconds=len(arrivals),
            interval_s=interval_s,
            instants=len(guarded),
            workers=np.arange(rules.bounds.minimum, rules.bounds.maximum + 1),
            staying=stretch(0, np.where(may_stay, np.inf, NEVER)),
            out=rescaled(physics.out_s),
            in_=rescaled(physics.in_s),
            hopeful_at_most=hopeful_at_most(
                arrivals,
                capacities,
                interval_s=interval_s,
                least_down_s=min(physics.out_s, physics.in_s),
                limits_s=limits_s,
            ),
            unguarded=np.flatnonzero(hopeless),
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
        higher = np.arange(len(self.workers)) - here.scale_out[:, None]
        yield from self._pass(instant, here, np.nonzero(higher == 0), self.staying)
        if instant > 0:  # the start is free, so there is nothing to change yet
            yield from self._pass(instant, here, np.nonzero(higher > 0), self.out)
            yield from self._pass(instant, here, np.nonzero(higher < 0), self.in_)

    def _pass(
        self, instant: int, here: Labels, pairs: tuple[Whole, ...], stretch: Stretches
    ) -> Iterator[tuple[int, Labels]]:
        """Let a stretch pass for some labels: ``pairs`` holds their rows, and the scale-out that each goes on at."""
        may = here.backlog[pairs[0]] <= stretch.entered_at_most[instant, pairs[1]]
        row, to = (one[may] for one in pairs)
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
