"""From a seed to episodes, and from a violation to the few faults that it takes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.storm.climate import (
    CLIMATES,
    DAY_MIN,
    EPISODE_MIN,
    OVER_HTTP,
    STORM_MIN,
    WAVES,
    WITH_OPERATORS,
    places,
)
from benchmarks.storm.disk import own_schema
from benchmarks.storm.faults import KINDS, NOT_OVER_HTTP, OF_PROMETHEUS, Fault, drawn
from benchmarks.storm.flow import FLOW, flow_job
from benchmarks.storm.oracles.judge import Violation
from benchmarks.storm.world import Run, World

JOBS = 2
APART = 0.4  # of the episodes
SHM = Path("/dev/shm")


@dataclass(frozen=True)
class Episode:
    """One run of a world: its climate, how many controllers look after it, and what goes wrong."""

    climate: int
    controllers: int
    faults: tuple[Fault, ...]
    minutes: int = EPISODE_MIN
    apart: bool = False  # whether each process knows its own boot only, as one on a machine of its own does
    course: str = WAVES  # of the load, see :mod:`benchmarks.storm.climate`

    @property
    def with_operators(self) -> bool:
        """Whether loops size the operators of a third job: of waves only."""
        return self.climate in WITH_OPERATORS and self.course == WAVES

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Episode:
        return cls(**{**given, "faults": tuple(Fault(**fault) for fault in given["faults"])})


def episode(seed: int, number: int, kinds: Collection[str] = frozenset(KINDS), course: str = WAVES) -> Episode:
    """Return episode ``number`` of a seed: the same for the same numbers, kinds and course of the load.

    Any course but waves is that of a whole day under one controller.
    """
    rng = np.random.default_rng([seed, number])
    climate = int(rng.integers(CLIMATES))
    controllers = int(rng.choice([1, 1, 2, 2, 2, 3])) if course == WAVES else 1
    names = [f"c{k}" for k in range(controllers)]
    jobs = [f"job-{k}" for k in range(JOBS)]
    if climate in WITH_OPERATORS and course == WAVES:
        jobs, names = [FLOW, *jobs], [*names, *(f"o{k}" for k in range(controllers))]
    never = NOT_OVER_HTTP if climate in OVER_HTTP else OF_PROMETHEUS
    faults = drawn(rng, STORM_MIN, jobs, names, frozenset(kinds) - never)
    minutes = EPISODE_MIN if course == WAVES else DAY_MIN
    return Episode(climate, controllers, faults, minutes, apart=bool(rng.random() < APART), course=course)


@dataclass
class Player:
    """Plays episodes; runs without faults are played once per climate.

    ``server``: URL of a PostgreSQL in which each episode gets a schema of its own; ``None``: a SQLite file for each.
    """

    server: str | None = None
    _calm: dict[Episode, Run] = field(default_factory=dict)

    def play(self, given: Episode, *, compared: bool = True, crash_at: int | None = None) -> Run:
        """Play one episode to its end or its first violation; what its calm violates is that of the episode."""
        calm = self.calm(given) if compared and (given.faults or crash_at) else None
        if calm is not None and calm.violations:
            return calm
        return self._run(given, calm, crash_at)

    def calm(self, given: Episode) -> Run:
        """Return the episode without its faults."""
        calm = replace(given, faults=(), apart=False)
        if calm not in self._calm:
            self._calm[calm] = self._run(calm, None, None)
        return self._calm[calm]

    def _run(self, given: Episode, calm: Run | None, crash_at: int | None) -> Run:
        store = nullcontext() if self.server is None else own_schema(self.server)
        with tempfile.TemporaryDirectory(dir=SHM if SHM.is_dir() else None) as name, store as url:
            folder = Path(name)
            world = World(
                places(given.climate, folder, jobs=JOBS, minutes=given.minutes, course=given.course),
                given.faults,
                folder,
                controllers=given.controllers,
                apart=given.apart,
                minutes=given.minutes,
                calm=calm,
                crash_at=crash_at,
                flow=flow_job(given.climate) if given.with_operators else None,
                url=url,
            )
            return world.run()

    def shrunk(self, given: Episode, found: Violation, *, compared: bool = True, tries: int = 120) -> Episode:
        """Return the episode with as few faults, as short and with as few controllers as still violate the oracle."""

        def fails(candidate: Episode) -> bool:
            return any(
                violation.oracle == found.oracle for violation in self.play(candidate, compared=compared).violations
            )

        if fails(replace(given, faults=())):
            return replace(given, faults=())
        faults = _fewest(list(given.faults), lambda kept: fails(replace(given, faults=tuple(kept))), tries)
        smallest = replace(given, faults=tuple(faults))
        for fewer in range(1, given.controllers):
            mine = {f"c{k}" for k in range(fewer, given.controllers)}
            candidate = replace(smallest, controllers=fewer)
            if not any(fault.where in mine for fault in smallest.faults) and fails(candidate):
                smallest = candidate
                break
        for index, fault in enumerate(smallest.faults):
            for minutes in (1, fault.minutes // 2):
                shorter = (*smallest.faults[:index], replace(fault, minutes=minutes), *smallest.faults[index + 1 :])
                if 0 < minutes < fault.minutes and fails(replace(smallest, faults=shorter)):
                    smallest = replace(smallest, faults=shorter)
                    break
        return smallest


def _fewest(faults: list[Fault], fails: Callable[[Sequence[Fault]], bool], tries: int) -> list[Fault]:
    """Return a part of the faults of which none can be left out (Zeller's ddmin, at most this many tries)."""
    parts = 2
    while len(faults) > 1 and tries > 0:
        size = -(-len(faults) // parts)
        for begin in range(0, len(faults), size):
            rest = faults[:begin] + faults[begin + size :]
            tries -= 1
            if rest and fails(rest):
                faults, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return faults
            parts = min(2 * parts, len(faults))
    return faults
