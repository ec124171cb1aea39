"""Decide: the policy proposes, the guards dispose. Pure: everything comes in, nothing is asked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perdix.control import memory_room
from perdix.control.state.store import DAY_S
from perdix.models.forecasting.foresight import LEAST_MINUTES, MINUTE_S
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Decision, Policy, Reason, Situation
from perdix.policies.late_at import LateAt
from perdix.policies.planning.budget import Spent
from perdix.policies.standing_still import stand_still, unforeseeable
from perdix.policies.wording import workers
from perdix.settings.stream_job import GRACE_S, StreamJob
from perdix.targets.contract import Running

LITTLE_CPU = 0.5  # of the hottest worker: below, nobody needs more workers for lack of CPU
MUCH_CPU = 0.9  # of the hottest worker: above, more workers are needed whatever the rates say
IDLE_CPU = 0.2  # that a worker may use whatever it does
MOST_CPU = 1.1  # of a worker, estimated from what is used now: more than it has, whatever is off by a little
FAR_CPU = 1.5  # likewise: above, one of the two is wrong; up to it, many workers may need more CPU for the same work
EASY_CPU = 0.75  # likewise: what workers that are given back by CPU alone leave to the others
SHORTEST_GRACE_S = 30.0  # Flink's own cooldown
RESTARTS = 5.0  # times the longer downtime of a rescale: until the job is as it will be
SCRAPES = 4.0  # that a rate is taken over (conf/queries)
NO_GROUND = (Reason.HOLD_BLIND, Reason.HOLD_UNKNOWN, Reason.HOLD_INVALID, Reason.HOLD_PAUSED, Reason.HOLD_GRACE)


@dataclass(frozen=True)
class Avoided:
    """A scale-out that turned out badly, and is not tried again before ``until_s`` (epoch seconds).

    With a ``mix`` (size -> workers) only that mix is meant, not every one of as many workers. ``inward``: only to get
    there from more is barred, as after a scale-in that did not hold; who runs less may grow to it.
    """

    scale_out: int
    until_s: float
    why: str
    and_above: bool = False
    mix: Mapping[str, int] = field(default_factory=dict)
    inward: bool = False

    def bars(self, scale_out: int, now_s: float, mix: Mapping[str, int] | None = None) -> bool:
        """Whether ``scale_out``, or that mix, must not be chosen now."""
        same = scale_out == self.scale_out and (not self.mix or dict(self.mix) == dict(mix or {}))
        meant = scale_out >= self.scale_out if self.and_above else same
        return meant and now_s < self.until_s

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {**vars(self), "mix": dict(self.mix)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Avoided:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when a part is missing."""
        try:
            return cls(
                int(state["scale_out"]),
                float(state["until_s"]),
                str(state["why"]),
                bool(state["and_above"]),
                {str(size): int(count) for size, count in state.get("mix", {}).items()},
                bool(state.get("inward", False)),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a scale-out to avoid: {error!r}") from None


@dataclass(frozen=True)
class Circumstances:
    """What the guards must know beside the situation.

    Attributes
    ----------
    running
        What the target says.
    wanted, wanted_mix
        The workers of a decision that is still being carried out; ``None`` when there is none.
    paused
        Why, and until when, in words; ``None`` when the job is not paused.
    avoided
        Scale-outs that are not to be tried for a while.
    grace_s
        No rescale so soon after another.
    capacity_per_s
        What so many workers take, where the situation does not tell of it; ``None``: it tells of all that is known.
    contradiction
        What of the job's metrics cannot be true together, in words; ``None`` where they agree.
    memory_ratio
        Share of its heap that the fullest worker uses; ``None`` where it is not measured.
    unchecked
        Why nobody can tell whether fewer workers would do, in words; ``None`` where that can be told.
    """

    running: Running
    wanted: int | None = None
    paused: str | None = None
    avoided: Sequence[Avoided] = ()
    grace_s: float = GRACE_S
    wanted_mix: Mapping[str, int] = field(default_factory=dict)
    capacity_per_s: Callable[[int], float | None] | None = None
    contradiction: str | None = None
    memory_ratio: float | None = None
    unchecked: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What is to be done (``decision``), and what the policy proposed before the guards."""

    decision: Decision
    proposed: Decision

    @property
    def guarded(self) -> bool:
        """Whether a guard changed the proposal."""
        decided, proposed = self.decision, self.proposed
        same = decided.scale_out == proposed.scale_out and dict(decided.mix) == dict(proposed.mix)
        return not same or decided.reason != proposed.reason


def grace_of(job: StreamJob, downtimes: Downtimes) -> float:
    """Return for how many seconds after a rescale nothing rescales: what the job's file says, else what restarts ask.

    A job that stands still for seconds warms up within half a minute, one that stands still for half a minute within
    two. Flink itself does not rescale within 30 s, and rates are those of several scrapes.
    """
    if job.grace_s is not None:
        return job.grace_s
    scraped_s = 0.0 if job.prometheus is None else SCRAPES * job.prometheus.scrape_interval_s
    return min(max(RESTARTS * max(downtimes.out_s, downtimes.in_s), scraped_s, SHORTEST_GRACE_S), GRACE_S)


def decide(policy: Policy, situation: Situation, circumstances: Circumstances) -> Verdict:
    """Ask the policy and apply the guards, from no ground in what is measured to the budget of the day.

    The first that holds says why.

    The policy is asked even where a guard will hold, because it may have to remember the situation, and because a
    reader wants to know what would have been done.
    """
    proposed = _ask(policy, situation)
    if circumstances.contradiction is not None:  # it was asked about what is not so: it shall not remember that
        proposed = replace(proposed, memory=situation.memory)
    decision = _founded(proposed, situation) if policy.learns else proposed
    for guard in (_contradicted, _unchecked, _paused, _unsettled, _avoided, _memory, _grace, _budget):
        decision = guard(decision, situation, circumstances)
    return Verdict(decision, proposed)


def _ask(policy: Policy, situation: Situation) -> Decision:
    """Return the policy's answer, or a hold where it fails or answers what cannot be: a defect must not scale a job."""
    try:
        proposed: object = policy.decide(situation)
    except Exception as error:  # whatever a policy raises, the loop goes on
        return _invalid(policy, situation, f"it failed: {type(error).__name__}: {error}")
    if not isinstance(proposed, Decision):
        return _invalid(policy, situation, f"it answered {proposed!r}, which is no decision")
    impossible = _impossible(proposed, situation)
    return proposed if impossible is None else _invalid(policy, situation, impossible)


def _impossible(proposed: Decision, situation: Situation) -> str | None:
    """Return what is wrong with an answer, in words."""
    wanted, bounds = proposed.scale_out, situation.bounds
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        return f"it answered {wanted!r}, which is no number of workers"
    if wanted != situation.scale_out and not bounds.minimum <= wanted <= bounds.maximum:
        return f"it answered {wanted}, outside {bounds.minimum}..{bounds.maximum}"
    if proposed.mix:
        wrong = _impossible_mix(proposed, situation)
        if wrong is not None:
            return wrong
    if proposed.recovery_s is not None and not _is_time(proposed.recovery_s):
        return f"it predicted a recovery of {proposed.recovery_s!r} s"
    try:
        json.dumps(dict(proposed.memory), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"what it wants to remember is not JSON: {error}"
    return None


def _impossible_mix(proposed: Decision, situation: Situation) -> str | None:
    counts = proposed.mix.values()
    unknown = [size for size in proposed.mix if size not in situation.sizes and size not in situation.mix]
    if unknown:
        return f"it answered workers of size '{unknown[0]}', which the job does not have"
    if not all(isinstance(count, int) and not isinstance(count, bool) and count >= 1 for count in counts):
        return f"it answered the mix {dict(proposed.mix)}, whose counts are not whole numbers from 1 on"
    if sum(counts) != proposed.scale_out:
        return f"it answered {proposed.scale_out} workers and a mix of {sum(counts)}"
    return None


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and value >= 0


def _invalid(policy: Policy, situation: Situation, why: str) -> Decision:
    sentence = f"The policy {policy.name} cannot be followed: {why}."
    held = Decision(policy.name, situation.scale_out, Reason.HOLD_INVALID, sentence, memory=situation.memory)
    return replace(held, mix=situation.mix)


def _founded(proposed: Decision, situation: Situation) -> Decision:
    """Return what a policy that learns may do: what it learned may be wrong, and what it foresees may not be there.

    A load that cannot be foreseen is not gone after, unless an event is known of. And nothing is scaled out while the
    workers have little to do, nothing waits, and the forecast would not make them busy.
    """
    stands = not (situation.mix or situation.sizes or situation.events) and proposed.reason not in NO_GROUND
    if stands and unforeseeable(situation):
        late_at = LateAt.of_memory(proposed.memory) if "late_at" in proposed.memory else None
        spent = Spent.of_memory(proposed.memory) if "spent" in proposed.memory else None
        proposed = replace(stand_still(situation, proposed.policy, late_at, spent), memory=proposed.memory)
    if not proposed.rescales(situation):
        return proposed
    early = _early(situation)
    if early is not None and not (_adds(proposed, situation) and _full_soon(situation)):
        return _held(proposed, situation, Reason.HOLD_UNKNOWN, early)
    if not _adds(proposed, situation):
        return _as_cpu_allows(proposed, situation)
    idle = _idle(situation)
    return proposed if idle is None else _held(proposed, situation, Reason.HOLD_IDLE, idle)


def _early(situation: Situation) -> str | None:
    """Return in words that the load was hardly seen yet, or ``None``; a job that falls behind need not wait."""
    lag, seen = situation.lag_records, situation.known_minutes
    inside = situation.bounds.minimum <= situation.scale_out <= situation.bounds.maximum
    if seen >= LEAST_MINUTES or not seen or not inside or lag is None or situation.behind:
        return None
    return f"Only {seen} minutes of the load were seen, and nothing waits; nothing is decided before {LEAST_MINUTES}."


def _full(situation: Situation) -> bool:
    """Whether the busiest worker does what it can: who waits for a backlog is late for as long as that takes."""
    return (situation.hottest_cpu or 0.0) > MUCH_CPU


def _full_soon(situation: Situation) -> bool:
    """Whether the busiest worker does what it can, or will within a minute as the load is forecast to rise."""
    forecast, now_per_s = situation.forecast, situation.workload_per_s
    next_minute = forecast.mean[: max(1, math.ceil(MINUTE_S / forecast.step_s))]
    rises = float(next_minute.mean()) / now_per_s if now_per_s > 0 else 1.0
    return _full(situation) or (situation.hottest_cpu or 0.0) * rises > MUCH_CPU


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
    used = max(situation.cpu_load - IDLE_CPU, 0.0) * situation.scale_out * falls
    each = used / proposed.scale_out + IDLE_CPU
    if situation.scale_out > situation.bounds.maximum or not each > MOST_CPU:
        return proposed
    on = f"on {workers(proposed.scale_out, {})} what is used now would take {each:.0%} of the CPU of each"
    fewest = math.ceil(used / (EASY_CPU - IDLE_CPU))
    if situation.cpu_load < LITTLE_CPU and each <= FAR_CPU and fewest < situation.scale_out:
        sentence = f"{fewest} instead of {proposed.scale_out} workers: {on}. {proposed.sentence}"
        return replace(proposed, scale_out=fewest, sentence=sentence, recovery_s=_recovery_s(proposed, fewest))
    blind = f"Blind: workload {now_per_s:,.0f}/s and CPU load {situation.cpu_load:.0%} contradict each other: {on}."
    return _held(proposed, situation, Reason.HOLD_BLIND, blind)


def _contradicted(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    """Hold where metrics cannot all be true, unless a scale-out is what lag or CPU ask for by themselves."""
    why = circumstances.contradiction
    if why is None or (decision.rescales(situation) and _adds(decision, situation) and _strained(situation)):
        return decision
    return _held(decision, situation, Reason.HOLD_BLIND, f"Blind: {why}.")


def _unchecked(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    """Hold a scale-in while nothing could tell that what asks for it is wrong: a job restarts, or catches up."""
    why = circumstances.unchecked
    if why is None or not decision.rescales(situation) or _adds(decision, situation):
        return decision
    return _held(decision, situation, Reason.HOLD_GRACE, why)


def _strained(situation: Situation) -> bool:
    """Whether records wait or a worker is busy, by the larger of the rates that contradict each other."""
    rate_per_s = max(situation.workload_per_s, situation.throughput_per_s or 0.0)
    return replace(situation, workload_per_s=rate_per_s).behind or _full(situation)


def _paused(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    if circumstances.paused is None or decision.reason is Reason.HOLD_PAUSED:
        return decision
    return _held(decision, situation, Reason.HOLD_PAUSED, f"Paused: {circumstances.paused}.")


def _unsettled(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    if not circumstances.running.settled:
        return _held(decision, situation, Reason.HOLD_UNSETTLED, "A rescale is under way.")
    wanted, mix = circumstances.wanted, circumstances.wanted_mix
    if decision.rescales(situation) and wanted == decision.scale_out and dict(mix) == dict(decision.mix):
        # Recording it anew would give it another idempotency key and another retry clock.
        return _held(decision, situation, Reason.HOLD_UNSETTLED, f"{workers(wanted, mix)} are already asked for.")
    return decision


def _avoided(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    barred = _bar(decision.scale_out, situation, circumstances, decision.mix)
    if not decision.rescales(situation) or barred is None:
        return decision
    current = situation.scale_out
    if decision.mix or situation.mix:  # another number of workers would need other sizes, which only the policy knows
        return _held(decision, situation, Reason.HOLD_AVOIDED, f"{barred.why}; not tried again for a while.")
    step = 1 if decision.scale_out < current else -1
    # Towards what runs: a scale-in keeps more than was wanted, a scale-out stays below what could not be reached.
    chosen = decision.scale_out
    while chosen != current and _bar(chosen, situation, circumstances) is not None:
        chosen += step
    if chosen == current:
        return _held(decision, situation, Reason.HOLD_AVOIDED, f"{barred.why}; not tried again for a while.")
    sentence = f"{chosen} instead of {decision.scale_out} workers: {barred.why}. {decision.sentence}"
    return replace(decision, scale_out=chosen, sentence=sentence, recovery_s=_recovery_s(decision, chosen))


def _memory(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    """Keep as many workers as hold what is in memory now, where that is measured; never a scale-out."""
    used, limit = circumstances.memory_ratio, situation.objectives.memory_ratio
    before = memory_room.total(situation.scale_out, situation.mix, situation)
    after = memory_room.total(decision.scale_out, decision.mix, situation)
    if used is None or limit is None or before is None or after is None or not after < before:
        return decision
    since_s, current = situation.since_rescale_s, situation.scale_out
    if since_s < memory_room.SETTLES_S:
        unknown = f"Rescaled {since_s:.0f} s ago; what a worker holds in memory is not known yet."
        return _held(decision, situation, Reason.HOLD_MEMORY, unknown)
    expected = memory_room.expected_ratio(used, before, after)
    if expected <= limit:
        return decision
    why = (
        f"the fullest worker uses {used:.0%} of its heap; with {workers(decision.scale_out, decision.mix)} it would be "
        f"about {expected:.0%}, above the limit of {limit:.0%}"
    )
    chosen = current if decision.mix else _smallest_that_fits(decision, situation, circumstances)
    if chosen == current:
        return _held(decision, situation, Reason.HOLD_MEMORY, f"{why[0].upper()}{why[1:]}.")
    sentence = f"{chosen} instead of {decision.scale_out} workers: {why}. {decision.sentence}"
    return replace(decision, scale_out=chosen, sentence=sentence, recovery_s=_recovery_s(decision, chosen))


def _smallest_that_fits(decision: Decision, situation: Situation, circumstances: Circumstances) -> int:
    used, limit = circumstances.memory_ratio or 0.0, situation.objectives.memory_ratio or 0.0
    current = situation.scale_out
    most = min(current, max(situation.bounds.maximum, decision.scale_out))  # what the bounds forbid goes all the same
    fitting = (
        n
        for n in range(decision.scale_out + 1, most)
        if memory_room.expected_ratio(used, current, n) <= limit and _bar(n, situation, circumstances) is None
    )
    return next(fitting, most)


def _grace(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    since_s, grace_s = situation.since_rescale_s, circumstances.grace_s
    if not decision.rescales(situation) or since_s >= grace_s:
        return decision
    return _held(
        decision,
        situation,
        Reason.HOLD_GRACE,
        f"Rescaled {since_s:.0f} s ago; nothing is decided before {grace_s:.0f} s.",
    )


def _budget(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    """Hold when the day's rescales are used up.

    A job that cannot carry its present workload may overdraw: scaling in stays forbidden, so at most as many rescales
    follow as there are sizes above. A budget of 0 means none at all.
    """
    budget, used = situation.objectives.rescales_per_day, situation.rescales_today
    if not decision.rescales(situation) or used < budget:
        return decision
    if budget > 0 and _overloaded(situation, circumstances) and _adds(decision, situation):
        sentence = f"{decision.sentence} Beyond the budget of {budget} rescales per day, because the job is overloaded."
        return replace(decision, sentence=sentence)
    spent = f"{used} of {budget} rescales within {DAY_S / 3600:.0f} h are used up."
    return _held(decision, situation, Reason.HOLD_BUDGET, spent)


def _overloaded(situation: Situation, circumstances: Circumstances) -> bool:
    if circumstances.capacity_per_s is not None:
        per_s = circumstances.capacity_per_s(situation.scale_out)
        return per_s is not None and per_s < situation.workload_per_s
    here = situation.capacities.get(situation.scale_out)
    per_s = situation.mix_per_s(situation.mix) if here is None else here.per_s
    return per_s is not None and per_s < situation.workload_per_s


def _adds(decision: Decision, situation: Situation) -> bool:
    return _more(decision.scale_out, decision.mix, situation)


def _more(scale_out: int, mix: Mapping[str, int], situation: Situation) -> bool:
    before, after = situation.mix_per_s(situation.mix), situation.mix_per_s(mix)
    return scale_out > situation.scale_out if before is None or after is None else after > before


def _bar(
    scale_out: int, situation: Situation, circumstances: Circumstances, mix: Mapping[str, int] | None = None
) -> Avoided | None:
    grows = _more(scale_out, mix or {}, situation)
    barring = (item for item in circumstances.avoided if item.bars(scale_out, situation.now_s, mix))
    return next((item for item in barring if not (item.inward and grows)), None)


def _recovery_s(decision: Decision, scale_out: int) -> float | None:
    return next((item.recovery_s for item in decision.candidates if item.scale_out == scale_out), None)


def _held(decision: Decision, situation: Situation, reason: Reason, why: str) -> Decision:
    would = ""
    if decision.rescales(situation):
        would = f" Without that, {workers(decision.scale_out, decision.mix)}: {decision.sentence}"
    held = replace(decision, scale_out=situation.scale_out, mix=situation.mix, recovery_s=None)
    return replace(held, reason=reason, sentence=f"{why}{would}")
