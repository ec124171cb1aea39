"""All jobs under all policies: what is still to be played is played on every core, the rest is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measured import DATA
from benchmarks.zoo import traces
from benchmarks.zoo.contenders import BEST_STATIC
from benchmarks.zoo.jobs import TRACE, kind_of
from benchmarks.zoo.playing import Asked, play_one
from benchmarks.zoo.results import Key, Results, Row, code_version
from perdix.replay.side_by_side import OnProgress, Raised, Task, side_by_side

FILE = "results.jsonl"


@dataclass(frozen=True)
class Campaign:
    """What is to be played."""

    seed: int
    jobs: Sequence[int]  # numbers of the jobs of the seed
    policies: Sequence[str]
    hours: float
    folder: Path  # where results are kept
    data: Path = DATA  # where real traces are, if anywhere
    regime: str | None = None  # what rescales cost (conf/regimes); ``None``: as each job draws it

    @property
    def name(self) -> str:
        """What its pictures are called."""
        return f"zoo-seed-{self.seed}" + (f"-{self.regime}" if self.regime else "")

    @property
    def results(self) -> Results:
        return Results(self.folder / FILE)

    @property
    def skipped(self) -> tuple[int, ...]:
        """Jobs of real traces, where there are none."""
        if traces.available(self.data):
            return ()
        return tuple(number for number in self.jobs if kind_of(self.seed, number) == TRACE)

    def wanted(self) -> list[Key]:
        """Return all results that are wanted, the best fixed size of each job first."""
        return [
            Key(self.seed, number, self.hours, policy, self._version(number), self.regime)
            for number in self.jobs
            if number not in self.skipped
            for policy in (BEST_STATIC, *self.policies)
        ]

    def _version(self, number: int) -> str:
        """Return the version of the code, and of the real traces where the job is one of them."""
        code = code_version()
        return f"{code}-{traces.digest(self.data)}" if kind_of(self.seed, number) == TRACE else code

    def run(self, *, processes: int | None = None, on_progress: OnProgress | None = None) -> list[Row]:
        """Return a row per job and policy; those that are in the file of results are not played again."""
        wanted, known = self.wanted(), self._known()
        left = [key for key in wanted if key not in known]
        tasks = [Task(play_one, Asked(key, self.results.path, self.data)) for key in left]
        found: dict[Key, Any] = dict(
            zip(left, side_by_side(tasks, processes=processes, on_progress=on_progress), strict=True)
        )
        return [known.get(key) or _row(key, found[key]) for key in wanted]

    def left(self) -> int:
        """Return how many results are still to be played."""
        known = self._known()
        return sum(1 for key in self.wanted() if key not in known)

    def _known(self) -> dict[Key, Row]:
        """Return the results that there are; a replay that failed, for want of memory maybe, is none."""
        return {key: row for key, row in self.results.read().items() if "failed" not in row}


def _row(key: Key, found: Any) -> Row:
    return key.row() | {"failed": found.reason} if isinstance(found, Raised) else found
