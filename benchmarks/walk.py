"""The walk from a tick to the first request that changes something: each call of perdix on the stack, outermost first.

Run ``python -m benchmarks.walk``. The tick is the real one, on a simulated network (:mod:`benchmarks.storm`).
"""

from __future__ import annotations

import traceback
from pathlib import Path
from unittest.mock import patch

import perdix
from benchmarks.storm.episodes import Episode, Player
from benchmarks.storm.network import Request, Response
from benchmarks.storm.world import World

PACKAGE = Path(perdix.__file__).parent
ON_FLINK = 3  # a climate whose first job runs on a Flink


def walk() -> list[tuple[str, str]]:
    """Return file and function of each call of perdix on the stack when the first request leaves that is no GET."""
    found: list[tuple[str, str]] = []
    exchange = World._exchange

    def seen(world: World, request: Request) -> Response:
        if request.method != "GET" and not found:
            calls = [one for one in traceback.extract_stack() if Path(one.filename).is_relative_to(PACKAGE)]
            found.extend((str(Path(one.filename).relative_to(PACKAGE)), one.name) for one in calls)
        return exchange(world, request)

    with patch.object(World, "_exchange", seen):
        Player().play(Episode(ON_FLINK, 1, (), 12), compared=False)
    return found


def main() -> None:
    calls = walk()
    for file, name in calls:
        print(f"{file:<32} {name}")
    print(f"{len(calls)} calls in {len({file for file, _ in calls})} files")


if __name__ == "__main__":
    main()
