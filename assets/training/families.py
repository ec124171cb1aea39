"""Train every candidate of every job on Spark, then let the gate decide who is champion.

Two models (forecast, capacity) go the same way: ``<model>_candidates`` fits and judges, the jobs dealt out to Spark's
tasks, and keeps what came of each beside the lake; ``<model>_champions`` records the training in MLflow, registers the
fleet and moves the aliases. A job whose data is broken fails alone and keeps its old champion.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from perdix.assets.checks import of_each_partition
from perdix.assets.kept_answers import Kept
from perdix.assets.observe import features
from perdix.assets.partitions import one_run, stream_jobs
from perdix.assets.recent_range import recent_range
from perdix.assets.resources import Spark, Workspace
from perdix.assets.shared_training import SharedStore, known_families, shared_families
from perdix.assets.spark.training import train_on_spark
from perdix.assets.stopwatch import Stopwatch
from perdix.assets.training import tasks as training_tasks
from perdix.assets.training.metadata import champion_metadata, each_job, some_jobs
from perdix.assets.training.record import Gate, Trained, data_of_table, publication_of, read_trained
from perdix.control.clock import WallClock

if TYPE_CHECKING:
    from perdix.models.registry import Fleet, Publication

PICTURES_UP_TO = 10  # jobs: beyond that a picture per job helps nobody
RESUMED = "dagster/is_resume_retry"  # set by Dagster on a run that goes on from another's failure


@dataclass(frozen=True)
class Model:
    """One of the two models that are trained.

    Attributes
    ----------
    registered
        Name in the registry.
    score
        Metric that people look at first (a share of 1, lower is better).
    """

    name: str
    registered: str
    table: str
    score: str
    task: Callable[[Mapping[str, Any]], Mapping[str, Any]]


FORECAST = Model("forecast", "perdix-forecast", "workload_features", "wape", training_tasks.train_forecast)
CAPACITY = Model("capacity", "perdix-capacity", "capacity_features", "capacity_mape", training_tasks.train_capacity)


def build_training(model: Model) -> list[dg.AssetsDefinition]:
    """Return the two assets of a model."""

    @dg.asset(
        name=f"{model.name}_candidates",
        group_name=model.name,
        partitions_def=stream_jobs,
        backfill_policy=one_run,
        deps=[dg.AssetDep(features, partition_mapping=dg.AllPartitionMapping()), recent_range],
        kinds={"spark", "scikitlearn"},
        pool="spark",
        description=f"Every {model.name} family of each job, fitted and judged on Spark; one job fails alone.",
    )
    def candidates(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark) -> dg.MaterializeResult:
        return _train(context, workspace, spark, model)

    @dg.asset(
        name=f"{model.name}_champions",
        group_name=model.name,
        partitions_def=stream_jobs,
        backfill_policy=one_run,
        deps=[candidates],
        kinds={"mlflow"},
        pool="registry",
        check_specs=[
            dg.AssetCheckSpec("every_job_has_a_champion", asset=f"{model.name}_champions", partitions_def=stream_jobs)
        ],
        description=f"The gate: the {model.name} fleet registered in MLflow, and who of it is champion.",
    )
    def champions(context: dg.AssetExecutionContext, workspace: Workspace) -> dg.MaterializeResult:
        return _publish(context, workspace, model)

    return [candidates, champions]


def _train(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark, model: Model) -> dg.MaterializeResult:
    jobs = list(context.partition_keys)
    kept = Kept(_folder(workspace, model), name_of_run(context.run))
    watch = Stopwatch()
    if model is FORECAST:
        _refuse_unknown_families(workspace)  # before a minute of starting Spark
    with watch.stage("Spark"):
        session = spark.session()
    with watch.stage("what jobs share"):
        shared = _fit_shared(context, workspace, spark) if model is FORECAST else None
    keys = _keys(workspace, model, jobs, shared, _drifts(context, workspace))
    _, metadata = train_on_spark(
        context, session, keys, model.task, kept=kept, watch=watch, name=model.name, score=model.score
    )
    return dg.MaterializeResult(metadata=metadata)


def name_of_run(run: dg.DagsterRun) -> str:
    """Return under which name answers are kept: a run that goes on from where another failed goes on with its answers.

    One that is executed again as a whole is a run of its own.
    """
    goes_on = run.tags.get(RESUMED) == "true"
    return run.root_run_id if goes_on and run.root_run_id else run.run_id


def _folder(workspace: Workspace, model: Model) -> Path:
    return workspace.paths().trainings / model.registered


def _drifts(context: dg.AssetExecutionContext, workspace: Workspace) -> Mapping[str, float]:
    """Return when each job's newest drift began, by the control loop; nothing where its state cannot be read."""
    from perdix.control.state.schema import StateError
    from perdix.control.state.store import StateStore

    try:
        store = StateStore(workspace.paths().state_url)
    except StateError as error:
        context.log.warning(f"nothing is known of drifts: {error}")
        return {}
    try:
        return store.journal.drifts()
    finally:
        store.close()


