"""A crash at every boundary, one after the other: the process dies there and is started again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.storm.episodes import Episode, Player

CLIMATES = (0, 1, 2)  # a Flink, a Kubernetes and a twin target among them
MINUTES = 12
HEALED_MIN = 3  # in which the last crash is healed


def crashes(player: Player, every: int = 1, climates: Sequence[int] = CLIMATES) -> Iterator[dict[str, Any]]:
    """Yield one result per boundary (or every so many): its number, the steps made, and what did not hold."""
    for climate in climates:
        given = Episode(climate, 1, (), MINUTES)
        last = player.calm(replace(given, minutes=MINUTES - HEALED_MIN)).boundaries
        for number in range(1, last + 1, every):
            run = player.play(given, compared=False, crash_at=number)  # it ends while the load rises
            found = [vars(one) for one in run.violations[:1]]
            yield {"climate": climate, "boundary": number, "steps": run.steps, "found": found}
