"""The files of an episode's jobs, as their owners have them now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.storm.flow import FLOW
from benchmarks.storm.weather import Weather
from perdix.settings.stream_job import Bounds, PolicySettings, StreamJob

OF_OPERATORS = ("at ", "paused")  # how edits begin that a loop goes by that sizes operators
LATER = datetime(2100, 1, 1, tzinfo=UTC)  # than any clock of an episode says


@dataclass(frozen=True)
class JobFiles:
    """The jobs, and (``flow``) the one whose operators are sized, as their files are without faults."""

    weather: Weather
    jobs: Sequence[StreamJob]
    flow: StreamJob | None

    def now(self) -> list[StreamJob]:
        """Return the jobs as their files are now."""
        edits = ((job, self.weather.active("job file", job.name)) for job in self.jobs)
        return [job_left for job, edit in edits for job_left in ([job] if edit is None else edited(job, edit.what))]

    def of_flow(self) -> StreamJob:
        """Return the job whose operators are sized, as its file is now, or was last if it is gone."""
        assert self.flow is not None
        edit = self.weather.active("job file", FLOW)
        return self.flow if edit is None or not edit.what.startswith(OF_OPERATORS) else edited(self.flow, edit.what)[0]


def edited(job: StreamJob, what: str) -> list[StreamJob]:
    """Return a job after its owner changed its file: none where the file is gone."""
    match what:
        case "gone":
            return []
        case "at most 3":
            return [job.model_copy(update={"bounds": Bounds(minimum=1, maximum=3)})]
        case "at least 6":
            return [job.model_copy(update={"bounds": Bounds(minimum=6, maximum=job.bounds.maximum)})]
        case "advises":
            return [job.model_copy(update={"mode": "advise"})]
        case "paused":
            return [job.model_copy(update={"paused_until": LATER})]
    return [job.model_copy(update={"policy": PolicySettings(name=what)})]
