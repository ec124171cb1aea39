"""The cheapest plan over scale-out and backlog: a dynamic programme over the stages of a course.

What a plan costs is counted in worker-seconds: the workers, each second that is expected to be late at its price, and a
price for each rescale. In each stage the job stays as it is, or it goes to another scale-out: then it stands still,
does again what is lost, and catches up. A plan counts on keeping for minutes what it adds: catching up and the doubt
about smaller sizes will have it so. Backlog is a grid, its costs to go are interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from perdix.policies.planning.course import Course
from perdix.policies.planning.lateness import Lateness
from perdix.telemetry.window import Values

LEVELS = 16  # points of the grid of backlogs
SPACED = np.linspace(0.0, 1.0, LEVELS) ** 2  # those points, as shares of the most
HELD_S = 600.0  # from now on, in which a plan gives nothing back that it added
FOUND_OUT_S = 180.0  # after a rescale, until it is plain that the size takes less than was believed
LONGEST_S = 3_600.0  # after the course: catching up takes that at most
LONGEST_STILL_S = 600.0  # that a rescale counts as late for
REACH_S = 900.0  # of the load: more than what arrives in it is not distinguished
AT_ONCE = 9_000  # numbers that are worked out at a time: more no longer stay in the processor's cache
LEAST_SD = 0.02  # of the logarithm of load over capacity: minutes are no seconds


@dataclass(frozen=True)
class Sizes:
    """The scale-outs that a plan may take, ascending; arrays of shape ``(sizes,)``."""

    workers: NDArray[np.intp]  # scale-outs
    # per_s, log_sd: their capacity in records/s and the standard deviation of its logarithm from minute to minute
    per_s: Values
    log_sd: Values
    doubt: Values  # standard deviation of the logarithm by which each may turn out to take more or less, once it runs
    # Share of the time in which each was late after minutes like this one, because the load overtook it
    overtaken: Values
    # How often the job is late at a utilisation although nothing waits
    lateness: Lateness = field(default_factory=Lateness)
    open: NDArray[np.bool_] | None = None  # whether a plan may go to it, now and later; ``None``: to all
    # Seconds that each is late, once, in the hour after minutes like this one, because of ``doubt``; shape ``(sizes,)``
    missed_s: Values | float = 0.0
    # Workers that each needed besides in the hour after minutes like this one, on average; shape ``(sizes,)``
    more: Values | float = 0.0

    @cached_property
    def expected_workers(self) -> Values:
        """Workers that keeping each comes to, shape ``(sizes,)``: who is overtaken by the load goes to more of them."""
        return np.asarray(self.workers + self.more)

    @cached_property
    def barred(self) -> Values:
        """What going to each costs beside everything else: nothing, or infinitely much; shape ``(sizes,)``."""
        return np.zeros(len(self.workers)) if self.open is None else np.where(self.open, 0.0, np.inf)

    @property
    def most_per_s(self) -> float:
        """What the strongest size takes that a plan may go to, records/s; of all sizes where it may go to none."""
        found = self.per_s if self.open is None or not self.open.any() else self.per_s[self.open]
        return float(found.max())


@dataclass(frozen=True)
class Prices:
    """What a plan pays, in worker-seconds, and the times that it reckons with."""

    late: float  # of one second that is late
    rescale: float  # of a rescale, beside the lateness that it brings
    allowed_s: float  # how long a record may wait before it is late
    # out_s, in_s: standstill of a rescale to more and to fewer workers
    out_s: float
    in_s: float
    lost_s: float  # what a restart loses, in seconds of full capacity
    tail_s: float  # how long the time after the course counts
    # Whether the error budget is: then a size that is often late at the last load of the course is so after it, too
    overspent: bool = False


@dataclass(frozen=True)
class Programme:
    """What the first step costs, each followed by the cheapest plan; worker-seconds."""

    # stay, go: of staying at each scale-out, and of going to it from what runs, shape ``(sizes,)``; ``go`` is infinite
    # for what runs itself and where no plan may go
    stay: Values
    go: Values
    keep: Values  # of each scale-out if it ran and were kept for good, without any rescale, shape ``(sizes,)``
    late_s: Values  # seconds that are expected to be late within the course then, shape ``(sizes,)``
    # steps, grid: what it was worked out with
    steps: _Steps
    grid: _Grid
    to_go: Values  # least cost from the beginning of each later stage on, and after the last, see :func:`_to_go`
    kept: _Moves  # the moves from what runs, in each stage up to which that is kept

    @property
    def runs(self) -> int:
        """Index of what runs among the sizes."""
        return self.kept.runs

    @property
    def moving_in_s(self) -> Values:
        """Seconds that scaling in to each makes late, until caught up at the last stage's load; shape ``(sizes,)``."""
        return _late_by_moving(self.steps, self.steps.prices.in_s)


