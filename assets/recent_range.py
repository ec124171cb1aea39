"""Before a training: what the lake lacks of each live job, from its own Prometheus.

So a retrain learns what drifted, and a live job needs no exports. The range goes the way of exports: landing folder,
ingest, quarantine, checks, features (:mod:`perdix.assets.refresh`). What cannot be had is shown on the run, and the
training goes on with what there is.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import dagster as dg

from perdix.assets.checks import of_each_partition
from perdix.assets.expectation_suite import load_suites
from perdix.assets.ingest import forget, ingest_metadata, warnings_of
from perdix.assets.metadata import records
from perdix.assets.partitions import one_run, partitions_of, stream_jobs
from perdix.assets.refresh import Refresh
from perdix.assets.resources import Spark, Workspace
from perdix.control.clock import WallClock
from perdix.settings.moments import moment

if TYPE_CHECKING:
    from perdix.telemetry.live_range import PulledRange

NAME = "recent_range"
COMPLETE, SOUND = "everything_was_pulled", "samples_are_sound"
COLUMNS = ("job", "asked_from", "asked_until", "days", "samples", "problems")


@dg.asset(
    name=NAME,
    group_name="recent",
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    kinds={"prometheus", "spark"},
    pool="spark",
    check_specs=[
        dg.AssetCheckSpec(name, asset=NAME, partitions_def=stream_jobs, description=meaning)
        for name, meaning in (
            (
                COMPLETE,
                "Not all could be pulled or observed: the column problems says why. What there is is trained on.",
            ),
            (SOUND, "An expectation of samples or observations does not hold; the result names it."),
        )
    ],
)
def recent_range(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark) -> dg.MaterializeResult:
    """What the lake lacks of each job, from the job's own Prometheus, ingested and checked like exports.

    Of jobs without one, too, days whose features are missing, or were made of other samples, are made anew.
    """
    from perdix.telemetry.lake import LakeError
    from perdix.telemetry.live_range import pull_missing

    files = workspace.stream_jobs()
    jobs = files.jobs
    for complaint in files.complaints:
        context.log.warning(complaint)
    live = [jobs[name] for name in partitions_of(context) if name in jobs and jobs[name].prometheus is not None]
    home, lake, now_s = workspace.paths(), workspace.lake(), WallClock().now_s()
    settings = workspace.settings()
    history_days = settings.training.history_days
    pulled = []
    for pull in pull_missing(live, home, lake, now_s, history_days=history_days):
        pulled.append(pull)
        context.log.info(f"{pull.job}: {pull.sentence()}")
        for problem in pull.problems:
            context.log.warning(f"{pull.job}: {problem}")
    suites = load_suites(workspace.conf_folder())
    refresh = Refresh(home, lake, spark.session, suites, now_s, history_days)
    anew = {pull.job: {*pull.days, _day(pull.from_s)} for pull in pulled if pull.days}
    refresh.run({job: anew.get(job, ()) for job in context.partition_keys})
    for job in context.partition_keys:
        try:
            forget(context, workspace, job, settings.kept_days)
        except (LakeError, OSError) as error:
            context.log.warning(f"{job}: {error}")
    for job, problems in refresh.problems.items():
        for problem in problems:
            context.log.warning(f"{job}: {problem}")
    for warning in (*warnings_of(refresh.reports), *chain.from_iterable(refresh.warnings.values())):
        context.log.warning(warning)
    return result_of(context, pulled, refresh)


def _day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()


def row_of(pull: "PulledRange", problems: Iterable[str] = ()) -> dict[str, Any]:
    """Return what is shown of a job's range; ``problems``: of its observations, beside those of the pull."""
    return {
        "job": pull.job,
        "asked_from": moment(pull.from_s),
        "asked_until": moment(pull.until_s),
        "days": len(pull.days),
        "samples": pull.samples,
        "problems": "; ".join([*pull.problems, *problems]),
    }


def result_of(
    context: dg.AssetExecutionContext, pulled: Sequence["PulledRange"], refresh: Refresh
) -> dg.MaterializeResult:
    """Return what a run shows of all ranges, with its checks; each job's own goes to the job's partition."""
    rows = [row_of(pull, refresh.problems[pull.job]) for pull in pulled]
    asked = {pull.job for pull in pulled}
    others = {job: why for job, why in refresh.problems.items() if why and job not in asked}
    rows += [{"job": job, "problems": "; ".join(why)} for job, why in others.items()]
    for row in rows:
        context.add_asset_metadata(row, partition_key=row["job"])
    incomplete = [row["job"] for row in rows if row["problems"]]
    failed = [outcome for outcomes in refresh.outcomes.values() for outcome in outcomes if not outcome.success]

    def judge(jobs: Sequence[str]) -> list[dg.AssetCheckResult]:
        whole = set(jobs) == set(context.partition_keys)  # what blocks nobody is the run's as a whole
        unsound = [outcome.name for outcome in failed if whole or set(outcome.blocked) & set(jobs)]
        return [_check(COMPLETE, set(incomplete) & set(jobs), "jobs"), _check(SOUND, unsound, "expectations")]

    return dg.MaterializeResult(
        metadata={
            "jobs": len(rows),
            "pulled_samples": sum(pull.samples for pull in pulled),
            "incomplete": len(incomplete),
            "ranges": records(sorted(rows, key=lambda row: not row["problems"]), COLUMNS),
            **ingest_metadata(refresh.reports),
        },
        check_results=of_each_partition(context, NAME, judge),
    )


def _check(name: str, failed: Iterable[str], what: str) -> dg.AssetCheckResult:
    """Return a check that warns: whatever is missing, the training goes on with what there is."""
    missing = sorted(set(failed))
    return dg.AssetCheckResult(
        check_name=name,
        passed=not missing,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={what: ", ".join(missing[:50])} if missing else {},
    )
