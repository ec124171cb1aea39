"""A campaign as MLflow shows it: a parent run, and a run per policy, so that the compare page has them side by side.

How runs are written is in :mod:`perdix.models.registry`, and what a campaign came to in :mod:`perdix.replay.document`;
here is only under which names MLflow shows it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perdix.models.registry import Compared, Comparison, TrainingData
from perdix.models.registry.publication import Parameter
from perdix.replay.campaign import Campaign
from perdix.replay.case import BEST_STATIC
from perdix.replay.curves import over_seeds, row_s
from perdix.replay.document import document, slug
from perdix.replay.outcome import Course

EXPERIMENT = "perdix-replay"
NO_TAGS: Mapping[str, str] = {}

# Name that says the unit -> where the document's summary has it, and the factor between their units. The first one is
# what MLflow's compare page plots when it opens.
METRICS: Mapping[str, tuple[tuple[str, ...], float]] = {
    "average_workers": (("average_workers",), 1.0),
    "clairvoyant_ratio": (("clairvoyant_ratio",), 1.0),
    "best_static_ratio": (("best_static_ratio",), 1.0),
    "of_frontier": (("of_frontier",), 1.0),
    "worker_hours": (("worker_seconds",), 1.0 / 3600.0),
    "cost": (("cost",), 1.0),
    "wasted_cost": (("bill", "wasted_cost"), 1.0),
    "host_hours_paid": (("bill", "host_h_paid"), 1.0),
    "host_hours_used": (("bill", "host_h_used"), 1.0),
    "paid_cores_used_pct": (("bill", "utilisation"), 100.0),
    "leases": (("bill", "leases"), 1.0),
    "hosts_most": (("bill", "most_hosts"), 1.0),
    "profiling_worker_hours": (("profiling_worker_seconds",), 1.0 / 3600.0),
    "latency_mean_ms": (("latency_ms", "mean"), 1.0),
    "latency_p50_ms": (("latency_ms", "p50"), 1.0),
    "latency_p95_ms": (("latency_ms", "p95"), 1.0),
    "latency_p99_ms": (("latency_ms", "p99"), 1.0),
    "above_objective_pct": (("share_above_objective",), 100.0),
    "unprocessed_records": (("unprocessed",), 1.0),
    "lag_max_records": (("lag_maximum",), 1.0),
    "rescales": (("rescales",), 1.0),
    "failures": (("failures",), 1.0),
    "recovery_error_pct": (("recovery_error_pct",), 1.0),
    "forecast_wape_pct": (("forecast_wape_pct",), 1.0),
    "first_minute_wape_pct": (("first_minute_wape_pct",), 1.0),
    "capacity_error_pct": (("capacity_error_pct",), 1.0),
    "capacity_error_all_pct": (("capacity_error_all_pct",), 1.0),
    "retrains": (("retrains",), 1.0),
    "wall_s": (("wall_s",), 1.0),
}
WITH_SPREAD = ("average_workers", "clairvoyant_ratio", "latency_mean_ms", "latency_p95_ms", "above_objective_pct")
PRICED = {"cost": "cost", "paid cores used (%)": "paid_cores_used_pct"}  # in the note, where hosts were priced
OF_THE_PARENT = ("average_workers", "clairvoyant_ratio", "best_static_ratio", "latency_mean_ms", "above_objective_pct")
HEADS = {
    "workers": "average_workers",
    "x clairvoyant": "clairvoyant_ratio",
    "x best-static": "best_static_ratio",
    "x frontier": "of_frontier",
    "latency, mean (ms)": "latency_mean_ms",
    "p95 (ms)": "latency_p95_ms",
    "above objective (%)": "above_objective_pct",
    "rescales": "rescales",
    "unprocessed": "unprocessed_records",
}
COLUMNS = (
    "average_workers",
    "above_objective_pct",
    "best_static_ratio",
    "of_frontier",
    "cost",
    "rescales",
)  # of the list
COURSE = ("workers", "workload_per_s", "latency_p95_ms", "lag_records")
POINTS = 90  # of a course: MLflow draws a line through them, and every one is a row in its database


def comparison_of(
    campaign: Campaign, started_at_s: float, files: Sequence[Path] = (), tags: Mapping[str, str] = NO_TAGS
) -> Comparison:
    """Return what MLflow shows of a campaign: a run, and nested in it one per policy with the means over its seeds.

    Raises ``ValueError`` when no replay came to its end.

    ``started_at_s``: epoch seconds at which the campaign began.
    ``files``: artifacts of the parent run: pictures, the document, the courses as Parquet.
    ``tags``: of every run, for example ``{"dagster.run_id": ...}``.
    """
    setup, found = campaign.setup, document(campaign)
    if not campaign.played:
        reasons = "; ".join(f"{row['policy']}, seed {row['seed']}: {row['reason']}" for row in found["failed"][:3])
        raise ValueError(f"no replay came to its end, so there is nothing to record: {reasons}")
    ended = [row for row in found["summary"] if row["seeds"]]
    return Comparison(
        experiment=EXPERIMENT,
        kind="replay",
        name=f"{setup.trace.name} on {setup.parameters.name}, peak {setup.peak_utilisation:.0%}",
        compared=[_compared(replay, found, campaign) for replay in ended],
        data=TrainingData(
            name=setup.trace.name,
            location=setup.trace.name,
            digest=setup.trace.digest,
            rows=len(setup.trace.times_s),
            columns={"time_s": "double", "rate": "double"},
        ),
        started_at_s=started_at_s,
        parameters=_parameters(found),
        metrics={
            f"{name}/{slug(row['policy'])}": value
            for name in OF_THE_PARENT
            for row in ended
            if (value := metrics_of(row).get(name)) is not None
        },
        note="\n\n".join(part for part in (found["recommendation"]["sentence"], table(ended)) if part),
        columns=COLUMNS,
        tags={**tags, "perdix.failed": str(len(campaign.failed))},
        files=files,
    )


def metrics_of(summary: Mapping[str, Any], statistic: str = "mean") -> dict[str, float]:
    """Return a policy's figures by MLflow's names, from its entry in the document's ``summary``.

    ``statistic``: ``mean``, ``sd``, ``min`` or ``max`` over seeds. What is not known is left out.
    """
    found = {}
    for name, (path, factor) in METRICS.items():
        spread: Any = summary
        for part in path:
            spread = (spread or {}).get(part)
        value = (spread or {}).get(statistic)
        if value is not None:
            found[name] = factor * float(value)
    return found


def table(summaries: Sequence[Mapping[str, Any]]) -> str:
    """Return the most important figures as a Markdown table, a row per policy; a dash where one is not known."""
    heads = {**HEADS, **(PRICED if any(summary.get("bill") for summary in summaries) else {})}
    rows = []
    for summary in summaries:
        metrics = metrics_of(summary)
        rows.append((summary["policy"], *(_number(metrics.get(name)) for name in heads.values())))
    return markdown(("policy", *heads), rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _compared(summary: Mapping[str, Any], found: Mapping[str, Any], campaign: Campaign) -> Compared:
    policy = summary["policy"]
    asked = next((entry for entry in found["policies"] if entry["label"] == policy), _fixed(found))
    spread = metrics_of(summary, "sd")
    return Compared(
        name=policy,
        metrics={**metrics_of(summary), **{f"{name}_sd": spread[name] for name in WITH_SPREAD if name in spread}},
        parameters={
            "policy": policy,
            "options": json.dumps(asked["options"], sort_keys=True),
            "tick_interval_s": asked["tick_interval_s"],
            **_hosts_of(policy, found),
        },
        tags={"perdix.policy": policy, "perdix.rule": asked["policy"]},
        series=_series([replay.course for replay in campaign.played if replay.outcome.policy == policy]),
        document={"results": [result for result in found["results"] if result["policy"] == policy]},
    )


def _fixed(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the best fixed size would have been asked for: its workers with each seed; it has no ticks."""
    sizes = [result["scale_out"] for result in found["results"] if result["policy"] == BEST_STATIC]
    return {"policy": "static", "options": {"scale_out": sizes}, "tick_interval_s": ""}


