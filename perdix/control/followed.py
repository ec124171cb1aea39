"""Rescales that others carry out: KEDA or an HPA that follows what is published, or a person.

The ledger knows only of what perdix asked a target for. A grace period and a budget must count what others carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdix.control.clock import CLOCK_BACK_S
from perdix.control.state.store import DAY_S

MOST = 1_000  # of a job that is rescaled all the time


@dataclass(frozen=True)
class Followed:
    """The scale-outs that were seen."""

    scale_out: int | None = None  # the newest; ``None`` before the first
    # Epoch seconds at which another one was first seen, oldest first, of the last 24 hours
    changes_s: tuple[float, ...] = ()

    @property
    def last_s(self) -> float | None:
        """When the newest change was seen."""
        return self.changes_s[-1] if self.changes_s else None

    def seen(self, scale_out: int | None, now_s: float, *, own: bool = False) -> Followed:
        """Take in what runs now; ``None``: nobody says.

        What was noted before the clock was set back is forgotten: nobody can say how long ago it was.

        ``own``: whether perdix asked for it.
        """
        known = tuple(at_s for at_s in self.changes_s if at_s <= now_s + CLOCK_BACK_S)
        if scale_out is None or scale_out == self.scale_out:
            return self if known == self.changes_s else Followed(self.scale_out, known)
        recent = tuple(at_s for at_s in known if at_s > now_s - DAY_S)
        return Followed(scale_out, recent if own or self.scale_out is None else (*recent, now_s)[-MOST:])

    def within(self, since_s: float) -> int:
        """Return how many changes were seen since ``since_s``."""
        return sum(at >= since_s for at in self.changes_s)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {"scale_out": self.scale_out, "changes_s": list(self.changes_s)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Followed:
        """Rebuild from :meth:`to_state`; raises ``KeyError``, ``TypeError`` or ``ValueError`` when a part is wrong."""
        scale_out = state["scale_out"]
        return cls(None if scale_out is None else int(scale_out), tuple(float(at) for at in state["changes_s"]))
