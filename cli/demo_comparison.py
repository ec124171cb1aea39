"""The same hours of the same twin under several policies, through the real tick."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from control.champions import Champions
from control.replay import ReplayResult, replay
from settings.home import Home
from settings.stream_job import PolicySettings
from twin.job import JobTwin
from twin.living import LivingTwin
from twin.parameters import TwinParameters
from twin.tending import tend

HOURS = 2.0
SETTLE_S = 600  # before the first tick, so that the static deployment has its workers


@dataclass(frozen=True)
class Course:
    """How one replay went, for the picture: one value a minute."""

    policy: str
    workload_per_s: list[float]
    workers: list[float]
    latency_p95_ms: list[float]


@dataclass(frozen=True)
class _Case:
    parameters: TwinParameters
    seed: int
    policy: str
    start_s: int
    past_s: int
    champions: Path


def compare(
    place: Home, trained: dict[str, Any], living: LivingTwin, *, seed: int, hours: float
) -> tuple[list[dict[str, Any]], dict[str, list[Course]]]:
    """Replay every job under Daedalus, HPA at 80 % CPU and static at the maximum; a row and three courses per job.

    The twins are those whose exports were trained on (same seed, same past), two hours on.
    """
    past_s = round(3_600 * hours)
    cases = [
        _Case(
            living.job(name).parameters,
            seed + index,
            policy,
            living.job(name).history.start_s,
            past_s,
            place.champions,
        )
        for index, name in enumerate(living.names())
        for policy in ("daedalus", "hpa", "static")
    ]
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_workers=2) as pool:
        played = list(pool.map(_play, cases))
    rows, courses = [], {}
    for name in living.names():
        mine = {case.policy: result for case, result in zip(cases, played, strict=True) if case.parameters.name == name}
        courses[name] = [course for _, course in mine.values()]
        rows.append(_row(name, trained, {policy: result for policy, (result, _) in mine.items()}))
    return rows, courses


def _play(case: _Case) -> tuple[ReplayResult, Course]:
    twin = JobTwin(case.parameters, case.seed, start_s=case.start_s)
    tend(twin, case.past_s - SETTLE_S)
    if case.policy == "static":
        twin.rescale(case.parameters.workers.maximum, "static")
    twin.step(SETTLE_S)
    began_s = twin.now_s
    result = replay(twin, _settings(case), HOURS, champions=Champions(case.champions, None))
    return replace(result, reports=()), Course(case.policy, *(_minutes(twin, name, began_s) for name in _COLUMNS))


_COLUMNS = ("arrived", "scale_out", "latency_p95_ms")


def _settings(case: _Case) -> PolicySettings:
    options: dict[str, dict[str, Any]] = {
        "daedalus": {},
        "hpa": {"target_cpu": 0.8},
        "static": {"scale_out": case.parameters.workers.maximum},
    }
    return PolicySettings(name=case.policy, options=options[case.policy])  # type: ignore[arg-type]


def _minutes(twin: JobTwin, column: str, from_s: int) -> list[float]:
    values = twin.history.column(column, from_s)
    whole = values[: len(values) // 60 * 60].reshape(-1, 60)
    known = np.isfinite(whole)
    sums, counts = np.where(known, whole, 0.0).sum(axis=1), np.maximum(known.sum(axis=1), 1)
    return np.where(known.any(axis=1), sums / counts, np.nan).tolist()


def _row(name: str, trained: dict[str, Any], results: dict[str, ReplayResult]) -> dict[str, Any]:
    forecast = next((row for row in trained["models"]["forecast"]["jobs"] if row["job"] == name), {})
    found: dict[str, Any] = {
        "job": name,
        "family": forecast.get("winner"),
        "wape": forecast.get("wape_900s"),
        "capacity_error": results["daedalus"].capacity_error,
    }
    for policy, result in results.items():
        found |= {
            f"{policy}_workers": result.workers_mean,
            f"{policy}_rescales": result.rescales,
            f"{policy}_p50_ms": result.latency_p50_ms,
            f"{policy}_p95_ms": result.latency_p95_ms,
            f"{policy}_above_objective": result.above_objective,
            f"{policy}_unprocessed": result.unprocessed_records,
        }
    return found
