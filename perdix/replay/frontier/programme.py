"""The cheapest plan at a price of a late second: a dynamic programme over scale-out and backlog, backwards in time.

What a plan costs is its worker-seconds and each late second at its price. The costs to go are kept on a grid of
backlogs and read off it linearly; the plan itself is then followed with the backlog as it is, so that what is said of
it holds exactly under what is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdix.replay.frontier.known import Known
from perdix.replay.frontier.stages import Stages, moving, staying
from perdix.telemetry.window import Values

LEVELS = 64  # points of the grid, close together near zero
SHARE_WAITING = 0.1  # of the trace's length: how long the greatest capacity would work on the most that may wait
DEAREST = 1e4  # worker-seconds per second of work that is more than may wait
AT_ONCE = 60  # instants whose late seconds are counted together


@dataclass(frozen=True)
class Plan:
    """One plan, and what it comes to."""

    worker_s: int  # worker-seconds within the trace
    late_s: int  # seconds that are late
    first: int  # workers at the start
    changes: tuple[tuple[int, int], ...]  # ``(second, scale-out asked for)`` of each rescale, in order


@dataclass(frozen=True)
class _Move:
    """Staying, or going to a size from a smaller or larger one; shape ``(instants, sizes, LEVELS)``."""

    stages: Stages
    late_s: Values
    below: NDArray[np.int64]
    share: Values
    more: Values

    @classmethod
    def of(cls, stages: Stages, grid: Values, per_s: Values) -> _Move:
        pieces = [slice(at, at + AT_ONCE) for at in range(0, len(stages.seconds), AT_ONCE)]
        late_s = np.concatenate([stages.late_s(piece, grid) for piece in pieces]).astype(np.float64)
        return cls(stages, late_s, *_places(grid, stages.left(slice(None), grid), per_s[:, None]))

    def later(self, instant: int, values: Values) -> Values:
        """Return what follows, of the grid's costs to go when the stage is over."""
        return _between(values, self.below[instant], self.share[instant], self.more[instant])


