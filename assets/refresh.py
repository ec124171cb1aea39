"""What was landed of some jobs, taken through the same ingest, checks and features as a whole day. Knows no Dagster.

A job's day whose samples fail a critical expectation goes no further, and the others do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdix.assets import observation_tasks
from perdix.assets.expectation_suite import Suite
from perdix.assets.history import newest_of
from perdix.assets.judged_frames import fault_of, judged_frame
from perdix.assets.judging import Judged, Key, jobs_of, judge_each, why_blocked
from perdix.assets.observation_tasks import made_of
from perdix.assets.spark.tasks import Task, run_tasks
from perdix.settings.home import Home
from perdix.telemetry.exports.records import Limits
from perdix.telemetry.lake import Lake, LakeError, Manifest
from perdix.telemetry.landing import landed
from perdix.telemetry.partitions import content_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from perdix.assets.expectations import ExpectationOutcome


@dataclass
class Refresh:
    """One pass over the landed files of some jobs."""

    home: Home
    lake: Lake
    session: Callable[[], SparkSession]  # called when Spark is needed
    suites: Mapping[str, Suite]  # table -> its expectations
    now_s: float  # epoch seconds of the caller's clock
    # Among how many days, up to a job's newest, those are brought up to features whose features were not made of the
    # samples that are in the lake: a run was cut before, or the samples came otherwise
    overdue_days: int = 0
    # Ingest report of each job that had new files, as plain values
    reports: list[dict[str, Any]] = field(default_factory=list)
    # Job -> what went wrong, in words
    problems: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    # Job -> what is to be known of its samples, in words: that many count once with others
    warnings: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    # Table -> what came of its expectations
    outcomes: dict[str, list[ExpectationOutcome]] = field(default_factory=dict)

    def run(self, days_of: Mapping[str, Collection[str]]) -> None:
        """Ingest what is new of each job, and bring its days up to features.

        ``days_of``: job -> days (ISO) that are observed anew beside those of its new files, and those that are overdue.
        """
        days = {job: sorted({*known, *self._ingested(job), *self._overdue(job)}) for job, known in days_of.items()}
        blocked = self._each("samples", days, observation_tasks.write_observations)
        sound = {job: [day for day in some if (job, day) not in blocked] for job, some in days.items()}
        self._each("job_observations", sound, observation_tasks.write_features)

    def _overdue(self, job: str) -> set[str]:
        """Return the days whose features were not made of the samples that the lake holds."""
        if not self.overdue_days:
            return set()
        samples: dict[str, list[Manifest]] = {}
        for part in self._parts("samples", job):
            samples.setdefault(part.keys["day"], []).append(part)
        known = {part.keys["day"]: made_of(part) for part in self._parts("workload_features", job)}
        newest = newest_of(sorted(samples), self.overdue_days, self.now_s)
        return {day for day in newest if known.get(day) != content_of(samples[day])}

    def _ingested(self, job: str) -> Sequence[str]:
        from perdix.telemetry.ingest import ingest, new_files

        try:
            files = new_files(self.lake, job, landed(self.home, job))
            if not files:
                return ()
            report = ingest(self.session(), self.lake, files, job, limits=Limits.until(self.now_s))
        except Exception as error:  # one job's files must not keep the others from being trained
            self.problems[job].append(f"could not be ingested: {type(error).__name__}: {error}")
            return ()
        self.reports.append(report.to_dict())
        return report.to_observe

    def _each(self, table: str, days: Mapping[str, Sequence[str]], task: Task) -> set[Key]:
        """Judge a table, and derive the next one for the jobs' days that passed; returns those that did not."""
        held = {(job, part.keys["day"]) for job in days for part in self._parts(table, job)}
        keys = sorted((job, day) for job, some in days.items() for day in some if (job, day) in held)
        blocked = self._blocked(table, keys)
        tasks = [
            {"lake": str(self.lake.root), "job": job, "day": day} for job, day in keys if (job, day) not in blocked
        ]
        for answer in run_tasks(self.session(), tasks, task) if tasks else []:
            if answer.error:
                self.problems[answer.key["job"]].append(f"{answer.key['day']}: {answer.error}")
            elif sentence := observation_tasks.came_twice(answer.key, answer.result):
                self.warnings[answer.key["job"]].append(sentence)
        return blocked

    def _parts(self, table: str, job: str) -> list[Manifest]:
        try:
            return self.lake.manifests(table, job)
        except LakeError as error:
            if str(error) not in self.problems[job]:
                self.problems[job].append(str(error))
            return []

    def _blocked(self, table: str, keys: Sequence[Key]) -> set[Key]:
        """Return the jobs' days that fail a critical expectation, or cannot be read."""
        if not keys:
            return set()
        try:
            return self._noted(table, judge_each(keys, lambda some: self._judged(table, some)))
        except LakeError:
            readable = {job for job in jobs_of(keys) if self._readable(table, keys, job)}
            sound = [key for key in keys if key[0] in readable]
            if not sound:
                return set(keys)
            judged = judge_each(sound, lambda some: self._judged(table, some))
            return self._noted(table, judged) | (set(keys) - set(sound))

    def _noted(self, table: str, judged: Judged) -> set[Key]:
        """Keep what came of the expectations; returns the jobs' days that fail a critical one."""
        self.outcomes[table] = judged.outcomes()
        days: dict[tuple[str, str], list[str]] = {}
        for (job, day), failed in judged.blocked.items():
            why = why_blocked(table, [(check.name, check.meaning) for check in failed])
            days.setdefault((job, why), []).append(day)
        for (job, why), some in days.items():
            self.problems[job].append(f"not trained on {', '.join(some)}: {why}")
        return set(judged.blocked)

    def _readable(self, table: str, keys: Sequence[Key], job: str) -> bool:
        fault = fault_of(self.lake, table, job, sorted({day for other, day in keys if other == job}))
        if fault is not None:
            self.problems[job].append(fault)
        return fault is None

    def _judged(self, table: str, keys: Sequence[Key]) -> list[ExpectationOutcome]:
        from perdix.assets.expectations import run_suite

        frame = judged_frame(self.lake, table, None, self.session, keys=keys)
        return run_suite(frame, self.suites[table], now_s=self.now_s)
