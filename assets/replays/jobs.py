"""Policies that size a job, compared on its twin: a campaign of replays as an asset.

Unlike its siblings it reads no lake: what is replayed is said by the run's configuration.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from perdix.assets.metadata import records
from perdix.assets.replays.campaigns import Carried, carry_out
from perdix.assets.resources import Workspace
from perdix.settings.stream_job import Bounds, Objectives

if TYPE_CHECKING:
    from perdix.replay.campaign import Setup

COLUMNS = (
    "policy", "average_workers", "clairvoyant_ratio", "best_static_ratio", "of_frontier", "latency_mean_ms",
    "latency_p95_ms", "above_objective_pct", "rescales", "cost", "paid_cores_used_pct", "unprocessed_records",
    "recovery_error_pct", "forecast_wape_pct", "capacity_error_pct",
)  # fmt: skip
# Over materializations.
PLOTTED = (
    "clairvoyant_ratio",
    "best_static_ratio",
    "average_workers",
    "latency_mean_ms",
    "above_objective_pct",
    "cost",
)


class ReplayConfig(dg.Config):
    """What is replayed; as the options of ``perdix replay``."""

    workload: str = Field(
        "wordcount",
        description="A twin whose own workload it is, a CSV, Parquet or query_range file, or an ingested job.",
    )
    twin: str = Field("", description="Name in conf/twins, or a YAML file; empty: the workload's own, else wordcount.")
    peak_utilisation: float | None = Field(
        None, gt=0, le=2, description="Peak as a share of what all workers can take; by default the workload's own."
    )
    policies: str = Field("perdix,hpa-80,static-12", description="Separated by commas, options after colons.")
    seeds: int = Field(3, ge=1, le=1_000, description="How many; the first one is 1.")
    hours: float = Field(6.0, gt=0, le=720, description="Length of each replay.")
    failures: int = Field(0, ge=0, description="Workers that crash in each replay.")
    forecaster: str = Field("damped-trend", description="Family fitted on the way; empty: the fallback throughout.")
    latency_objective_ms: float = Field(5_000.0, gt=0, description="Of the p95 end-to-end latency.")
    error_budget: float = Field(0.05, ge=0, le=1, description="Share of the seconds that may be above it.")
    prices: str = Field("", description="Price list for hosts, of conf/prices or a YAML file; empty: worker-hours.")
    instance_type: str = Field("cheapest", description="Of the price list; cheapest: what comes out so per policy.")
    worker_cpu_cores: float = Field(1.0, gt=0, description="Of each worker, to be packed onto hosts.")
    worker_memory_mb: float = Field(2_048.0, gt=0, description="Of each worker, to be packed onto hosts.")
    release: str = Field("at-once", description="Of idle hosts: at-once, after-SECONDS, or end-of-unit (of billing).")
    processes: int = Field(0, ge=0, description="Replays at a time; 0: as many as there are cores.")


@dg.asset(group_name="replay", kinds={"mlflow", "parquet"}, code_version="1")
def policy_comparison(
    context: dg.AssetExecutionContext, workspace: Workspace, config: ReplayConfig
) -> dg.MaterializeResult:
    """Every policy on one workload against a twin: figures, pictures and an MLflow run each, beside the best plan."""
    from perdix.replay.kinds import JOB

    carried = carry_out(context, workspace, JOB, lambda: _setup(config, workspace), processes=config.processes)
    return dg.MaterializeResult(metadata=_metadata(carried))


def _setup(config: ReplayConfig, workspace: Workspace) -> "Setup":
    from perdix.assets.history import ingested
    from perdix.control.clock import WallClock
    from perdix.models.billing.packing import Resources
    from perdix.replay.asked import twin_and_trace
    from perdix.replay.campaign import Setup
    from perdix.replay.contenders import contenders
    from perdix.replay.part import part_of
    from perdix.replay.pricing import pricing_named
    from perdix.telemetry.lake import Lake

    parameters, trace = twin_and_trace(
        config.workload,
        config.twin or None,
        round(3600 * config.hours),
        folder=workspace.conf_part("twins"),
        jobs=ingested(Lake(workspace.paths().lake), WallClock().now_s()),
    )
    trace, _ = part_of(trace, config.hours)
    bounds = Bounds(minimum=1, maximum=parameters.workers.maximum)
    worker = Resources(config.worker_cpu_cores, config.worker_memory_mb)
    return Setup(
        contenders(config.policies, bounds),
        trace,
        parameters,
        bounds,
        seeds=tuple(range(1, config.seeds + 1)),
        hours=config.hours,
        peak_utilisation=trace.peak_utilisation if config.peak_utilisation is None else config.peak_utilisation,
        noise=trace.noise,
        slow_noise=trace.slow_noise,
        failures=config.failures,
        forecaster=config.forecaster or None,
        objectives=Objectives(
            latency_p95_ms=config.latency_objective_ms,
            error_budget=config.error_budget,
            checkpoint_interval_s=float(parameters.restart.checkpoint_interval_s),
        ),
        pricing=None
        if not config.prices
        else pricing_named(
            config.prices,
            instance_type=config.instance_type,
            worker=worker,
            release=config.release,
            folder=workspace.conf_part("prices"),
        ),
    )


def _metadata(carried: Carried) -> dict[str, Any]:
    from perdix.replay.case import BEST_STATIC
    from perdix.replay.tracking import metrics_of

    found = carried.found
    figures = {row["policy"]: metrics_of(row) for row in found["summary"] if row["seeds"]}
    plotted = {
        f"{name}_{policy}": metrics[name] for name in PLOTTED for policy, metrics in figures.items() if name in metrics
    }
    return {
        **carried.metadata(f"{found['trace']['name']}: workload, workers, latency and resource use"),
        "policies": records([{"policy": policy, **metrics} for policy, metrics in figures.items()], COLUMNS),
        **plotted,
        **_hosts(found),
        "recommendation": dg.MetadataValue.text(found["recommendation"]["sentence"]),
        "best_static": dg.MetadataValue.json(
            {str(result["seed"]): result["scale_out"] for result in found["results"] if result["policy"] == BEST_STATIC}
        ),
        "notes": dg.MetadataValue.text("; ".join(found["notes"])),
    }


def _hosts(found: Mapping[str, Any]) -> dict[str, dg.MetadataValue]:
    """Return by which prices, and on instances of which type each policy; nothing where hosts were not priced."""
    asked = found["pricing"]
    if asked is None:
        return {}
    types = {result["policy"]: result["bill"]["instance_type"] for result in found["results"] if result["bill"]}
    return {
        "prices": dg.MetadataValue.text(f"{asked['prices']} as of {asked['as_of']}, in {asked['currency']}"),
        "instance_types": dg.MetadataValue.json(types),
    }
