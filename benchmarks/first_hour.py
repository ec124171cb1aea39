"""Forecast errors in a job's first hour, while it has no champion: the fallback beside families.

Run ``python -m benchmarks.first_hour --seed 5105 --jobs 30``. Each load (idle and near-idle ones left out) is begun
three times in its day; a forecaster is made after two minutes, updated every minute, and asked at the ages below.
Errors are those of the minutes' means, as a share of the load's mean.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import markdown
from benchmarks.measured import DATA
from benchmarks.zoo.jobs import QUIET, draw
from benchmarks.zoo.traces import NoTracesError
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import FAMILIES
from perdix.models.forecasting.forecaster import Forecaster, fallback
from perdix.telemetry.window import Values

BEGINS_H, AGES_MIN, LEADS_MIN = (1, 9, 17), (4, 8, 15, 25, 40), (1, 5, 15)
MADE_MIN, MINUTE_S, HORIZON_MIN = 2, 60, 15
ALONE = ("linear", "last-value", "damped-trend")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=5105)
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--data", type=Path, default=DATA)
    asked = parser.parse_args()
    makers: dict[str, Callable[[Workload], Forecaster]] = {"fallback": fallback}
    makers |= {name: partial(Forecaster.fit, families={name: FAMILIES[name]}) for name in ALONE}
    errors: Mapping[str, list[Values]] = defaultdict(list)
    for load in _loads(asked):
        for name, make in makers.items():
            errors[name] += _errors(load, make)
    lines = []
    for name, found in errors.items():
        line = {"made by": name}
        for lead in LEADS_MIN:
            of = np.array(found)[:, lead - 1]
            line |= {f"mean, {lead} min ahead": f"{of.mean():.1%}", f"median, {lead} min": f"{np.median(of):.1%}"}
        lines.append(line)
    markdown(lines)
    return 0


def _loads(asked: argparse.Namespace) -> Iterator[Values]:
    """Yield the records of each second of the loads' days, each divided by its mean."""
    for number in range(asked.jobs):
        try:
            job = draw(asked.seed, number, data=asked.data)
        except NoTracesError:
            continue
        if job.kind not in QUIET:
            yield job.arrivals / job.arrivals.mean()


def _errors(load: Values, make: Callable[[Workload], Forecaster]) -> list[Values]:
    """Return the errors over the coming minutes, at each age of each beginning; ``(HORIZON_MIN,)`` each."""
    found = []
    for begin in (3600 * hour for hour in BEGINS_H):
        minute = load[begin:][: MINUTE_S * (max(AGES_MIN) + HORIZON_MIN)].reshape(-1, MINUTE_S)
        model = make(Workload(0.0, 1.0, minute[:MADE_MIN].ravel()))
        for age in range(MADE_MIN, max(AGES_MIN) + 1):
            if age > MADE_MIN:
                model = model.update(Workload(float(MINUTE_S * (age - 1)), 1.0, minute[age - 1]))
            if age in AGES_MIN:
                said = model.forecast(step_s=MINUTE_S).mean
                found.append(np.abs(said - minute[age : age + HORIZON_MIN].mean(axis=1)))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
