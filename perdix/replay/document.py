"""What came of a campaign, for machines: one JSON-serialisable document, and a Parquet file per replay."""

import hashlib
import json
import math
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perdix.models.registry.provenance import versions_of
from perdix.replay.campaign import Campaign, Setup
from perdix.replay.frontier.curve import REPORTED_AT, Frontier
from perdix.replay.outcome import Outcome, Played
from perdix.replay.pricing import Priced
from perdix.replay.recommendation import recommendation
from perdix.replay.side_by_side import Ended
from perdix.settings.json_values import plain

SCHEMA = "perdix.replay/1"
# What is called otherwise than in Outcome: units are spelt out, and what is a share there is in percent here.
NAMES = {
    "worker_s": "worker_seconds",
    "clairvoyant_worker_s": "clairvoyant_worker_seconds",
    "frontier_worker_s": "frontier_worker_seconds",
    "profiling_worker_s": "profiling_worker_seconds",
    "lag_maximum_records": "lag_maximum",
    "lag_at_end_records": "lag_at_end",
}
PERCENT = ("recovery_error", "forecast_wape", "first_minute_wape", "capacity_error", "capacity_error_all")
WHICH = ("policy", "trace", "seed", "hours", "error_budget", "held")
PACKAGES = ("perdix", "numpy", "scipy", "statsmodels", "pmdarima", "scikit-learn", "xgboost")


def document(campaign: Campaign) -> dict[str, Any]:
    """Return everything but the seconds: what was replayed, a result per policy and seed, a summary per policy.

    Keys are described in ``docs/json.md``. What is not known, or no finite number, is ``None``.
    """
    setup = campaign.setup
    results = [result(replay.outcome, setup.price_per_h) for replay in campaign.played]
    summaries = [summary(label, [row for row in results if row["policy"] == label]) for label in setup.labels]
    found = {
        "results": results,
        "summary": summaries,
        "recommendation": recommendation(
            summaries, setup.objectives, currency=_currency(setup), seeds=len(setup.seeds)
        ),
        "clairvoyant": [
            {
                "seed": seed,
                "worker_seconds": least.worker_s,
                "average_workers": least.average_workers,
                "rescales": least.rescales,
                "unguarded": least.unguarded,
                "cost": _cost(least.worker_s, setup.price_per_h),
                **_priced_plan(campaign.priced, seed),
            }
            for seed, least in sorted(campaign.clairvoyants.items())
        ],
        "frontier": [_curve(seed, frontier) for seed, frontier in sorted(campaign.frontiers.items())],
    }
    notes = [*setup.trace.about(setup.seconds), *campaign.notes]
    return enveloped(SCHEMA, question(setup), found, campaign, notes)


