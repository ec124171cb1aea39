"""What is read of one job: its past at a fitting step, as two aligned windows.

Metrics of workers are many, and their minutes only have to be seen now and then to learn a capacity. So these are asked
at a step fifteen times as long as the job's own.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from perdix.scan.finding import FoundJob
from perdix.settings.durations import DAY_S, MINUTE_S
from perdix.settings.stream_job import MOST_WORKERS, Bounds
from perdix.telemetry.alignment import align
from perdix.telemetry.metrics import CPU, LAG, LATENCY, SCALE_OUT, THROUGHPUT, UPTIME, WORKLOAD
from perdix.telemetry.plausible import plausible_ranges, screened
from perdix.telemetry.prometheus import POINTS_PER_PAGE, Asked, Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import EngineQueries
from perdix.telemetry.query_text import rate_window_s
from perdix.telemetry.series import Series
from perdix.telemetry.window import Window

COARSER: Final = 15  # steps of the job's metrics in one of its workers'
OF_JOB: Final = (WORKLOAD.name, LAG.name, LATENCY.name, SCALE_OUT.name, UPTIME.name)
OF_WORKERS: Final = (THROUGHPUT.name, CPU.name, SCALE_OUT.name, UPTIME.name)
ALL_WORKERS: Final = "all"
SCRAPES: Final = rate_window_s(1.0)  # in the range of a rate


@dataclass(frozen=True)
class Past:
    """What was read of a job."""

    of_job: Window  # metrics of the job; throughput as that of one worker, the sum of all
    of_workers: Window  # CPU and throughput of each worker, at a longer step
    warnings: tuple[str, ...] = ()  # what the server warned of, or what could not be asked, in words


def read_past(
    client: Prometheus,
    queries: EngineQueries,
    job: FoundJob,
    now_s: float,
    days: float,
    *,
    on_read: Callable[[], object] = lambda: None,
) -> Past:
    """Read the last ``days`` of a job.

    Raises ``PrometheusError`` when the server cannot be reached, or refused everything that was asked of this job.

    ``on_read``: called after each answer, for progress.
    """
    minutes = max(1, math.ceil(days * DAY_S / MINUTE_S / (POINTS_PER_PAGE - 1)))  # at which all fits into one page
    step_s = MINUTE_S * minutes
    end_s = math.floor(now_s / (COARSER * step_s)) * COARSER * step_s
    start_s = end_s - math.floor(days * DAY_S / step_s) * step_s
    asked = _Asked(client, queries, job, start_s, end_s)
    of_job, warned = asked.pull(OF_JOB, step_s, window_s=step_s)
    on_read()
    of_job = [*of_job, *asked.whole_throughput(step_s)]
    on_read()
    of_workers, more = asked.pull(OF_WORKERS, COARSER * step_s, window_s=MINUTE_S)
    on_read()
    ranges = plausible_ranges(Bounds(maximum=MOST_WORKERS))
    windows = [
        screened(align(job.name, series, start_s - width_s, end_s, width_s), ranges)
        for series, width_s in ((of_job, step_s), (of_workers, COARSER * step_s))
    ]
    return Past(windows[0], windows[1], tuple(dict.fromkeys((*warned, *more))))


@dataclass(frozen=True)
class _Asked:
    client: Prometheus
    queries: EngineQueries
    job: FoundJob
    start_s: float
    end_s: float

    def pull(self, metrics: tuple[str, ...], step_s: float, *, window_s: float) -> tuple[list[Series], tuple[str, ...]]:
        """Read metrics whose rates are means over ``window_s``, or over four scrapes where that is longer."""
        wanted = tuple(name for name in self.queries.metrics(self.job.labels) if name in metrics)
        start_s = math.ceil(self.start_s / step_s) * step_s
        scraped_s = max(self.job.scrape_interval_s, window_s / SCRAPES)
        asked = Asked({"": wanted}, {"": self.job.labels}, start_s, self.end_s, step_s, scraped_s)
        found = self.client.pull_jobs(self.queries, asked)[""]
        if isinstance(found, PrometheusError):
            raise found
        return [series for series in found.series if len(series)], found.warnings

    def whole_throughput(self, step_s: float) -> list[Series]:
        """Read what all workers consumed together: the server adds it up, so that it is series series."""
        window_s = rate_window_s(max(self.job.scrape_interval_s, step_s / SCRAPES))
        promql = f"sum({self.queries.promql(THROUGHPUT.name, self.job.labels, window_s)})"
        found = self.client.query_range(promql, self.start_s, self.end_s, step_s)
        return [replace(series, metric=THROUGHPUT.name, worker=ALL_WORKERS) for series in found[:1] if len(series)]
