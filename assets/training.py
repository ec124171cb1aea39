"""Train every candidate of every job on Spark, then let the gate decide who is champion.

Two models (forecast, capacity) go the same way: ``<model>_candidates`` fits and judges, one Spark task per job, and
keeps what came of it beside the lake; ``<model>_champions`` records the training in MLflow, registers the fleet and
moves the aliases. A job whose data is broken fails alone and keeps its old champion.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import training_tasks
from assets.metadata import picture, records
from assets.observe import features
from assets.partitions import one_run, stream_jobs
from assets.resources import Spark, Workspace
from assets.spark_tasks import Answer, run_tasks
from assets.training_record import Trained, publication_of, read_trained, write_trained
from control.clock import WallClock

if TYPE_CHECKING:
    import pandas as pd

PICTURES_UP_TO = 10  # jobs: beyond that a picture per job helps nobody


@dataclass(frozen=True)
class Model:
    """One of the two models that are trained.

    Attributes
    ----------
    registered
        Name in the registry.
    score, naive
        Metric that the gate judges (a share of 1, lower is better), and the naive one beside it.
    """

    name: str
    registered: str
    table: str
    score: str
    task: Callable[[Mapping[str, Any]], Mapping[str, Any]]


FORECAST = Model("forecast", "perdix-forecast", "workload_features", "wape_900s", training_tasks.train_forecast)
CAPACITY = Model("capacity", "perdix-capacity", "capacity_features", "capacity_mape", training_tasks.train_capacity)


def build_training(model: Model) -> list[dg.AssetsDefinition]:
    """Return the two assets of a model."""

    @dg.asset(
        name=f"{model.name}_candidates",
        group_name=model.name,
        partitions_def=stream_jobs,
        backfill_policy=one_run,
        deps=[dg.AssetDep(features, partition_mapping=dg.AllPartitionMapping())],
        kinds={"spark", "scikitlearn"},
        pool="spark",
        description=f"Every {model.name} family of each job, fitted and judged; one Spark task per job.",
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
    jobs, lake = list(context.partition_keys), workspace.lake()
    settings, known = workspace.settings().training, workspace.stream_jobs()[0]
    fleet = champion_table(workspace, model.registered)
    states = {} if fleet is None else dict(zip(fleet["job"], fleet["state"], strict=True))
    keys = [
        {
            "job": job,
            "lake": str(lake.root),
            "families": list(settings.forecast_families),
            "maximum": known[job].bounds.maximum if job in known else 12,
            "history_days": settings.history_days,
            "seed": settings.seed,
            "champion": json.loads(states[job]) if job in states else None,
            "pictures": len(jobs) <= PICTURES_UP_TO,
        }
        for job in jobs
    ]
    context.log.info(f"{model.name}: training {len(jobs)} job(s), a Spark task each")
    answers = run_tasks(spark.session(), keys, model.task)
    trained = [_trained(answer, workspace, model) for answer in answers]
    for one in trained:
        context.log.info(f"{one.job}: {one.error or one.result['verdict']}")
    if all(one.error for one in trained):
        raise dg.Failure(f"no job could be trained; {trained[0].job}: {trained[0].error}" if trained else "no job")
    return dg.MaterializeResult(metadata=_training_metadata(trained, model))


def _trained(answer: Answer, workspace: Workspace, model: Model) -> Trained:
    trained = Trained(str(answer.key["job"]), answer.result, answer.error, answer.seconds)
    write_trained(trained, workspace.paths().trainings / model.registered)
    return trained


def _training_metadata(trained: list[Trained], model: Model) -> dict[str, Any]:
    rows = [
        {
            "job": one.job,
            "winner": one.result.get("winner"),
            model.score: one.score(model.score),
            "verdict": one.result.get("verdict"),
            "seconds": round(one.seconds, 2),
            "error": one.error,
        }
        for one in sorted(trained, key=lambda one: not one.error)
    ]
    scores = sorted(score for row in rows if (score := row[model.score]) is not None)
    return {
        "jobs_trained": sum(1 for one in trained if not one.error),
        "jobs_failed": sum(1 for one in trained if one.error),
        "seconds": round(sum(one.seconds for one in trained), 3),
        **({f"{model.score}_median": scores[len(scores) // 2]} if scores else {}),
        "jobs": records(rows, ("job", "winner", model.score, "verdict", "seconds", "error")),
    }


def champion_table(workspace: Workspace, registered: str) -> "pd.DataFrame | None":
    """Return the champion's fleet table, ``None`` when there is none yet."""
    from models.registry import read_fleet

    registry = workspace.registry()
    current = registry.current_version(registered)
    if current is None:
        return None
    path = workspace.paths().champions / registered / f"{current.version}.parquet"
    return read_fleet(path if path.exists() else registry.download(registered, current.version, path))


def _publish(context: dg.AssetExecutionContext, workspace: Workspace, model: Model) -> dg.MaterializeResult:
    trained = read_trained(workspace.paths().trainings / model.registered, context.partition_keys)
    if not any(one.usable for one in trained):
        context.log.warning(f"nothing to register: {trained[0].job}: {trained[0].why}")
        return dg.MaterializeResult(
            metadata={"promoted": 0, "kept": len(trained), "jobs": _verdicts(trained)},
            check_results=[_every_job(model, workspace, trained)],
        )
    registry, before = workspace.registry(), champion_table(workspace, model.registered)
    publication = publication_of(
        trained,
        before,
        model.registered,
        workspace.lake(),
        model.table,
        score=model.score,
        started_at_s=WallClock().now_s(),
        tags={"dagster.run_id": context.run.run_id, "perdix.reason": context.run.tags.get("perdix/reason", "manual")},
    )
    published = registry.publish(publication)
    promoted = [one.job for one in trained if not one.error and one.result["promote"]]
    if promoted:
        registry.promote(model.registered, published.version, because=f"better on the same windows: {promoted[:20]}")
    context.log.info(
        f"{model.registered} version {published.version}: {len(promoted)} of {len(trained)} job(s) promoted"
    )
    return dg.MaterializeResult(
        metadata={
            "version": published.version,
            "promoted": len(promoted),
            "kept": len(trained) - len(promoted),
            "mlflow_run": dg.MetadataValue.url(published.run_url),
            "jobs": _verdicts(trained),
            **{
                name.removesuffix(".png"): picture(png, f"{model.name} candidates")
                for name, png in publication.pictures.items()
            },
            **_first_picture(trained),
        },
        check_results=[_every_job(model, workspace, trained)],
    )


def _verdicts(trained: list[Trained]) -> dg.TableMetadataValue:
    rows = [{"job": one.job, "family": one.result.get("winner"), "verdict": one.why} for one in trained]
    return records(rows, ("job", "family", "verdict"))


def _every_job(model: Model, workspace: Workspace, trained: list[Trained]) -> dg.AssetCheckResult:
    """Warn of jobs without a champion: the loop uses its fallback for them."""
    current = champion_table(workspace, model.registered)
    without = sorted({one.job for one in trained} - set([] if current is None else current["job"]))
    return dg.AssetCheckResult(
        check_name="every_job_has_a_champion",
        passed=not without,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"without": ", ".join(without), "jobs_without": len(without)},
    )


def _first_picture(trained: list[Trained]) -> dict[str, Any]:
    for one in trained:
        for name, text in one.result.get("pictures", {}).items():
            if name.endswith(".png"):
                return {name.removesuffix(".png"): picture(base64.b64decode(text), f"{one.job}: {name}")}
    return {}
