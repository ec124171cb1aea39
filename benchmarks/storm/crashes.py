"""A crash at every boundary, one after the other: the process dies there and is started again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.storm.episodes import Episode, Player

CLIMATES = (0, 1, 2, 3)  # a Flink, a Kubernetes and a twin target among them, and the policies daedalus and perdix
MINUTES = 12
HEALED_MIN = 3  # in which the last crash is healed
# One crash in this many, the first of each climate among them, is that of a whole episode, whose end is judged; in
# every other of those two controllers look after the jobs, so that one takes over what the other has begun.
WHOLE = 25


def crashes(player: Player, every: int = 1, climates: Sequence[int] = CLIMATES) -> Iterator[dict[str, Any]]:
    """Yield one result per boundary (or every nth): its number, the steps made, and what did not hold."""
    for climate in climates:
        short = Episode(climate, 1, (), MINUTES)
        last = player.calm(replace(short, minutes=MINUTES - HEALED_MIN)).boundaries
        for count, number in enumerate(range(1, last + 1, every)):
            whole = count % WHOLE == 0
            given = Episode(climate, 1 + count // WHOLE % 2, ()) if whole else short
            run = player.play(given, compared=whole, crash_at=number)  # a short one ends while the load rises
            found = [vars(violation) for violation in run.violations[:1]]
            yield {**given.to_json(), "boundary": number, "steps": run.steps, "found": found}
