"""A seeded lake of many stream jobs, a week of one-minute workload each; some of them broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.signal import lfilter

from perdix.telemetry.lake import Lake
from perdix.telemetry.tables import TIMESTAMP

TABLE = "workload_features"
NEWEST_DAY = date(2026, 3, 8)  # a Sunday
MINUTES, GRID_S = 1_440, 10
Rates = NDArray[np.float64]


def job_names(count: int) -> list[str]:
    return [f"job-{number:04d}" for number in range(count)]


def write_fleet_lake(lake: Lake, jobs: int, days: int, seed: int) -> dict[str, list[str]]:
    """Write the workload of every job; returns what is broken -> the jobs that are broken so."""
    broken: dict[str, list[str]] = {}
    for number, job in enumerate(job_names(jobs)):
        rng = np.random.default_rng([seed, number])
        per_minute = workload(rng, days)
        kind = KINDS.get(number % 100)
        if kind is not None:
            broken.setdefault(kind[0], []).append(job)
            per_minute = kind[1](per_minute, rng)
        _write(lake, job, per_minute, days, keep_missing=kind is not None and kind[0] == "all missing")
        if kind is not None and kind[0] == "damaged file":
            for file in lake.files(TABLE, job):
                file.write_bytes(b"PAR1 and no more")
    return broken


def workload(rng: np.random.Generator, days: int) -> Rates:
    """Return one-minute means: a day and a week that repeat, a trend, bursts, and noise that lasts some minutes."""
    minutes = np.arange(days * MINUTES)
    day = 2 * np.pi * minutes / MINUTES
    shape = np.zeros(len(minutes))
    for harmonic in range(1, int(rng.integers(2, 5))):
        shape += rng.uniform(0.1, 0.5) / harmonic * np.cos(harmonic * day - rng.uniform(0, 2 * np.pi))
    weekday = (NEWEST_DAY.weekday() - days + 1 + minutes // MINUTES) % 7
    level = np.exp(rng.uniform(np.log(500), np.log(200_000)))
    rates = level * np.exp(shape) * np.where(weekday >= 5, rng.uniform(0.5, 1.0), 1.0)
    rates *= 1.0 + rng.uniform(-0.2, 0.2) * minutes / len(minutes)
    fade = 0.9
    shocks = rng.normal(0.0, rng.uniform(0.01, 0.06) * np.sqrt(1 - fade**2), len(minutes))
    rates *= np.exp(lfilter([1.0], [1.0, -fade], shocks))
    for begin in np.flatnonzero(rng.random(len(minutes)) < 1.0 / MINUTES):
        lasts = int(rng.integers(5, 60))
        rates[begin : begin + lasts] *= rng.uniform(1.3, 2.5)
    return np.asarray(rates)


def _gaps(rates: Rates, rng: np.random.Generator) -> Rates:
    for begin in rng.integers(0, len(rates), 12):
        rates[begin : begin + int(rng.integers(10, 600))] = np.nan
    return rates


def _exploding(rates: Rates, _: np.random.Generator) -> Rates:
    return rates * np.exp(np.linspace(0.0, 25.0, len(rates)))


def _short(rates: Rates, _: np.random.Generator) -> Rates:
    return np.concatenate([np.full(len(rates) - 20, np.nan), rates[-20:]])


BROKEN: dict[str, Callable[[Rates, np.random.Generator], Rates]] = {
    "constant": lambda rates, _: np.full(len(rates), 4_200.0),
    "zero": lambda rates, _: np.zeros(len(rates)),
    "no rows": lambda rates, _: np.full(len(rates), np.nan),
    "all missing": lambda rates, _: np.full(len(rates), np.nan),
    "gaps": _gaps,
    "twenty minutes": _short,
    "exploding": _exploding,
    "negative": lambda rates, _: rates - 2.0 * rates.mean(),
    "damaged file": lambda rates, _: rates,
}
KINDS = {9 + 10 * index: item for index, item in enumerate(BROKEN.items())}  # one of each kind in a hundred jobs


def _write(lake: Lake, job: str, per_minute: Rates, days: int, *, keep_missing: bool) -> None:
    """Write what the observation pipeline would: each minute's mean on the lake's grid, a step named by its end."""
    steps = np.repeat(per_minute, 60 // GRID_S)
    steps = np.concatenate([steps[:1], steps[:-1]])  # a day holds the step that ends at its first midnight
    a_day = 86_400 // GRID_S
    for index in range(days):
        day = NEWEST_DAY - timedelta(days=days - 1 - index)
        rates = steps[index * a_day : (index + 1) * a_day]
        midnight_us = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1e6)
        ends_us = midnight_us + 1_000_000 * GRID_S * np.arange(a_day)
        seen = np.flatnonzero(np.isfinite(rates))
        if not keep_missing:
            held = slice(seen[0], seen[-1] + 1) if len(seen) else slice(0)
            rates, ends_us = rates[held], ends_us[held]
        columns = {"ts": pa.array(ends_us, TIMESTAMP), "workload_per_s": pa.array(rates, from_pandas=True)}
        lake.replace(TABLE, job, day, pa.table(columns))
