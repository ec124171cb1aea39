"""The policy ``perdix``: a plan over time within an error budget, made anew at each tick; its first step is taken."""

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import ndtr

from perdix.models.forecasting.foresight import HALF_LIFE
from perdix.policies.contract import TINY_PER_S, Decision, Reason, Situation
from perdix.policies.finding_out import busy_workers, rescale_s
from perdix.policies.holding import blindness, hold
from perdix.policies.planning.analogues import after
from perdix.policies.planning.budget import LATE_PRICE, Spent
from perdix.policies.planning.course import Highest, course_of
from perdix.policies.planning.memory import Memory
from perdix.policies.planning.plan import Limits, Plan
from perdix.policies.planning.programme import (
    FOUND_OUT_S,
    LEAST_SD,
    Prices,
    Programme,
    Sizes,
    as_expected,
    follow,
    solve,
)
from perdix.policies.planning.rival import DEARER
from perdix.policies.planning.stays import steady_s
from perdix.policies.standing_still import LEAST_MINUTES, WAITS, late_shares
from perdix.policies.wording import workers
from perdix.settings.durations import HOUR_S, MINUTE_S
from perdix.settings.replacing import replace
from perdix.settings.strict import Strict
from perdix.telemetry.window import Values

LASTS = 15  # minutes for which a load is there that is no burst
WORTH_S = 120.0  # of the busy workers: what a plan that gives back must save besides
LEAST_TAIL_S, TAIL_S = 60.0, 3_600.0  # how long the time after the course counts
ALMOST = 0.01  # share of the minutes by which a size may be late more often than the largest
HELD = 0.8  # of the error budget, up to which a size would have held the objective over the last hours
LITTLE_LATE = 10.0 / 900.0  # of the course: seconds of a quarter of an hour
MOVED = 0.5  # of what is left of the error budget, that going to the fixed size may spend
STOOD_S = 1_800.0  # after a rescale, until more workers than the fixed size are given back
CARRIED = 0.95  # of the most that any size takes: no more load is planned for
HOPELESS = 0.9  # of the course late: what runs does not catch up within it
CLEARLY_MORE = 1.05  # times what runs takes
CATCHES_UP = 1.05  # times the load: so much must a size take
LEAST_CHANCE, MORE_LIKELY = 0.1, 5.0  # that another size does, and times as likely as what runs


class PerdixOptions(Strict):
    """Options of the policy."""

    # How many busy workers one late second weighs while the error budget is spent as fast as it is given
    late_price: Annotated[float, Field(gt=0)] = LATE_PRICE


