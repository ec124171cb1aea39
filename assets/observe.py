"""Samples into observations on one grid per job, and observations into what models are trained on."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from perdix.assets import observation_tasks
from perdix.assets.ingest import samples
from perdix.assets.judging import blocked_reasons, outcomes_file
from perdix.assets.metadata import records
from perdix.assets.partitions import by_spark, partitions_of
from perdix.assets.resources import Spark, Workspace
from perdix.assets.spark.tasks import Answer, run_tasks
from perdix.telemetry.partitions import LakeError

ONE_JOB = "perdix/job"  # tag of a run that checks and observes this job only


@by_spark("observe", [samples])
def observations(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark) -> dg.MaterializeResult:
    """Metrics of each job (``job_observations``) and worker (``worker_observations``) on one grid, gaps kept."""
    answers = _per_job_and_day(context, workspace, spark, "samples", observation_tasks.write_observations)
    for answer in answers:
        if sentence := observation_tasks.came_twice(answer.key, answer.result):
            context.log.warning(sentence)
    counted = ("read", "used", "masked", "duplicate", "outside", "out_of_order", "resets")
    totals = {name: sum(answer.result.get(name, 0) for answer in answers) for name in counted}
    return _result(answers, ("job_rows", "worker_rows", *counted), {**totals, "dagster/row_count": _rows(answers)})


@by_spark("observe", [observations])
def features(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark) -> dg.MaterializeResult:
    """Workload at 10 s (``workload_features``) and CPU against throughput per worker (``capacity_features``)."""
    answers = _per_job_and_day(context, workspace, spark, "job_observations", observation_tasks.write_features)
    return _result(answers, ("workload_rows", "capacity_rows"), {"dagster/row_count": _rows(answers)})


def _per_job_and_day(
    context: dg.AssetExecutionContext,
    workspace: Workspace,
    spark: Spark,
    table: str,
    task: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> list[Answer]:
    """Run a task for every job and asked-for day that ``table`` holds; fail only when all of them failed.

    A job that its table's checks blocked is not run: its answer says why.
    """
    lake, home, own, asked = workspace.lake(), workspace.paths(), context.run.tags.get(ONE_JOB), partitions_of(context)
    why = {day: blocked_reasons(outcomes_file(home, table, day, own)) for day in asked}
    answers, keys = list[Answer](), set[tuple[str, str]]()
    for job in lake.jobs(table) if own is None else [own]:
        try:
            keys |= {(job, part.keys["day"]) for part in lake.manifests(table, job, days=asked)}
        except LakeError as error:
            answers += [Answer({"job": job, "day": day}, {}, str(error), None, 0.0) for day in asked]
    tasks = [{"lake": str(lake.root), "job": job, "day": day} for job, day in sorted(keys) if job not in why[day]]
    answers += run_tasks(spark.session(), tasks, task) if tasks else []
    blocked = [{"job": job, "day": day} for job, day in sorted(keys) if job in why[day]]
    answers += [Answer(key, {}, why[key["day"]][key["job"]], trace=None, seconds=0.0) for key in blocked]
    for answer in answers:
        if answer.error:
            context.log.warning(f"{answer.key['job']}, {answer.key['day']}: {answer.error}\n{answer.trace or ''}")
    if answers and all(answer.error for answer in answers):
        raise dg.Failure(f"no job could be processed; the first said: {answers[0].error}")
    return answers


def _rows(answers: list[Answer]) -> int:
    return sum(value for answer in answers for name, value in answer.result.items() if name.endswith("_rows"))


def _result(answers: list[Answer], columns: tuple[str, ...], totals: Mapping[str, Any]) -> dg.MaterializeResult:
    rows = [
        {"job": answer.key["job"], "day": answer.key["day"], **answer.result, "error": answer.error}
        for answer in sorted(answers, key=lambda answer: not answer.error)
    ]
    failed = sum(1 for answer in answers if answer.error)
    return dg.MaterializeResult(
        metadata={
            **totals,
            "failed": failed,
            "seconds": round(sum(answer.seconds for answer in answers), 3),
            "jobs": records(rows, ("job", "day", *columns, "error")),
        }
    )
