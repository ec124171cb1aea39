"""Great Expectations at the two trust boundaries, as asset checks: after ingest, and before training."""

from collections.abc import Sequence

import dagster as dg

from perdix.assets.checks import Judge, suite_checks
from perdix.assets.expectation_suite import Suite, load_suites
from perdix.assets.expectations import ExpectationOutcome, run_suite, write_outcomes
from perdix.assets.judged_frames import fault_of, judged_frame
from perdix.assets.judging import Judged, Key, judge_each, outcomes_file
from perdix.assets.observe import ONE_JOB
from perdix.assets.partitions import days, partitions_of
from perdix.assets.resources import Spark, Workspace
from perdix.control.clock import WallClock
from perdix.telemetry.lake import LakeError


def _judge(table: str) -> Judge:
    def judge(context: dg.AssetCheckExecutionContext, suite: Suite) -> Judged:
        workspace: Workspace = context.resources.workspace
        spark: Spark = context.resources.spark
        lake, asked, own = workspace.lake(), partitions_of(context), context.run.tags.get(ONE_JOB)
        now_s = WallClock().now_s()

        def held(job: str | None) -> set[Key]:
            return {(part.keys["job"], part.keys["day"]) for part in lake.manifests(table, job, days=asked)}

        def of(keys: Sequence[Key] | None) -> list[ExpectationOutcome]:
            return run_suite(judged_frame(lake, table, asked, spark.session, keys=keys), suite, now_s=now_s)

        try:
            every = held(own)
            judged = judge_each(every, lambda keys: of(None if len(keys) == len(every) and own is None else keys))
        except LakeError:  # of one job; what is wrong with it, the next step says
            sound = [job for job in lake.jobs(table) if own is None and fault_of(lake, table, job, asked) is None]
            if not sound:
                raise
            judged = judge_each({key for job in sound for key in held(job)}, of)
        for day in asked:
            path = outcomes_file(workspace.paths(), table, day, own)
            write_outcomes(judged.outcomes([day]), path, suite=suite, at_s=now_s)
        return judged

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
