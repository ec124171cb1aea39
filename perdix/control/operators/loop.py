"""Policies that size operators, on a running Flink job: look, decide, ask Flink, and look again.

What is asked of Flink is a state to reach, so a loop that is ended at any point and begun again does no harm. What the
policy remembers is handed out after each look, and goes on from what a former loop kept.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from perdix.control.operators.situation import redeployed, situation_between
from perdix.control.state.refusals import backoff_s
from perdix.control.state.schema import cause_of
from perdix.policies.contract import Reason
from perdix.policies.dataflow.asking import decided
from perdix.policies.dataflow.contract import DataflowDecision, DataflowPolicy, DataflowSituation
from perdix.settings.plain_error import presentable
from perdix.settings.stream_job import Bounds
from perdix.targets.contract import Fault, Running, TargetError
from perdix.targets.flink.dataflow import DataflowReading

WAITING = (Reason.HOLD_GRACE, Reason.HOLD_BLIND, Reason.HOLD_INVALID)


class OperatorTarget(Protocol):
    """What such a policy reads and scales: :class:`perdix.targets.flink.target.FlinkTarget`."""

    def read_dataflow(self) -> DataflowReading:
        """Return the job at this moment; raises ``TargetError``."""
        ...

    def scale_operators(self, parallelism: Mapping[str, int], idempotency_key: str) -> Running:
        """Ask for the parallelism of single operators; raises ``TargetError``."""
        ...


@dataclass(frozen=True)
class Look:
    """One look at the job.

    Attributes
    ----------
    at_s
        Epoch seconds by Flink's clock; ``None`` where the job could not be read.
    situation, decision
        ``None`` where there was no ground for a decision.
    changes
        Operator -> instances, for those that should change, within the bounds.
    done
        Whether Flink accepted the changes.
    problem
        Why there is no decision, or why it was not carried out, in words.
    """

    at_s: float | None
    situation: DataflowSituation | None = None
    decision: DataflowDecision | None = None
    changes: Mapping[str, int] = field(default_factory=dict)
    done: bool = False
    problem: str | None = None

    @property
    def decided(self) -> bool:
        """Whether the policy had what it needs, and answered: it does not wait for a warm-up, and is not blind."""
        return self.decision is not None and self.decision.reason not in WAITING


def looks(
    target: OperatorTarget,
    policy: DataflowPolicy,
    bounds: Bounds,
    *,
    interval_s: float,
    act: bool,
    paused: Callable[[float], str | None] = lambda _: None,
    memory: Mapping[str, Any] | None = None,
    remember: Callable[[float, Mapping[str, Any]], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Look]:
    """Look at a job every ``interval_s`` seconds and let a policy size its operators, without end.

    A job that cannot be read, or that was redeployed since the last look, is left alone until the next. Where Flink
    refuses, it is asked less and less often, until it accepts.

    Parameters
    ----------
    bounds
        No operator that is scaled gets fewer or more instances.
    act
        Whether Flink is asked for what was decided.
    paused
        Epoch seconds -> why nothing is to be carried out now; ``None``: nothing against it.
    memory
        What the same policy remembered when a former loop ended.
    remember
        Called with epoch seconds and what the policy remembers (JSON-serialisable) whenever that changes.

    Raises
    ------
    TargetError
        When it cannot even be read at the beginning.
    """
    before, memory = target.read_dataflow(), dict(memory or {})
    refusals = _Refusals()
    while True:
        sleep(interval_s)
        try:
            now = target.read_dataflow()
        except TargetError as error:
            yield Look(None, problem=str(error))
            continue
        look = _look(before, now, policy, bounds, memory)
        if act:
            look = _carried_out(look, target, paused, refusals)
        if look.decision is not None and (look.done or not look.changes) and look.decision.memory != memory:
            memory = dict(look.decision.memory)  # what was not carried out must not be judged as if it had been
            look = _remembered(look, now.at_s, memory, remember)
        before = now
        yield look


def _look(
    before: DataflowReading, now: DataflowReading, policy: DataflowPolicy, bounds: Bounds, memory: Mapping[str, Any]
) -> Look:
    if not now.settled:
        return Look(now.at_s, problem="a rescale is under way")
    if redeployed(before, now):
        return Look(now.at_s, problem="the job was redeployed since the last look; the next one counts")
    try:
        situation = situation_between(before, now, most=bounds.maximum, memory=memory)
    except ValueError as error:
        return Look(now.at_s, problem=f"the job is no dataflow that can be sized: {error}")
    decision = decided(policy, situation)
    wanted = {name: bounds.clamp(instances) for name, instances in decision.changes(situation).items()}
    changes = {name: instances for name, instances in wanted.items() if instances != situation.parallelism[name]}
    return Look(now.at_s, situation, decision, changes)


@dataclass
class _Refusals:
    """What Flink has refused since it last accepted, and until when it is not asked again (epoch seconds)."""

    counted: Counter[Fault] = field(default_factory=Counter)
    until_s: float = -math.inf
    last: str = ""

    def add(self, error: TargetError, at_s: float) -> None:
        self.counted[error.fault] += 1
        self.last = str(error)
        self.until_s = max(self.until_s, at_s + backoff_s(self.counted[error.fault], error.fault))


def _remembered(
    look: Look, at_s: float, memory: Mapping[str, Any], remember: Callable[[float, Mapping[str, Any]], None] | None
) -> Look:
    try:
        if remember is not None:
            remember(at_s, memory)
    except Exception as error:  # a full disk: this loop goes on with what it has in mind
        return replace(look, problem=presentable(f"what the policy remembers cannot be stored: {cause_of(error)}"))
    return look


def _carried_out(
    look: Look, target: OperatorTarget, paused: Callable[[float], str | None], refusals: _Refusals
) -> Look:
    if look.at_s is None or not look.changes:
        return look
    try:
        why = paused(look.at_s)
    except Exception as error:
        why = presentable(f"for want of an answer whether it is paused: {cause_of(error)}")
    if why is not None:
        return replace(look, problem=f"paused {why}")
    if look.at_s < refusals.until_s:
        return replace(look, problem=f"asked again in {refusals.until_s - look.at_s:.0f} s: {refusals.last}")
    try:
        target.scale_operators(look.changes, f"operators-{look.at_s}")
    except TargetError as error:
        refusals.add(error, look.at_s)
        return replace(look, problem=str(error))
    refusals.counted.clear()
    return replace(look, done=True)
