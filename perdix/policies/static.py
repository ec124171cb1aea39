"""A fixed scale-out: the baseline of every comparison."""

from typing import Annotated

from pydantic import Field

from perdix.policies.contract import Candidate, Decision, Reason, Situation
from perdix.policies.wording import workers
from perdix.settings.strict import Strict


class StaticOptions(Strict):
    """``scale_out``: workers to run; the upper bound when absent."""

    scale_out: Annotated[int, Field(ge=1)] | None = None


class Static:
    """Runs the same number of workers whatever happens."""

    name = "static"
    learns = False

    def __init__(self, options: StaticOptions | None = None) -> None:
        self.options = options or StaticOptions()

    def decide(self, situation: Situation) -> Decision:
        """Return the fixed scale-out, moved into the bounds."""
        wanted = situation.bounds.maximum if self.options.scale_out is None else self.options.scale_out
        chosen = situation.bounds.clamp(wanted)
        moved = "" if chosen == wanted else f", moved into the bounds from {wanted}"
        reason = Reason.of_change(situation.scale_out, chosen)
        sentence = f"Fixed at {workers(chosen)}{moved}."
        return Decision(self.name, chosen, reason, sentence, (Candidate.believed(situation, chosen),))
