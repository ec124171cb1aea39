"""Great Expectations at the two trust boundaries, as asset checks: after ingest, and before training."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dagster as dg

from perdix.assets.checks import suite_checks
from perdix.assets.expectation_suite import Suite, load_suites
from perdix.assets.expectations import ExpectationOutcome, run_suite, write_outcomes
from perdix.assets.judged_frames import fault_of, judged_frame
from perdix.assets.judging import judge_by_job, outcomes_file
from perdix.assets.observe import ONE_JOB
from perdix.assets.partitions import days
from perdix.assets.resources import Spark, Workspace
from perdix.control.clock import WallClock
from perdix.telemetry.lake import LakeError

Judge = Callable[[dg.AssetCheckExecutionContext, Suite], list[ExpectationOutcome]]


def _judge(table: str) -> Judge:
    def judge(context: dg.AssetCheckExecutionContext, suite: Suite) -> list[ExpectationOutcome]:
        workspace: Workspace = context.resources.workspace
        spark: Spark = context.resources.spark
        lake, asked, own = workspace.lake(), list(context.partition_keys), context.run.tags.get(ONE_JOB)
        now_s = WallClock().now_s()

        def judged(jobs: Sequence[str] | None) -> list[ExpectationOutcome]:
            return run_suite(judged_frame(lake, table, asked, spark.session, jobs=jobs), suite, now_s=now_s)

        try:
            held = {part.keys["job"] for part in lake.manifests(table, own, days=asked)}
            outcomes = judge_by_job(
                held, lambda jobs: judged(None if own is None and len(jobs) == len(held) else jobs)
            ).outcomes()
        except LakeError:  # of one job; what is wrong with it, the next step says
            sound = [job for job in lake.jobs(table) if own is None and fault_of(lake, table, job, asked) is None]
            if not sound:
                raise
            outcomes = judge_by_job(sound, judged).outcomes()
        for day in asked:
            write_outcomes(outcomes, outcomes_file(workspace.paths(), table, day, own), suite=suite, at_s=now_s)
        return outcomes

    return judge


def build_checks() -> list[dg.AssetChecksDefinition]:
    """Return the checks of both tables, from ``conf/expectations``."""
    suites = load_suites()
    resources = {"workspace", "spark"}
    return [
        suite_checks(
            asset, suites[table], _judge(table), partitions=days, required_resource_keys=resources, pool="spark"
        )
        for asset, table in (("samples", "samples"), ("observations", "job_observations"))
    ]
