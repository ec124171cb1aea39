"""What a policy that learns may do: what it learned may be wrong, and what it foresees may not be there."""

import math

from perdix.models.forecasting.foresight import LEAST_MINUTES
from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.holding import held_back
from perdix.policies.late_at import LateAt
from perdix.policies.planning.budget import Spent
from perdix.policies.standing_still import stand_still, unforeseeable
from perdix.policies.wording import workers
from perdix.settings.durations import MINUTE_S
from perdix.settings.replacing import replace

LITTLE_CPU = 0.5  # of the hottest worker: below, nobody needs more workers for lack of CPU
MUCH_CPU = 0.9  # of the hottest worker: above, more workers are needed whatever the rates say
IDLE_CPU = 0.2  # that a worker may use whatever it does, before more is known of the job
MOST_IDLE_CPU = 0.4  # that is believed of any job: workers that use more of their CPU do something
MOST_CPU = 1.1  # of a worker, estimated from what is used now: more than it has, whatever is off by a little
FAR_CPU = 1.5  # likewise: above, one of the two is wrong; up to it, many workers may need more CPU for the same work
EASY_CPU = 0.75  # likewise: what workers that are given back by CPU alone leave to the others
NO_GROUND = (Reason.HOLD_BLIND, Reason.HOLD_UNKNOWN, Reason.HOLD_INVALID, Reason.HOLD_PAUSED, Reason.HOLD_GRACE)


def founded(proposed: Decision, situation: Situation) -> Decision:
    """Return what of a proposal has a ground in what is measured.

    A load that cannot be foreseen is not gone after, unless an event is known of. And nothing is scaled out while the
    workers have little to do, nothing waits, and the forecast would not make them busy.
    """
    stands = not (situation.mix or situation.sizes or situation.events) and proposed.reason not in NO_GROUND
    if stands and unforeseeable(situation):
        late_at = LateAt.of_memory(proposed.memory) if "late_at" in proposed.memory else None
        spent = Spent.of_memory(proposed.memory) if "spent" in proposed.memory else None
        still = stand_still(situation, proposed.policy, late_at, spent)
        proposed = replace(still, memory=proposed.memory, budget_left=proposed.budget_left)
    if not proposed.rescales(situation):
        return proposed
    early = _early(situation)
    if early is not None and not (proposed.adds(situation) and _full_soon(situation)):
        return held_back(proposed, situation, Reason.HOLD_UNKNOWN, early)
    if not proposed.adds(situation):
        return _as_cpu_allows(proposed, situation)
    idle = _idle(situation)
    return proposed if idle is None else held_back(proposed, situation, Reason.HOLD_IDLE, idle)


def _early(situation: Situation) -> str | None:
    """Return in words that the load was hardly seen yet, or ``None``; a job that falls behind need not wait."""
    lag, seen = situation.lag_records, situation.known_minutes
    inside = situation.bounds.minimum <= situation.scale_out <= situation.bounds.maximum
    if seen >= LEAST_MINUTES or not seen or not inside or lag is None or situation.behind:
        return None
    return f"Only {seen} minutes of the load were seen, and nothing waits; nothing is decided before {LEAST_MINUTES}."


def full(situation: Situation) -> bool:
    """Whether the busiest worker does what it can: who waits for a backlog is late for as long as that takes."""
    return (situation.hottest_cpu or 0.0) > MUCH_CPU


def _full_soon(situation: Situation) -> bool:
    """Whether the busiest worker does what it can, or will within a minute as the load is forecast to rise."""
    forecast, now_per_s = situation.forecast, situation.workload_per_s
    next_minute = forecast.mean[: max(1, math.ceil(MINUTE_S / forecast.step_s))]
    rises = float(next_minute.mean()) / now_per_s if now_per_s > 0 else 1.0
    return full(situation) or (situation.hottest_cpu or 0.0) * rises > MUCH_CPU


def _idle(situation: Situation) -> str | None:
    """Return in words that the workers have little to do and will have, or ``None`` where something is not so."""
    hottest = situation.hottest_cpu
    if hottest is None or situation.lag_records is None or situation.behind:
        return None
    if situation.scale_out < situation.bounds.minimum or situation.late:
        return None
    highest = situation.forecast.maximum_per_s()
    rises = highest / situation.workload_per_s if situation.workload_per_s > 0 else math.inf
    expected = hottest * max(rises, 1.0) if highest > 0 else hottest
    if not expected < LITTLE_CPU:
        return None
    return (
        f"The hottest worker uses {hottest:.0%} of its CPU, next to nothing waits, and the forecast would take it to "
        f"{expected:.0%}: no ground for more workers."
    )


def _as_cpu_allows(proposed: Decision, situation: Situation) -> Decision:
    """Return a scale-in as far as those that stay have the CPU that is used now.

    Where they do not, the rates of which the policy believes that they fit, or what it learned of the workers, are not
    so: then nothing is given back. Unless most workers' CPU is idle and the two differ by little, as where many workers
    need more CPU for the same work than few: then as many go as the CPU allows by itself.
    """
    if proposed.mix or situation.mix or situation.cpu_load is None or proposed.scale_out < 1:
        return proposed
    highest, now_per_s = situation.forecast.maximum_per_s(), situation.workload_per_s
    falls = min(highest / now_per_s, 1.0) if now_per_s > 0 and highest > 0 else 1.0
    idle_cpu = max(IDLE_CPU, min(situation.idle_cpu, MOST_IDLE_CPU))
    used = max(situation.cpu_load - idle_cpu, 0.0) * situation.scale_out * falls
    each = used / proposed.scale_out + idle_cpu
    if situation.scale_out > situation.bounds.maximum or not each > MOST_CPU:
        return proposed
    on = f"on {workers(proposed.scale_out, {})} what is used now would take {each:.0%} of the CPU of each"
    fewest = math.ceil(used / (EASY_CPU - idle_cpu))
    if situation.cpu_load < LITTLE_CPU and each <= FAR_CPU and fewest < situation.scale_out:
        sentence = f"{fewest} instead of {proposed.scale_out} workers: {on}. {proposed.sentence}"
        return replace(proposed, scale_out=fewest, sentence=sentence, recovery_s=proposed.recovery_at(fewest))
    blind = f"Blind: workload {now_per_s:,.0f}/s and CPU load {situation.cpu_load:.0%} contradict each other: {on}."
    return held_back(proposed, situation, Reason.HOLD_BLIND, blind)
