"""Jobs as a scan learns them, without a Prometheus: a capacity by a law, a load by a function of the hour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Workload
from perdix.scan.advice import advise
from perdix.scan.document import Scan, document
from perdix.scan.finding import FoundJob
from perdix.scan.judging import Course, Judged, Wanted
from perdix.scan.learning import Learned, Restarts
from perdix.scan.saving import WorkerPrice
from perdix.settings.access import HttpAccess

START_S = 1_790_000_400.0
MINUTES = 1_440
EACH_PER_S = 100.0
EURO = WorkerPrice(0.05, "EUR", "as made for tests")


def capacities(maximum=26, each_per_s=EACH_PER_S, width=0.1, seen=12):
    return {
        n: Estimate(n, each_per_s * n, (1 - width) * each_per_s * n, (1 + width) * each_per_s * n, n == seen, "law")
        for n in range(1, maximum + 1)
    }


def load(shape=lambda hours: 550.0 + 0.0 * hours, minutes=MINUTES):
    return Workload(START_S, 60.0, np.asarray(shape(np.arange(minutes) / 60.0), dtype=np.float64))


def daily(hours):
    return 550.0 + 450.0 * np.sin(2 * np.pi * hours / 24.0)


def learned(workload=None, workers=12, **changes):
    workload = load() if workload is None else workload
    nothing = np.full(len(workload), np.nan)
    made = Learned(
        workload,
        False,
        capacities(),
        np.full(len(workload), float(workers)),
        Restarts(),
        1_000.0,
        nothing,
        nothing,
        nothing,
    )
    return replace(made, **changes)


def found_job(name="orders", **changes):
    made = FoundJob(name, "flink", {"job_name": name, "namespace": "shop"}, START_S, START_S + 86_400.0, topic=name)
    return replace(made, **changes)


def judged(name="orders", of=None, **changes):
    of = of or learned()
    advice = advise(name, of, latency_ms=None, error_budget=0.05, looks_s=900)
    times_s = START_S + 900.0 * np.arange(96)
    quarters = of.load.per_s[:MINUTES].reshape(-1, 15).max(axis=1)
    course = Course(times_s, quarters, np.full(96, 12.0), np.empty(0), np.empty(0))
    table = {n: (estimate.low_per_s, estimate.per_s, estimate.high_per_s) for n, estimate in of.capacities.items()}
    return replace(Judged(found_job(name), advice, course=course, capacities=table), **changes)


def unjudged(name="mystery", reason="no cpu_load in Prometheus"):
    return Judged(found_job(name), reason=reason)


def scanned(*jobs, price=None, url="http://prometheus:9090"):
    wanted = Wanted(HttpAccess(url=url), START_S + 86_400.0, 1.0)
    return Scan(wanted, jobs, price, (), 1.0)


def told(*jobs, price=None):
    return document(scanned(*jobs, price=price))
