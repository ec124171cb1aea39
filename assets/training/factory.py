"""Train every candidate of every job, then let the gate decide who is champion: the two assets of any model.

``<model>_candidates`` fits and judges each job's families, the jobs dealt out to Spark's tasks, and keeps what came of
each beside the lake; ``<model>_champions`` records the training in MLflow, registers the fleet and moves the aliases. A
job whose data is broken fails alone and keeps its old champion.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from perdix.assets.checks import of_each_partition
from perdix.assets.kept_answers import Kept, Progress, note_promoted
from perdix.assets.partitions import one_run, partitions_of, stream_jobs
from perdix.assets.resources import Spark, Workspace
from perdix.assets.spark.tasks import attempt
from perdix.assets.training.metadata import (
    candidate_metadata,
    champion_metadata,
    each_job,
    reasons,
    some_jobs,
    tell_of_failures,
)
from perdix.assets.training.record import (
    Gate,
    Trained,
    iterate_trained,
    not_again,
    not_over_others,
    publication_of,
    whole,
)
from perdix.assets.training.tasks import Stopwatch
from perdix.control.clock import WallClock
from perdix.models.registry import FleetCorrupt, TableGone, gate_locked
from perdix.models.registry.fleet_table import is_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from perdix.models.registry import Fleet, Publication, Published

PICTURES_UP_TO = 10  # jobs: beyond that a picture, or a reason, per job helps nobody
MOST_OF_A_TAG = 4_000  # characters: MLflow takes 5,000
# Set by Dagster on a run that goes on from another's failure
RESUMED = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")

Key = Mapping[str, Any]
Learns = Callable[[dg.AssetExecutionContext, Workspace, Spark], Callable[[str], Key]]


@dataclass(frozen=True)
class Model:
    """What differs between the models that are trained."""

    name: str  # of its two assets and their group, as ``<name>_candidates``
    registered: str  # name in the registry
    score: str  # metric that people look at first (a share of 1, lower is better)
    deps: Sequence[Any]  # assets that it learns from
    judged: str  # how its candidates are judged, in words
    task: Callable[[Key], Mapping[str, Any]]  # trains one job, given its key
    learns: Learns  # returns from a job to what its key says beside job, seed, champions and pictures
    gate: Callable[["Model", Workspace], Gate]  # how trainings become a publication
    # Adds to the publication what only this model has: pictures of each family, for instance
    more: Callable[["Publication", Sequence[Trained]], "Publication"] = lambda publication, _trained: publication
    # Whether jobs are dealt out to Spark's tasks; else they are trained one after the other where the asset runs
    spark: bool = True
    # Raises ``dagster.Failure`` where a training is bound to fail, before a minute of starting Spark
    check: Callable[[Workspace], None] = lambda _workspace: None


def build_training(model: Model) -> list[dg.AssetsDefinition]:
    """Return the two assets of a model."""

    @dg.asset(
        name=f"{model.name}_candidates",
        group_name=model.name,
        partitions_def=stream_jobs,
        backfill_policy=one_run,
        deps=model.deps,
        kinds={"spark", "scikitlearn"} if model.spark else {"scikitlearn"},
        pool="spark" if model.spark else None,
        description=f"Every {model.name} family of each job, {model.judged}; one job fails alone.",
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
        check_specs=[
            dg.AssetCheckSpec(
                "every_job_has_a_champion",
                asset=f"{model.name}_champions",
                partitions_def=stream_jobs,
                description="A job without a champion is planned by fallbacks; its verdict says what it lacks.",
            )
        ],
        description=f"The gate: registers the {model.name} fleet in MLflow, and promotes what beats a job's champion.",
    )
    def champions(context: dg.AssetExecutionContext, workspace: Workspace) -> dg.MaterializeResult:
        return _publish(context, workspace, model)

    return [candidates, champions]


def _train(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark, model: Model) -> dg.MaterializeResult:
    """Train the jobs of a run, and tell of each; raises ``dagster.Failure`` when not one could be trained."""
    watch, jobs = Stopwatch(), partitions_of(context)
    kept = Kept(
        workspace.paths().trainings / model.registered, name_of_run(context.run, context.instance.get_run_by_id)
    )
    model.check(workspace)
    with watch.stage("Spark"):
        session = spark.session() if model.spark else None
    with watch.stage("what jobs share"):
        of_job = model.learns(context, workspace, spark)
        champions = _champion_to_beat(context, workspace, model.registered)
    common = {
        "seed": workspace.settings().training.seed,
        "champions": None if champions is None else str(champions[0]),
        "pictures": len(jobs) <= PICTURES_UP_TO,
    }
    with watch.stage("training"):
        _run(context, session, model, [{**common, **of_job(job), "job": job} for job in jobs], kept)
    with watch.stage("reading answers"):
        trained = [outcome.without_model() for outcome in iterate_trained(kept.folder, jobs)]
    tell_of_failures(context, trained)
    if all(outcome.error for outcome in trained):
        raise dg.Failure(f"no job could be trained; {trained[0].job}: {trained[0].error}" if trained else "no job")
    each_job(context, trained, model.score)
    return dg.MaterializeResult(
        metadata={**candidate_metadata(trained, model.score, watch.seconds), **reasons(trained)}
    )


def _run(
    context: dg.AssetExecutionContext, session: "SparkSession | None", model: Model, keys: Sequence[Key], kept: Kept
) -> None:
    """Keep the answer of each key: what goes wrong with one job is its answer, and stops no other."""
    context.log.info(f"{model.name}: training {len(keys)} job(s)")
    if session is None:
        for key in keys:
            kept.write(str(key["job"]), attempt(key, model.task))
        return
    from perdix.assets.kept_tasks import run_kept

    def tell(progress: Progress) -> None:
        context.log.info(f"{model.name}: {progress}")

    run_kept(session, keys, model.task, kept, tell)


def name_of_run(run: dg.DagsterRun, run_of: Callable[[str], dg.DagsterRun | None]) -> str:
    """Return under which name answers are kept: a run that goes on from where another failed goes on with its answers.

    One that is executed again as a whole is a run of its own.

    ``run_of``: returns the run of an id, ``None`` where it was deleted.
    """
    while run.parent_run_id and any(run.tags.get(tag) == "true" for tag in RESUMED):
        parent = run_of(run.parent_run_id)
        if parent is None:
            return run.parent_run_id
        run = parent
    return run.run_id


def champion_file(workspace: Workspace, registered: str) -> tuple[Path, int] | None:
    """Return the file of the champion's fleet table and its version, ``None`` when there is none yet.

    A file that is damaged is fetched again.
    """
    registry = workspace.registry()
    current = registry.current_version(registered)
    if current is None:
        return None
    path = workspace.paths().champions / registered / f"{current.version}.parquet"
    if not is_whole(path, current.digest):
        registry.download(registered, current.version, path)
    return path, current.version


def _champion_to_beat(
    context: dg.AssetExecutionContext, workspace: Workspace, registered: str
) -> tuple[Path, int] | None:
    """Return as :func:`champion_file`; ``None``, and say so, where the table is gone: then there is none to beat.

    A registry that does not answer stops the training: its champions are still there.
    """
    try:
        return champion_file(workspace, registered)
    except (TableGone, FleetCorrupt) as error:
        current = workspace.registry().current_version(registered)
        which = "" if current is None else f", version {current.version}"
        fix = "its other jobs have no champion until they are trained: perdix train"
        context.log.warning(f"{registered}: trained without the champion{which}: {error}; {fix}")
        return None


def _publish(context: dg.AssetExecutionContext, workspace: Workspace, model: Model) -> dg.MaterializeResult:
    """Record the trainings of a run's jobs in MLflow, register the fleet, and promote where the gate says so."""
    watch, gate = Stopwatch(), model.gate(model, workspace)
    with watch.stage("read"):
        folder = workspace.paths().trainings / gate.registered
        trained = not_again(folder, iterate_trained(folder, partitions_of(context)))
    if not any(outcome.usable for outcome in trained):
        context.log.warning(f"nothing to register: {trained[0].job}: {trained[0].why}")
        return dg.MaterializeResult(
            metadata={"promoted": 0, "kept": len(trained), **some_jobs(trained, gate.score)},
            check_results=_every_job(context, _champion_fleet(context, workspace, gate.registered)[0]),
        )
    with gate_locked(workspace.paths(), gate.registered):
        through = _through_the_gate(context, workspace, model, gate, trained, watch)
        for challenger, outcome in zip(trained, through.trained, strict=True):
            if challenger.promoted:
                note_promoted(folder, outcome.job, outcome.digest, but="" if outcome.promoted else outcome.why)
        trained = through.trained
    promoted = sum(1 for outcome in trained if outcome.promoted)
    context.log.info(
        f"{gate.registered} version {through.published.version}: {promoted} of {len(trained)} job(s) promoted"
    )
    each_job(context, trained, gate.score)
    pictures = through.publication.pictures
    return dg.MaterializeResult(
        metadata=champion_metadata(trained, gate.score, through.published, pictures, stages_s=watch.seconds),
        check_results=_every_job(context, through.champions),
    )


