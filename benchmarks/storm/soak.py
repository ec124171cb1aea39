"""A long calm: whether the memory of the process, or the store, grows with time."""

from __future__ import annotations

import gc
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.storm.climate import places
from benchmarks.storm.world import World

EVERY = 100
STEADY_TICKS = 1_000
FLAT = 0.02


def soak(ticks: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Yield memory and the store's size after every so many ticks of one controller."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = World(places(2, folder, jobs=jobs, minutes=ticks), (), folder, minutes=ticks)
        world.watch.remembers = False
        for done in world.marching(EVERY):
            gc.collect()
            size = sum(path.stat().st_size for path in folder.glob("state.db*"))
            yield {"ticks": done, "memory_mib": round(_resident_mib(), 2), "store_mib": round(size / 2**20, 2)}


def steady(course: list[dict[str, Any]]) -> float:
    """Return by how much memory grew within the last ticks, as a share: highest of the second half over the first."""
    last = [one["memory_mib"] for one in course if one["ticks"] > course[-1]["ticks"] - STEADY_TICKS]
    half = len(last) // 2
    return max(last[half:]) / max(last[:half]) - 1.0 if half else 0.0


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20
