"""Dagster jobs: ingest a day, train stream jobs, profile them, sample sizes of workers, replay policies.

In-process execution: a Spark session costs ten seconds, and the default executor would start one per step.
"""

from functools import partial

import dagster as dg

HOUR, FOUR_HOURS = {"dagster/max_runtime": "3600"}, {"dagster/max_runtime": "14400"}
DAY = {"dagster/max_runtime": "86400"}  # a running job takes minutes for each rate, and for each size
_job = partial(dg.define_asset_job, executor_def=dg.in_process_executor)

ingest_day = _job(
    "ingest_day",
    selection=dg.AssetSelection.groups("ingest", "observe"),
    description="One day (or a range of days) of exports: landed, ingested, validated, observed, turned into features.",
    tags=HOUR,
)
observe_day = _job(
    "observe_day",
    selection=dg.AssetSelection.groups("observe") | dg.AssetSelection.checks_for_assets(dg.AssetKey("samples")),
    description="What follows an ingest by hand: samples validated, observed, turned into features.",
    tags=HOUR,
)
train = _job(
    "train",
    selection=dg.AssetSelection.groups("recent", "forecast", "capacity"),
    description="Pull what the lake lacks of stream jobs, fit and backtest every candidate of each, promote winners.",
    tags=FOUR_HOURS,
)
profile = _job(
    "profile",
    selection=dg.AssetSelection.groups("profile", "latency"),
    description="Profile stream jobs, learn latency and T_max from it, compare in MLflow, promote winners.",
    tags=DAY,
)
sample = _job(
    "sample",
    selection=dg.AssetSelection.groups("sample"),
    description="Sample what workers of some sizes process at most, beside the normal ones.",
    tags=DAY,
)
train_performance = _job(
    "train_performance",
    selection=dg.AssetSelection.groups("performance"),
    description="Learn what workers of each size process from samples, compare in MLflow, promote winners.",
    tags=FOUR_HOURS,
)
REPLAYS = tuple(
    _job(
        name,
        selection=dg.AssetSelection.assets(asset),
        description=f"Policies side by side on {what}; say which in the run's configuration.",
        tags=FOUR_HOURS,
    )
    for name, asset, what in (
        ("replay", "policy_comparison", "one workload against the twin of a job"),
        ("replay_operators", "operators_comparison", "the twin of a dataflow, whose operators they size"),
        ("replay_hosts", "hosts_comparison", "the twin of a topology, for which they lease hosts"),
    )
)