class Perdix:
    """The cheapest plan over scale-outs, backlog and time that stays within ``objectives.error_budget``."""

    name = "perdix"
    learns = True
    horizon_s = HOUR_S

    def __init__(self, options: PerdixOptions | None = None) -> None:
        self.options = options or PerdixOptions()

    def decide(self, situation: Situation) -> Decision:
        """Choose a scale-out within the bounds, or hold what runs."""
        blind = blindness(situation)
        if blind is not None:
            return hold(self.name, situation, Reason.HOLD_BLIND, f"Blind: {blind}.")
        memory = Memory.looked(situation)
        sizes = _sizes(situation, memory)
        if sizes is None:
            unknown = f"The capacity of {workers(situation.scale_out)} is not known yet."
            return hold(self.name, situation, Reason.HOLD_UNKNOWN, unknown, memory=memory.to_state())
        rival, fixed, now_s = memory.rival, _fixed(situation, sizes), situation.now_s
        if fixed is None:
            return self._planned(situation, sizes, memory, Limits(at_least=0.0, enough=math.inf))
        against, better = rival.against(*fixed), fixed
        if against is not None and against.loses:
            # A size that did for hours did not do better if it would have been too small since plans were counted.
            better = max(fixed, _fixed(situation, sizes, rival.since_s) or fixed)
        rival = rival.judged(now_s, *better)
        memory = replace(memory, rival=rival)
        limits = Limits(
            at_least=rival.at_least(now_s, fixed[0]),
            enough=_enough(situation, fixed, memory, stands=rival.stands(now_s)),
            stood_at=rival.stood_at(now_s, fixed[0]),
        )
        return replace(self._planned(situation, sizes, memory, limits), against_fixed=rival.against(*better))

    def _planned(self, situation: Situation, sizes: Sizes, memory: Memory, limits: Limits) -> Decision:
        spent, course = memory.spent, course_of(situation.forecast, situation.now_s, situation.further)
        course = course if situation.events else replace(course, highest=Highest.of(situation.minutes))
        runs = int(np.searchsorted(sizes.workers, situation.scale_out))
        stays_s = max(memory.stays.expected_s(situation.now_s), steady_s(situation.minutes))
        busy = _busy(situation)
        prices = self._prices(situation, spent, busy, tail_s=stays_s - course.whole_s)
        backlog = situation.lag_records or 0.0
        sizes = replace(sizes, open=_open(situation, sizes, limits))
        # What no size carries would make all of them alike: then none would be worth its workers.
        planned_for = course.at_most(CARRIED * sizes.most_per_s)
        found = solve(sizes, planned_for, prices, runs, backlog)
        chosen = _cheapest(situation, sizes, found, memory, limits=limits, busy=busy)
        beyond = _beyond(situation, sizes, found)
        chosen = chosen if beyond is None or beyond == runs else beyond
        tried = _another_chance(situation, sizes, found) if chosen == runs else None
        chosen = chosen if tried is None else tried
        stages = follow(found, chosen)
        if (planned_for.per_s < course.per_s).any():
            found, stages = as_expected(found, stages, course, backlog)
        left = spent.left(situation.objectives.error_budget)
        plan = Plan(
            sizes, course, found, runs, chosen, stages, left, limits, tries=tried is not None, beyond=beyond == chosen
        )
        return plan.decision(self.name, situation, memory.to_state())

    def _prices(self, situation: Situation, spent: Spent, busy: float, *, tail_s: float) -> Prices:
        downtimes = situation.downtimes
        late = self.options.late_price * busy * spent.price(situation.objectives.error_budget)
        busy_now = max(busy, busy_workers(situation, situation.workload_per_s))
        return Prices(
            late=max(
                late, busy_now + 1.0
            ),  # however little is spent, falling behind must not look like saving a worker
            rescale=rescale_s(situation) * busy,
            allowed_s=_allowed_s(situation),
            out_s=downtimes.out_s,
            in_s=downtimes.in_s,
            lost_s=situation.lost_s,
            overspent=spent.left(situation.objectives.error_budget) < 0.0,
            tail_s=min(max(tail_s, LEAST_TAIL_S), TAIL_S),
        )


def _allowed_s(situation: Situation) -> float:
    return WAITS * situation.objectives.latency_p95_ms / 1_000.0


def _busy(situation: Situation) -> float:
    """Return how many workers the load keeps busy on average over the last hours or minutes, half a worker at least.

    Not those of this minute: a second that is late in a quiet hour, or in a burst, spends as much of the budget as any
    other.
    """
    minutes = situation.measured
    usual = max(minutes.mean(), minutes[-LASTS:].mean()) if len(minutes) else situation.workload_per_s
    return max(busy_workers(situation, usual), 0.5)


def _sizes(situation: Situation, memory: Memory) -> Sizes | None:
    """Return the sizes whose capacity is known, what runs among them; ``None`` where that is not known."""
    bounds, runs = situation.bounds, situation.scale_out
    usable = [
        each for each in situation.usable if bounds.clamp(each.scale_out) == each.scale_out or each.scale_out == runs
    ]
    if runs not in [estimate.scale_out for estimate in usable]:
        return None
    found = np.array([estimate.per_s for estimate in usable])
    log_sd = np.array([estimate.log_sd for estimate in usable])
    workers_of = np.array([estimate.scale_out for estimate in usable])
    # A smaller size is found out once it runs, and is left again: what is not known of it does not come anew with each
    # minute. Of larger ones the safe one is taken at once, for who is behind cannot try.
    known_sd = np.where(workers_of < runs, np.minimum(log_sd, log_sd[workers_of == runs]), log_sd)
    # For minutes what runs is judged as it was from the larger size that it was chosen at.
    scaled_in = memory.stays.since_s is not None and situation.since_rescale_s < FOUND_OUT_S
    if scaled_in and not situation.behind:
        known_sd[workers_of == runs] = log_sd[workers_of >= runs].min()
    doubt = np.sqrt(log_sd**2 - known_sd**2)
    counted_on = found * np.exp(-0.5 * known_sd)
    reaction_s = situation.tick_interval_s + situation.downtimes.out_s + situation.downtimes.lost_s
    # In a pause a smaller size fails at nothing. What comes of it in the rush, if it takes more or less, counts once.
    each = np.concatenate([counted_on * np.exp(sds * doubt) for sds in (0.0, -1.0, 1.0)])
    came = after(
        situation.minutes,
        workers_of,
        each,
        allowed_s=_allowed_s(situation),
        reaction_s=reaction_s,
        recovery_s=situation.objectives.recovery_time_s,
    )
    late, more = (np.zeros(len(each)), np.zeros(len(usable))) if came is None else (came.late, came.more)
    overtaken, if_less, if_more = late.reshape(3, -1)
    missed_s = HOUR_S * np.maximum(0.5 * (if_less + if_more) - overtaken, 0.0)
    return Sizes(workers_of, found, known_sd, doubt, overtaken, memory.lateness, missed_s=missed_s, more=more)


