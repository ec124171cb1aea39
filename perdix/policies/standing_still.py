"""The size to stand still at, where a load cannot be foreseen: rescaling then only chases what is over already.

Who kept one size through the last hours would have been late in a share of their minutes: the capacity says which. The
smallest size within the error budget is stood at, and left for a larger one only when the budget is overspent, for a
smaller one only after hours. A smaller one of which that is not known is tried where the chance is worth it.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.foresight import HALF_LIFE
from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.finding_out import best_trial, busy_workers
from perdix.policies.late_at import LateAt
from perdix.policies.planning.budget import LATE_PRICE, Spent
from perdix.policies.planning.course import Highest
from perdix.policies.wording import workers
from perdix.settings.durations import MINUTE_S
from perdix.telemetry.window import Values

LEAST_AHEAD_S = 480.0  # foreseen for less, a load is over before a rescale has paid
LITTLE_FOLLOWS = 0.5  # correlation of consecutive minutes below which a load is noise whatever comes
WAITS = 0.25  # of the latency objective: what may wait before a minute counts as late
CAREFUL_SDS = 0.33  # standard deviations below its estimate at which a size counts that is not the one that runs
SPENT = 0.75  # of the error budget, up to which a smaller size may be expected to spend it
PATIENCE_S = 4 * 3600.0  # between a rescale and one to a smaller size
RESPITE_S = 1_800.0  # between a rescale and one to a larger size, unless the job falls behind
SUPPOSED_MINUTES = 180.0  # of half the budget, that count beside those that were seen: lateness comes in bursts
CAPACITIES = np.geomspace(0.05, 1.0, 60)  # of the highest minute: looked at for the least that holds
MUCH_LEFT = 0.5  # of the error budget, below which nothing is tried
LEAST_MINUTES = 60  # before anything is given back
NEW_MINUTES = 15  # for which a load that is above all that was seen before is a new one
LASTS_MINUTES = 3  # that it must have been there for: a burst is over by then
STAYED_MINUTES = 2  # for which a load has been there: it may stay
FAR_ABOVE = 1.5  # times the highest load of less than an hour: a minute of noise, of which two show a part, is less
BEHIND_S = 30.0  # of the load waiting: the job falls behind


def unforeseeable(situation: Situation) -> bool:
    """Whether the load changes sooner than a rescale can pay, so that there is nothing to go after."""
    found = situation.foresight
    if found is None or found.ahead_s >= min(LEAST_AHEAD_S, found.furthest_s) or _is_new(situation):
        return False
    # In less than an hour, what bends upwards looks much like noise that lasts a few minutes.
    return found.minutes >= LEAST_MINUTES or found.correlation < LITTLE_FOLLOWS


def _is_new(situation: Situation) -> bool:
    """Whether for minutes the load is above all that was seen before, in its first hour far above: that is no noise."""
    if situation.known_minutes < LEAST_MINUTES:
        before, last = situation.minutes[:-STAYED_MINUTES], situation.minutes[-STAYED_MINUTES:]
        return bool((last > FAR_ABOVE * Highest.of(before).per_s).all())
    before, last = situation.minutes[:-NEW_MINUTES], situation.minutes[-LASTS_MINUTES:]
    seen = int(np.isfinite(before).sum())
    return seen >= LEAST_MINUTES and bool((last > Highest.of(before).new_per_s).all())


def late_shares(minutes: Values, capacities_per_s: Values, allowed_s: float) -> Values:
    """Return the share of minutes at whose end more waited than ``allowed_s`` seconds of each capacity, ``(sizes,)``.

    NaN for a capacity that is not above 0, and where no minute was measured.

    ``minutes``: mean load of each minute, records/s, shape ``(n,)``, the newest last; older ones weigh less, those that
    were not measured (NaN) are left out.
    """
    known = np.isfinite(minutes)
    if not known.any():
        return np.full(len(capacities_per_s), np.nan)
    loads, late = minutes[known], np.zeros((len(capacities_per_s), int(known.sum())), dtype=bool)
    overtaken = (capacities_per_s > 0) & (capacities_per_s < loads.max())  # the others are never late
    capacities = capacities_per_s[overtaken, None]
    surplus = np.cumsum(loads - capacities, axis=1) * MINUTE_S
    waiting = surplus - np.minimum(np.minimum.accumulate(surplus, axis=1), 0.0)
    late[overtaken] = waiting > allowed_s * capacities
    weights = (0.5 ** (np.arange(len(minutes))[::-1] / HALF_LIFE))[known]
    return np.where(capacities_per_s > 0, late @ weights / weights.sum(), np.nan)


def stand_still(
    situation: Situation, policy: str, late_at: LateAt | None = None, spent: Spent | None = None
) -> Decision:
    """Return the decision to stand at the smallest size that was within the error budget over the last hours.

    ``late_at``: how late the sizes that ran were measured to be; ``None`` where the policy does not remember that.
    ``spent``: what is spent of the error budget; ``None`` where the policy does not remember that: then nothing is
    tried.
    """
    allowed_s = WAITS * situation.objectives.latency_p95_ms / 1_000.0
    runs, sizes = situation.scale_out, sorted(situation.capacities)
    counted_on = np.array([_takes(situation, n) for n in sizes])
    shares = dict(zip(sizes, late_shares(situation.minutes, counted_on, allowed_s).tolist(), strict=True))
    size, why = _size(situation, shares, LateAt() if late_at is None else late_at)
    if size == runs and spent is not None and late_at is not None:
        untried = [n for n in _not_too_small(situation, shares, late_at) if not late_at.ran(n)]
        size, why = _found_out(situation, untried, spent) or (size, why)
    reason = Reason.HOLD_UNFORESEEABLE if size == runs else Reason.of_change(runs, size)
    assert situation.foresight is not None
    sentence = (
        f"The load cannot be foreseen (one minute says {situation.foresight.correlation:.0%} of the next), so "
        f"the job stands still at {workers(size)}: {why}."
    )
    return Decision(policy, size, reason, sentence, memory=situation.memory)


def _takes(situation: Situation, scale_out: int) -> float:
    return _counted_on(situation.capacities[scale_out], situation.scale_out)


def _counted_on(estimate: Estimate, runs: int) -> float:
    if estimate.scale_out == runs:
        return estimate.per_s
    return estimate.at(-CAREFUL_SDS) if estimate.usable else math.nan


def _size(situation: Situation, shares: Mapping[int, float], late_at: LateAt) -> tuple[int, str]:
    """Return the size to stand at, and why."""
    bounds, runs, budget = situation.bounds, situation.scale_out, situation.objectives.error_budget
    if not bounds.minimum <= runs <= bounds.maximum:
        return bounds.clamp(runs), "the bounds allow no other"
    if math.isnan(shares.get(runs, math.nan)):
        return runs, "nothing is known of its capacity yet"
    inside = {n: share for n, share in shares.items() if bounds.minimum <= n <= bounds.maximum}
    measured = {n: late_at.share(n, share) for n, share in inside.items()}
    late = shares[runs] if _behind(situation) else measured[runs]  # who falls behind now may do so for the first time
    if _overspent(situation, late, budget):
        spent = f"{runs} would have been late in {late:.1%} of the last minutes"
        return _larger(situation, inside, budget, spent)
    if late_at.overspent(runs, budget):
        return _larger(situation, inside, budget, f"{runs} spent more than the error budget of the last hours")
    below = _not_too_small(situation, inside, late_at)
    return _smaller(situation, {n: measured[n] for n in (*below, runs)}, budget)


def _overspent(situation: Situation, share: float, budget: float) -> bool:
    """Whether so large a share of the minutes says that a size is late too often: of a few, one may be by chance."""
    seen, behind = float(np.isfinite(situation.minutes).sum()), _behind(situation)
    usual = 0.0 if behind else SUPPOSED_MINUTES
    return share * seen + 0.5 * budget * usual > budget * (seen + usual)


def _behind(situation: Situation) -> bool:
    return situation.behind and (situation.lag_records or 0.0) > BEHIND_S * situation.workload_per_s


def _larger(situation: Situation, shares: Mapping[int, float], budget: float, spent: str) -> tuple[int, str]:
    runs = situation.scale_out
    larger = [n for n in shares if n > runs]
    if not larger:
        return runs, f"{spent}, and there are no more workers"
    if situation.since_rescale_s < RESPITE_S and not _behind(situation):
        return runs, f"{spent}, but it was rescaled not long ago"
    waits_per_s = (situation.lag_records or 0.0) / situation.objectives.recovery_time_s  # to be worked off by then
    arrives = _to_come_per_s(situation) + waits_per_s if _behind(situation) else 0.0
    held = (n for n in larger if shares[n] <= budget and _takes(situation, n) > arrives)
    return next(held, max(larger)), spent


def _to_come_per_s(situation: Situation) -> float:
    """Return the load to expect after a rescale, records/s: the mean and what usually stays, or what has stayed."""
    assert situation.foresight is not None
    mean, stays = float(np.nanmean(situation.minutes)), min(max(situation.foresight.correlation, 0.0), 1.0)
    expected = mean + stays * (situation.recent_workload_per_s - mean)
    stayed = float(situation.measured[-STAYED_MINUTES:].min())
    return max(expected, min(situation.recent_workload_per_s, stayed))


def _not_too_small(situation: Situation, shares: Mapping[int, float], late_at: LateAt) -> list[int]:
    """Return the sizes below what runs, ascending; of those that never ran none below what was late too often."""
    runs, most = situation.scale_out, SPENT * situation.objectives.error_budget
    smaller = [n for n in shares if situation.bounds.minimum <= n < runs]
    late = max((n for n in smaller if late_at.ran(n) and late_at.share(n, shares[n]) > most), default=0)
    return [n for n in smaller if n > late or late_at.ran(n)]


def _found_out(situation: Situation, untried: Sequence[int], spent: Spent) -> tuple[int, str] | None:
    """Return the smaller size to try, of those that never ran, and why; ``None`` where it is not worth it."""
    runs, objectives = situation.scale_out, situation.objectives
    here, minutes = situation.capacities.get(runs), situation.minutes
    if here is None or not here.usable or situation.lag_records is None or situation.behind or situation.late:
        return None
    takes = {n: situation.capacities[n].per_s for n in untried if situation.capacities[n].usable}
    unknown = [n for n, per_s in takes.items() if per_s > situation.workload_per_s]
    if not unknown or situation.known_minutes < LEAST_MINUTES or situation.since_rescale_s < PATIENCE_S:
        return None
    if spent.left(objectives.error_budget) < MUCH_LEFT:
        return None
    allowed_s, most = WAITS * objectives.latency_p95_ms / 1_000.0, SPENT * objectives.error_budget
    busy = busy_workers(situation, float(np.nanmean(minutes)))
    tried = float(np.nanmax(minutes)) * CAPACITIES  # who takes the highest never waits
    found = best_trial(
        situation,
        unknown,
        least_per_s=float(tried[late_shares(minutes, tried, allowed_s) <= most].min(initial=math.inf)),
        late_price=max(LATE_PRICE * busy * spent.price(objectives.error_budget), busy + 1.0),
    )
    if found is None:
        return None
    why = f"that holds with a chance of {found.chance:.0%}, and finding out costs less than it may save"
    return found.scale_out, why


def _smaller(situation: Situation, shares: Mapping[int, float], budget: float) -> tuple[int, str]:
    runs = situation.scale_out
    held = f"it would have been late in {shares[runs]:.1%} of the last minutes"
    smaller = next((n for n in shares if n < runs and shares[n] <= SPENT * budget), None)
    if smaller is None:
        return runs, f"{held}, and with fewer in too many"
    if _takes(situation, smaller) <= situation.workload_per_s:
        return runs, f"{held}; {smaller} would do, but for the load that is there now"
    patience_s = PATIENCE_S * (smaller / runs) ** 2  # the more is given back, the dearer is it to wait
    stood_s = min(situation.since_rescale_s, situation.known_minutes * MINUTE_S)  # who is new was never rescaled
    if situation.known_minutes < LEAST_MINUTES or stood_s < patience_s:
        return runs, f"{held}; {smaller} may do as well, if some hours more confirm it"
    if situation.lag_records is None:
        return runs, "the consumer lag is not measured, so there is no scaling in"
    return smaller, f"it would have been late in {shares[smaller]:.1%} of the last minutes"
