"""The twin against what was measured: each figure observed, simulated (mean and spread over seeds), and the error.

Run ``python -m benchmarks.calibration [--json] [--seeds N]`` from the project's folder, with the data pack beside it.
The parameters are those of ``conf/twins``; ``docs/twin.md`` says what each figure means.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks import measured
from benchmarks.calibration import daedalus as calibration_daedalus
from benchmarks.calibration import phoebe as calibration_phoebe
from benchmarks.calibration import standstill as calibration_standstill


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
        """Return the mean over seeds."""
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


def figures(groups: Iterable[str], seeds: Sequence[int]) -> Iterator[Figure]:
    """Simulate some groups of :data:`GROUPS` and yield their figures."""
    for group in groups:
        for name, observed, simulated, relative in SOURCES[group](seeds):
            yield Figure(group, name, observed, tuple(simulated), relative)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or a JSON document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--seeds", type=int, default=10, help="how many twins of each kind (default: 10)")
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this group; repeat for more")
    options = parser.parse_args(arguments)
    if not measured.DATA.is_dir():
        print(f"{measured.DATA}: the measured data is not there", file=sys.stderr)
        return 1
    began_s = time.perf_counter()
    found = list(figures(options.group or GROUPS, range(1, options.seeds + 1)))
    if options.json:
        rows = [
            {**asdict(figure), "mean": figure.mean, "spread": figure.spread, "error": figure.error} for figure in found
        ]
        document = {"schema": "perdix.benchmark.calibration/1", "seeds": options.seeds, "figures": rows}
        print(json.dumps(document, indent=1))
        return 0
    for group, title in GROUPS.items():
        _show(title, [figure for figure in found if figure.group == group])
    print(f"\n{options.seeds} seeds, {time.perf_counter() - began_s:.0f} s")
    return 0


def _show(title: str, rows: Sequence[Figure]) -> None:
    if not rows:
        return
    print(f"\n{title}\n{'':48} {'observed':>11} {'simulated':>11} {'+-':>9} {'error':>9} {'in sd':>6}")
    for row in rows:
        error = f"{row.error:+9.1%}" if row.relative else f"{row.error:+9.3f}"
        digits = _digits(row.observed)
        values = f"{row.observed:11,.{digits}f} {row.mean:11,.{digits}f} {row.spread:9,.{digits}f}"
        print(f"{row.name:48} {values} {error} {row.deviations:+6.1f}")


def _digits(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 3


if __name__ == "__main__":
    sys.exit(main())