def _keys(
    workspace: Workspace, model: Model, jobs: list[str], shared: Path | None, drifts: Mapping[str, float]
) -> list[dict[str, Any]]:
    settings, known = workspace.settings().training, workspace.stream_jobs().jobs
    table = champion_file(workspace, model.registered)
    families = list(known_families(settings.families_for(len(jobs)))) if model is FORECAST else []
    return [
        {
            "job": job,
            "lake": str(workspace.lake().root),
            "families": families,
            "maximum": known[job].bounds.maximum if job in known else 12,
            "history_days": settings.history_days,
            "horizon_s": settings.horizon_s,
            "seed": settings.seed,
            "drift_since_s": drifts.get(job),
            "champions": None if table is None else str(table[0]),
            "shared": None if shared is None else str(shared),
            "pictures": len(jobs) <= PICTURES_UP_TO,
        }
        for job in jobs
    ]


def _refuse_unknown_families(workspace: Workspace) -> None:
    settings = workspace.settings().training
    try:
        known_families(settings.forecast_families + settings.thorough_families)
    except ValueError as error:
        raise dg.Failure(f"{workspace.conf_folder() / 'perdix.yaml'}: training: {error}") from None


def _fit_shared(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark) -> Path:
    """Fit what jobs share, unless that was done today; return the folder."""
    from perdix.assets.shared_fits import fit_all_shared

    settings, store = workspace.settings().training, SharedStore(_folder(workspace, FORECAST) / "shared")
    if families := shared_families(settings.families_for(len(context.partition_keys))):
        how = {name: getattr(settings, name) for name in ("history_days", "horizon_s", "seed")}
        fitted = fit_all_shared(spark.session, workspace.lake(), families, store, how)
        for said in fitted.problems:
            context.log.warning(said)
        for said in fitted.notes:
            context.log.info(said)
    return store.folder


def champion_file(workspace: Workspace, registered: str) -> tuple[Path, int] | None:
    """Return the file of the champion's fleet table and its version, ``None`` when there is none yet."""
    registry = workspace.registry()
    current = registry.current_version(registered)
    if current is None:
        return None
    path = workspace.paths().champions / registered / f"{current.version}.parquet"
    return path if path.exists() else registry.download(registered, current.version, path), current.version


def champion_fleet(workspace: Workspace, registered: str) -> "Fleet | None":
    """Return the champion's fleet, ``None`` when there is none yet."""
    from perdix.models.registry import read_fleet

    found = champion_file(workspace, registered)
    return None if found is None else read_fleet(*found)


def _publish(context: dg.AssetExecutionContext, workspace: Workspace, model: Model) -> dg.MaterializeResult:
    settings, store = workspace.settings().training, SharedStore(_folder(workspace, model) / "shared")
    gate = Gate(
        model.registered,
        model.score,
        partial(data_of_table, lake=workspace.lake(), table=model.table),
        parameters={name: getattr(settings, name) for name in ("history_days", "horizon_s", "seed")},
        shared=store.texts(shared_families(settings.forecast_families + settings.thorough_families)),
    )
    return publish(context, workspace, gate)


def publish(
    context: dg.AssetExecutionContext,
    workspace: Workspace,
    gate: Gate,
    more: Callable[["Publication", Sequence[Trained]], "Publication"] = lambda publication, _trained: publication,
) -> dg.MaterializeResult:
    """Record the trainings of a run's jobs in MLflow, register the fleet, and promote where the gate says so.

    Parameters
    ----------
    more
        Adds to the publication what only this model has: pictures of each family, for instance.
    """
    watch = Stopwatch()
    with watch.stage("read"):
        trained = read_trained(workspace.paths().trainings / gate.registered, context.partition_keys)
        before = champion_fleet(workspace, gate.registered)
    if not any(one.usable for one in trained):
        context.log.warning(f"nothing to register: {trained[0].job}: {trained[0].why}")
        return dg.MaterializeResult(
            metadata={"promoted": 0, "kept": len(trained), **some_jobs(trained, gate.score)},
            check_results=_every_job(context, before),
        )
    tags = {"dagster.run_id": context.run.run_id, "perdix.reason": context.run.tags.get("perdix/reason", "manual")}
    with watch.stage("merge"):
        made = publication_of(gate, trained, before, started_at_s=WallClock().now_s(), tags=tags)
        publication = more(made, trained)
    with watch.stage("mlflow"):
        published = workspace.registry().publish(publication)
        promoted = [one.job for one in trained if one.promoted]
        if promoted:
            because = f"better on the same {gate.same}: {len(promoted)} job(s), {', '.join(promoted[:20])}"
            workspace.registry().promote(gate.registered, published.version, because=because)
    context.log.info(
        f"{gate.registered} version {published.version}: {len(promoted)} of {len(trained)} job(s) promoted"
    )
    each_job(context, trained, gate.score)
    return dg.MaterializeResult(
        metadata=champion_metadata(trained, gate.score, published, publication.pictures, stages_s=watch.seconds),
        check_results=_every_job(context, publication.fleet if promoted else before),
    )


def _every_job(context: dg.AssetExecutionContext, fleet: "Fleet | None") -> Sequence[dg.AssetCheckResult]:
    """Warn of jobs without a champion: the loop uses its fallback for them."""
    with_one = set([] if fleet is None else fleet.jobs["job"])

    def judge(jobs: Sequence[str]) -> list[dg.AssetCheckResult]:
        without = sorted(set(jobs) - with_one)
        return [
            dg.AssetCheckResult(
                check_name="every_job_has_a_champion",
                passed=not without,
                severity=dg.AssetCheckSeverity.WARN,
                metadata={"jobs_without": len(without), **({"without": ", ".join(without)} if without else {})},
            )
        ]

    return of_each_partition(context, context.asset_key, judge)