def _open(situation: Situation, sizes: Sizes, limits: Limits) -> NDArray[np.bool_]:
    """Return where a plan may go, shape ``(sizes,)``: what is barred now must not be hoped for in the next minute."""
    runs, bounds = situation.scale_out, situation.bounds
    if not bounds.minimum <= runs <= bounds.maximum:
        return np.asarray(sizes.workers != runs)
    return np.asarray((sizes.workers >= min(limits.at_least, runs)) & (sizes.workers <= max(limits.enough, runs)))


def _cheapest(
    situation: Situation, sizes: Sizes, found: Programme, memory: Memory, *, limits: Limits, busy: float
) -> int:
    """Return the index of the size to go to, that of what runs where staying is best.

    ``busy``: how many workers the usual load keeps busy.
    """
    runs, bounds = found.runs, situation.bounds
    go = found.go.copy()
    if not bounds.minimum <= situation.scale_out <= bounds.maximum:
        return int(go.argmin()) if np.isfinite(go).any() else runs
    fewer = sizes.workers < situation.scale_out
    # Where keys were dealt unluckily, fewer workers may take more: to go there gives nothing back.
    smaller = fewer & ~(_at_least_per_s(sizes) > sizes.per_s[runs])
    barred = situation.known_minutes < LEAST_MINUTES or _catching_up(situation, memory) or situation.lag_records is None
    if barred:
        go[smaller] = np.inf
    if situation.lag_records is None:
        go[fewer] = np.inf
    worth = found.keep[runs] - WORTH_S * busy
    go[smaller & ~(go < worth)] = np.inf
    best = int(go.argmin())
    if go[best] < found.stay[runs]:
        return best
    return runs if barred else _stood_at(situation, sizes, found, memory, limits=limits)


def _beyond(situation: Situation, sizes: Sizes, found: Programme) -> int | None:
    """Return the size that takes the most, where none catches up within the course and what runs falls further behind.

    All sizes are late all the time then, so that none looks worth a rescale. What runs is kept where no larger one
    takes so much more that an hour makes up for the restart. ``None`` where one catches up.
    """
    runs, bounds = found.runs, situation.bounds
    if not situation.behind or not bounds.minimum <= situation.scale_out <= bounds.maximum:
        return None
    inside, here = sizes.barred == 0.0, float(sizes.per_s[runs])
    if here >= min(situation.workload_per_s, float(situation.forecast.mean.mean())):
        return None
    if (found.late_s[inside] < HOPELESS * found.steps.course.whole_s).any():
        return None
    takes = np.where(inside & (sizes.workers >= situation.scale_out), sizes.per_s, 0.0)
    strongest, still_s = int(takes.argmax()), situation.downtimes.out_s + situation.downtimes.lost_s
    more = takes[strongest] * max(1.0 - still_s / HOUR_S, 0.0) > CLEARLY_MORE * here
    return strongest if more else runs


