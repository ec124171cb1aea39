"""How a hold looks where operators are sized: what runs goes on running."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation, OperatorVerdict

MOST_NAMED = 4  # operators of a change, in a sentence


def hold(
    policy: str,
    situation: DataflowSituation,
    reason: Reason,
    sentence: str,
    *,
    operators: tuple[OperatorVerdict, ...] = (),
    memory: Mapping[str, Any] | None = None,
) -> DataflowDecision:
    """Return the decision to leave every operator as it is; what was remembered is kept unless ``memory`` is given."""
    kept = situation.memory if memory is None else memory
    return DataflowDecision(policy, running(situation), reason, sentence, operators, kept)


def running(situation: DataflowSituation) -> dict[str, int]:
    """Return operator -> instances that run, of the operators of the dataflow that are known to run."""
    return {name: situation.parallelism[name] for name in situation.graph.names if name in situation.parallelism}


def with_usable_windows(situation: DataflowSituation) -> DataflowSituation:
    """Return the situation without windows that have no length: such an operator did not report."""
    usable = {
        name: window
        for name, window in situation.windows.items()
        if math.isfinite(window.window_s) and window.window_s > 0 and window.instances > 0
    }
    return situation if len(usable) == len(situation.windows) else replace(situation, windows=usable)


def unknown(situation: DataflowSituation) -> str | None:
    """Return why no operator can be sized, or ``None``: it must be known of each how many instances run."""
    missing = [name for name in situation.graph.names if situation.parallelism.get(name, 0) < 1]
    if missing:
        return f"it is not known how many instances of {', '.join(missing)} run"
    return None if situation.windows else "no operator reported"


def reason_of(before: Mapping[str, int], after: Mapping[str, int]) -> Reason:
    """Return the reason of a change: scaling out where any operator gets more, as that is what the load asks for."""
    if any(after[name] > before[name] for name in after):
        return Reason.SCALE_OUT
    return Reason.SCALE_IN if any(after[name] < before[name] for name in after) else Reason.HOLD_GOOD


def changes_in_words(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return the changes in words, the greatest first: ``count 1 to 20, split 1 to 10``."""
    changed = sorted((name for name in after if after[name] != before[name]), key=lambda n: -abs(after[n] - before[n]))
    changes = [f"{name} {before[name]:,} to {after[name]:,}" for name in changed[:MOST_NAMED]]
    more = len(changed) - MOST_NAMED
    return ", ".join(changes) + (f" and {more} more" if more > 0 else "")
