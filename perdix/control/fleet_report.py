"""What a tick of a fleet did: of some jobs, and as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from perdix.control.state.journal import JobStatus
from perdix.control.state.schema import cause_of
from perdix.control.tick_io import TickReport
from perdix.settings.home import job_file_to_write
from perdix.settings.plain_error import presentable

LONGEST_SENTENCE = 500


class LoopFault(StrEnum):
    """What the tick of the fleet itself could not do, while every job was served; stable names for alerts."""

    CHAMPIONS = "champions"  # looking for new ones
    JOB_FILES = "job_files"  # listing a folder of them
    READ_AHEAD = "read_ahead"  # asking servers about several jobs at once
    JOURNAL = "journal"  # writing how the tick went into the state store
    HEARTBEAT = "heartbeat"  # writing the file that says that it ended
    PROCESS = "process"  # one of those that serve jobs side by side ended before its jobs were served


@dataclass(frozen=True)
class RetrainRequest:
    """A champion that should be trained anew; ``run_key`` stays the same until it was answered or made again."""

    job: str
    run_key: str
    reason: str


@dataclass(frozen=True)
class Part:
    """What came of some jobs of a tick."""

    reports: Mapping[str, TickReport] = field(default_factory=dict)  # job -> report, for the jobs that were served
    # Job -> status, for those that were not: leased elsewhere, late, broken, or without a usable job file
    others: Mapping[str, JobStatus] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what went wrong beside the jobs, in words
    faults: tuple[LoopFault, ...] = ()  # which of that is perdix' own, and has to be fixed: a full disk, for example

    def with_fault(self, fault: LoopFault, what: str, error: Exception) -> Self:
        """Return it with one more thing that went wrong."""
        return replace(self, notes=(*self.notes, noted(what, error)), faults=(*self.faults, fault))

    def joined(self, other: Part) -> Part:
        """Return both; what both have noted is noted once."""
        return Part(
            {**self.reports, **other.reports},
            {**self.others, **other.others},
            tuple(dict.fromkeys((*self.notes, *other.notes))),
            tuple(dict.fromkeys((*self.faults, *other.faults))),
        )


@dataclass(frozen=True, kw_only=True)
class FleetReport(Part):
    """What one tick of a fleet did."""

    started_s: float
    finished_s: float
    # Every request that is still open: to be offered again and again, as the run key makes that harmless
    retrains: tuple[RetrainRequest, ...] = ()

    @property
    def statuses(self) -> dict[str, JobStatus]:
        """Every job's status."""
        served = {name: report.job_status(self.started_s) for name, report in self.reports.items()}
        return {**served, **self.others}

    @property
    def standing(self) -> dict[str, TickReport | JobStatus]:
        """What each job's tick came to, or why it had none."""
        return {**self.reports, **self.others}

    @property
    def rescaled(self) -> list[str]:
        """Jobs whose targets took a new scale-out in this tick, by name."""
        return sorted(name for name, report in self.reports.items() if report.event.value == "applied")

    def counts(self) -> dict[str, int]:
        """Return status -> how many jobs have it."""
        return dict(Counter(job.status.value for job in self.standing.values()))

    def summary(self) -> dict[str, Any]:
        """Return the tick in a few JSON-serialisable numbers; stable names."""
        decisions = [report.decision for report in self.reports.values() if report.decision is not None]
        return {
            "jobs": len(self.reports) + len(self.others),
            "statuses": self.counts(),
            "reasons": dict(Counter(decision.reason.value for decision in decisions)),
            "events": dict(Counter(report.event.value for report in self.reports.values())),
            "workers": sum(report.running or 0 for report in self.reports.values()),
            "retrains": len(self.retrains),
            "seconds": round(self.finished_s - self.started_s, 3),
            "notes": list(self.notes),
            "faults": list(self.faults),
        }

    def sentence(self) -> str:
        """Return the tick in one sentence, for a status line."""
        if not self.reports and not self.others:
            return f"No stream jobs: {job_file_to_write()}."
        counts = ", ".join(f"{number} {status}" for status, number in sorted(self.counts().items()))
        scaled = f"; scaled {', '.join(self.rescaled)}" if self.rescaled else ""
        faults = f"; FAILED: {', '.join(self.faults)}" if self.faults else ""
        return f"{counts}{scaled}{faults}; {self.finished_s - self.started_s:.1f} s."


def noted(what: str, error: Exception) -> str:
    """Return an error in words that can be stored and shown, after what it kept from being done."""
    return presentable(f"{what}: {cause_of(error)}")[:LONGEST_SENTENCE]
