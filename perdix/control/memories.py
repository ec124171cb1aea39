"""What the loop remembers of every job, kept in the process between ticks.

Reading all that is remembered costs a third of a tick, and a forecaster is stored as it was up to 20 minutes ago, with
what was seen since: both memories are exactly alike, but what is stored has to be worked out. A memory that is kept is
used only while the stored documents are exactly those that this process read or wrote: after another controller's tick,
an operator's repair or a tick that failed half-way, the store is what counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from perdix.control.job_memory import KINDS, Recalled, recall
from perdix.control.state.store import StateStore


@dataclass
class Memories:
    """Memories by job; empty after a restart."""

    _kept: dict[str, Recalled] = field(default_factory=dict)

    def recall(self, store: StateStore, job: str) -> Recalled:
        """Return what is remembered of a job: as it was kept, or else as it is stored."""
        kept = self._kept.get(job)
        if kept is not None and kept.stamps == store.learned.stamps(job, *KINDS):
            return kept
        return recall(store, job)

    def newest_s(self, store: StateStore, job: str) -> float | None:
        """Return until when a job was seen (epoch seconds), as far as this process knows; reads the store at first."""
        if job not in self._kept:
            self._kept[job] = recall(store, job)
        return self._kept[job].memory.newest_s

    def keep(self, job: str, remembered: Recalled) -> None:
        """Keep what is remembered after a tick whose every write succeeded."""
        self._kept[job] = remembered

    def keep_only(self, jobs: Iterable[str]) -> None:
        """Forget jobs that are no longer served."""
        self._kept = {job: self._kept[job] for job in jobs if job in self._kept}
