"""Run a storm: ``python -m benchmarks.storm --seed 7 --steps 20000 --json storm.json``.

A step is one tick of one controller, or one look of a loop that sizes operators. What is printed and written: how many
steps were made, which oracles did not hold, and for each of those the fewest faults that it takes. The exit status is 1
when there are any. ``--replay FILE`` plays the shrunk episodes of such a file, or its crashes, again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.storm.climate import EPISODE_MIN, SLOW, STEADY, WAVES
from benchmarks.storm.crashes import CLIMATES, crashes
from benchmarks.storm.episodes import Episode, Player, episode
from benchmarks.storm.faults import KINDS
from benchmarks.storm.planted import PLANTS
from benchmarks.storm.soak import FLAT_MIB, LEAST_TICKS, soak, steady

MOST_SHRUNK = 10
LARGEST_BYTES = 8 * 2**30  # of addresses: what asks for more fails in its step, and not the machine


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def storm(player: Player, options: argparse.Namespace) -> dict[str, Any]:
    """Play episodes until enough steps were made."""
    kinds = frozenset(options.only or KINDS) - frozenset(options.without)
    steps, number, found = 0, options.first, list[dict[str, Any]]()
    happened, struck, oracles = Counter[str](), Counter[str](), Counter[str]()
    while steps < options.steps and number < options.first + options.episodes:
        given = episode(options.seed, number, kinds, options.course)
        run = player.play(given)
        steps += run.steps
        happened.update(fault.kind for fault in given.faults)
        struck.update(fault.kind for fault in run.struck)
        if run.violations:
            first = run.violations[0]
            oracles[first.oracle] += 1
            violation = {"episode": number, **vars(first)}
            small = given
            if len(found) < MOST_SHRUNK and not options.no_shrink:
                small = player.shrunk(given, first)
            found.append({**violation, "shrunk": small.to_json()})
            print(f"episode {number}: {first.oracle}, minute {first.minute:g}: {first.sentence}", flush=True)
            for fault in small.faults:
                how = f"{fault.kind} of {fault.where} {fault.amount:g} {fault.what}"
                print(f"    {fault.from_min:>3} min +{fault.minutes}: {how}")
            if options.stop:
                break
        elif options.verbose:
            print(f"episode {number}: {run.steps} steps, {len(given.faults)} faults", flush=True)
        number += 1
    return {
        "seed": options.seed,
        "steps": steps,
        "violations": len(found),
        "oracles": dict(oracles),
        "found": found,
        "episodes": number - options.first,
        "faults": {kind: [struck[kind], drawn] for kind, drawn in happened.most_common()},
    }


def replayed(player: Player, path: Path) -> dict[str, Any]:
    """Play the shrunk episodes of a storm, or the crashes that were found, again."""
    found = []
    steps = 0
    for finding in json.loads(path.read_text(encoding="utf-8"))["found"]:
        given = Episode.from_json(
            finding.get("shrunk") or {name: finding[name] for name in Episode.__dataclass_fields__}
        )
        run = player.play(given, compared=given.minutes >= EPISODE_MIN, crash_at=finding.get("boundary"))
        steps += run.steps
        found += [vars(violation) for violation in run.violations[:1]]
    return {"steps": steps, "violations": len(found), "found": found}


def crashed(player: Player, every: int, climates: Sequence[int]) -> dict[str, Any]:
    """Let the process die at every boundary, or at every nth."""
    every_crash, found = list[dict[str, Any]](), list[dict[str, Any]]()
    for crash in crashes(player, every, climates):
        every_crash.append(crash)
        if crash["found"]:
            found.append(crash)
            print(
                f"climate {crash['climate']}, boundary {crash['boundary']}: {crash['found'][0]['sentence']}", flush=True
            )
    steps = sum(row["steps"] for row in every_crash)
    return {"crashes": len(every_crash), "steps": steps, "violations": len(found), "found": found}


def soaked(ticks: int, jobs: int) -> dict[str, Any]:
    """Let time pass, and look at what grows."""
    course = []
    for row in soak(ticks, jobs):
        course.append(row)
        print(f"{row['ticks']} ticks: {row['memory_mib']} MiB, store {row['store_mib']} MiB", flush=True)
    grown = steady(course)
    violations = course[-1]["violations"] + (grown > FLAT_MIB)
    result = {"jobs": jobs, "steps": course[-1]["ticks"], "violations": violations}
    return {**result, "grown_mib": round(grown, 2), "course": course}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="7 by default; a soak and crashes are the same for each")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first episode")
    parser.add_argument("--episodes", type=int, default=1_000_000, help="play no more than this many")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--course", choices=[WAVES, SLOW, STEADY], default=WAVES, help="of the load; not of waves: a day"
    )
    parser.add_argument("--only", nargs="+", choices=list(KINDS), metavar="KIND")
    parser.add_argument("--without", nargs="+", choices=list(KINDS), metavar="KIND", default=[])
    parser.add_argument("--plant", choices=list(PLANTS), help="plant a bug, and end when it is found")
    parser.add_argument("--replay", type=Path, help="play what an earlier storm found")
    parser.add_argument("--crashes", type=int, nargs="?", const=1, metavar="EVERY", help="die at each boundary")
    parser.add_argument("--climates", type=int, nargs="+", default=CLIMATES, metavar="CLIMATE", help="of the crashes")
    parser.add_argument("--soak", type=int, nargs="?", const=5_000, metavar="TICKS", help="run calmly for so long")
    parser.add_argument("--jobs", type=int, default=20, help="of a soak")
    parser.add_argument("--store", metavar="URL", help="of a PostgreSQL: each episode in a schema of its own there")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--stop", action="store_true", help="end at the first violation")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.seed is not None and (options.crashes or options.soak):
        parser.error("neither --crashes nor --soak draws anything from a --seed")
    options.seed = 7 if options.seed is None else options.seed
    if options.soak is not None and options.soak < LEAST_TICKS:
        parser.error(f"--soak takes at least {LEAST_TICKS} ticks: before, memory rises and its slope means nothing")
    resource.setrlimit(resource.RLIMIT_AS, (LARGEST_BYTES, LARGEST_BYTES))
    began_s = time.perf_counter()
    with PLANTS[options.plant]() if options.plant else nullcontext():
        player = Player(options.store)
        if options.crashes:
            result = crashed(player, options.crashes, options.climates)
        elif options.soak:
            result = soaked(options.soak, options.jobs)
        elif options.replay:
            result = replayed(player, options.replay)
        else:
            if options.plant:
                options.stop, options.no_shrink = True, True
            result = storm(player, options)
    if options.json:
        found = {"commit": commit(), **result, "seconds": round(time.perf_counter() - began_s, 1)}
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{result['steps']} steps, {result['violations']} violations")
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
