"""How fast ``perdix scan`` is over real HTTP, and how near its sizes come to the best fixed ones of the zoo's jobs.

Run ``python -m benchmarks.scan --seed 61001 --jobs 40 --days 7``. Each job's past is prepared first (minutes; kept in
``--folder`` for one version of the code), then the command itself is run and timed, then the best fixed size of each is
searched on the true twin, under the objective that the scan says it judged by.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Row
from benchmarks.own_process import serving
from benchmarks.scan.past import BEGIN_S, DAY_S, HOUR_S
from benchmarks.scan.prepared import kept_in, prepare, truth
from benchmarks.scan.server import answering
from benchmarks.zoo.jobs import TRACE, kind_of
from benchmarks.zoo.traces import available
from perdix.cli.output import number, table
from perdix.replay.side_by_side import Raised, Task, side_by_side
from perdix.settings.home import Home

WITHIN = 1  # worker


@dataclass(frozen=True)
class Took:
    """How long the command took, and what it and its processes computed; seconds."""

    wall_s: float
    cpu_s: float


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    folder = Path(asked.folder) if asked.folder else Home.from_environment().root / "scan-benchmark"
    folder = kept_in(folder, asked.days)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [k for k in range(2 * asked.jobs) if kind_of(asked.seed, k) != TRACE or available()][: asked.jobs]
    files = [folder / f"{asked.seed}-{k}-{asked.days:g}.pickle" for k in numbers]
    todo = [(asked.seed, k, asked.days, path) for k, path in zip(numbers, files, strict=True) if not path.exists()]
    for ended in side_by_side([Task(prepare, task) for task in todo], processes=asked.processes):
        if isinstance(ended, Raised):
            print(ended.reason, file=sys.stderr)
            return 1
    scanned, took = _scanned(files, asked)
    truths = _truths(scanned, numbers, asked, folder)
    _show(scanned, truths, took)
    if asked.json:
        Path(asked.json).write_text(
            json.dumps({"wall_s": took.wall_s, "cpu_s": took.cpu_s, "scan": scanned, "truths": truths}, indent=1)
        )
    return 0


def _scanned(files: Sequence[Path], asked: argparse.Namespace) -> tuple[Row, Took]:
    """Run the command as a user does, and return its document and how long it took, start included."""
    end_s = BEGIN_S + asked.days * DAY_S
    shift_s = (time.time() - end_s) // HOUR_S * HOUR_S
    with serving(answering, files, shift_s) as (url, _):
        command = [sys.executable, "-m", "perdix.cli.main", "scan", url, "--days", f"{asked.days:g}", "--json"]
        began_s, before_s = time.perf_counter(), _cpu_s()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        took = Took(time.perf_counter() - began_s, _cpu_s() - before_s)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout), took


def _cpu_s() -> float:
    """Return what processes that have ended have computed, seconds: not the server, which is ended later."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _truths(scanned: Row, numbers: Sequence[int], asked: argparse.Namespace, folder: Path) -> dict[str, Row]:
    rows = {row["job"]: row for row in scanned["jobs"]}
    tasks, names = [], []
    for k in numbers:
        row = rows.get(f"zoo-{asked.seed}-{k}")
        if row is not None and row["advice"] is not None:
            tasks.append(Task(truth, (asked.seed, k, asked.days, row["objective"], folder)))
            names.append(row["job"])
    found = side_by_side(tasks, processes=asked.processes)
    return {
        name: row if isinstance(row, dict) else {"failed": str(row)} for name, row in zip(names, found, strict=True)
    }


def _show(scanned: Row, truths: dict[str, Row], took: Took) -> None:
    cells, near, held, small = [], 0, 0, 0
    by_grade: dict[str, list[bool]] = {}
    for row in scanned["jobs"]:
        known = truths.get(row["job"], {})
        if row["advice"] is None or "workers" not in known:
            cells.append([row["job"], known.get("kind", "-"), "-", "-", "-", "-", "-", row["why"] or known["failed"]])
            continue
        size, best = row["fixed"]["workers"], known["workers"]
        held += known["held"]
        near += known["held"] and abs(size - best) <= WITHIN
        now, grade = row["now"], row["confidence"]["grade"]
        small += known["held"] and size < best
        if known["held"]:
            by_grade.setdefault(grade, []).append(abs(size - best) <= WITHIN)
        found = [row["job"], known["kind"], number(now["average_workers"]), size, best, size - best, grade]
        cells.append([*found, f"perdix {row['perdix']['average_workers']:.1f} ({row['perdix']['method']})"])
    table("sizes", ["job", "kind", "now", "scan", "best", "off", "grade", "about"], cells)
    summary = scanned["summary"]
    what = f"{summary['jobs']} jobs, {scanned['days']:g} days each"
    print(f"{what}: {took.wall_s:.1f} s ({took.cpu_s:.0f} s of CPU), {summary['judged']} judged")
    print(f"within {WITHIN} worker of the best fixed size: {near} of {held} jobs ({100 * near / max(held, 1):.0f} %)")
    print(
        "by grade:", ", ".join(f"{grade} {sum(within)} of {len(within)}" for grade, within in sorted(by_grade.items()))
    )
    print(f"smaller than the best fixed size: {small}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=61_001)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--json", default=None, help="file for the figures")
    parser.add_argument("--folder", default=None, help="of what was prepared; default PERDIX_HOME/scan-benchmark")
    parser.add_argument("--processes", type=int, default=2, help="at a time, to prepare and to search")
    return parser


if __name__ == "__main__":
    sys.exit(main())
