"""Whether capacity intervals hold the truth: counted over ticks, by how much of its capacity the job used.

Belongs here: what is counted. Does not belong here: estimating anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from perdix.control.tick_io import TickReport
from perdix.models.capacity.contract import Estimate
from perdix.twin.job import JobTwin

EVERY = 5  # ticks: neighbours say much the same
MINUTE_S = 60
EDGES = (0.0, 0.05, 0.12, 0.30, 0.60, 0.90, math.inf)  # of utilisation
CLASSES = ("below 5 %", "5-12 %", "12-30 %", "30-60 %", "60-90 %", "above 90 %")
HERE, ELSEWHERE = "here", "elsewhere"  # at the scale-out that runs, at all others
Counts = dict[str, dict[str, list[float]]]  # where -> class -> see ``Tally``


@dataclass
class Tally:
    """What was counted in one class."""

    asked: float = 0.0  # intervals that were looked at
    # below, above: those of which the truth lies below the lower end, above the upper end
    below: float = 0.0
    above: float = 0.0
    # log_width, log_error: sums of the logs of the upper end over the lower, and of the estimate over the truth
    log_width: float = 0.0
    log_error: float = 0.0

    def add(self, estimate: Estimate, true_per_s: float) -> None:
        self.asked += 1
        self.below += true_per_s < estimate.low_per_s
        self.above += true_per_s > estimate.high_per_s
        self.log_width += math.log(max(estimate.high_per_s, 1e-9) / max(estimate.low_per_s, 1e-9))
        self.log_error += math.log(max(estimate.per_s, 1e-9) / max(true_per_s, 1e-9))


@dataclass
class Witness:
    """Looks at a twin after each tick, and compares in the end what was believed in it."""

    twin: JobTwin
    _true: dict[int, tuple[int, float, float]] = field(default_factory=dict)  # tick -> scale-out, capacity, utilisation

    def look(self, number: int) -> None:
        """Remember what is true now, after tick ``number`` (from 1 on); nothing while the job stands still."""
        if number % EVERY:
            return
        history, now_s = self.twin.history, self.twin.now_s
        if np.isnan(history.at("uptime_s", now_s - 1)):
            return
        capacity = self.twin.current_capacity()
        processed = history.column("processed", now_s - MINUTE_S)
        self._true[number - 1] = (self.twin.scale_out, capacity, float(processed.mean()) / capacity)

    def counts(self, reports: Iterable[TickReport]) -> Counts:
        """Return what came of it, as JSON-serialisable values."""
        tallies = {where: {name: Tally() for name in CLASSES} for where in (HERE, ELSEWHERE)}
        for number, report in enumerate(reports):
            if number not in self._true:
                continue
            running, capacity, utilisation = self._true[number]
            name = class_of(utilisation)
            for scale_out, estimate in report.capacities.items():
                if scale_out == running:
                    tallies[HERE][name].add(estimate, capacity)
                elif scale_out <= self.twin.parameters.workers.maximum:
                    tallies[ELSEWHERE][name].add(estimate, self.twin.true_capacity(scale_out))
        return {
            where: {name: list(vars(share).values()) for name, share in mine.items() if share.asked}
            for where, mine in tallies.items()
        }


def class_of(utilisation: float) -> str:
    """Return the class of a utilisation, a ratio."""
    return CLASSES[int(np.searchsorted(EDGES, utilisation, side="right")) - 1]


def pooled(every: Iterable[Counts]) -> list[dict[str, object]]:
    """Return a row per place and class over many jobs.

    ``held`` is the share of intervals that hold the truth, ``below`` and ``above`` where it lies otherwise, ``width``
    the geometric mean of the upper over the lower end, ``bias`` that of the estimate over the truth.
    """
    sums: dict[tuple[str, str], np.ndarray] = {}
    for counts in every:
        for where, mine in counts.items():
            for name, values in mine.items():
                sums[where, name] = sums.get((where, name), np.zeros(len(values))) + np.array(values)
    return [
        _row(where, name, sums[where, name]) for where in (HERE, ELSEWHERE) for name in CLASSES if (where, name) in sums
    ]


def _row(where: str, name: str, sums: np.ndarray) -> dict[str, object]:
    tally = Tally(*(float(value) for value in sums))
    return {
        "where": where,
        "utilisation": name,
        "intervals": int(tally.asked),
        "held": 1.0 - (tally.below + tally.above) / tally.asked,
        "below": tally.below / tally.asked,
        "above": tally.above / tally.asked,
        "width": math.exp(tally.log_width / tally.asked),
        "bias": math.exp(tally.log_error / tally.asked),
    }


def of_rows(rows: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return the coverage of some rows of results; see :func:`pooled`."""
    return pooled(row["coverage"] for row in rows if isinstance(row.get("coverage"), dict))  # type: ignore[misc]
