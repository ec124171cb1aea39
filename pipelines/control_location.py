"""Code location ``control``: the loop that scales. Imports neither Spark, Great Expectations nor any trainer."""

from datetime import timedelta

import dagster as dg

from perdix.assets.resources import Workspace
from perdix.pipelines.control_sensor import DECISIONS, control_loop, interval_s
from perdix.pipelines.rescaled_jobs import job_reviews, review_jobs


def build_control_defs(workspace: Workspace | None = None) -> dg.Definitions:
    """Assemble the location; tests hand in a workspace of their own."""
    interval = timedelta(seconds=max(interval_s(), 60))  # Dagster has no shorter window
    decisions = dg.AssetSpec(
        DECISIONS,
        group_name="control",
        kinds={"prometheus"},
        description="What the control loop decided: one materialization per tick, from the sensor control_loop.",
        freshness_policy=dg.FreshnessPolicy.time_window(warn_window=3 * interval, fail_window=5 * interval),
    )
    return dg.Definitions(
        assets=[decisions, job_reviews],
        jobs=[review_jobs],
        sensors=[control_loop],
        resources={"workspace": workspace or Workspace()},
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions that Dagster loads."""
    return build_control_defs()