def _parameters(found: Mapping[str, Any]) -> dict[str, Parameter]:
    return {
        "trace": found["trace"]["name"],
        "twin": found["twin"]["name"],
        "twin_digest": found["twin"]["digest"],
        "peak_utilisation": found["peak_utilisation"],
        "hours": found["hours"],
        "seeds": ",".join(map(str, found["seeds"])),
        "noise": found["noise"],
        "slow_noise": found["slow_noise"],
        "injected_failures": found["injected_failures"],
        "workers_minimum": found["bounds"]["minimum"],
        "workers_maximum": found["bounds"]["maximum"],
        "objective_latency_p95_ms": found["objectives"]["latency_p95_ms"],
        "objective_error_budget": found["objectives"]["error_budget"],
        "objective_recovery_time_s": found["objectives"]["recovery_time_s"],
        **_prices(found),
    }


def _prices(found: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return how the replays were priced: a flat price per worker, or hosts of a price list."""
    pricing = found["pricing"]
    if pricing is None:
        return {"price_per_h": found["price_per_h"]}
    return {
        "prices": pricing["prices"],
        "prices_as_of": pricing["as_of"],
        "currency": pricing["currency"],
        "release": pricing["release"],
        **({f"worker_{name}": value for name, value in (pricing["worker"] or {}).items()}),
    }


def _hosts_of(policy: str, found: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the instance type that a policy's workers were packed onto; the same with every seed."""
    bills = [result["bill"] for result in found["results"] if result["policy"] == policy and result["bill"]]
    return {"instance_type": bills[0]["instance_type"]} if bills else {}


def _series(courses: Sequence[Course]) -> dict[str, list[tuple[int, float]]]:
    """Return the courses' means over seeds as MLflow draws them."""
    means = {f"course/{name}": over_seeds(courses, name)[0] for name in COURSE}
    return peaks({name: np.nan_to_num(mean, nan=-np.inf) for name, mean in means.items()}, row_s(courses[0]))


def peaks(lines: Mapping[str, NDArray[Any]], step_s: float = 1.0) -> dict[str, list[tuple[int, float]]]:
    """Return lines at so few minutes that MLflow can draw them; steps are minutes.

    Each point is the greatest of its stretch: what is looked for are peaks.

    ``step_s``: seconds from value to value of the lines, at most a minute.
    """
    in_a_minute = round(60.0 / step_s)
    found = {}
    for name, line in lines.items():
        starts = np.arange(0, len(line), in_a_minute * -(-len(line) // (in_a_minute * POINTS)))
        greatest = np.maximum.reduceat(line, starts)
        found[name] = [(int(step_s * at // 60.0), float(value)) for at, value in zip(starts, greatest, strict=True)]
    return found


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """Return a table for the note of a run; all columns but the first ``text_columns`` are numbers."""
    under = [*["---"] * text_columns, *["---:"] * (len(heads) - text_columns)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, under, *rows))
