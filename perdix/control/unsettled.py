"""A target that is not at what it was asked for, although perdix waits for nothing: a pod that never gets ready.

Nobody can say whether that ends. So that it does not hold the job without end, what runs counts after a while as what
there is, and decisions go on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from perdix.control.reconcile import SETTLE_S, Progress
from perdix.control.state.ledger import Entry, State
from perdix.policies.contract import Reason
from perdix.policies.wording import workers
from perdix.targets.contract import Running


@dataclass(frozen=True)
class Unsettled:
    """Since when that is seen, without a decision of perdix that is still being carried out and may be given up.

    ``requested``: workers that are asked for all the while; ``None``: the target is at what it was asked for, or the
    end of a decision is waited for, or nobody knows.
    ``since_s``, ``last_s``: when that was first seen, and when last; epoch seconds.
    """

    requested: int | None = None
    since_s: float = 0.0
    last_s: float = 0.0

    def seen(self, progress: Progress, now_s: float, interval_s: float) -> Unsettled:
        """Take in a review; what cannot be read changes nothing.

        It is waited anew where somebody asks for another number, the clock was set back, or nobody has looked for
        ``SETTLE_S`` beyond ``interval_s``, the seconds between two looks.
        """
        running = progress.running
        if running is None:
            return self
        # What has none is being replaced as a whole; what has as many as are asked for restarts.
        some = running.scale_out >= 1 and running.requested is not None and running.scale_out != running.requested
        if running.settled or not some or (progress.open is not None and not _back(progress.open, running)):
            return Unsettled()
        goes_on = running.requested == self.requested and 0.0 <= now_s - self.last_s <= SETTLE_S + interval_s
        return Unsettled(running.requested, self.since_s if goes_on else now_s, now_s)

    def taken_for_settled(self, progress: Progress) -> Progress:
        """Return a review in which what runs is what there is, where that has lasted for longer than ``SETTLE_S``."""
        running, lasted_s = progress.running, self.last_s - self.since_s
        if running is None or self.requested is None or lasted_s <= SETTLE_S:
            return progress
        asked, runs = workers(self.requested, running.requested_mix), workers(running.scale_out, running.mix)
        sentence = f"asked for {asked}, got {runs} for {lasted_s:.0f} s; perdix goes on from there"
        return replace(progress, running=replace(running, settled=True), sentence=progress.sentence or sentence)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state; an empty one where there is nothing to remember."""
        return {} if self.requested is None else dict(vars(self))


def _back(entry: Entry, running: Running) -> bool:
    """Whether fewer workers came up than a rollback was granted: it is never given up, and would be waited for."""
    short = running.requested is not None and running.scale_out < running.requested
    return short and entry.state is State.APPLIED and entry.intent.reason == Reason.ROLLBACK
