"""Learn later: a capacity that is learned only once somebody asks, for policies that decide by what is measured.

Such a policy never looks at a capacity. One guard does, when the day's rescales are used up: whether the job is
overloaded, and so may overdraw. Until then what was seen is kept, and learned from only then, tick by tick: what comes
out is the same. For replays, where nobody asks what would have been believed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from control.believe import with_capacity
from control.job_memory import JobMemory
from control.observe import Observation
from targets.contract import Running

MOST = 1_024  # ticks that are kept: what they saw is some ten kB each


@dataclass
class Later:
    """The capacity of one job, as far as it was asked for."""

    _memory: JobMemory = field(default_factory=JobMemory)
    _unlearnt: list[tuple[Observation, Running | None]] = field(default_factory=list)

    def see(self, observation: Observation, running: Running | None) -> None:
        """Keep what one tick saw."""
        self._unlearnt.append((observation, running))
        if len(self._unlearnt) > MOST:
            self._learn()

    def capacity_per_s(self, scale_out: int) -> float | None:
        """Return what ``scale_out`` workers take by all that was seen, records/s; ``None`` where nothing is known."""
        self._learn()
        capacity = self._memory.capacity
        return capacity.capacity(scale_out).per_s if capacity.known else None

    def _learn(self) -> None:
        for observation, running in self._unlearnt:
            self._memory = with_capacity(self._memory, observation, running)
        self._unlearnt.clear()