def _another_chance(situation: Situation, sizes: Sizes, found: Programme) -> int | None:
    """Return the size that most likely catches up where what runs is late all the time and will not; else ``None``.

    Nothing is lost by finding out. Where four partitions or unlucky keys leave three workers no more than two take, the
    smaller size was never seen at such a load, and stays believed to be too small for as long as nobody tries.
    """
    runs, whole_s = found.runs, found.steps.course.whole_s
    stands = situation.behind and situation.known_minutes >= LEAST_MINUTES and situation.since_rescale_s >= STOOD_S
    if not stands or found.late_s[runs] < HOPELESS * whole_s:
        return None
    needed = CATCHES_UP * max(float(situation.forecast.mean.mean()), situation.workload_per_s, TINY_PER_S)
    chances = ndtr(np.log(sizes.per_s / needed) / np.maximum(np.hypot(sizes.log_sd, sizes.doubt), LEAST_SD))
    likeliest = int(np.where(sizes.barred > 0.0, -1.0, chances).argmax())
    return likeliest if chances[likeliest] > max(LEAST_CHANCE, MORE_LIKELY * chances[runs]) else None


def _at_least_per_s(sizes: Sizes) -> Values:
    """Return what each size takes if it takes less than is believed, by one standard deviation; ``(sizes,)``."""
    return np.asarray(sizes.per_s * np.exp(-np.hypot(sizes.log_sd, sizes.doubt)))


def _stood_at(situation: Situation, sizes: Sizes, found: Programme, memory: Memory, *, limits: Limits) -> int:
    """Return the index of the fixed size that did better than the plans, where more run that no plan needs.

    Where the budget has no room for what going there makes late, or it would not catch up in time, a larger one; also
    where as much arrives as when it was left last.
    """
    runs = found.runs
    if not 0.0 < limits.stood_at < situation.scale_out or situation.since_rescale_s < STOOD_S or situation.behind:
        return runs
    objectives, left_s = situation.objectives, memory.spent.left_s(situation.objectives.error_budget)
    outgrown, arrives = memory.outgrown, situation.workload_per_s
    moving_s, at_most_s = found.moving_in_s, min(objectives.recovery_time_s, MOVED * left_s)
    most_late_s = found.late_s[runs] + LITTLE_LATE * found.steps.course.whole_s
    for k in range(int(np.searchsorted(sizes.workers, limits.stood_at)), runs):
        if outgrown.too_small(float(sizes.workers[k]), arrives, situation.now_s):
            continue
        if found.late_s[k] <= most_late_s and moving_s[k] <= at_most_s:
            return k if DEARER * sizes.workers[k] < situation.scale_out else runs
    return runs


def _catching_up(situation: Situation, memory: Memory) -> bool:
    """Whether a restart now would do again what was just caught up, which came at the pace of the full capacity."""
    behind_s = memory.behind_s
    return behind_s is not None and situation.now_s - behind_s <= situation.again_s + 60.0


def _enough(situation: Situation, fixed: tuple[float, float], memory: Memory, *, stands: bool) -> float:
    """Return the size beyond which nothing was needed in the last hours; infinite where the load is new, or will be.

    Also where the error budget is overspent: what is said to have been enough was not. Where the fixed size ``stands``
    because plans did worse, what is forecast makes no load new.
    """
    minutes = situation.measured
    highest = 0.0 if stands else situation.forecast.maximum_per_s()
    if len(minutes) < HALF_LIFE or situation.behind:
        return math.inf
    if memory.spent.left(situation.objectives.error_budget) < 0.0:
        return math.inf
    if max(highest, situation.workload_per_s) > Highest.of(minutes).new_per_s:
        return math.inf
    return fixed[0]


def _fixed(situation: Situation, sizes: Sizes, since_s: float | None = None) -> tuple[float, float] | None:
    """Return the fewest workers that, kept, would have held over the last hours, and the share in which they were late.

    ``None`` while less than an hour was seen.

    ``since_s``: epoch seconds from which on minutes count; ``None``: all.
    """
    if situation.known_minutes < LEAST_MINUTES:
        return None
    looked_at = len(situation.minutes) if since_s is None else math.ceil((situation.now_s - since_s) / MINUTE_S)
    last = situation.minutes[-max(looked_at, 1) :]
    minutes = last[np.isfinite(last)]
    if not len(minutes):
        return None
    counted_on = _at_least_per_s(sizes)
    shares = late_shares(last, counted_on, _allowed_s(situation))
    shares += sizes.lateness.at(minutes / counted_on[:, None]).mean(axis=1)
    # Where no size would have held, more workers help little: what is late then does not come from too few.
    held = shares <= max(HELD * situation.objectives.error_budget, float(shares.min()) + ALMOST)
    fewest = int(np.flatnonzero(held)[0])
    return float(sizes.workers[fewest]), float(shares[fewest])
