"""A fixed parallelism per operator: the baseline of every comparison."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation, OperatorVerdict
from perdix.policies.dataflow.holding import reason_of, running
from perdix.settings.strict import Strict

Instances = Annotated[int, Field(ge=1, le=1_000_000)]


class StaticOptions(Strict):
    """``parallelism``: operator -> instances to run; operators that are not named stay as they are."""

    parallelism: Mapping[str, Instances] = Field(default_factory=dict)


class Static:
    """Runs the same instances of every operator whatever happens."""

    name = "static"

    def __init__(self, options: StaticOptions | None = None) -> None:
        self.options = options or StaticOptions()

    def decide(self, situation: DataflowSituation) -> DataflowDecision:
        """Return the fixed parallelism, within what each operator can use."""
        runs, chosen, moved = running(situation), running(situation), []
        for name, count in self.options.parallelism.items():
            if name not in runs:
                continue  # an operator of another dataflow
            chosen[name] = _within(count, situation, name)
            if chosen[name] != count:
                moved.append(f"{name} can run {chosen[name]}, not {count}")
        verdicts = tuple(OperatorVerdict(name, None, "fixed") for name in chosen)
        fixed = ", ".join(f"{name} {count:,}" for name, count in chosen.items())
        sentence = f"Fixed: {fixed}{'; ' if moved else ''}{', '.join(moved)}."
        return DataflowDecision(self.name, chosen, reason_of(runs, chosen), sentence, verdicts)


def _within(count: int, situation: DataflowSituation, name: str) -> int:
    operator = situation.graph[name]
    if not operator.scalable:
        return situation.parallelism[name]
    return count if operator.maximum is None else min(count, operator.maximum)
