"""A campaign as MLflow shows it: a parent run, and a run per policy, so that the compare page has them side by side.

How runs are written is in :mod:`models.registry`; here is only what they say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from models.registry import Compared, Comparison, Recorded, Registry, TrainingData
from models.registry.publication import Parameter
from replay.campaign import Campaign, Setup
from replay.curves import over_seeds
from replay.outcome import Course
from replay.summary import Summary, summaries

EXPERIMENT = "perdix-replay"
WITH_SPREAD = ("average_workers", "clairvoyant_ratio", "latency_mean_ms", "latency_p95_ms", "above_objective_pct")
COURSE = ("workers", "workload_per_s", "latency_p95_ms", "lag_records")
POINTS = 90  # of a course: MLflow draws a line through them, and every one is a row in its database


def record(
    campaign: Campaign,
    registry: Registry,
    *,
    started_at_s: float,
    experiment: str = EXPERIMENT,
    files: Sequence[Path] = (),
    tags: Mapping[str, str] | None = None,
) -> Recorded:
    """Record a campaign: a parent run, and nested in it a run per policy with the means over its seeds.

    Parameters
    ----------
    registry
        From :func:`models.registry.prepare`.
    started_at_s
        Epoch seconds at which the campaign began.
    files
        Artifacts of the parent run: pictures, the figures as JSON, the courses as Parquet.
    tags
        Of every run, for example ``{"dagster.run_id": ...}``.

    Raises
    ------
    ValueError
        When no replay came to its end.
    ~models.registry.RegistryUnavailable
        When MLflow fails on the way.
    """
    return registry.record(comparison_of(campaign, started_at_s, experiment, files, tags or {}))


def comparison_of(
    campaign: Campaign, started_at_s: float, experiment: str, files: Sequence[Path], tags: Mapping[str, str]
) -> Comparison:
    """Return what is recorded of a campaign; pure."""
    setup = campaign.setup
    if not campaign.played:
        reasons = "; ".join(f"{one.policy}, seed {one.seed}: {one.reason}" for one in campaign.failed[:3])
        raise ValueError(f"no replay came to its end, so there is nothing to record: {reasons or 'none was asked for'}")
    found = summaries(one.outcome for one in campaign.played)
    failed = {f"failed_{one.policy}_{one.seed}": one.reason[:250] for one in campaign.failed}
    return Comparison(
        experiment=experiment,
        kind="replay",
        name=f"{setup.trace.name} on {setup.parameters.name}, peak {setup.peak_utilisation:.0%}",
        compared=[_compared(summary, campaign) for summary in found],
        data=TrainingData(
            name=setup.trace.name,
            location=setup.trace.name,
            digest=setup.trace.digest,
            rows=len(setup.trace.times_s),
            columns={"time_s": "double", "rate": "double"},
        ),
        started_at_s=started_at_s,
        parameters=_parameters(setup),
        tags={**tags, **failed},
        files=files,
    )


def _parameters(setup: Setup) -> dict[str, Parameter]:
    return {
        "trace": setup.trace.name,
        "twin": setup.parameters.name,
        "peak_utilisation": setup.peak_utilisation,
        "hours": setup.hours,
        "seeds": ",".join(map(str, setup.seeds)),
        "workers_minimum": setup.bounds.minimum,
        "workers_maximum": setup.bounds.maximum,
        "noise": setup.noise,
        "slow_noise": setup.slow_noise,
        "failures_per_run": setup.failures,
        "objective_latency_p95_ms": setup.objectives.latency_p95_ms,
        "objective_recovery_time_s": setup.objectives.recovery_time_s,
        "price_per_h": setup.price_per_h,
    }


def _compared(summary: Summary, campaign: Campaign) -> Compared:
    setup = campaign.setup
    contender = next(one for one in setup.contenders if one.label == summary.policy)
    mine = [one for one in campaign.played if one.outcome.policy == summary.policy]
    spread = {f"{name}_sd": summary.spread[name] for name in WITH_SPREAD if name in summary.spread}
    return Compared(
        name=summary.policy,
        metrics={**summary.mean, "cost": setup.price_per_h * summary.mean["worker_hours"], **spread},
        parameters={
            "policy": summary.policy,
            "rule": contender.settings.name,
            "options": json.dumps(contender.settings.options, sort_keys=True),
            "tick_interval_s": contender.tick_interval_s,
        },
        tags={"perdix.policy": summary.policy},
        series=_series([one.course for one in mine]),
        document=[one.outcome.figures() for one in mine],
    )


def _series(courses: Sequence[Course]) -> dict[str, list[tuple[int, float]]]:
    """Return the courses' means over seeds at so few seconds that MLflow can draw them; steps are minutes.

    Each point is the greatest of its stretch: what is looked for are peaks.
    """
    seconds = min(len(course.times_s) for course in courses)
    starts = np.arange(0, seconds, max(-(-seconds // POINTS), 60))
    found = {}
    for name in COURSE:
        mean = np.nan_to_num(over_seeds(courses, name)[0], nan=-np.inf)
        found[f"course/{name}"] = [
            (int(start // 60), float(value))
            for start, value in zip(starts, np.maximum.reduceat(mean, starts), strict=True)
        ]
    return found
