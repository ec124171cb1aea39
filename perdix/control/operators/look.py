"""One look at a running job whose operators are sized: what was seen, decided and done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation
from perdix.targets.contract import Running

WAITING = (Reason.HOLD_GRACE, Reason.HOLD_BLIND, Reason.HOLD_INVALID)


@dataclass(frozen=True)
class Look:
    """One look at the job."""

    at_s: float | None  # epoch seconds by Flink's clock; ``None`` where the job could not be read
    # situation, decision: ``None`` where there was no ground for a decision
    situation: DataflowSituation | None = None
    decision: DataflowDecision | None = None
    # Operator -> instances, for those that should change, within the bounds
    changes: Mapping[str, int] = field(default_factory=dict)
    done: bool = False  # whether Flink accepted the changes, for the first time
    # Why there is no decision, or why it was not carried out, in words; also what became of an earlier one
    problem: str | None = None
    # What the policy wanted to remember of an earlier decision that Flink accepted only now
    accepted: Mapping[str, Any] | None = None
    waits: bool = False  # whether there is none because of a rescale, or a redeployment, that the next look is after
    running: Running | None = None  # what Flink runs and was asked for, operator by operator; likewise

    @property
    def decided(self) -> bool:
        """Whether the policy had what it needs, and answered: it does not wait for a warm-up, and is not blind."""
        return self.decision is not None and self.decision.reason not in WAITING

    @property
    def remembers(self) -> Mapping[str, Any] | None:
        """What the policy remembers from now on; of what was not carried out, what it saw. ``None``: nothing new."""
        if self.accepted is not None or self.decision is None:
            return self.accepted
        return self.decision.memory if self.done or not self.changes else self.decision.seen
