"""Great Expectations at the two trust boundaries, as asset checks: after ingest, and before training."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg

from perdix.assets.checks import suite_checks
from perdix.assets.expectation_suite import Suite, load_suites
from perdix.assets.expectations import ExpectationOutcome, run_suite, write_outcomes
from perdix.assets.judged_frames import judged_frame
from perdix.assets.partitions import days
from perdix.assets.resources import Spark, Workspace
from perdix.control.clock import WallClock

Judge = Callable[[dg.AssetCheckExecutionContext, Suite], list[ExpectationOutcome]]


def _judge(table: str) -> Judge:
    def judge(context: dg.AssetCheckExecutionContext, suite: Suite) -> list[ExpectationOutcome]:
        workspace: Workspace = context.resources.workspace
        spark: Spark = context.resources.spark
        asked = list(context.partition_keys)
        frame = judged_frame(workspace.lake(), table, asked, spark.session)
        now_s = WallClock().now_s()
        outcomes = run_suite(frame, suite, now_s=now_s)
        for day in asked:
            path = workspace.paths().validations / table / f"{day}.json"
            write_outcomes(outcomes, path, suite=suite, at_s=now_s)
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
