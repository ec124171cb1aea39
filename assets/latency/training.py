"""Learn latency and T_max from the newest profile of each job, then let the gate decide who is champion.

As the models of :mod:`perdix.assets.training.families`, in two assets: ``latency_candidates`` judges every family on
points left out and keeps what came of it, ``latency_champions`` records it in MLflow, registers the fleet and moves
the aliases. A job that was never profiled fails alone.
"""

import time
import traceback
from functools import partial
from typing import Any

import dagster as dg

from perdix.assets.kept_answers import Kept
from perdix.assets.partitions import one_run, stream_jobs
from perdix.assets.resources import Workspace
from perdix.assets.stopwatch import Stopwatch
from perdix.assets.training.families import PICTURES_UP_TO, champion_file, name_of_run, publish
from perdix.assets.training.metadata import candidate_metadata, each_job, reasons, tell_of_failures
from perdix.assets.training.record import Gate, data_of_files, read_trained, with_pictures_of_families

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
        metadata={**candidate_metadata(trained, SCORE, watch.seconds), **reasons(trained)},
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
    from perdix.models.profiling.rows import COLUMNS

    gate = Gate(
        REGISTERED,
        SCORE,
        partial(data_of_files, name="profile", folder=workspace.paths().profiles, columns=COLUMNS),
        same="points",
        parameters={"seed": workspace.settings().training.seed},
    )
    return publish(context, workspace, gate, partial(with_pictures_of_families, prefix="latency_surface_"))


def _answer(key: dict[str, Any]) -> dict[str, Any]:
    """Train one job; what goes wrong with it is its answer, and stops no other."""
    from perdix.assets.latency.tasks import train_latency

    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    result, error, trace = {}, None, None
    try:
        result = train_latency(key)
    except Exception as failed:
        error, trace = f"{type(failed).__name__}: {failed}", traceback.format_exc()
    seconds, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    return {"result": result, "error": error, "trace": trace, "seconds": seconds, "cpu_s": cpu_s}
