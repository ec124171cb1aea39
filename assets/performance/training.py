"""Learn what workers of each size process from the newest samples of each job, then let the gate decide.

As the models of :mod:`perdix.assets.training.families`, in two assets: ``performance_candidates`` judges every family
on samples left out, the jobs dealt out to Spark's tasks, and keeps what came of it; ``performance_champions`` records
it in MLflow, registers the fleet and moves the aliases. A job that was never sampled fails alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import dagster as dg

from perdix.assets.kept_answers import Kept
from perdix.assets.partitions import one_run, stream_jobs
from perdix.assets.performance.tasks import train_performance
from perdix.assets.resources import Spark, Workspace
from perdix.assets.spark.training import train_on_spark
from perdix.assets.stopwatch import Stopwatch
from perdix.assets.training.families import PICTURES_UP_TO, champion_file, name_of_run, publish
from perdix.assets.training.metadata import reasons
from perdix.assets.training.record import Gate, Trained, data_of_files, with_pictures_of_families

if TYPE_CHECKING:
    from perdix.models.registry import Candidate, Publication

GROUP = "performance"
SAMPLES = dg.AssetKey("operator_samples")  # what is sampled
REGISTERED = "perdix-performance"
SCORE = "relative_rmse"  # RMSE on samples left out as a share of their mean, lower is better


@dg.asset(
    group_name=GROUP,
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    deps=[SAMPLES],
    kinds={"spark", "scikitlearn"},
    pool="spark",
    description="Every performance family of each sampled job: grid search, ten folds, ten repeats.",
)
def performance_candidates(
    context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark
) -> dg.MaterializeResult:
    """Fit and judge the families of every job of the run on Spark."""
    watch, jobs = Stopwatch(), list(context.partition_keys)
    kept = Kept(workspace.paths().trainings / REGISTERED, name_of_run(context.run))
    champions = champion_file(workspace, REGISTERED)
    settings = workspace.settings().training
    how = {
        "samples": str(workspace.paths().operator_samples),
        "seed": settings.seed,
        "repeats": settings.performance_repeats,
        "champions": None if champions is None else str(champions[0]),
        "pictures": len(jobs) <= PICTURES_UP_TO,
    }
    with watch.stage("Spark"):
        session = spark.session()
    keys = [{**how, "job": job} for job in jobs]
    trained, metadata = train_on_spark(
        context, session, keys, train_performance, kept=kept, watch=watch, name=GROUP, score=SCORE
    )
    return dg.MaterializeResult(metadata={**metadata, **reasons(trained)})


@dg.asset(
    group_name=GROUP,
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    deps=[performance_candidates],
    kinds={"mlflow"},
    pool="registry",
    check_specs=[
        dg.AssetCheckSpec("every_job_has_a_champion", asset="performance_champions", partitions_def=stream_jobs)
    ],
    description="The gate: the performance fleet registered in MLflow, and who of it is champion.",
)
def performance_champions(context: dg.AssetExecutionContext, workspace: Workspace) -> dg.MaterializeResult:
    """Record the trainings of the run's jobs, and promote where the gate says so."""
    from perdix.models.sampling.rows import COLUMNS

    settings = workspace.settings().training
    gate = Gate(
        REGISTERED,
        SCORE,
        partial(data_of_files, name="samples", folder=workspace.paths().operator_samples, columns=COLUMNS),
        same="samples",
        parameters={"seed": settings.seed, "repeats": settings.performance_repeats},
    )
    return publish(context, workspace, gate, _with_parameters_and_pictures)


def _with_parameters_and_pictures(publication: "Publication", trained: Sequence[Trained]) -> "Publication":
    return with_pictures_of_families(with_chosen_parameters(publication, trained), trained, "performance_")


def with_chosen_parameters(publication: "Publication", trained: Sequence[Trained]) -> "Publication":
    """Return the publication with what the grid search chose in the run of each family; ``varies`` between jobs."""

    def of(candidate: "Candidate") -> dict[str, Any]:
        chosen = [one.candidate(candidate.family).get("parameters", {}) for one in trained if one.usable]
        names = dict.fromkeys(name for one in chosen for name in one)
        values = {name: {str(one.get(name)) for one in chosen} for name in names}
        return {name: found.pop() if len(found) == 1 else "varies" for name, found in values.items()}

    candidates = [replace(one, parameters={**one.parameters, **of(one)}) for one in publication.candidates]
    return replace(publication, candidates=candidates)
