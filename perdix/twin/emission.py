"""Scraping a twin: its history turned into series, with jitter, lost scrapes, staleness and counter resets."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.series import Series
from perdix.twin.exposition import Exposed, Names, OfWorker, Read, expose
from perdix.twin.history import History
from perdix.twin.job import JobTwin
from perdix.twin.looks import Look, Looks, Scraping, Silence

__all__ = ["Scraping", "Silence", "emit", "scrape", "shown"]

Samples = tuple[NDArray[np.int64], NDArray[np.float64]]  # epoch milliseconds, and values


def emit(
    twin: JobTwin,
    scraping: Scraping | None = None,
    *,
    names: Names = "canonical",
    from_s: float | None = None,
    to_s: float | None = None,
) -> list[Series]:
    """Return all series of a twin with scrapes in ``[from_s, to_s)``, by default its whole history.

    Series without a sample are left out. The same for the same twin, whatever the range it is asked for.
    """
    scraping = scraping or Scraping()
    exposed = expose(twin, names, scraping.interval_s)
    return scrape(twin, exposed, scraping, from_s=from_s, to_s=to_s)


def scrape(
    twin: JobTwin,
    exposed: Iterable[Exposed],
    scraping: Scraping,
    *,
    from_s: float | None = None,
    to_s: float | None = None,
) -> list[Series]:
    """Return the samples of some of the twin's series; see :func:`emit`."""
    history, exposed = twin.history, list(exposed)
    first_s = history.start_s + 1 if from_s is None else max(from_s, history.start_s + 1)
    end_s = history.end_s + 1 if to_s is None else min(to_s, history.end_s + 1)
    number: dict[str, int] = {}  # of a clock
    endpoints: dict[str, int] = {}  # and the clock of each exporter
    tables: dict[Read, _Table] = {}
    for entry in exposed:
        if entry.endpoint not in endpoints:
            endpoints[entry.endpoint] = number.setdefault(scraping.clock(entry.endpoint), len(number))
        read = _of_worker(entry, scraping)
        if read is not None:
            tables.setdefault(read.table, _Table(read.table)).clock_of[read.worker] = endpoints[entry.endpoint]
    clocks = {clock: endpoint for endpoint, clock in reversed(endpoints.items())}  # the first that has it
    asked = [clocks[clock] for clock in range(len(number))]
    looks = Looks.of(history, scraping, twin.seed, asked, from_s=first_s, to_s=end_s)
    of_workers = {read: table.samples(history, looks) for read, table in tables.items()}
    found = []
    for entry in exposed:
        read = _of_worker(entry, scraping)
        if read is not None:
            samples = of_workers[read.table].get(read.worker)
        else:
            samples = _samples(history, entry, looks[endpoints[entry.endpoint]], scraping.silences)
        if samples is not None:
            found.append(Series(entry.metric, entry.worker, *samples, entry.labels, entry.kind))
    return found


def _of_worker(entry: Exposed, scraping: Scraping) -> OfWorker | None:
    """Return the part of a table that a series is; a counter that a restart of its exporter resets is read alone."""
    alone = entry.kind == "counter" and scraping.silences
    return entry.read if isinstance(entry.read, OfWorker) and not alone else None


@dataclass
class _Table:
    """One metric of all workers, read once although each of them is scraped at times of its own."""

    read: Read
    clock_of: dict[int, int] = field(default_factory=dict)  # worker -> number of its clock

    def samples(self, history: History, looks: Looks) -> dict[int, Samples]:
        """Return the samples of each worker that has any."""
        deployed = history.column("scale_out")[looks.rows].max(initial=0.0) if looks.rows.size else 0.0
        workers = range(min(int(deployed), max(self.clock_of) + 1))  # of others there is nothing
        clocks = np.array([self.clock_of.get(worker, 0) for worker in workers], dtype=np.int64)
        if not looks.rows.size or not len(clocks):
            return {}
        values = self.read(history, looks.rows_of(clocks).T).T
        kept = shown(values) & looks.wanted[clocks]
        ends = np.cumsum(kept.sum(axis=1)).tolist()
        times_ms, values = looks.times_ms[clocks][kept], values[kept]
        parts = zip(workers, [0, *ends[:-1]], ends, strict=True)
        return {
            worker: (times_ms[begin:end], values[begin:end])
            for worker, begin, end in parts
            if begin < end and worker in self.clock_of
        }


def _samples(history: History, entry: Exposed, look: Look, silences: Iterable[Silence]) -> Samples | None:
    """Read one series; ``None`` where it has no sample."""
    values = entry.read(history, look.rows)
    if entry.kind == "counter" and silences:
        values = values - _counted_before_restart(history, entry, look.rows, silences)
    kept = shown(values) & look.wanted
    return (look.times_ms[kept], values[kept]) if kept.any() else None


def shown(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which scrapes along the last axis show the series.

    The first that no longer does leaves a staleness marker (NaN), as Prometheus does.
    """
    shown = ~np.isnan(values)
    shown[..., 1:] |= shown[..., :-1].copy()
    return shown


def _counted_before_restart(
    history: History, entry: Exposed, rows: NDArray[np.int64], silences: Iterable[Silence]
) -> NDArray[np.float64]:
    """Return what a counter had reached when its exporter last restarted; 0 where it began anew since."""
    before, deployment = np.zeros(len(rows)), history.column("deployment")
    restarts_s = sorted(silence.to_s for silence in silences if silence.restarted and silence.of(entry.endpoint))
    for restart_s in restarts_s:
        row = (int(restart_s) - history.start_s) // history.step_s - 1
        if not 0 <= row < len(history):
            continue
        since = rows >= row
        if entry.worker is not None:  # a worker's counters begin anew with each deployment
            since &= deployment[rows] == deployment[row]
        reached = np.nan_to_num(entry.read(history, np.array([row])))[0]
        before = np.where(since, reached, before)
    return before
