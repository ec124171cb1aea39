"""A twin's scrapes as a source of metrics, without a server between."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdix.control.sources import Reading
from perdix.settings.stream_job import StreamJob
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.scraped import scraped


@dataclass(frozen=True)
class TwinSource:
    """A :class:`perdix.control.sources.MetricsSource` that reads a twin's scrapes in process."""

    twin: JobTwin
    scraping: Scraping = field(default_factory=lambda: Scraping(interval_s=5.0))

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        """Return the window ``(since_s, now_s]``."""
        return Reading(scraped(self.twin, self.scraping, job.name, since_s, now_s))