@dataclass(frozen=True)
class Stage:
    """One stage of a plan."""

    workers: int  # scale-out that runs at its end
    late_s: float  # seconds that are expected to be late in it
    cost: float  # what it costs, worker-seconds


def solve(sizes: Sizes, course: Course, prices: Prices, runs: int, backlog: float) -> Programme:
    """Return the costs of each first step.

    ``runs``: index of what runs among the sizes.
    ``backlog``: records that wait now.
    """
    grid, steps = _Grid.of(course, backlog), _Steps.of(sizes, course, prices)
    to_go, waits = _to_go(steps, grid), _waiting(steps, 0, backlog)
    kept = _Moves.of(steps, grid, to_go, waits[:, runs], runs=runs)
    late_s = _late_if_kept(steps, waits)
    over_s = course.whole_s + prices.tail_s
    keep = sizes.expected_workers * over_s + prices.late * (late_s + prices.tail_s * sizes.overtaken)
    return Programme(kept.totals[0, _STAY], kept.go[0], keep, late_s, steps, grid, to_go, kept)


def follow(found: Programme, chosen: int) -> tuple[Stage, ...]:
    """Return the stages of the cheapest plan that begins with ``chosen``, as it is expected to go.

    ``chosen``: index among the sizes.
    """
    steps, moves, stages, grown = found.steps, found.kept, list[Stage](), False
    held = steps.course.begins_s < HELD_S
    while True:
        first, runs, go = len(stages), moves.runs, moves.go
        if grown:
            go[held[first:], :runs] = np.inf
        cheapest = go.argmin(axis=1)
        leaves = go[np.arange(len(cheapest)), cheapest] < moves.totals[:, _STAY, runs]
        if first == 0:
            cheapest[0], leaves[0] = chosen, chosen != runs
        end = int(leaves.argmax()) if leaves.any() else len(leaves)
        stages += _stages(steps, first, runs, moves.costs[:end, _STAY, runs], _STAY)
        if end == len(leaves):
            return tuple(stages)
        size = int(cheapest[end])
        move = _OUT if size > runs else _IN
        stages += _stages(steps, first + end, size, moves.costs[end : end + 1, move, size], move)
        if len(stages) == len(steps.course):
            return tuple(stages)
        grown |= size > runs
        waits = _waiting(steps, len(stages), float(moves.left[end, move, size]))
        moves = _Moves.of(steps, found.grid, found.to_go, waits[:, size], runs=size, grown=grown)


def as_expected(
    found: Programme, stages: Sequence[Stage], course: Course, backlog: float
) -> tuple[Programme, tuple[Stage, ...]]:
    """Return a programme and the stages of its plan with what is late and costs by the loads of another course.

    The stages of ``course`` are as long as those planned for.
    """
    steps, runs = _Steps.of(found.steps.sizes, course, found.steps.prices), found.runs
    waits, expected = backlog, list[Stage]()
    for k, stage in enumerate(stages):
        size = int(np.searchsorted(steps.sizes.workers, stage.workers))
        move = _STAY if size == runs else _OUT if size > runs else _IN
        (costs,), (left,) = steps.from_backlogs(slice(k, k + 1), np.array([waits]))
        expected += _stages(steps, k, size, costs[move, size], move)
        waits, runs = float(left[move, size, 0]), size
    return replace(found, late_s=_late_if_kept(steps, _waiting(steps, 0, backlog))), tuple(expected)


