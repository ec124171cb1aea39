"""Dagster jobs: ingest a day, train stream jobs, profile them, sample sizes of workers, replay policies.

In-process execution: a Spark session costs ten seconds, and the default executor would start one per step.
"""

import dagster as dg

INGEST_GROUPS = ("ingest", "observe")
TRAIN_GROUPS = ("recent", "forecast", "capacity")
PROFILE_GROUPS = ("profile", "latency")
SAMPLE_GROUPS = ("sample",)
PERFORMANCE_GROUPS = ("performance",)
DAY = {"dagster/max_runtime": "86400"}  # a running job takes minutes for each rate, and for each size

ingest_day = dg.define_asset_job(
    "ingest_day",
    selection=dg.AssetSelection.groups(*INGEST_GROUPS),
    executor_def=dg.in_process_executor,
    description="One day (or a range of days) of exports: landed, ingested, validated, observed, turned into features.",
    tags={"dagster/max_runtime": "3600"},
)

observe_day = dg.define_asset_job(
    "observe_day",
    selection=dg.AssetSelection.groups("observe") | dg.AssetSelection.checks_for_assets(dg.AssetKey("samples")),
    executor_def=dg.in_process_executor,
    description="What follows an ingest by hand: samples validated, observed, turned into features.",
    tags={"dagster/max_runtime": "3600"},
)

train = dg.define_asset_job(
    "train",
    selection=dg.AssetSelection.groups(*TRAIN_GROUPS),
    executor_def=dg.in_process_executor,
    description="Pull what the lake lacks of stream jobs, fit and backtest every candidate of each, promote winners.",
    tags={"dagster/max_runtime": "14400"},
)

profile = dg.define_asset_job(
    "profile",
    selection=dg.AssetSelection.groups(*PROFILE_GROUPS),
    executor_def=dg.in_process_executor,
    description="Profile stream jobs, learn latency and T_max from it, compare in MLflow, promote winners.",
    tags=DAY,
)

sample = dg.define_asset_job(
    "sample",
    selection=dg.AssetSelection.groups(*SAMPLE_GROUPS),
    executor_def=dg.in_process_executor,
    description="Sample what workers of some sizes process at most, beside the normal ones.",
    tags=DAY,
)

train_performance = dg.define_asset_job(
    "train_performance",
    selection=dg.AssetSelection.groups(*PERFORMANCE_GROUPS),
    executor_def=dg.in_process_executor,
    description="Learn what workers of each size process from samples, compare in MLflow, promote winners.",
    tags={"dagster/max_runtime": "14400"},
)

replay, replay_operators, replay_hosts = (
    dg.define_asset_job(
        name,
        selection=dg.AssetSelection.assets(asset),
        executor_def=dg.in_process_executor,
        description=f"Policies side by side on {what}; say which in the run's configuration.",
        tags={"dagster/max_runtime": "14400"},
    )
    for name, asset, what in (
        ("replay", "policy_comparison", "one workload against the twin of a job"),
        ("replay_operators", "operators_comparison", "the twin of a dataflow, whose operators they size"),
        ("replay_hosts", "hosts_comparison", "the twin of a topology, for which they lease hosts"),
    )
)
REPLAYS = (replay, replay_operators, replay_hosts)
