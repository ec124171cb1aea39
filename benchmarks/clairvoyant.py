"""The least that any plan would need on the recorded traces, and how long it takes to find.

Run ``python -m benchmarks.clairvoyant [--json] [--interval 60] [--twin-seed 0]`` from the project's folder, with the
data pack beside it. Each trace is scaled: its peak is a share of what the twin's twelve workers are expected to take.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from perdix.replay.clairvoyant.bound import Clairvoyant, Impossible, Physics, clairvoyant, physics_of
from perdix.replay.clairvoyant.physics import checked_arrivals
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.window import Values
from perdix.twin.job import JobTwin
from perdix.twin.parameters import load_twin
from perdix.twin.workloads import read_trace

WORKLOADS = Path(__file__).parents[1] / "../shared/data/workloads"
TRACES = {
    "sine": ("sine_60000_6h.csv", "wordcount"),
    "advertising": ("advertising_6h_550K_max.csv", "ads"),
    "traffic": ("tm_6h_100K_max.csv", "traffic"),
}
PEAKS = (0.75, 0.95)
BOUNDS = Bounds(maximum=12)


@dataclass(frozen=True)
class Row:
    """One trace at one peak; workers on average, and ``None`` with ``why`` where no plan holds the objectives."""

    trace: str
    twin: str
    peak_utilisation: float
    bound_workers: float | None
    rescales: int | None
    unguarded: int
    instantaneous_workers: float
    wall_s: float
    why: str = ""


def rows(interval_s: int, seed: int) -> Iterator[Row]:
    objectives = Objectives()
    for name, (file, twin) in TRACES.items():
        physics = physics_of(JobTwin(load_twin(twin), seed))
        trace = read_trace(WORKLOADS / file)
        for peak in PEAKS:
            arrivals = trace * (peak * physics.capacities_per_s[BOUNDS.maximum] / trace.max())
            began_s = time.perf_counter()
            found: Clairvoyant | Impossible = clairvoyant(
                arrivals, physics, objectives, BOUNDS, decision_interval_s=interval_s, guard_where_possible=True
            )
            wall_s = time.perf_counter() - began_s
            fewest = float(instantaneous_minimum(arrivals, physics, BOUNDS).mean())
            if isinstance(found, Impossible):
                yield Row(name, twin, peak, None, None, 0, fewest, wall_s, found.why)
            else:
                yield Row(name, twin, peak, found.average_workers, found.rescales, found.unguarded, fewest, wall_s)


def instantaneous_minimum(arrivals_per_s: Values, physics: Physics, bounds: Bounds) -> Values:
    """Return the fewest workers that carry each second by itself, shape ``(seconds,)``.

    As if rescaling took no time and nothing ever failed: a looser bound. Where none carries it, those with the greatest
    capacity. Raises ``ValueError`` as :func:`clairvoyant`.
    """
    arrivals, capacities = checked_arrivals(arrivals_per_s), physics.capacities(bounds)
    strongest = np.maximum.accumulate(capacities)
    fewest = np.searchsorted(strongest, np.minimum(arrivals, strongest[-1]))
    return np.asarray(bounds.minimum + fewest, dtype=np.float64)


def _print(found: list[Row], interval_s: int) -> None:
    print(f"Least workers on average of any plan that holds the objectives and decides every {interval_s} s")
    print(
        "unguarded: decisions at which no scale-out would recover from a failure in time, so that none is asked for\n"
    )
    print(f"{'trace':12} {'twin':10} {'peak':>5} {'bound':>7} {'rescales':>8} {'unguarded':>9} {'instantaneous':>13} "
          f"{'wall s':>7}")  # fmt: skip
    for row in found:
        bound = "none" if row.bound_workers is None else f"{row.bound_workers:.2f}"
        rescales = "" if row.rescales is None else row.rescales
        print(f"{row.trace:12} {row.twin:10} {row.peak_utilisation:5.0%} {bound:>7} {rescales:>8} {row.unguarded:9} "
              f"{row.instantaneous_workers:13.2f} {row.wall_s:7.2f}  {row.why}")  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--interval", type=int, default=60, metavar="S", help="seconds between decisions")
    parser.add_argument("--twin-seed", type=int, default=0, metavar="N", help="whose workers differ in speed")
    wanted = parser.parse_args(arguments)
    if not WORKLOADS.is_dir():
        print(f"{WORKLOADS}: no recorded traces; put the data pack beside the project", file=sys.stderr)
        return 2
    found = list(rows(wanted.interval, wanted.twin_seed))
    if wanted.json:
        print(json.dumps({"interval_s": wanted.interval, "rows": [asdict(row) for row in found]}))
    else:
        _print(found, wanted.interval)
    return 0


if __name__ == "__main__":
    sys.exit(main())
