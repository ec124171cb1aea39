"""Drift that the control loop found becomes exactly one training run (docs/decisions/0002)."""

from collections.abc import Iterator

import dagster as dg

from perdix.assets.partitions import stream_jobs
from perdix.assets.resources import Workspace
from perdix.pipelines.jobs import train
from perdix.pipelines.orphans import end_orphans

RUN_KEY = "dagster/run_key"


@dg.sensor(
    job=train,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="A training of each job whose forecasts have drifted, once they can be judged on its new load.",
)
def retrain_on_drift(
    context: dg.SensorEvaluationContext, workspace: Workspace
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Request a run for each open retrain request; close those whose run has ended, well or not.

    Before, runs whose process was killed are ended: they would hold the pools that a new run needs.

    A run begins once enough has come since the drift began that forecasts can be judged on it: some 40 minutes, longer
    for a job that is scraped less than once a minute. A request stays open until its run was seen to end, so a tick
    that is lost costs nothing: Dagster drops a run key that it knows. A failed run closes the request too; the loop
    asks again after its cooldown, under the next attempt.
    """
    from perdix.control.clock import WallClock
    from perdix.control.state.store import StateStore
    from perdix.models.forecasting.retraining import GRID_S, judgeable_s
    from perdix.settings.moments import moment

    end_orphans(context.instance)
    steps_s = {
        name: max(GRID_S, job.prometheus.scrape_interval_s)
        for name, job in workspace.stream_jobs().jobs.items()
        if job.prometheus is not None
    }
    store, now_s = StateStore(workspace.paths().state_url), WallClock().now_s()
    horizon_s = workspace.settings().training.horizon_s
    requested, waiting = 0, []
    try:
        for request in store.journal.open_retrains():
            runs = context.instance.get_runs(dg.RunsFilter(tags={RUN_KEY: request.run_key}), limit=1)
            since_s, step_s = request.since_s, steps_s.get(request.job, GRID_S)
            ready_s = now_s if since_s is None else judgeable_s(since_s, horizon_s, step_s)
            if runs and runs[0].is_finished:
                store.journal.close_retrain(request.run_key, now_s)
            elif not runs and ready_s > now_s:
                waiting.append(f"{request.job} is trained at {moment(ready_s)}, when its new load can be judged")
            elif not runs:
                requested += 1
                context.instance.add_dynamic_partitions(stream_jobs.name or "", [request.job])
                yield dg.RunRequest(
                    run_key=request.run_key,
                    partition_key=request.job,
                    tags={"perdix/reason": "drift", "perdix/why": request.reason[:250]},
                )
    finally:
        store.close()
    if not requested:
        yield dg.SkipReason("; ".join(waiting) or "no stream job has drifted")
