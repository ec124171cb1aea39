"""Learn latency and T_max from the newest profile of each job, then let the gate decide who is champion.

As the models of :mod:`assets.training`, in two assets: ``latency_candidates`` judges every family on points left out
and keeps what came of it, ``latency_champions`` records it in MLflow, registers the fleet and moves the aliases. A job
that was never profiled fails alone.
"""

import base64
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.kept_answers import Kept
from assets.partitions import one_run, stream_jobs
from assets.resources import Workspace
from assets.stopwatch import Stopwatch
from assets.training import PICTURES_UP_TO, champion_file, name_of_run, publish
from assets.training_metadata import candidate_metadata, each_job, tell_of_failures
from assets.training_record import Trained, publication_on, read_trained
from control.clock import WallClock

if TYPE_CHECKING:
    from models.registry import Fleet, Publication, TrainingData

GROUP = "latency"
PROFILES = dg.AssetKey("profiles")  # what measures
REGISTERED = "perdix-latency"
SCORE = "balanced_error"  # mean share of overloads missed and of normal points taken for them, lower is better


@dg.asset(
    group_name=GROUP,
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    deps=[PROFILES],
    kinds={"scikitlearn"},
    description="Every latency family of each profiled job, judged on points and scale-outs left out.",
)
def latency_candidates(context: dg.AssetExecutionContext, workspace: Workspace) -> dg.MaterializeResult:
    """Fit and judge the families of every job of the run, one after the other."""
    watch, jobs = Stopwatch(), list(context.partition_keys)
    kept = Kept(workspace.paths().trainings / REGISTERED, name_of_run(context.run))
    champions = champion_file(workspace, REGISTERED)
    how = {
        "profiles": str(workspace.paths().profiles),
        "seed": workspace.settings().training.seed,
        "champions": None if champions is None else str(champions[0]),
        "pictures": len(jobs) <= PICTURES_UP_TO,
    }
    with watch.stage("training"):
        for job in jobs:
            kept.write(job, _answer({**how, "job": job}))
    trained = [one.without_model() for one in read_trained(kept.folder, jobs)]
    tell_of_failures(context, trained)
    if all(one.error for one in trained):
        raise dg.Failure(f"no job could be trained; {trained[0].job}: {trained[0].error}" if trained else "no job")
    each_job(context, trained, SCORE)
    return dg.MaterializeResult(
        metadata={**candidate_metadata(trained, SCORE, watch.seconds), **_in_words(trained)},
    )


@dg.asset(
    group_name=GROUP,
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    deps=[latency_candidates],
    kinds={"mlflow"},
    pool="registry",
    check_specs=[dg.AssetCheckSpec("every_job_has_a_champion", asset="latency_champions", partitions_def=stream_jobs)],
    description="The gate: the latency fleet registered in MLflow, and who of it is champion.",
)
def latency_champions(context: dg.AssetExecutionContext, workspace: Workspace) -> dg.MaterializeResult:
    """Record the trainings of the run's jobs, and promote where the gate says so."""

    def publication(trained: list[Trained], before: "Fleet | None", tags: Mapping[str, str]) -> "Publication":
        made = publication_on(
            lambda usable: _data(workspace, usable),
            trained,
            before,
            REGISTERED,
            score=SCORE,
            started_at_s=WallClock().now_s(),
            parameters={"seed": workspace.settings().training.seed},
            tags=tags,
        )
        return with_surfaces(made, trained)

    return publish(context, workspace, REGISTERED, score=SCORE, same="points", publication_of=publication)


def with_surfaces(publication: "Publication", trained: Sequence[Trained]) -> "Publication":
    """Return the publication with each family's latency surface, job by job, in the run of that family."""
    candidates = [
        replace(
            candidate,
            pictures={
                f"{one.job}.png": base64.b64decode(text)
                for one in trained
                if (text := one.result.get("pictures", {}).get(f"latency_surface_{candidate.family}.png"))
            },
        )
        for candidate in publication.candidates
    ]
    return replace(publication, candidates=candidates)


def _answer(key: dict[str, Any]) -> dict[str, Any]:
    """Train one job; what goes wrong with it is its answer, and stops no other."""
    from assets.latency_tasks import train_latency

    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    result, error, trace = {}, None, None
    try:
        result = train_latency(key)
    except Exception as failed:
        error, trace = f"{type(failed).__name__}: {failed}", traceback.format_exc()
    seconds, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    return {"result": result, "error": error, "trace": trace, "seconds": seconds, "cpu_s": cpu_s}


def _data(workspace: Workspace, usable: Sequence[Trained]) -> "TrainingData":
    from models.profiling.rows import COLUMNS
    from models.registry import TrainingData

    digest = sha256("".join(str(one.result["data_digest"]) for one in usable).encode()).hexdigest()
    folder = workspace.paths().profiles
    where = usable[0].result["profile"] if len(usable) == 1 else str(folder)
    return TrainingData("profile", where, digest, sum(one.result["rows"] for one in usable), COLUMNS)


def _in_words(trained: Sequence[Trained]) -> dict[str, Any]:
    said = [f"* {one.job}: {one.result['why']}" for one in trained[:PICTURES_UP_TO] if not one.error]
    return {"why": dg.MetadataValue.md("\n".join(said))} if said else {}
