"""Asking a policy, whatever it does: a policy is a stranger, and nothing that it raises must end who asks it."""

from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")
Answer = TypeVar("Answer")


def answer_of(
    decide: Callable[[Seen], Answer], seen: Seen, fault_of: Callable[[Answer, Seen], str | None], failed: str = ""
) -> Answer | str:
    """Return what a policy decides, or in words why it cannot be followed.

    ``fault_of``: what of an answer cannot be, in words; ``None``: nothing.
    ``failed``: begins the words where something was raised.
    """
    try:
        answer = decide(seen)
        fault = fault_of(answer, seen)
    except Exception as error:
        return f"{failed}{type(error).__name__}: {error}"
    return answer if fault is None else fault