def _to_go(steps: _Steps, grid: _Grid) -> Values:
    """Return the least cost from the beginning of each later stage on, and after the last.

    As it is, and where workers were added before and are held: of shape ``(stages, 2, sizes, LEVELS)``.
    """
    sizes, stages, held = len(steps.sizes.workers), len(steps.course), (steps.course.begins_s < HELD_S).tolist()
    to_go = np.empty((stages, 2, sizes, LEVELS))
    to_go[-1] = _after(steps, grid)
    # The ways through a stage: staying, the larger sizes in falling order, the smaller ones in rising order, each after
    # none, and staying where workers were added: so all that lie beyond a size are those before it.
    each = np.arange(sizes)
    goes_to = np.stack([each, (-each) % sizes, np.maximum(each - 1, 0), each])
    begins = _begins(sizes)[[[_AHEAD], [_ADDED], [_AHEAD], [_ADDED]], goes_to]
    ways = goes_to + sizes * np.array([[_STAY], [_OUT], [_IN], [_STAY]])
    together = max(AT_ONCE // (3 * LEVELS * sizes), 1)
    for end in range(stages, 1, -together):
        first = max(end - together, 1)
        costs, left = steps.from_backlogs(slice(first, end), grid.levels)
        below, above = grid.places(left)
        costs, above = (part.reshape(-1, 3 * sizes, LEVELS).take(ways, axis=1) for part in (costs, above))
        costs[:, _OUT : _IN + 1, 0] = np.inf
        below = below.reshape(-1, 3 * sizes, LEVELS).take(ways, axis=1) + begins
        places, counts = np.stack([below, below + 1], axis=1), np.stack([1.0 - above, above], axis=1)
        for k in range(end - 1, first - 1, -1):
            follows = _between(to_go[k], places[k - first], counts[k - first])
            _best(costs[k - first] + follows, to_go[k - 1], held=held[k])
    return to_go


def _waiting(steps: _Steps, first: int, backlog: float) -> Values:
    """Return what waits at the beginning of each stage from ``first`` on at each size that is kept; ``(n, sizes)``."""
    course = steps.course
    works_off = (steps.sizes.per_s - course.per_s[first:, None]) * course.lasts_s[first:, None]
    waits = np.full(works_off.shape, backlog)
    for k in range(len(waits) - 1):
        np.maximum(waits[k] - works_off[k], 0.0, out=waits[k + 1])
    return waits


def _stages(steps: _Steps, first: int, size: int, costs: Values, move: int) -> list[Stage]:
    """Return the stages of a plan from ``first`` on at a size that is come to by a move; ``costs``: worker-seconds."""
    price, n = steps.prices.late, int(steps.sizes.workers[size])
    late_s = (costs - steps.paid[first : first + len(costs), move, size]) / price if price > 0 else np.zeros(len(costs))
    return [Stage(n, *each) for each in zip(late_s.tolist(), costs.tolist(), strict=True)]


@dataclass(frozen=True)
class _Grid:
    """Backlogs in records, close together near zero, shape ``(LEVELS,)``."""

    levels: Values

    @classmethod
    def of(cls, course: Course, backlog: float) -> _Grid:
        arrives = float(course.lasts_s @ course.per_s) * min(REACH_S / course.whole_s, 1.0)
        most = max(arrives + 2.0 * backlog, 1.0)  # nothing at all is processed
        return cls(most * SPACED)

    def places(self, backlogs: Values) -> tuple[NDArray[np.intp], Values]:
        """Return the point below each of some backlogs, and the share of the way to the next; of their shape."""
        place = (LEVELS - 1) * np.sqrt(np.minimum(backlogs / self.levels[-1], 1.0))
        below = np.minimum(place.astype(np.intp), LEVELS - 2)
        share = (backlogs - self.levels.take(below)) / np.diff(self.levels).take(below)
        return below, np.minimum(np.maximum(share, 0.0), 1.0)


def _begins(sizes: int) -> NDArray[np.intp]:
    """Return where the levels of each size begin in a table of costs to go; of shape ``(2, sizes, 1)``."""
    return LEVELS * np.arange(2 * sizes).reshape(2, sizes, 1)


def _between(to_go: Values, places: NDArray[np.intp], counts: Values) -> Values:
    """Return what follows between places in the table of costs, numbered row by row, of each of which a part counts."""
    ends = to_go.ravel().take(places) * counts
    return np.asarray(ends[0] + ends[1])


_STAY, _OUT, _IN = range(3)  # the moves: to keep a size, to come to it from a smaller one, from a larger one
_AHEAD, _ADDED = range(2)  # the costs to go: as it is, and where workers were added, which are held


@dataclass(frozen=True)
class _Steps:
    """What can be said of each stage before any backlog is known."""

    sizes: Sizes
    course: Course
    prices: Prices
    # still_s, late_still_s: how long the job stands still at each move, and is late by that alone; shape ``(3,)``
    still_s: Values
    late_still_s: Values
    # exceeds, risk: how often a second is late that does not wait for others, and what it may cost to come to a size
    # that turns out too small, worker-seconds; shape ``(stages, sizes)``
    exceeds: Values
    risk: Values
    # lost, paid: records that a restart does again, and worker-seconds beside lateness, shape ``(stages, 3, sizes)``
    lost: Values
    paid: Values

    @classmethod
    def of(cls, sizes: Sizes, course: Course, prices: Prices) -> _Steps:
        load, runs_s = course.per_s[:, None], sizes.expected_workers * course.lasts_s[:, None]
        risk = _risk(sizes, prices, load)
        lost, paid = np.zeros((2, len(course), 3, len(sizes.workers)))
        lost[:, _OUT:] = np.minimum(sizes.per_s * prices.lost_s, load * prices.lost_s * 2.0)[:, None]
        paid[:, _STAY] = runs_s
        paid[:, _OUT:] = (runs_s + prices.rescale + risk + sizes.barred)[:, None]
        still_s = np.array([0.0, prices.out_s, prices.in_s])
        late_still_s = np.minimum(still_s, LONGEST_STILL_S) - np.minimum(prices.allowed_s, 0.5 * still_s)
        late_still_s = np.maximum(late_still_s, 0.0)
        return cls(sizes, course, prices, still_s, late_still_s, _exceeds(sizes, course), risk, lost, paid)

    def from_backlogs(self, stages: slice, backlogs: Values) -> tuple[Values, Values]:
        """Return what each move costs in some stages from each backlog, and what waits then.

        Each has the shape ``(stages, 3, sizes, backlogs)``.
        """
        prices, still_s = self.prices, self.still_s[:, None, None]
        load = self.course.per_s[stages, None, None, None]
        waits = backlogs + self.lost[stages, ..., None] + load * still_s
        over_s = np.maximum(self.course.lasts_s[stages, None, None, None] - still_s, 0.0)
        exceeds = self.exceeds[stages, None, :, None]
        late_s, left = _waits(self.sizes.per_s[:, None], prices.allowed_s, load, exceeds, waits, over_s=over_s)
        late_s += self.late_still_s[:, None, None]
        return self.paid[stages, ..., None] + prices.late * late_s, left


@dataclass(frozen=True)
class _Moves:
    """The moves from what runs to each size, in each stage up to which that is kept; shape ``(stages, 3, sizes)``."""

    runs: int  # index of what runs
    # costs, totals: of the stage, and with all that follows
    costs: Values
    totals: Values
    left: Values  # what waits at its end

    @classmethod
    def of(cls, steps: _Steps, grid: _Grid, to_go: Values, waits: Values, *, runs: int, grown: bool = False) -> _Moves:
        """Return those of the last stages; ``waits``: at their beginnings. ``grown``: workers were added before."""
        count, sizes = len(waits), len(steps.sizes.workers)
        costs, left = (part[..., 0] for part in steps.from_backlogs(slice(-count, None), waits[:, None, None, None]))
        below, above = grid.places(left)
        tables = [_ADDED if grown else _AHEAD, _ADDED, _ADDED if grown else _AHEAD]
        below += _begins(sizes)[tables, :, 0] + 2 * sizes * LEVELS * np.arange(count)[:, None, None]
        follows = _between(to_go[-count:], np.stack([below, below + 1]), np.stack([1.0 - above, above]))
        return cls(runs, costs, costs + follows, left)

    @property
    def go(self) -> Values:
        """What going to each size comes to, shape ``(stages, sizes)``; infinite for what runs itself."""
        sizes = np.arange(self.totals.shape[-1])
        go = np.where(sizes > self.runs, self.totals[:, _OUT], self.totals[:, _IN])
        go[:, self.runs] = np.inf
        return go


def _exceeds(sizes: Sizes, course: Course) -> Values:
    """Return how often a second is late that does not wait for others, shape ``(stages, sizes)``.

    Because the load is above the capacity, or the utilisation too high; or because the load overtakes the size.
    """
    load, new_per_s = course.per_s[:, None], course.highest.new_per_s
    own_sd = np.hypot(sizes.log_sd, LEAST_SD)
    with np.errstate(divide="ignore"):
        beyond = np.log(np.maximum(load, 0.0)) - np.log(sizes.per_s)
    above = ndtr(beyond / np.hypot(own_sd, course.log_sd[:, None]))
    only_by_new = (sizes.per_s > new_per_s) & (load <= new_per_s)
    above = np.where(only_by_new, np.minimum(above, course.surpassed[:, None] + ndtr(beyond / own_sd)), above)
    usual = np.where(load > 0.0, sizes.lateness.at(load / sizes.per_s), 0.0)
    return np.asarray(np.maximum(np.maximum(above, usual), sizes.overtaken))


def _risk(sizes: Sizes, prices: Prices, load: Values) -> Values:
    """Return what it may cost that a size turns out not to carry a load, and is left again; worker-seconds."""
    back = prices.late * (FOUND_OUT_S + prices.out_s + prices.lost_s) + prices.rescale
    with np.errstate(divide="ignore"):
        fails = ndtr((np.log(np.maximum(load, 0.0)) - np.log(sizes.per_s)) / np.maximum(sizes.doubt, LEAST_SD))
    return np.asarray(np.maximum(back * fails, prices.late * sizes.missed_s))


def _waits(
    capacity: Values, allowed_s: float, load: Values | float, exceeds: Values, backlogs: Values, *, over_s: Values
) -> tuple[Values, Values]:
    """Return the seconds that are expected to be late, and what waits after ``over_s``; of the backlogs' shape.

    Records are late while more waits than the size works off in the time that is allowed. Apart from that, a second is
    late as often as the load is above the capacity.
    """
    spare, limit = capacity - load, capacity * allowed_s
    left = np.maximum(backlogs - spare * over_s, 0.0)
    over, after = backlogs > limit, left > limit
    with np.errstate(divide="ignore", invalid="ignore"):
        crosses_s = np.minimum(np.maximum((backlogs - limit) / spare, 0.0), over_s)
    # Over the limit only until enough is worked off, or only from when enough waits; else never, or all the time.
    crosses_s = np.where(over == after, 0.0, crosses_s)
    waiting_s = np.where(after, over_s - crosses_s, crosses_s)
    return waiting_s + (over_s - waiting_s) * exceeds, left


def _best(totals: Values, best: Values, *, held: bool) -> None:
    """Fill in the least cost to go from the beginning of a stage; ``totals``: of the ways through it.

    Who has added workers gives none back while they are ``held``.
    """
    beyond = np.minimum.accumulate(totals[_OUT : _IN + 1], axis=1)
    np.minimum(totals[:: _IN + 1], beyond[0, ::-1], out=best)
    back = best[: _AHEAD + 1] if held else best
    np.minimum(back, beyond[1], out=back)


def _after(steps: _Steps, grid: _Grid) -> Values:
    """Return what the time after the course costs: the workers, what was late like it, and catching up.

    Who ends at a size that is dear then may still go to another. What is not processed then either is work for later:
    it costs the workers that it takes, so that falling behind saves none.
    """
    sizes, prices, load = steps.sizes, steps.prices, float(steps.course.per_s[-1])
    spare, levels = (sizes.per_s - load)[:, None], grid.levels[None, :]
    behind = np.maximum(levels - (sizes.per_s * prices.allowed_s)[:, None], 0.0)
    late_s = np.minimum(behind / np.maximum(spare, 0.02 * sizes.per_s[:, None]), LONGEST_S)
    often = sizes.overtaken
    if prices.overspent:
        # A load that is not foreseen is met by a rescale when it comes: it makes nothing late for the whole time.
        often = _exceeds(sizes, Course(steps.course.per_s[-1:], np.zeros(1), steps.course.lasts_s[-1:]))[0]
    late_s = np.where(spare > 0, late_s, LONGEST_S) + (prices.tail_s * often)[:, None]
    later = np.maximum(levels - spare * prices.tail_s, 0.0) * float((sizes.workers / sizes.per_s).max())
    kept = prices.tail_s * sizes.expected_workers[:, None] + prices.late * late_s + later
    best, tried = kept.copy(), kept + (prices.rescale + steps.risk[-1] + sizes.barred)[:, None]
    out, back = (
        tried + prices.late * _late_by_moving(steps, still_s)[:, None] for still_s in (prices.out_s, prices.in_s)
    )
    best[:-1] = np.minimum(best[:-1], np.minimum.accumulate(out[::-1], axis=0)[::-1][1:])
    best[1:] = np.minimum(best[1:], np.minimum.accumulate(back, axis=0)[:-1])
    return np.asarray(best)


def _late_by_moving(steps: _Steps, still_s: float) -> Values:
    """Return for how many seconds a rescale to each size after the course makes the job late, shape ``(sizes,)``.

    As much as within the course: else every plan would put its rescales off until then.
    """
    sizes, prices, load = steps.sizes, steps.prices, float(steps.course.per_s[-1])
    waits = steps.lost[-1, _OUT] + load * still_s - sizes.per_s * prices.allowed_s
    spare = np.maximum(sizes.per_s - load, 0.02 * sizes.per_s)
    catching_up_s = np.minimum(np.maximum(waits, 0.0) / spare, LONGEST_S)
    return np.asarray(catching_up_s + max(still_s - min(prices.allowed_s, 0.5 * still_s), 0.0))


def _late_if_kept(steps: _Steps, waits: Values) -> Values:
    """Return the seconds that each size would be late within the course, shape ``(sizes,)``; see :func:`_waiting`."""
    capacity, load, over_s = steps.sizes.per_s, steps.course.per_s[:, None], steps.course.lasts_s[:, None]
    late_s, _ = _waits(capacity, steps.prices.allowed_s, load, steps.exceeds, waits, over_s=over_s)
    return np.asarray(late_s.sum(axis=0))
