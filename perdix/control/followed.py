"""Rescales that others carry out: KEDA or an HPA that follows what is published, or a person.

The ledger knows only of what perdix asked a target for. A grace period and a budget must count what others carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdix.control.clock import CLOCK_BACK_S
from perdix.settings.durations import DAY_S
from perdix.settings.replacing import replace

MOST = 1_000  # of a job that is rescaled all the time
BACK_S = 900.0  # in which a worker that was lost comes back


@dataclass(frozen=True)
class Followed:
    """The scale-outs that were asked for by others, or were seen to run where nobody says what was asked for."""

    scale_out: int | None = None  # the newest; ``None`` before the first
    # Epoch seconds at which another one was first seen, oldest first, of the last 24 hours
    changes_s: tuple[float, ...] = ()
    former: int | None = None  # what the newest was before
    passing: int | None = None  # what was measured once: a worker that comes and goes is nobody's rescale

    @property
    def last_s(self) -> float | None:
        """When the newest change was seen."""
        return self.changes_s[-1] if self.changes_s else None

    def seen(self, scale_out: int | None, now_s: float, *, own: bool = False, measured: bool = False) -> Followed:
        """Take in what is asked for now; ``None``: nobody says.

        What was noted before the clock was set back is forgotten: nobody can say how long ago it was.

        ``own``: whether perdix asked for it.
        ``measured``: whether it is only known that this many run: what lasts for one look, or is back soon, was a loss.
        """
        known = tuple(at_s for at_s in self.changes_s if at_s <= now_s + CLOCK_BACK_S)
        if scale_out is None or scale_out == self.scale_out:
            return replace(self, changes_s=known, passing=None)
        if self.scale_out is None:
            return Followed(scale_out, known)
        if measured and scale_out != self.passing:
            return replace(self, changes_s=known, passing=scale_out)
        recent = tuple(at_s for at_s in known if at_s > now_s - DAY_S)
        if measured and self._is_back(scale_out, now_s):
            return Followed(scale_out, recent[:-1], self.scale_out)
        return Followed(scale_out, recent if own else (*recent, now_s)[-MOST:], self.scale_out)

    def _is_back(self, scale_out: int, now_s: float) -> bool:
        lost = self.scale_out is not None and scale_out == self.former and scale_out > self.scale_out
        return lost and self.last_s is not None and now_s - self.last_s <= BACK_S

    def within(self, since_s: float) -> int:
        """Return how many changes were seen since ``since_s``."""
        return sum(at >= since_s for at in self.changes_s)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {**vars(self), "changes_s": list(self.changes_s)}
