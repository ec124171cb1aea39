"""The two models that learn from features: forecasters of the load, and capacity regressors."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import dagster as dg

from perdix.assets.observe import features
from perdix.assets.recent_range import recent_range
from perdix.assets.resources import Spark, Workspace
from perdix.assets.shared_training import SharedStore, known_families, shared_families
from perdix.assets.training.factory import Key, Model
from perdix.assets.training.record import Gate, data_of_table
from perdix.assets.training.tasks import train_capacity, train_forecast

DEPS = [dg.AssetDep(features, partition_mapping=dg.AllPartitionMapping()), recent_range]
JUDGED = "fitted and judged on Spark"
SETTINGS = ("history_days", "horizon_s", "seed")
FORECASTS = "perdix-forecast"


def _of_forecasts(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark) -> Callable[[str], Key]:
    settings, drifts = workspace.settings().training, _drifts(context, workspace)
    common = {
        "lake": str(workspace.lake().root),
        "history_days": settings.history_days,
        "horizon_s": settings.horizon_s,
        "families": list(known_families(settings.families_for(len(context.partition_keys)))),
        "shared": str(_fit_shared(context, workspace, spark)),
    }
    return lambda job: {**common, "drift_since_s": drifts.get(job)}


def _of_capacities(_: dg.AssetExecutionContext, workspace: Workspace, __: Spark) -> Callable[[str], Key]:
    known = workspace.stream_jobs().jobs
    common = {"lake": str(workspace.lake().root), "history_days": workspace.settings().training.history_days}
    return lambda job: {**common, "maximum": known[job].bounds.maximum if job in known else None}


def _drifts(context: dg.AssetExecutionContext, workspace: Workspace) -> Mapping[str, float]:
    """Return when each job's newest drift began, by the control loop; nothing where its state cannot be read."""
    from perdix.control.clock import WallClock
    from perdix.control.state.schema import StateError
    from perdix.control.state.store import StateStore

    try:
        store = StateStore(workspace.paths().state_url)
    except StateError as error:
        context.log.warning(f"nothing is known of drifts: {error}")
        return {}
    try:
        return store.journal.drifts(WallClock().now_s())
    finally:
        store.close()


def _refuse_unknown_families(workspace: Workspace) -> None:
    settings = workspace.settings().training
    try:
        known_families(settings.forecast_families + settings.thorough_families)
    except ValueError as error:
        raise dg.Failure(f"{workspace.conf_folder() / 'perdix.yaml'}: training: {error}") from None


def _shared(workspace: Workspace) -> SharedStore:
    return SharedStore(workspace.paths().trainings / FORECASTS / "shared")


def _fit_shared(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark) -> Path:
    """Fit what jobs share, unless that was done today; return the folder."""
    from perdix.assets.shared_training import fit_all_shared

    settings, store = workspace.settings().training, _shared(workspace)
    if families := shared_families(settings.families_for(len(context.partition_keys))):
        how = {name: getattr(settings, name) for name in SETTINGS}
        fitted = fit_all_shared(spark.session, workspace.lake(), families, store, how)
        for said in fitted.problems:
            context.log.warning(said)
        for said in fitted.notes:
            context.log.info(said)
    return store.folder


def _gate(model: Model, workspace: Workspace, *, table: str) -> Gate:
    settings, data = workspace.settings().training, partial(data_of_table, lake=workspace.lake(), table=table)
    return Gate(model.registered, model.score, data, parameters={name: getattr(settings, name) for name in SETTINGS})


def _forecast_gate(model: Model, workspace: Workspace) -> Gate:
    settings = workspace.settings().training
    families = shared_families(settings.forecast_families + settings.thorough_families)
    return replace(_gate(model, workspace, table="workload_features"), shared=_shared(workspace).texts(families))


FORECAST = Model(
    name="forecast",
    registered=FORECASTS,
    score="wape",
    deps=DEPS,
    judged=JUDGED,
    task=train_forecast,
    learns=_of_forecasts,
    gate=_forecast_gate,
    check=_refuse_unknown_families,
)
CAPACITY = Model(
    name="capacity",
    registered="perdix-capacity",
    score="capacity_mape",
    deps=DEPS,
    judged=JUDGED,
    task=train_capacity,
    learns=_of_capacities,
    gate=partial(_gate, table="capacity_features"),
)
