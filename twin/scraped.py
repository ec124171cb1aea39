"""A twin's scrapes as an aligned window: what a Prometheus would have shown of it."""

from __future__ import annotations

from telemetry.alignment import align
from telemetry.window import Window
from twin.emission import Scraping, emit
from twin.job import JobTwin


def scraped(twin: JobTwin, scraping: Scraping, job: str, since_s: float, now_s: float) -> Window:
    """Return the window ``(since_s, now_s]``, epoch seconds."""
    interval_s = scraping.interval_s
    series = emit(twin, scraping, from_s=since_s - 2.0 * interval_s, to_s=now_s + 1e-3)
    return align(job, series, since_s, now_s, interval_s)