@dataclass(frozen=True)
class _Through:
    """What a training became: its publication, the version, and who is champion now."""

    trained: list[Trained]
    publication: "Publication"
    published: "Published"
    champions: "Fleet | None"


def _through_the_gate(
    context: dg.AssetExecutionContext,
    workspace: Workspace,
    model: Model,
    gate: Gate,
    trained: list[Trained],
    watch: Stopwatch,
) -> _Through:
    """Merge trainings into the champion's fleet, publish it and promote it where a job is better than its champion is.

    The lock of the gate holds for this home. A registry may serve others: where one of them promoted meanwhile, the
    trainings are merged into its fleet and published again.
    """
    registry = workspace.registry()
    tags = {"dagster.run_id": context.run.run_id, "perdix.reason": context.run.tags.get("perdix/reason", "manual")}
    started_at_s = context.instance.get_run_stats(context.run.run_id).start_time or WallClock().now_s()
    while True:
        with watch.stage("read"):
            before, version = _champion_fleet(context, workspace, gate.registered)
        with watch.stage("merge"):
            shared = {*gate.shared, *(() if before is None else before.shared)}
            trained = whole(not_over_others(trained, before), shared)
            promoted = [f"{outcome.job}: {outcome.why}" for outcome in trained if outcome.promoted]
            made = publication_of(gate, trained, before, started_at_s=started_at_s, tags=tags)
            publication = model.more(made, trained)
        with watch.stage("mlflow"):
            published = registry.publish(publication)
            if not promoted:
                return _Through(trained, publication, published, before)
            current = registry.current_version(gate.registered)
            if (None if current is None else current.version) == version:
                because = f"{len(promoted)} job(s): {'; '.join(promoted[:PICTURES_UP_TO])}"[:MOST_OF_A_TAG]
                registry.promote(gate.registered, published.version, because=because)
                return _Through(trained, publication, published, publication.fleet)
        context.log.warning(f"{gate.registered}: another training promoted a fleet meanwhile; merged into it again")


def _champion_fleet(
    context: dg.AssetExecutionContext, workspace: Workspace, registered: str
) -> "tuple[Fleet | None, int | None]":
    """Return the champion's fleet and its version: no fleet where its table is gone, neither when there is none yet."""
    from perdix.models.registry import read_fleet

    current = workspace.registry().current_version(registered)  # before: what is promoted meanwhile must not be lost
    found = _champion_to_beat(context, workspace, registered)
    if found is not None:
        return read_fleet(*found), found[1]
    return None, None if current is None else current.version


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
