"""A long calm: whether the memory of the process, or the store, grows with time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import resident_mib
from benchmarks.storm.climate import places
from benchmarks.storm.world import World

EVERY = 100
STEADY_TICKS = 1_000
LEAST_TICKS = 2 * STEADY_TICKS  # memory rises at first, which says nothing
FLAT_MIB = 5.0  # per thousand ticks


def soak(ticks: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Yield what did not hold so far, memory and the store's size, again and again, of one controller."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = World(places(2, folder, jobs=jobs, minutes=ticks), (), folder, minutes=ticks)
        world.watch.remembers = False
        for done in world.marching(EVERY):
            size = sum(path.stat().st_size for path in folder.glob("state.db*"))
            found = {"ticks": done, "violations": len(world.watch.found)}
            yield {**found, "memory_mib": round(resident_mib(), 2), "store_mib": round(size / 2**20, 2)}


def steady(course: list[dict[str, Any]]) -> float:
    """Return by how many MiB per thousand ticks memory grew within the last of them: the slope of a line through it."""
    last = [row for row in course if row["ticks"] > course[-1]["ticks"] - STEADY_TICKS]
    slope, _ = np.polyfit([row["ticks"] for row in last], [row["memory_mib"] for row in last], 1)
    return 1_000.0 * float(slope)
