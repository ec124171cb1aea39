"""The twin against what was measured: each figure observed, simulated (mean and spread over seeds), and the error.

Run ``python -m benchmarks.calibration [--json] [--seeds N]`` from the project's folder, with the data pack beside it.
The parameters are those of ``conf/twins``; ``docs/twin.md`` says what each figure means.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks import measured
from benchmarks.calibration import daedalus as calibration_daedalus
from benchmarks.calibration import phoebe as calibration_phoebe
from benchmarks.calibration import standstill as calibration_standstill
from benchmarks.harness import Columns, grouped, markdown, options, shown, write_json


@dataclass(frozen=True)
class Figure:
    """One number, observed and simulated.

    ``simulated``: one value per seed.
    ``error``: mean of the simulated against the observed: relative, or a difference where the number is a share itself.
    """

    group: str
    name: str
    observed: float
    simulated: tuple[float, ...]
    relative: bool

    @property
    def mean(self) -> float:
        return float(np.mean(self.simulated))

    @property
    def spread(self) -> float:
        """Return the standard deviation over seeds."""
        return float(np.std(self.simulated, ddof=1)) if len(self.simulated) > 1 else 0.0

    @property
    def error(self) -> float:
        """Return how far the mean is off."""
        return self.mean / self.observed - 1.0 if self.relative else self.mean - self.observed

    @property
    def deviations(self) -> float:
        """Return how many of the seeds' standard deviations lie between: what one measured run may be off by luck."""
        return (self.mean - self.observed) / self.spread if self.spread > 0 else float("nan")


GROUPS = {
    "line": "CPU against throughput of one worker (ads)",
    "skew": "12 saturated workers (ads)",
    "cpu": "mean CPU of 12 workers by load, another run (ads)",
    "latency": "p95 latency against load (ads, tsw)",
    "capacity": "what n workers take at most (tsw; Nexmark)",
    "recovery": "seconds until p95 latency is below 2 s again (tsw, ysb)",
    "standstill": "standstill at failures of a static scale-out, inferred (tsw, ysb)",
    "static": "six hours of a static scale-out with eight failures (tsw, ysb)",
}
SOURCES = {
    "line": calibration_daedalus.line,
    "skew": calibration_daedalus.skew,
    "cpu": calibration_daedalus.cpu_of_twelve,
    "latency": lambda seeds: [*calibration_daedalus.latency(seeds), *calibration_phoebe.latency(seeds)],
    "capacity": calibration_phoebe.capacity,
    "recovery": calibration_phoebe.recovery,
    "standstill": calibration_standstill.standstill,
    "static": calibration_phoebe.static,
}


COLUMNS: Columns = {
    "figure": "{name}",
    "observed": lambda row: shown(row.observed),
    "simulated": lambda row: shown(row.mean),
    "+-": lambda row: shown(row.spread),
    "error": lambda row: f"{row.error:+.1%}" if row.relative else f"{row.error:+.3f}",
    "in sd": "{deviations:+.1f}",
}


def figures(groups: Iterable[str], seeds: Sequence[int]) -> Iterator[Figure]:
    """Simulate some groups of :data:`GROUPS` and yield their figures."""
    for group in groups:
        for name, observed, simulated, relative in SOURCES[group](seeds):
            yield Figure(group, name, observed, tuple(simulated), relative)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or a JSON document."""
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many twins of each kind (default: 10)")
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this group; repeat for more")
    asked = parser.parse_args(arguments)
    if not measured.there():
        return 1
    began_s = time.perf_counter()
    found = list(figures(asked.group or GROUPS, range(1, asked.seeds + 1)))
    if asked.json:
        rows = [
            {**asdict(figure), "mean": figure.mean, "spread": figure.spread, "error": figure.error} for figure in found
        ]
        write_json({"schema": "perdix.benchmark.calibration/1", "seeds": asked.seeds, "figures": rows})
        return 0
    for group, mine in grouped(found, lambda figure: figure.group).items():
        print(f"\n{GROUPS[group]}\n")
        markdown(mine, COLUMNS)
    print(f"\n{asked.seeds} seeds, {time.perf_counter() - began_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
