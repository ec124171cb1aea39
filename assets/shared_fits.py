"""Fit the models that jobs share, each on a Spark task, unless that was done for the same data. Knows no Dagster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdix.assets.shared_training import TABLE, SharedStore, fingerprint_of, fit_shared, sample_of
from perdix.assets.spark.tasks import run_tasks
from perdix.control.clock import WallClock
from perdix.telemetry.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Fitted:
    """What to report: what was fitted, and what could not be."""

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def fit_all_shared(
    session: Callable[[], SparkSession],
    lake: Lake,
    families: Sequence[str],
    store: SharedStore,
    settings: Mapping[str, Any],
) -> Fitted:
    """Bring the shared models of families up to date; one that cannot be fitted leaves its last ones in use.

    ``settings``: ``history_days``, ``horizon_s``, ``seed``.
    """
    jobs, fitted = sample_of(lake.jobs(TABLE), settings["seed"]), Fitted()
    fingerprint = fingerprint_of(lake, jobs, settings, WallClock().now_s())
    due = [family for family in families if store.fingerprint(family) != fingerprint]
    keys = [
        {"lake": str(lake.root), "family": family, "jobs": jobs, "early": early, **settings}
        for family in due
        for early in (True, False)
    ]
    answers = run_tasks(session(), keys, fit_shared) if keys else []
    for family in due:
        own = [answer for answer in answers if answer.key["family"] == family]
        if wrong := next((answer for answer in own if answer.error), None):
            fitted.problems.append(f"{family}: the model that jobs share could not be fitted: {wrong.error}")
            continue
        store.write(family, fingerprint, [answer.result for answer in own])
        used, seconds = len(own[-1].result["jobs"]), max(answer.seconds for answer in own)
        fitted.notes.append(f"{family}: one model for all jobs, fitted to {used} of them in {seconds:.0f} s")
    return fitted
