"""One look at a running job whose operators are sized: what was seen, decided and done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation
from perdix.targets.contract import Running

WAITING = (Reason.HOLD_GRACE, Reason.HOLD_BLIND, Reason.HOLD_INVALID)


@dataclass(frozen=True)
class Look:
    """One look at the job.

    Attributes
    ----------
    at_s
        Epoch seconds by Flink's clock; ``None`` where the job could not be read.
    running
        What Flink runs and was asked for, operator by operator; likewise.
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
    running: Running | None = None

    @property
    def decided(self) -> bool:
        """Whether the policy had what it needs, and answered: it does not wait for a warm-up, and is not blind."""
        return self.decision is not None and self.decision.reason not in WAITING
