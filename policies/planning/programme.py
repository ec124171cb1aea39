"""The cheapest plan over scale-out and backlog: a dynamic programme over the stages of a course.

What a plan costs is told in worker-seconds: the workers, each second that is expected to be late at its price, and a
price for each rescale. In each stage the job stays as it is, or it goes to another scale-out: then it stands still,
does again what is lost, and catches up. Backlog is a grid, its costs to go are interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from models.forecasting.contract import Values
from policies.planning.course import STAGE_S, Course
from policies.planning.lateness import Lateness

LEVELS = 16  # points of the grid of backlogs
FOUND_OUT_S = 180.0  # after a rescale, until it is plain that the size takes less than was believed
LONGEST_S = 3_600.0  # after the course: catching up takes that at most
LEAST_SD = 0.02  # of the logarithm of load over capacity: minutes are no seconds


@dataclass(frozen=True)
class Sizes:
    """The scale-outs that a plan may take, ascending; arrays of shape ``(sizes,)``.

    Attributes
    ----------
    workers
        Scale-outs.
    per_s, log_sd
        Their capacity in records/s and the standard deviation of its logarithm from minute to minute.
    doubt
        Standard deviation of the logarithm by which each may turn out to take more or less, once it runs.
    overtaken
        Share of the time in which each was late after minutes like this one, because the load overtook it.
    lateness
        How often the job is late at a utilisation although nothing waits.
    """

    workers: NDArray[np.intp]
    per_s: Values
    log_sd: Values
    doubt: Values
    overtaken: Values
    lateness: Lateness = field(default_factory=Lateness)


@dataclass(frozen=True)
class Prices:
    """What a plan pays, in worker-seconds, and the times that it reckons with.

    Attributes
    ----------
    late
        Of one second that is late.
    rescale
        Of a rescale, beside the lateness that it brings.
    allowed_s
        How long a record may wait before it is late.
    out_s, in_s
        Standstill of a rescale to more and to fewer workers.
    lost_s
        What a restart loses, in seconds of full capacity.
    tail_s
        How long the time after the course counts.
    """

    late: float
    rescale: float
    allowed_s: float
    out_s: float
    in_s: float
    lost_s: float
    tail_s: float


@dataclass(frozen=True)
class Programme:
    """What the first step costs, each followed by the cheapest plan; worker-seconds.

    Attributes
    ----------
    stay, go
        Of staying at each scale-out, and of going to it from what runs, shape ``(sizes,)``; the place of what runs
        itself in ``go`` is infinite.
    keep
        Of each scale-out if it ran and were kept for good, without any rescale, shape ``(sizes,)``.
    late_s
        Seconds that are expected to be late within the course then, shape ``(sizes,)``.
    ahead
        Least cost from the beginning of each later stage on, and after the last; each of shape ``(sizes, LEVELS)``.
    """

    stay: Values
    go: Values
    keep: Values
    late_s: Values
    ahead: tuple[Values, ...]


@dataclass(frozen=True)
class Stage:
    """One stage of a plan.

    Attributes
    ----------
    workers
        Scale-out that runs at its end.
    load_per_s
        What is expected to arrive, records/s.
    late_s
        Seconds that are expected to be late in it.
    cost
        What it costs, worker-seconds.
    """

    workers: int
    load_per_s: float
    late_s: float
    cost: float


def solve(sizes: Sizes, course: Course, prices: Prices, runs: int, backlog: float) -> Programme:
    """Return the costs of each first step.

    Parameters
    ----------
    runs
        Index of what runs among the sizes.
    backlog
        Records that wait now.
    """
    grid = _Grid.of(course, backlog)
    ahead = [_after(sizes, prices, grid, float(course.per_s[-1]))]
    for stage in range(len(course) - 1, 0, -1):
        ahead.append(_stage(_Steps.of(sizes, course, prices, grid.levels, stage), grid, ahead[-1]))
    ahead.reverse()
    first = _Moves.of(_Steps.of(sizes, course, prices, np.array([backlog]), 0), runs)
    stay = first.stayed + grid.at(ahead[0], first.kept)[:, 0]
    go = first.went + grid.at(ahead[0], first.left)[:, 0]
    go[runs] = np.inf
    late_s = _late_if_kept(sizes, course, prices, backlog)
    over_s = len(course) * STAGE_S + prices.tail_s
    keep = sizes.workers * over_s + prices.late * (late_s + prices.tail_s * sizes.overtaken)
    return Programme(stay, go, keep, late_s, tuple(ahead))


def follow(
    sizes: Sizes, course: Course, prices: Prices, found: Programme, *, runs: int, chosen: int, backlog: float
) -> tuple[Stage, ...]:
    """Return the stages of the cheapest plan that begins with ``chosen``, as it is expected to go.

    Parameters
    ----------
    runs, chosen
        Indexes among the sizes: of what runs, and of the first step.
    """
    grid, stages = _Grid.of(course, backlog), []
    for stage, ahead in enumerate(found.ahead):
        steps = _Steps.of(sizes, course, prices, np.array([backlog]), stage)
        moves = _Moves.of(steps, runs)
        if stage:
            stay = float((moves.stayed + grid.at(ahead, moves.kept)[:, 0])[runs])
            go = moves.went + grid.at(ahead, moves.left)[:, 0]
            go[runs] = np.inf
            chosen = int(go.argmin()) if go.min() < stay else runs
        stays = chosen == runs
        cost = float((moves.stayed if stays else moves.went)[chosen])
        paid = STAGE_S * float(sizes.workers[chosen]) + (0.0 if stays else prices.rescale + steps.risk[chosen])
        late_s = (cost - paid) / prices.late if prices.late > 0 else 0.0
        stages.append(Stage(int(sizes.workers[chosen]), float(course.per_s[stage]), late_s, cost))
        backlog, runs = float((moves.kept if stays else moves.left)[chosen, 0]), chosen
    return tuple(stages)


@dataclass(frozen=True)
class _Grid:
    """Backlogs in records, close together near zero, shape ``(LEVELS,)``."""

    levels: Values

    @classmethod
    def of(cls, course: Course, backlog: float) -> _Grid:
        most = max(STAGE_S * float(course.per_s.sum()) + 2.0 * backlog, 1.0)  # nothing at all is processed
        return cls(most * np.linspace(0.0, 1.0, LEVELS) ** 2)

    def at(self, values: Values, backlogs: Values) -> Values:
        """Return values of shape ``(sizes, LEVELS)`` at other backlogs of shape ``(sizes, n)``, linearly between."""
        place = (LEVELS - 1) * np.sqrt(np.minimum(backlogs / self.levels[-1], 1.0))
        below = np.minimum(place.astype(np.intp), LEVELS - 2)
        low, high = self.levels[below], self.levels[below + 1]
        share = np.clip((backlogs - low) / (high - low), 0.0, 1.0)
        rows = np.arange(len(values))[:, None]
        return np.asarray(values[rows, below] * (1.0 - share) + values[rows, below + 1] * share)


@dataclass(frozen=True)
class _Steps:
    """One stage from given backlogs: what staying costs, and what waits then."""

    sizes: Sizes
    prices: Prices
    load: float
    exceeds: Values
    backlogs: Values
    stayed: Values
    kept: Values

    @classmethod
    def of(cls, sizes: Sizes, course: Course, prices: Prices, backlogs: Values, stage: int) -> _Steps:
        load = float(course.per_s[stage])
        exceeds = _exceeds(sizes, load, float(course.log_sd[stage]))
        late_s, kept = _waits(sizes, prices, load, exceeds, np.broadcast_to(backlogs, (len(exceeds), len(backlogs))))
        stayed = sizes.workers[:, None] * STAGE_S + prices.late * late_s
        return cls(sizes, prices, load, exceeds, backlogs, stayed, kept)

    def moved(self, still_s: float) -> tuple[Values, Values]:
        """Return what arriving at each size after such a standstill costs, and what waits then."""
        prices, sizes = self.prices, self.sizes
        lost = np.minimum(sizes.per_s * prices.lost_s, self.load * prices.lost_s * 2.0)[:, None]
        waits = self.backlogs[None, :] + lost + self.load * still_s
        over_s = max(STAGE_S - still_s, 0.0)
        late_s, left = _waits(sizes, prices, self.load, self.exceeds, waits, over_s=over_s)
        late_s = late_s + max(min(still_s, 10.0 * STAGE_S) - min(prices.allowed_s, 0.5 * still_s), 0.0)
        paid = sizes.workers * STAGE_S + prices.rescale + self.risk
        return paid[:, None] + prices.late * late_s, left

    @property
    def risk(self) -> Values:
        """What it may cost that a size takes less than is believed, worker-seconds, shape ``(sizes,)``."""
        return _risk(self.sizes, self.prices, self.load)


@dataclass(frozen=True)
class _Moves:
    """What a stage comes to from one backlog: costs of shape ``(sizes,)``, what waits then of shape ``(sizes, 1)``."""

    stayed: Values
    kept: Values
    went: Values
    left: Values

    @classmethod
    def of(cls, steps: _Steps, runs: int) -> _Moves:
        out, inward = steps.moved(steps.prices.out_s), steps.moved(steps.prices.in_s)
        larger = (steps.sizes.workers > steps.sizes.workers[runs])[:, None]
        went, left = (np.where(larger, *pair) for pair in zip(out, inward, strict=True))
        return cls(steps.stayed[:, 0], steps.kept, went[:, 0], left)


def _exceeds(sizes: Sizes, load: float, log_sd: float) -> Values:
    """Return how often a second is late that does not wait for others, shape ``(sizes,)``.

    Because the load is above the capacity, or the utilisation too high; or because the load overtakes the size.
    """
    if load <= 0:
        return sizes.overtaken
    spread = np.sqrt(sizes.log_sd**2 + log_sd**2 + LEAST_SD**2)
    above = ndtr((np.log(load) - np.log(sizes.per_s)) / spread)
    usual = sizes.lateness.at(load / sizes.per_s)
    return np.asarray(np.maximum(np.maximum(above, usual), sizes.overtaken))


def _risk(sizes: Sizes, prices: Prices, load: float) -> Values:
    """Return what it may cost that a size turns out not to carry the load, and is left again; shape ``(sizes,)``."""
    back = prices.late * (FOUND_OUT_S + prices.out_s + prices.lost_s) + prices.rescale
    with np.errstate(divide="ignore"):
        fails = ndtr((np.log(load) - np.log(sizes.per_s)) / np.maximum(sizes.doubt, LEAST_SD))
    return np.asarray(back * fails)


def _waits(
    sizes: Sizes, prices: Prices, load: float, exceeds: Values, backlogs: Values, *, over_s: float = STAGE_S
) -> tuple[Values, Values]:
    """Return the seconds that are expected to be late, and what waits after ``over_s``; of the backlogs' shape.

    Records are late while more waits than the size works off in the time that is allowed. Apart from that, a minute is
    late as often as its load is above the capacity.
    """
    spare = (sizes.per_s - load)[:, None]
    left = np.maximum(backlogs - spare * over_s, 0.0)
    limit = (sizes.per_s * prices.allowed_s)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        crosses_s = (backlogs - limit) / spare
    falls, over, after = spare > 0, backlogs > limit, left > limit
    waiting_s = np.where(over & after, over_s, 0.0)
    waiting_s = np.where(over & ~after & falls, np.minimum(crosses_s, over_s), waiting_s)
    waiting_s = np.where(~over & after, over_s - np.clip(crosses_s, 0.0, over_s), waiting_s)
    return waiting_s + (over_s - waiting_s) * exceeds[:, None], left


def _stage(steps: _Steps, grid: _Grid, ahead: Values) -> Values:
    """Return the least cost to go from the beginning of a stage, shape ``(sizes, LEVELS)``."""
    prices = steps.prices
    best = steps.stayed + grid.at(ahead, steps.kept)
    cost, left = steps.moved(prices.out_s)
    larger = np.minimum.accumulate((cost + grid.at(ahead, left))[::-1], axis=0)[::-1]
    cost, left = steps.moved(prices.in_s)
    smaller = np.minimum.accumulate(cost + grid.at(ahead, left), axis=0)
    best[:-1] = np.minimum(best[:-1], larger[1:])
    best[1:] = np.minimum(best[1:], smaller[:-1])
    return np.asarray(best)


def _after(sizes: Sizes, prices: Prices, grid: _Grid, load: float) -> Values:
    """Return what the time after the course costs: the workers, what was late like it, and catching up.

    Who ends at a size that is dear then may still go to another. What is not processed then either is work for later:
    it costs the workers that it takes, so that falling behind saves none.
    """
    spare, levels = (sizes.per_s - load)[:, None], grid.levels[None, :]
    behind = np.maximum(levels - (sizes.per_s * prices.allowed_s)[:, None], 0.0)
    late_s = np.minimum(behind / np.maximum(spare, 0.02 * sizes.per_s[:, None]), LONGEST_S)
    late_s = np.where(spare > 0, late_s, prices.tail_s) + (prices.tail_s * sizes.overtaken)[:, None]
    later = np.maximum(levels - spare * prices.tail_s, 0.0) * float((sizes.workers / sizes.per_s).max())
    kept = prices.tail_s * sizes.workers[:, None] + prices.late * late_s + later
    still_s = np.array([prices.in_s, prices.out_s])
    restarts = prices.rescale + prices.late * (still_s + prices.lost_s)
    best, tried = kept.copy(), kept + _risk(sizes, prices, load)[:, None]
    best[:-1] = np.minimum(best[:-1], np.minimum.accumulate(tried[::-1], axis=0)[::-1][1:] + restarts[1])
    best[1:] = np.minimum(best[1:], np.minimum.accumulate(tried, axis=0)[:-1] + restarts[0])
    return best


def _late_if_kept(sizes: Sizes, course: Course, prices: Prices, backlog: float) -> Values:
    backlogs, late_s = np.full((len(sizes.per_s), 1), backlog), np.zeros(len(sizes.per_s))
    for load, log_sd in zip(course.per_s.tolist(), course.log_sd.tolist(), strict=True):
        late, backlogs = _waits(sizes, prices, load, _exceeds(sizes, load, log_sd), backlogs)
        late_s += late[:, 0]
    return late_s
