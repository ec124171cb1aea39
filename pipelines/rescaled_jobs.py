"""A run for each tick that rescaled: per job its page with why, and what its load, workers and latency did."""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from perdix.assets.partitions import stream_jobs
from perdix.assets.resources import Workspace
from perdix.settings.nearest_name import meant

JOB_REVIEW = dg.AssetKey("job_review")
MOST = 20  # jobs of one run
RESCALED = "perdix/rescaled"  # tag of a run that the loop asked for


class Reviewed(dg.Config):
    """Which jobs, and how much of their past."""

    jobs: list[str] = Field(min_length=1, description="By name.")
    hours: float = Field(6.0, gt=0, le=168, description="Until now, that are read and drawn.")


@dg.op(
    name="review",
    out=dg.Out(dg.Nothing),
    description="Read the last hours of each job from its Prometheus and the state store, and draw them.",
)
def review(context: dg.OpExecutionContext, config: Reviewed, workspace: Workspace) -> Iterator[dg.AssetMaterialization]:
    """Materialise ``job_review`` of each job; one that has no usable file is said and left out.

    Raises ``Failure`` when no job is left in a run that somebody launched: a misspelt name is no review.
    """
    from perdix.assets.job_metadata import metadata_of
    from perdix.control.clock import WallClock
    from perdix.control.course import job_course
    from perdix.control.live import alone_io

    names, left_out = config.jobs[:MOST], config.jobs[MOST:]
    if left_out:
        context.log.warning(f"{len(left_out)} more than {MOST} jobs are left out: {', '.join(left_out)}")
    files, why = workspace.stream_jobs(), list[str]()
    with alone_io(workspace.paths(), workspace.settings().control) as io:
        for name in names:
            job = files.jobs.get(name)
            if job is None:
                hint = meant(name, files.jobs, f"there are: {', '.join(sorted(files.jobs)) or 'none'}")
                why.append(f"{name}: {files.faults.get(name, f'there is no stream job of this name; {hint}')}")
                context.log.warning(why[-1])
                continue
            course = job_course(job, io.source, io.store, WallClock().now_s(), config.hours)
            if course.window is None:
                context.log.warning(f"{name}: no picture: {course.unread}")
            yield dg.AssetMaterialization(JOB_REVIEW, partition=name, metadata=metadata_of(course))
    if len(why) == len(names) and RESCALED not in context.run.tags:  # else they have been removed meanwhile
        raise dg.Failure("\n".join(why))


@dg.job(
    name="review_jobs",
    executor_def=dg.in_process_executor,
    description="Why jobs were rescaled: the sensor control_loop asks for it after each tick that rescaled some.",
    tags={"dagster/max_runtime": "300"},
)
def review_jobs() -> None:
    """Review each job of the run's configuration."""
    review()


job_reviews = dg.AssetSpec(
    JOB_REVIEW,
    group_name="control",
    kinds={"prometheus"},
    partitions_def=stream_jobs,
    description="One job's last hours, each time it was rescaled: why, its load against the forecast, workers, latency "
    "and error budget. Launch review_jobs for any job at any time.",
)


def review_of(rescaled: list[str]) -> dg.RunRequest:
    """Return the request of a run that reviews these jobs."""
    return dg.RunRequest(
        job_name=review_jobs.name,
        run_config={"ops": {"review": {"config": {"jobs": rescaled}}}},
        tags={RESCALED: ", ".join(rescaled)[:200]},
    )
