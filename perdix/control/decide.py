"""Decide: the policy proposes, the guards dispose. Pure: everything comes in, nothing is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perdix.control.founded import founded, full
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.asking import answer_of
from perdix.policies.contract import Decision, Policy, Reason, Situation
from perdix.policies.holding import held_back, hold
from perdix.policies.wording import workers
from perdix.settings.durations import DAY_S
from perdix.settings.stream_job import GRACE_S, StreamJob
from perdix.targets.contract import Running
from perdix.telemetry.query_text import rate_window_s

SHORTEST_GRACE_S = 30.0  # Flink's own cooldown
RESTARTS = 5.0  # times the longer downtime of a rescale: until the job is as it will be
OWN_MEMORY = 0.1  # of a worker's heap, at most, that is there whatever it holds
MEMORY_SETTLES_S = 120.0  # after a rescale: what is measured may still be of the workers before it
OVERDRAWN_S = 3_600.0  # after a rescale: until one beyond the budget takes a job into bounds that have changed


@dataclass(frozen=True)
class Avoided:
    """A scale-out that turned out badly, and is not tried again before ``until_s`` (epoch seconds).

    With a ``mix`` (size -> workers) only that mix is meant, not every one of as many workers. ``inward``: only to get
    there from more is barred, as after a scale-in that did not hold; who runs less may grow to it. ``waited_s``: for so
    long it was waited for in vain; 0 where it is barred for something else.
    """

    scale_out: int
    until_s: float
    why: str
    and_above: bool = False
    mix: Mapping[str, int] = field(default_factory=dict)
    inward: bool = False
    waited_s: float = 0.0

    def bars(self, scale_out: int, now_s: float, mix: Mapping[str, int] | None = None) -> bool:
        """Whether ``scale_out``, or that mix, must not be chosen now."""
        same = scale_out == self.scale_out and (not self.mix or dict(self.mix) == dict(mix or {}))
        meant = scale_out >= self.scale_out if self.and_above else same
        return meant and now_s < self.until_s

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {**vars(self), "mix": dict(self.mix)}


@dataclass(frozen=True)
class Circumstances:
    """What the guards must know beside the situation.

    ``running``: what the target says.
    ``wanted``, ``wanted_mix``: the workers of a decision that is still being carried out; ``None`` when there is none.
    ``acts``: whether perdix itself asks the target for what is decided.
    ``paused``: why, and until when, in words; ``None`` when the job is not paused.
    ``avoided``: scale-outs that are not to be tried for a while.
    ``grace_s``: no rescale so soon after another.
    ``capacity_per_s``: capacity of each scale-out that the situation lacks, records/s; ``None``: it holds all that is
    known.
    ``contradiction``: what of the job's metrics cannot be true together, in words; ``None`` where they agree.
    ``memory_ratio``: share of its heap that the fullest worker uses; ``None`` where it is not measured.
    ``unchecked``: why it is unknown whether fewer workers would do, in words; ``None`` where it is known.
    """

    running: Running
    wanted: int | None = None
    paused: str | None = None
    avoided: Sequence[Avoided] = ()
    grace_s: float = GRACE_S
    wanted_mix: Mapping[str, int] = field(default_factory=dict)
    acts: bool = False
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
    scraped_s = 0.0 if job.prometheus is None else rate_window_s(job.prometheus.scrape_interval_s)
    return min(max(RESTARTS * max(downtimes.out_s, downtimes.in_s), scraped_s, SHORTEST_GRACE_S), GRACE_S)


def decide(policy: Policy, situation: Situation, circumstances: Circumstances) -> Verdict:
    """Ask the policy and apply the guards, from no ground in what is measured to the budget of the day.

    The first that holds says why.

    The policy is asked even where a guard will hold, because it may have to remember the situation, and because a
    reader wants to know what would have been done.
    """
    answer = answer_of(policy.decide, situation, _impossible, "it failed: ")
    proposed = _invalid(policy, situation, answer) if isinstance(answer, str) else answer
    if circumstances.contradiction is not None:  # it was asked about what is not so: it shall not remember that
        proposed = replace(proposed, memory=situation.memory)
    decision = founded(proposed, situation) if policy.learns else proposed
    for guard in (_contradicted, _unchecked, _paused, _unsettled, _avoided, _memory, _grace, _budget):
        decision = guard(decision, situation, circumstances)
    return Verdict(decision, proposed)


def _invalid(policy: Policy, situation: Situation, why: str) -> Decision:
    """Return a hold of a policy that fails or answers what cannot be: a defect must not scale a job."""
    sentence = f"The policy {policy.name} cannot be followed: {why}."
    return replace(hold(policy.name, situation, Reason.HOLD_INVALID, sentence), mix=situation.mix)


def _impossible(proposed: object, situation: Situation) -> str | None:
    """Return what is wrong with an answer, in words."""
    if not isinstance(proposed, Decision):
        return f"it answered {proposed!r}, which is no decision"
    wanted, bounds = proposed.scale_out, situation.bounds
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        return f"it answered {wanted!r}, which is no number of workers"
    if wanted != situation.scale_out and not bounds.minimum <= wanted <= bounds.maximum:
        return f"it answered {wanted}, outside {bounds.minimum}..{bounds.maximum}"
    wrong = _impossible_mix(proposed, situation) if proposed.mix else None
    recovery_s: object = proposed.recovery_s
    if wrong is None and recovery_s is not None and not (isinstance(recovery_s, int | float) and recovery_s >= 0):
        wrong = f"it predicted a recovery of {recovery_s!r} s"
    if wrong is not None:
        return wrong
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


def _contradicted(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    """Hold where metrics cannot all be true, unless a scale-out is what lag or CPU ask for by themselves."""
    why = circumstances.contradiction
    if why is None or (decision.rescales(situation) and decision.adds(situation) and _strained(situation)):
        return decision
    return held_back(decision, situation, Reason.HOLD_BLIND, f"Blind: {why}.")


def _unchecked(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    """Hold a scale-in while wrong metrics could ask for it undetected: a job restarts, or catches up."""
    why = circumstances.unchecked
    if why is None or not decision.rescales(situation) or decision.adds(situation):
        return decision
    return held_back(decision, situation, Reason.HOLD_GRACE, why)


def _strained(situation: Situation) -> bool:
    """Whether records wait or a worker is busy, by the larger of the rates that contradict each other."""
    rate_per_s = max(situation.workload_per_s, situation.throughput_per_s or 0.0)
    return replace(situation, workload_per_s=rate_per_s).behind or full(situation)


def _paused(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    if circumstances.paused is None or decision.reason is Reason.HOLD_PAUSED:
        return decision
    return held_back(decision, situation, Reason.HOLD_PAUSED, f"Paused: {circumstances.paused}.")


def under_way(running: Running, *, ours: bool) -> str:
    """Return in words what an unsettled target is waited for; ``ours``: for what perdix itself asked for."""
    if ours or running.requested is None:
        return "A rescale is under way."
    asked, runs = workers(running.requested, running.requested_mix), workers(running.scale_out, running.mix)
    return f"The job restarts, or others rescale it: asked for {asked}, got {runs}."


def _unsettled(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    running = circumstances.running
    if not running.settled:
        sentence = under_way(running, ours=circumstances.wanted is not None)
        return held_back(decision, situation, Reason.HOLD_UNSETTLED, sentence)
    wanted, mix, reason = circumstances.wanted, circumstances.wanted_mix, Reason.HOLD_UNSETTLED
    if wanted is None and circumstances.acts:  # what the target cannot give, or not yet
        wanted, mix, reason = running.requested, running.requested_mix, Reason.HOLD_AVOIDED
    if decision.rescales(situation) and wanted == decision.scale_out and dict(mix) == dict(decision.mix):
        remembered = _memory(decision, situation, circumstances)
        if remembered is not decision:
            return remembered
        # Recording it anew would give it another idempotency key and another retry clock.
        return held_back(decision, situation, reason, f"{workers(wanted, mix)} are already asked for.")
    return decision


def _avoided(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    barred = _bar(decision.scale_out, situation, circumstances, decision.mix)
    if not decision.rescales(situation) or barred is None:
        return decision
    current = situation.scale_out
    # Another number of workers of several sizes would need other ones, which only the policy knows
    chosen = current if decision.mix or situation.mix else decision.scale_out
    step = 1 if decision.scale_out < current else -1
    # Towards what runs: a scale-in keeps more than was wanted, a scale-out stays below what could not be reached.
    while chosen != current and _bar(chosen, situation, circumstances) is not None:
        chosen += step
    if situation.bounds.clamp(chosen) != chosen:  # what the bounds forbid goes all the same
        return decision
    if chosen == current:
        return held_back(decision, situation, Reason.HOLD_AVOIDED, f"{barred.why}; not tried again for a while.")
    sentence = f"{chosen} instead of {decision.scale_out} workers: {barred.why}. {decision.sentence}"
    return replace(decision, scale_out=chosen, sentence=sentence, recovery_s=decision.recovery_at(chosen))


def _memory(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    """Keep as many workers as hold what is in memory now, where that is measured; never a scale-out."""
    used, limit = circumstances.memory_ratio, situation.objectives.memory_ratio
    before = _memory_of(situation.scale_out, situation.mix, situation)
    after = _memory_of(decision.scale_out, decision.mix, situation)
    if used is None or limit is None or before is None or after is None or not after < before:
        return decision
    since_s, current = situation.since_rescale_s, situation.scale_out
    if since_s < MEMORY_SETTLES_S:
        unknown = f"Rescaled {since_s:.0f} s ago; what a worker holds in memory is not known yet."
        return held_back(decision, situation, Reason.HOLD_MEMORY, unknown)
    expected = _expected_ratio(used, before, after)
    if expected <= limit:
        return decision
    why = (
        f"the fullest worker uses {used:.0%} of its heap; with {workers(decision.scale_out, decision.mix)} it would be "
        f"about {expected:.0%}, above the limit of {limit:.0%}"
    )
    chosen = current if decision.mix else _smallest_that_fits(decision, situation, circumstances)
    if chosen == current:
        return held_back(decision, situation, Reason.HOLD_MEMORY, f"{why[0].upper()}{why[1:]}.")
    sentence = f"{chosen} instead of {decision.scale_out} workers: {why}. {decision.sentence}"
    return replace(decision, scale_out=chosen, sentence=sentence, recovery_s=decision.recovery_at(chosen))


def _smallest_that_fits(decision: Decision, situation: Situation, circumstances: Circumstances) -> int:
    used, limit = circumstances.memory_ratio or 0.0, situation.objectives.memory_ratio or 0.0
    current = situation.scale_out
    most = min(current, max(situation.bounds.maximum, decision.scale_out))  # what the bounds forbid goes all the same
    fitting = (
        n
        for n in range(decision.scale_out + 1, most)
        if _expected_ratio(used, current, n) <= limit and _bar(n, situation, circumstances) is None
    )
    return next(fitting, most)


def _memory_of(scale_out: int, mix: Mapping[str, int], situation: Situation) -> float | None:
    """Return the memory of a number of workers: in MB where their sizes are known, else in workers.

    ``None`` where they have sizes and not all of them are known.
    """
    if not mix:
        return None if situation.mix else float(scale_out)
    if any(size not in situation.sizes for size in mix):
        return None
    return sum(count * situation.sizes[size].memory_mb for size, count in mix.items())


def _expected_ratio(used: float, before: float, after: float) -> float:
    """Return the share of its heap that the fullest worker will use, with ``after`` of memory in all for ``before``.

    What workers hold spreads over those that stay, as evenly as before; a part of it is each worker's own.
    """
    own = min(used, OWN_MEMORY)
    return own + (used - own) * before / after


def _grace(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    since_s, grace_s = situation.since_rescale_s, circumstances.grace_s
    if not decision.rescales(situation) or since_s >= grace_s:
        return decision
    return held_back(
        decision,
        situation,
        Reason.HOLD_GRACE,
        f"Rescaled {since_s:.0f} s ago; nothing is decided before {grace_s:.0f} s.",
    )


def _budget(decision: Decision, situation: Situation, circumstances: Circumstances) -> Decision:
    """Hold when the day's rescales are used up.

    A job that cannot carry its present workload may overdraw: scaling in stays forbidden, so at most as many rescales
    follow as there are sizes above. So may one outside its bounds, once an hour. A budget of 0 means none at all.
    """
    budget, used = situation.objectives.rescales_per_day, situation.rescales_today
    if not decision.rescales(situation) or used < budget:
        return decision
    why, bounds, runs = "", situation.bounds, situation.scale_out
    if bounds.clamp(runs) != runs and situation.since_rescale_s >= OVERDRAWN_S:  # others may scale it back each time
        why = f"the job's bounds are {bounds.minimum} to {bounds.maximum}"
    elif _overloaded(situation, circumstances) and decision.adds(situation):
        why = "the job is overloaded"
    if budget > 0 and why:
        sentence = f"{decision.sentence} Beyond the budget of {budget} rescales per day, because {why}."
        return replace(decision, sentence=sentence)
    spent = f"{used} of {budget} rescales within {DAY_S / 3600:.0f} h are used up."
    return held_back(decision, situation, Reason.HOLD_BUDGET, spent)


def _overloaded(situation: Situation, circumstances: Circumstances) -> bool:
    if circumstances.capacity_per_s is not None:
        per_s = circumstances.capacity_per_s(situation.scale_out)
        return per_s is not None and per_s < situation.workload_per_s
    here = situation.capacities.get(situation.scale_out)
    per_s = situation.mix_per_s(situation.mix) if here is None else here.per_s
    return per_s is not None and per_s < situation.workload_per_s


def _bar(
    scale_out: int, situation: Situation, circumstances: Circumstances, mix: Mapping[str, int] | None = None
) -> Avoided | None:
    grows = situation.is_more(scale_out, mix or {})
    barring = (item for item in circumstances.avoided if item.bars(scale_out, situation.now_s, mix))
    return next((item for item in barring if not (item.inward and grows)), None)
