"""Asking a policy that sizes operators, whatever it does: what it answers can be carried out, or what runs is held."""

from perdix.policies.asking import answer_of
from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowPolicy, DataflowSituation
from perdix.policies.dataflow.holding import hold


def decided(policy: DataflowPolicy, situation: DataflowSituation) -> DataflowDecision:
    """Return the policy's decision, or that it is held because there is none that can be carried out."""
    answer = answer_of(policy.decide, situation, _impossible)
    if isinstance(answer, str):
        return hold(policy.name, situation, Reason.HOLD_INVALID, f"Held: {answer}.")
    return answer


def _impossible(decision: DataflowDecision, situation: DataflowSituation) -> str | None:
    """Return why a decision cannot be carried out, or ``None``: what runs can be, and less of it."""
    for name, count in decision.parallelism.items():
        if name not in situation.parallelism:
            return f"it scales '{name}', which is not there"
        operator = situation.graph[name]
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            return f"it asks for {count!r} instances of '{name}'"
        if operator.maximum is not None and count > max(operator.maximum, situation.parallelism[name]):
            return f"it asks for {count} instances of '{name}', which can have {operator.maximum}"
        if not operator.scalable and count != situation.parallelism[name]:
            return f"it scales '{name}', which is not to be scaled"
    together = max if situation.slots_shared else sum
    taken = together({**situation.parallelism, **decision.parallelism}.values())
    if situation.slots is not None and taken > max(situation.slots, together(situation.parallelism.values())):
        return f"it takes {taken} slots, and there are {situation.slots}"
    return None