@dataclass(frozen=True)
class Programme:
    """All plans over a trace, before there is any price."""

    known: Known
    interval_s: int
    grid: Values
    stay: _Move
    out: _Move
    in_: _Move

    @classmethod
    def of(cls, known: Known, *, interval_s: int) -> Programme:
        """Prepare the programme: the larger part of the work."""
        most_s = max(SHARE_WAITING * known.seconds, known.objectives.recovery_time_s)
        grid = most_s * float(known.per_s.max()) * np.linspace(0.0, 1.0, LEVELS) ** 3
        stay, out, in_ = (
            _Move.of(stages, grid, known.per_s)
            for stages in (
                staying(known, interval_s),
                moving(known, interval_s, out=True),
                moving(known, interval_s, out=False),
            )
        )
        return cls(known, interval_s, grid, stay, out, in_)

    def plan(self, price: float) -> Plan:
        """Return the cheapest plan at a price of a late second, in worker-seconds."""
        return self._follow(price, self._costs_to_go(price))

    def _costs_to_go(self, price: float) -> list[Values]:
        """Return the least cost from each instant on, and after the end, each of shape ``(sizes, LEVELS)``."""
        instants = len(self.stay.stages.seconds)
        found = [self._after(price)] * (instants + 1)
        for instant in range(instants - 1, -1, -1):
            stay, out, in_ = (
                price * move.late_s[instant]
                + self._paid(move, instant)[:, None]
                + move.later(instant, found[min(instant + move.stages.instants, instants)])
                for move in (self.stay, self.out, self.in_)
            )
            best = stay.copy()
            larger = np.minimum.accumulate(out[::-1], axis=0)[::-1][1:]
            smaller = np.minimum.accumulate(in_, axis=0)[:-1]
            best[:-1] = np.minimum(best[:-1], larger + self._down(self.out, instant)[:-1, None])
            best[1:] = np.minimum(best[1:], smaller + self._down(self.in_, instant)[1:, None])
            found[instant] = best
        return found

    def _follow(self, price: float, to_go: list[Values]) -> Plan:
        """Return the plan that the costs to go lead to, its backlog followed exactly."""
        instants, workers = len(self.stay.stages.seconds), self.known.workers
        here, backlog, instant = int(self._totals(self.stay, 0, 0.0, price, to_go).argmin()), 0.0, 0
        first, worker_s, late_s, changes = int(workers[here]), 0, 0, []
        while instant < instants:
            stay = self._totals(self.stay, instant, backlog, price, to_go)[here]
            options = [(float(stay), here, self.stay)]
            for move, sizes in ((self.out, range(here + 1, len(workers))), (self.in_, range(here))):
                if instant > 0 and sizes:  # the start is free
                    totals = self._totals(move, instant, backlog, price, to_go) + self._down(move, instant)[here]
                    to = min(sizes, key=totals.__getitem__)
                    options.append((float(totals[to]), to, move))
            _, to, move = min(options, key=lambda option: option[0])
            worker_s += int(self._paid(move, instant)[to])
            if move is not self.stay:
                worker_s += int(self._down(move, instant)[here])
                changes.append((instant * self.interval_s, int(workers[to])))
            waits = np.array([backlog])
            late_s += int(move.stages.late_s(instant, waits)[to, 0])
            backlog = float(move.stages.left(instant, waits)[to, 0])
            here, instant = to, instant + move.stages.instants
        return Plan(worker_s, late_s, first, tuple(changes))

    def _totals(self, move: _Move, instant: int, backlog: float, price: float, to_go: list[Values]) -> Values:
        """Return what a move to each size costs with all that follows, shape ``(sizes,)``."""
        waits = np.array([backlog])
        after = to_go[min(instant + move.stages.instants, len(to_go) - 1)]
        left = move.stages.left(instant, waits)
        follows = _between(after, *_places(self.grid, left, self.known.per_s[:, None]))
        return np.asarray(self._paid(move, instant) + (price * move.stages.late_s(instant, waits) + follows)[:, 0])

    def _paid(self, move: _Move, instant: int) -> NDArray[np.int64]:
        """Return the worker-seconds of the sizes that a stage goes to, once they run."""
        return np.asarray(self.known.workers * (move.stages.seconds[instant] - move.stages.down_s[instant]))

    def _down(self, move: _Move, instant: int) -> NDArray[np.int64]:
        """Return the worker-seconds of the sizes that a stage comes from: they are paid until the job runs again."""
        return np.asarray(self.known.workers * move.stages.down_s[instant])

    def _after(self, price: float) -> Values:
        """Return what the work that is left at the end costs: it is done by what runs then, late, in limited time."""
        over_s = self.grid[None, :] / self.known.per_s[:, None]
        late = np.maximum(over_s - self.known.objectives.recovery_time_s, 0.0)
        return np.asarray(over_s * (self.known.workers[:, None] + price) + DEAREST * late)


def _places(grid: Values, backlogs: Values, per_s: Values) -> tuple[NDArray[np.int64], Values, Values]:
    """Return the point of the grid below each backlog, the share of the way to the next, and the cost beyond it."""
    place = (LEVELS - 1) * np.cbrt(np.minimum(backlogs / grid[-1], 1.0))
    below = np.minimum(place.astype(np.int64), LEVELS - 2)
    share = np.clip((backlogs - grid[below]) / (grid[below + 1] - grid[below]), 0.0, 1.0)
    return below, share, DEAREST * np.maximum(backlogs - grid[-1], 0.0) / per_s


def _between(values: Values, below: NDArray[np.int64], share: Values, more: Values) -> Values:
    """Return the grid's values of shape ``(sizes, LEVELS)`` at places of shape ``(sizes, n)``, linearly between."""
    rows = np.arange(len(values))[:, None]
    return np.asarray(values[rows, below] * (1.0 - share) + values[rows, below + 1] * share + more)
