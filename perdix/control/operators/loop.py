"""Policies that size operators, on a running Flink job: look, decide, ask Flink, and look again.

What is asked of Flink is a state to reach, so a loop that is ended at any point and begun again does no harm. What the
policy remembers is handed out after each look, and goes on from what a former loop kept.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from perdix.control.operators.look import WAITING, Look
from perdix.control.operators.situation import redeployed, situation_between
from perdix.control.state.schema import cause_of
from perdix.policies.dataflow.asking import decided
from perdix.policies.dataflow.contract import DataflowDecision, DataflowPolicy, DataflowSituation
from perdix.policies.dataflow.holding import changes_in_words, reason_of
from perdix.settings.plain_error import presentable
from perdix.settings.stream_job import Bounds
from perdix.targets.contract import TargetError
from perdix.targets.flink.dataflow import DataflowReading


class ReadsOperators(Protocol):
    """What such a policy looks at: :class:`perdix.targets.flink.target.FlinkTarget`."""

    def read_dataflow(self) -> DataflowReading:
        """Return the job at this moment; raises ``TargetError``."""


def looks(
    target: ReadsOperators,
    policy: DataflowPolicy,
    bounds: Callable[[], Bounds],
    *,
    interval_s: float,
    carry_out: Callable[[Look], Look] = lambda look: look,
    memory: Mapping[str, Any] | None = None,
    remember: Callable[[float, Mapping[str, Any]], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Look]:
    """Look at a job every ``interval_s`` seconds and let a policy size its operators, without end.

    A job that cannot be read, or that was redeployed since the last look, is left alone until the next.

    Raises ``TargetError`` when it cannot even be read at the beginning.

    ``bounds``: asked anew for each look; no operator that is scaled gets fewer or more instances.
    ``carry_out``: asks Flink for what was decided and says in the look what came of it (:class:`~.executor.Executor`);
    left out, nothing is asked.
    ``memory``: what the same policy remembered when a former loop ended.
    ``remember``: called with epoch seconds and what the policy remembers (JSON-serialisable) whenever that changes.
    """
    before, memory = target.read_dataflow(), dict(memory or {})
    while True:
        sleep(interval_s)
        try:
            now = target.read_dataflow()
        except TargetError as error:
            yield carry_out(Look(None, problem=str(error)))
            continue
        look = carry_out(replace(_look(before, now, policy, bounds(), memory), running=now.running))
        if look.remembers is not None and look.remembers != memory:
            memory = dict(look.remembers)
            look = _remembered(look, now.at_s, memory, remember)
        before = now
        yield look


def _look(
    before: DataflowReading, now: DataflowReading, policy: DataflowPolicy, bounds: Bounds, memory: Mapping[str, Any]
) -> Look:
    if not now.settled:
        return Look(now.at_s, problem="a rescale is under way", waits=True)
    if redeployed(before, now):
        return Look(now.at_s, problem="the job was redeployed since the last look; the next one counts", waits=True)
    try:
        situation = situation_between(before, now, most=bounds.maximum, memory=memory)
    except ValueError as error:
        return Look(now.at_s, problem=f"the job is no dataflow that can be sized: {error}")
    decision = _at_most(bounds.maximum, decided(policy, situation), situation)
    wanted = {name: bounds.clamp(instances) for name, instances in decision.changes(situation).items()}
    changes = {name: instances for name, instances in wanted.items() if instances != situation.parallelism[name]}
    return Look(now.at_s, situation, decision, changes)


def _at_most(maximum: int, decision: DataflowDecision, situation: DataflowSituation) -> DataflowDecision:
    """Return the decision without more of what runs than the bounds allow, unless the policy waits or is blind."""
    runs = decision.parallelism
    chosen = {name: min(n, maximum) if situation.parallelism[name] == n else n for name, n in runs.items()}
    if decision.reason in WAITING or chosen == runs:
        return decision
    sentence = f"{decision.sentence} {changes_in_words(runs, chosen)}: the job's bounds allow {maximum:,}."
    reason = reason_of(situation.parallelism, chosen)
    return replace(decision, parallelism=chosen, reason=reason, sentence=sentence)


def _remembered(
    look: Look, at_s: float, memory: Mapping[str, Any], remember: Callable[[float, Mapping[str, Any]], None] | None
) -> Look:
    try:
        if remember is not None:
            remember(at_s, memory)
    except Exception as error:  # a full disk: this loop goes on with what it has in mind
        return replace(look, problem=presentable(f"what the policy remembers cannot be stored: {cause_of(error)}"))
    return look
