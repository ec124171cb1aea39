"""Train the jobs of a run on Spark, tell of each, and fail only when not one could be trained."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from perdix.assets.kept_answers import Kept, Progress
from perdix.assets.stopwatch import Stopwatch
from perdix.assets.training.metadata import candidate_metadata, each_job, tell_of_failures
from perdix.assets.training.record import Trained, iterate_trained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def train_on_spark(
    context: dg.AssetExecutionContext,
    session: "SparkSession",
    keys: Sequence[Mapping[str, Any]],
    task: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    *,
    kept: Kept,
    watch: Stopwatch,
    name: str,
    score: str,
) -> tuple[list[Trained], dict[str, Any]]:
    """Train the jobs that ``keys`` name on Spark, tell of each, and return them without models, and the metadata.

    Raises
    ------
    dagster.Failure
        When not one job could be trained.
    """
    from perdix.assets.kept_tasks import run_kept

    context.log.info(f"{name}: training {len(keys)} job(s)")

    def tell(progress: Progress) -> None:
        context.log.info(f"{name}: {progress}")

    with watch.stage("training"):
        run_kept(session, keys, task, kept, tell)
    with watch.stage("reading answers"):
        jobs = [str(key["job"]) for key in keys]
        trained = [one.without_model() for one in iterate_trained(kept.folder, jobs)]
    tell_of_failures(context, trained)
    if all(one.error for one in trained):
        raise dg.Failure(f"no job could be trained; {trained[0].job}: {trained[0].error}" if trained else "no job")
    each_job(context, trained, score)
    return trained, candidate_metadata(trained, score, watch.seconds)
