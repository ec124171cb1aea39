"""What a policy that sizes operators remembers of a job, from one ``perdix operators`` to the next."""

from collections.abc import Mapping
from typing import Any

from perdix.control.state.learned import Kind
from perdix.control.state.store import StateStore

OPERATORS = Kind("operators")
APART_S = 3_600.0  # longer ago, what a policy waits for (an hour of calm, agreeing intervals) was not looked at


def recall(store: StateStore, job: str, policy: str, now_s: float) -> Mapping[str, Any]:
    """Return what ``policy`` (with its options, as it was named) remembered of a job within the last hour.

    Nothing of what another policy, or the same with other options, remembered.
    """
    found = store.learned.recall(job, OPERATORS)[OPERATORS.name]
    if found.document is None or found.learned_s is None or now_s - found.learned_s > APART_S:
        return {}
    memory = found.document.get("memory")
    return memory if found.document.get("policy") == policy and isinstance(memory, Mapping) else {}


def remember(store: StateStore, job: str, policy: str, now_s: float, memory: Mapping[str, Any]) -> None:
    """Keep what ``policy`` remembers of a job at ``now_s`` (epoch seconds), in place of what was kept before."""
    store.learned.learn(job, now_s, {OPERATORS: {"policy": policy, "memory": dict(memory)}})
