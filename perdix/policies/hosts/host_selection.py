"""Algorithm 2: which host suits one more instance best (Hochreiner et al., PeerJ CS 2018)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

CACHED_FACTOR = 0.01  # CF
UNSUITABLE = -1.0
ROUNDING = 1e-9  # five containers of 0.8 cores fill four cores, whatever floating point says


@dataclass(frozen=True)
class Need:
    """What one instance must be given, and the name of its image."""

    cpu_cores: float
    memory_mb: float
    image: str = ""


@dataclass(frozen=True)
class Room:
    """What a host has, and what of it is not given away (``h_cpu*`` and ``h_memory*``)."""

    cores: float
    memory_mb: float
    free_cores: float
    free_memory_mb: float
    images: frozenset[str] = frozenset()

    def without(self, need: Need) -> Room:
        """Return the room that is left once an instance has taken its part."""
        return replace(
            self, free_cores=self.free_cores - need.cpu_cores, free_memory_mb=self.free_memory_mb - need.memory_mb
        )

    def freed_of(self, need: Need) -> Room:
        """Return the room once an instance is gone."""
        return replace(
            self, free_cores=self.free_cores + need.cpu_cores, free_memory_mb=self.free_memory_mb + need.memory_mb
        )


def empty_room(cores: float, memory_mb: float, images: frozenset[str] = frozenset()) -> Room:
    """Return the room of a host that runs nothing."""
    return Room(cores, memory_mb, cores, memory_mb, images)


def feasibility(room: Room, need: Need) -> float:
    """Return how many such instances a host could still take, not rounded (line 2)."""
    return min(_times(room.free_cores, need.cpu_cores), _times(room.free_memory_mb, need.memory_mb))


def fits(room: Room, need: Need) -> bool:
    """Return whether the host has room for one such instance."""
    return feasibility(room, need) >= 1.0 - ROUNDING


def suitability(room: Room, need: Need, cached_factor: float = CACHED_FACTOR) -> float:
    """Return how well a host suits: the lowest value that is not negative is best; -1 where it has no room.

    The shares of cores and of memory that would be left should be alike (lines 6 to 9), many more should fit (line 9),
    and the image should be there already (lines 10 to 12). The paper's text calls a negative value "can run": a slip.
    """
    if not fits(room, need):
        return UNSUITABLE
    left = room.without(need)
    difference = abs(left.free_cores / room.cores - left.free_memory_mb / room.memory_mb)
    found = difference / feasibility(room, need)
    return found * cached_factor if need.image in room.images else found


def best_host(rooms: Mapping[str, Room], need: Need, cached_factor: float = CACHED_FACTOR) -> str | None:
    """Return the host that suits best, or ``None`` where none has room.

    Among equals (all balanced hosts have suitability 0): a cached image, then more room, then the name.
    """
    suitable = {name: room for name, room in rooms.items() if fits(room, need)}
    if not suitable:
        return None

    def order(name: str) -> tuple[float, bool, float, str]:
        room = suitable[name]
        value = round(suitability(room, need, cached_factor), 12)
        return value, need.image not in room.images, -round(feasibility(room, need), 9), name

    return min(suitable, key=order)


def _times(free: float, each: float) -> float:
    return free / each if each > 0 else math.inf