def enveloped(
    schema: str,
    asked: Mapping[str, Any],
    found: Mapping[str, Any],
    campaign: Campaign | Ended[Any, Any],
    notes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the document of any kind of campaign: what was asked and found, what failed, how long it took, with what.

    ``found``: its own parts, ``results`` and ``summary`` first.
    ``notes``: ``None``: a kind without them.
    """
    return {
        "schema": schema,
        **asked,
        **found,
        "failed": [asdict(failure) for failure in campaign.failed],
        **({} if notes is None else {"notes": notes}),
        "wall_s": campaign.wall_s,
        "versions": versions(),
    }


def question(setup: Setup) -> dict[str, Any]:
    """Return what is replayed: the same question gives the same results."""
    trace, parameters = setup.trace, setup.parameters
    return {
        "trace": {"name": trace.name, "digest": trace.digest, "seconds": trace.length_s},
        "twin": {"name": parameters.name, "digest": digest(parameters.model_dump(mode="json"))},
        "hours": setup.hours,
        "step_s": setup.pace.step_s,
        "seeds": list(setup.seeds),
        "peak_utilisation": setup.peak_utilisation,
        "peak_per_s": {str(seed): setup.peak_per_s(seed) for seed in setup.seeds},
        "noise": setup.noise,
        "slow_noise": setup.slow_noise,
        "injected_failures": setup.failures,
        "forecaster": setup.forecaster,
        "bounds": setup.bounds.model_dump(),
        "objectives": setup.objectives.model_dump(),
        "price_per_h": setup.price_per_h,
        "pricing": None if setup.priced_by is None else setup.priced_by.asked(),
        "policies": [
            {
                "label": contender.label,
                "policy": contender.settings.name,
                "options": dict(contender.settings.options),
                "tick_interval_s": contender.tick_interval_s,
            }
            for contender in setup.contenders
        ],
    }


def result(outcome: Outcome, price_per_h: float) -> dict[str, Any]:
    """Return one policy's figures with one seed; what it costs is what its hosts cost, where they were priced."""
    found: dict[str, Any] = {}
    for name, value in outcome.figures().items():
        if name in PERCENT:
            found[f"{name}_pct"] = None if value is None else 100.0 * value
        else:
            found[NAMES.get(name, name)] = value
    errors = [recovery.error for recovery in outcome.recoveries]
    found["recoveries"] = [
        {**recovery, "error_pct": None if error is None else 100.0 * error}
        for recovery, error in zip(found["recoveries"], errors, strict=True)
    ]
    found["held"] = outcome.held
    found["cost"] = _paid(outcome, price_per_h)
    return dict(plain(found))


def summary(policy: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return mean, sd, min and max over seeds of every figure, and with how many seeds the objective was held.

    The sd is that of a sample, ``None`` for one seed.
    """
    return {
        "policy": policy,
        "seeds": len(results),
        "held": sum(1 for row in results if row["held"]),
        **known_spreads(results, [name for name in (results[0] if results else ()) if name not in WHICH]),
    }


def write_series(played: Sequence[Played], folder: Path) -> list[Path]:
    """Write each replay's course to ``<policy>-seed-<seed>.parquet``: a row per second, with policy, trace and seed.

    Many files are one table: ``SELECT policy, avg(workers) FROM 'series/*.parquet' GROUP BY policy``.
    """
    return write_tables(
        ((f"{slug(replay.outcome.policy)}-seed-{replay.outcome.seed}", _columns(replay)) for replay in played), folder
    )


def _columns(played: Played) -> dict[str, Any]:
    course, outcome = played.course, played.outcome
    return {
        **same_in_all(len(course.times_s), outcome.seed, policy=outcome.policy, trace=outcome.trace),
        **course.columns(),
        **({} if played.hosts is None else {"hosts": played.hosts}),
    }


def folder_name(setup: Setup) -> str:
    """Return a folder's name for the setup; another question has another name, the same one the same."""
    peak = f"{100 * setup.peak_utilisation:g}"
    return f"replay-{slug(setup.trace.name)}-{slug(peak)}-{digest(question(setup))[:8]}"


def slug(text: str) -> str:
    """Return text as part of a file's name."""
    return re.sub(r"[^\w.]+", "-", text).strip("-.") or "unnamed"


def versions() -> dict[str, str]:
    """Return the versions that results may depend on."""
    return {"python": platform.python_version(), **versions_of(PACKAGES)}


def _curve(seed: int, frontier: Frontier) -> dict[str, Any]:
    """Return the corners of a seed's frontier, and what it is at some shares of late seconds."""
    return {
        "seed": seed,
        "corners": [
            {
                "share_above_objective": plan.late_s / frontier.seconds,
                "worker_seconds": plan.worker_s,
                "average_workers": plan.worker_s / frontier.seconds,
                "rescales": len(plan.changes),
            }
            for plan in frontier.plans
        ],
        "at": [
            {"share_above_objective": share, "average_workers": frontier.workers_at(share)} for share in REPORTED_AT
        ],
    }


def _currency(setup: Setup) -> str | None:
    """Return the currency of what hosts cost, "" where only sizes of workers have prices, ``None`` without either."""
    if setup.priced_by is not None:
        return setup.priced_by.prices.currency
    return "" if setup.parameters.workers.sizes else None


def _priced_plan(priced: Priced | None, seed: int) -> dict[str, Any]:
    """Return what replaces and joins the figures of a clairvoyant plan, where its hosts were priced."""
    if priced is None or seed not in priced.clairvoyants:
        return {}
    bill = priced.clairvoyants[seed]
    return {"cost": bill.cost, "bill": asdict(bill), "cost_at_least": priced.at_least.get(seed)}


def _paid(outcome: Outcome, price_per_h: float) -> float:
    """Return the cost: of leased hosts where they were priced, else of workers by size where they have one."""
    if outcome.bill is not None:
        return outcome.bill.cost
    return _cost(outcome.worker_s, price_per_h) if outcome.sizes_cost is None else outcome.sizes_cost


def _cost(worker_s: float, price_per_h: float) -> float:
    return worker_s / 3600.0 * price_per_h


def digest(value: Any) -> str:
    """Return a short digest of a JSON-like value: the same value, the same digest."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def known_spreads(results: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return figure -> its spread over seeds; without those that no seed knows, and without any where none ended."""
    found = {name: spreads([row[name] for row in results]) for name in names if results}
    return {name: spread for name, spread in found.items() if spread is not None}


def spreads(values: Sequence[Any]) -> dict[str, Any] | None:
    """Return the spread of numbers, or of each part of mappings; ``None`` for what is neither, or not known."""
    if all(isinstance(value, Mapping) for value in values):
        return {name: spreads([value[name] for value in values]) for name in values[0]}
    known = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    known = [value for value in known if math.isfinite(value)]
    if not known:
        return None
    sd = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return {"mean": float(np.mean(known)), "sd": sd, "min": min(known), "max": max(known)}


def write_tables(tables: Iterable[tuple[str, Mapping[str, Any]]], folder: Path) -> list[Path]:
    """Write tables one after another, each under its name with ``.parquet`` behind it, and return the files.

    ``tables``: name and columns, each a NumPy or an Arrow array of the same length.
    ``folder``: made when it is absent, also where there is no table.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, columns in tables:
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table(dict(columns)), path, compression="zstd")
        paths.append(path)
    return paths


def same_in_all(rows: int, seed: int, **labels: str) -> dict[str, Any]:
    """Return the columns that say which replay it is: the labels, then the seed; ``rows`` times the same."""
    texts = {name: pa.array([label] * rows).dictionary_encode() for name, label in labels.items()}
    return {**texts, "seed": np.full(rows, seed, dtype=np.int32)}


def by_operator(seconds: int, operators: Sequence[str]) -> dict[str, Any]:
    """Return the columns that say which row it is, where there is a row per second and operator."""
    return {
        "second": np.repeat(np.arange(seconds, dtype=np.int32), len(operators)),
        "operator": pa.array(list(operators) * seconds).dictionary_encode(),
    }
