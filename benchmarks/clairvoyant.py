"""The least that any plan would need on the recorded traces, and how long it takes to find.

Run ``python -m benchmarks.clairvoyant [--json] [--interval 60] [--twin-seed 0]`` from the project's folder, with the
data pack beside it. Each trace is scaled: its peak is a share of what the twin's twelve workers are expected to take.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.harness import Row, markdown, options, write_json
from benchmarks.measured import TRACES, published, there
from perdix.replay.clairvoyant.bound import Clairvoyant, Impossible, Physics, clairvoyant, physics_of
from perdix.replay.clairvoyant.physics import checked_arrivals
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.window import Values
from perdix.twin.job import JobTwin
from perdix.twin.parameters import load_twin

PEAKS = (0.75, 0.95)
BOUNDS = Bounds(maximum=12)


def rows(interval_s: int, seed: int) -> Iterator[Row]:
    """Yield a row per trace and peak: workers on average, ``None`` with ``why`` where no plan holds the objectives."""
    objectives = Objectives()
    for name, (_, twin) in TRACES.items():
        physics = physics_of(JobTwin(load_twin(twin), seed))
        trace = published(name)
        for peak in PEAKS:
            arrivals = trace * (peak * physics.capacities_per_s[BOUNDS.maximum] / trace.max())
            began_s = time.perf_counter()
            found: Clairvoyant | Impossible = clairvoyant(
                arrivals, physics, objectives, BOUNDS, decision_interval_s=interval_s, guard_where_possible=True
            )
            wall_s = time.perf_counter() - began_s
            yield {
                "trace": name,
                "twin": twin,
                "peak_utilisation": peak,
                "bound_workers": None if isinstance(found, Impossible) else found.average_workers,
                "rescales": None if isinstance(found, Impossible) else found.rescales,
                "unguarded": 0 if isinstance(found, Impossible) else found.unguarded,
                "instantaneous_workers": float(instantaneous_minimum(arrivals, physics, BOUNDS).mean()),
                "wall_s": wall_s,
                "why": found.why if isinstance(found, Impossible) else "",
            }


def instantaneous_minimum(arrivals_per_s: Values, physics: Physics, bounds: Bounds) -> Values:
    """Return the fewest workers that carry each second by itself, shape ``(seconds,)``.

    As if rescaling took no time and nothing ever failed: a looser bound. Where none carries it, those with the greatest
    capacity. Raises ``ValueError`` as :func:`clairvoyant`.
    """
    arrivals, capacities = checked_arrivals(arrivals_per_s), physics.capacities(bounds)
    strongest = np.maximum.accumulate(capacities)
    fewest = np.searchsorted(strongest, np.minimum(arrivals, strongest[-1]))
    return np.asarray(bounds.minimum + fewest, dtype=np.float64)


def main(arguments: list[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--interval", type=int, default=60, metavar="S", help="seconds between decisions")
    parser.add_argument("--twin-seed", type=int, default=0, metavar="N", help="whose workers differ in speed")
    asked = parser.parse_args(arguments)
    if not there():
        return 2
    found = list(rows(asked.interval, asked.twin_seed))
    if asked.json:
        write_json({"interval_s": asked.interval, "rows": found})
        return 0
    print(f"Least workers on average of any plan that holds the objectives and decides every {asked.interval} s")
    print(
        "unguarded: decisions at which no scale-out would recover from a failure in time, so that none is asked for\n"
    )
    markdown(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
