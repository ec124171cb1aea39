"""Replays that were never played: courses and outcomes made by hand, so that a test says what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from perdix.models.billing.bill import Bill
from perdix.replay.outcome import Course, Latency, Outcome, Played, Recovery

START_S = 1_760_000_400.0
OUTCOME = Outcome(
    policy="daedalus",
    trace="sine",
    seed=1,
    hours=1.0,
    ticks=60,
    average_workers=4.0,
    worker_s=14_400.0,
    rescales=3,
    failures=1,
    latency_ms=Latency(700.0, 600.0, 900.0, 20_000.0),
    share_above_objective=0.02,
    lag_maximum_records=50_000.0,
    lag_at_end_records=0.0,
    unprocessed=0.0,
    recovery_error=0.12,
    forecast_wape=0.05,
    first_minute_wape=0.02,
    capacity_error=0.03,
    capacity_error_all=0.06,
    clairvoyant_worker_s=12_000.0,
    clairvoyant_ratio=1.2,
    wall_s=1.0,
    twin_s=0.1,
)
BILL = Bill(
    instance_type="m6i.large",
    currency="USD",
    cost=1.5,
    host_h_paid=15.0,
    host_h_used=13.0,
    utilisation=0.8,
    wasted_cost=0.3,
    leases=4,
    most_hosts=3,
)


def course(seconds: int = 3_600, workers: float = 4.0, **columns: Any) -> Course:
    """A calm run: what arrives is processed, at 600 ms, by workers of 1,000 records/s each."""
    calm = {
        "times_s": START_S + np.arange(seconds, dtype=np.float64),
        "workload_per_s": np.full(seconds, 3_000.0),
        "throughput_per_s": np.full(seconds, 3_000.0),
        "workers": np.full(seconds, workers),
        "lag_records": np.zeros(seconds),
        "latency_p95_ms": np.full(seconds, 600.0),
        "cpu_load": np.full(seconds, 0.7),
        "capacity_per_s": np.full(seconds, 1_000.0 * workers),
        "forecast_per_s": np.full(seconds, np.nan),
    }
    names = Course.__dataclass_fields__  # newer columns are not what these tests are about
    missing = {name: np.zeros(seconds) for name in names if name not in calm}
    return Course(**{**calm, **missing, **columns})


def played(policy: str = "daedalus", seed: int = 1, workers: float = 4.0, **changes: Any) -> Played:
    """A replay at constant workers; ``seconds`` and columns go to the course, everything else to the outcome."""
    of_course = {name: changes.pop(name) for name in list(changes) if name in (*Course.__dataclass_fields__, "seconds")}
    made = course(workers=workers, **of_course)
    hours = len(made.times_s) / 3600.0
    outcome = replace(
        OUTCOME, policy=policy, seed=seed, hours=hours, average_workers=workers, worker_s=workers * len(made.times_s)
    )
    return Played(replace(outcome, **changes), made)


def recovery(true_s: float | None, predicted_s: float | None, cause: str = "out", **changes: Any) -> Recovery:
    """A recovery ten minutes after the start."""
    return replace(Recovery(START_S + 600.0, cause, 4, 5, predicted_s, None, true_s), **changes)


def group(*replays: Played) -> dict[str, Sequence[Played]]:
    """By policy, as pictures take them."""
    found: dict[str, list[Played]] = {}
    for replay in replays:
        found.setdefault(replay.outcome.policy, []).append(replay)
    return dict(found)
