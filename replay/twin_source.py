"""A twin's scrapes as a source of metrics, without a server between."""

from __future__ import annotations

from dataclasses import dataclass, field

from control.sources import Reading
from settings.stream_job import StreamJob
from telemetry.alignment import align
from twin.emission import Scraping, emit
from twin.job import JobTwin


@dataclass(frozen=True)
class TwinSource:
    """A :class:`control.sources.MetricsSource` that reads a twin's scrapes in process."""

    twin: JobTwin
    scraping: Scraping = field(default_factory=lambda: Scraping(interval_s=5.0))

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        """Return the window ``(since_s, now_s]``."""
        interval_s = self.scraping.interval_s
        series = emit(self.twin, self.scraping, from_s=since_s - 2.0 * interval_s, to_s=now_s + 1e-3)
        return Reading(align(job.name, series, since_s, now_s, interval_s))
