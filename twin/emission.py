"""Scraping a twin: its history turned into series, with jitter, lost scrapes, staleness and counter resets."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from telemetry.series import Series
from twin.exposition import Exposed, Names, OfWorker, Read, expose
from twin.history import History
from twin.job import JobTwin

BLOCK = 512  # scrapes whose luck is drawn together, so that any range of time can be scraped by itself

Samples = tuple[NDArray[np.int64], NDArray[np.float64]]  # epoch milliseconds, and values

LOOK_BACK = 64  # scrapes among which the one before the range is found, however many were lost


@dataclass(frozen=True)
class Silence:
    """A time in which nothing is scraped: a Prometheus that is down, an exporter that restarts.

    Attributes
    ----------
    from_s, to_s
        Epoch seconds; the scrapes of ``[from_s, to_s)`` are missing.
    endpoint
        The exporter that is silent (a worker's is called as its pod is); ``None``: all of them.
    restarted
        The exporter's process is another one afterwards: its counters begin at 0.
    """

    from_s: float
    to_s: float
    endpoint: str | None = None
    restarted: bool = False

    def __post_init__(self) -> None:
        if not self.from_s < self.to_s:
            raise ValueError(f"a silence must end after it begins, found {self}")

    def of(self, endpoint: str) -> bool:
        """Return whether it is about this exporter."""
        return self.endpoint is None or self.endpoint == endpoint


@dataclass(frozen=True)
class Scraping:
    """How a Prometheus scrapes the twin.

    Attributes
    ----------
    interval_s
        Scrape interval in seconds.
    jitter_s
        Standard deviation of a scrape's delay in seconds; a delay is never negative nor longer than 0.9 intervals.
    loss
        Share of an endpoint's scrapes that leave no samples at all.
    silences
        Times in which nothing is scraped.
    """

    interval_s: float = 15.0
    jitter_s: float = 0.0
    loss: float = 0.0
    silences: tuple[Silence, ...] = ()

    def clock(self, endpoint: str) -> str:
        """Return a name that endpoints share which are scraped at the very same times."""
        return endpoint if self.jitter_s or self.loss or self.silences else ""

    def __post_init__(self) -> None:
        if self.interval_s <= 0 or self.jitter_s < 0 or not 0 <= self.loss < 1:
            raise ValueError(f"expected interval_s > 0, jitter_s >= 0 and 0 <= loss < 1, found {self}")


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
        if isinstance(entry.read, OfWorker):
            table = tables.get(entry.read.table) or tables.setdefault(entry.read.table, _Table(entry.read.table))
            table.clock_of[entry.read.worker] = endpoints[entry.endpoint]
    clocks = {clock: endpoint for endpoint, clock in reversed(endpoints.items())}  # the first that has it
    asked = [clocks[clock] for clock in range(len(number))]
    looks = _Looks.of(history, scraping, twin.seed, asked, from_s=first_s, to_s=end_s)
    of_workers = {read: table.samples(history, looks) for read, table in tables.items()}
    found = []
    for entry in exposed:
        if isinstance(entry.read, OfWorker):
            samples = of_workers[entry.read.table].get(entry.read.worker)
        else:
            samples = _samples(history, entry, looks[endpoints[entry.endpoint]], scraping.silences)
        if samples is not None:
            found.append(Series(entry.metric, entry.worker, *samples, entry.labels, entry.kind))
    return found


def _scrape_times_ms(
    scraping: Scraping, seed: int, endpoints: Sequence[str], from_s: float, to_s: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when endpoints are scraped in ``[from_s, to_s)``, and the scrape before: it tells what went stale.

    Shape ``(endpoints, n)``, and how many of each row there are: the others are zeros.
    """
    first = max(int(from_s // scraping.interval_s) - LOOK_BACK, 0)
    last = max(int(to_s // scraping.interval_s) + 1, first)
    scrapes = np.arange(first, last + 1)
    if scraping.clock(endpoints[0]):
        delay_s, luck = _luck(scrapes, seed, tuple(zlib.crc32(endpoint.encode()) for endpoint in endpoints))
    else:
        delay_s, luck = np.zeros((1, len(scrapes))), np.ones((1, len(scrapes)))
    delay_s = np.minimum(np.abs(delay_s) * scraping.jitter_s, 0.9 * scraping.interval_s)
    times_ms = np.floor(1000.0 * (scrapes * scraping.interval_s + delay_s)).astype(np.int64)
    kept = (luck >= scraping.loss) & ~_silent(times_ms, scraping.silences, endpoints)
    earlier = kept & (times_ms < 1000.0 * from_s)
    newest = len(scrapes) - 1 - earlier[:, ::-1].argmax(axis=1)
    kept &= ~earlier | (np.arange(len(scrapes)) == newest[:, None])
    kept &= times_ms < 1000.0 * to_s
    return _to_the_left(times_ms, kept)


def _to_the_left(values: NDArray[np.int64], kept: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what is kept of each row, followed by zeros, and how many that are."""
    counts = kept.sum(axis=1)
    found = np.zeros((len(values), int(counts.max(initial=0))), dtype=np.int64)
    found[np.arange(found.shape[1]) < counts[:, None]] = values[kept]
    return found, counts


def _luck(
    scrapes: NDArray[np.int64], seed: int, endpoints: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    blocks = range(int(scrapes[0]) // BLOCK, int(scrapes[-1]) // BLOCK + 1)
    drawn = [_luck_of_endpoints(seed, endpoints, block) for block in blocks]
    first = int(scrapes[0]) - blocks[0] * BLOCK
    wanted = slice(first, first + len(scrapes))
    if len(drawn) == 1:
        return drawn[0][0][:, wanted], drawn[0][1][:, wanted]
    delays, lost = (np.concatenate(parts, axis=1)[:, wanted] for parts in zip(*drawn, strict=True))
    return delays, lost


def _silent(times_ms: NDArray[np.int64], silences: Iterable[Silence], endpoints: Sequence[str]) -> NDArray[np.bool_]:
    found = np.zeros(times_ms.shape, dtype=np.bool_)
    for silence in silences:
        theirs = np.array([silence.of(endpoint) for endpoint in endpoints])[:, None]
        found |= theirs & (times_ms >= 1000.0 * silence.from_s) & (times_ms < 1000.0 * silence.to_s)
    return found


@lru_cache(maxsize=8)
def _luck_of_endpoints(
    seed: int, endpoints: tuple[int, ...], block: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    drawn = [_luck_of_block(seed, endpoint, block) for endpoint in endpoints]
    return np.stack([delays for delays, _ in drawn]), np.stack([lost for _, lost in drawn])


@lru_cache(maxsize=512)
def _luck_of_block(seed: int, endpoint: int, block: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng([seed, endpoint, block])
    return rng.standard_normal(BLOCK), rng.random(BLOCK)


@dataclass(frozen=True)
class _Look:
    """When an endpoint is scraped, the rows of the history that it then shows, and which of it is asked for.

    All of shape ``(n,)``.
    """

    times_ms: NDArray[np.int64]
    rows: NDArray[np.int64]
    wanted: NDArray[np.bool_]


@dataclass(frozen=True)
class _Looks:
    """The same of several endpoints, each with ``counts`` of them and then zeros; shape ``(endpoints, n)``."""

    times_ms: NDArray[np.int64]
    rows: NDArray[np.int64]
    wanted: NDArray[np.bool_]
    counts: NDArray[np.int64]

    @staticmethod
    def of(
        history: History, scraping: Scraping, seed: int, endpoints: Sequence[str], *, from_s: float, to_s: float
    ) -> _Looks:
        if not endpoints:
            none = np.zeros((0, 0), dtype=np.int64)
            return _Looks(none, none, none > 0, none.ravel())
        times_ms, counts = _scrape_times_ms(scraping, seed, endpoints, from_s, to_s)
        rows = (times_ms // 1000 - history.start_s) // history.step_s - 1
        inside = (rows >= 0) & (rows < len(history)) & (np.arange(rows.shape[1]) < counts[:, None])
        times_ms, counts = _to_the_left(times_ms, inside)
        rows, _ = _to_the_left(rows, inside)
        there = np.arange(rows.shape[1]) < counts[:, None]
        return _Looks(times_ms, rows, there & (times_ms >= int(1000 * from_s)), counts)

    def __getitem__(self, number: int) -> _Look:
        count = self.counts[number]
        return _Look(self.times_ms[number, :count], self.rows[number, :count], self.wanted[number, :count])


@dataclass
class _Table:
    """One metric of all workers, read once although each of them is scraped at times of its own."""

    read: Read
    clock_of: dict[int, int] = field(default_factory=dict)  # worker -> number of its clock

    def samples(self, history: History, looks: _Looks) -> dict[int, Samples]:
        """Return the samples of each worker that has any."""
        deployed = history.column("scale_out")[looks.rows].max(initial=0.0) if looks.rows.size else 0.0
        workers = range(min(int(deployed), max(self.clock_of) + 1))  # of others there is nothing
        clocks = np.array([self.clock_of.get(worker, 0) for worker in workers], dtype=np.int64)
        rows, counts = looks.rows[clocks], looks.counts[clocks]
        if not rows.size or not len(clocks):
            return {}
        # Beyond a worker's last scrape the first one stands in: nothing else is read for it.
        there = np.arange(rows.shape[1]) < counts[:, None]
        rows = np.where(there, rows, np.where(counts > 0, rows[:, 0], rows.max())[:, None])
        values = self.read(history, rows.T).T
        kept = _shown(values) & looks.wanted[clocks]
        ends = np.cumsum(kept.sum(axis=1)).tolist()
        times_ms, values = looks.times_ms[clocks][kept], values[kept]
        parts = zip(workers, [0, *ends[:-1]], ends, strict=True)
        return {
            worker: (times_ms[begin:end], values[begin:end])
            for worker, begin, end in parts
            if begin < end and worker in self.clock_of
        }


def _samples(history: History, entry: Exposed, look: _Look, silences: Iterable[Silence]) -> Samples | None:
    """Read one series; ``None`` where it has no sample."""
    values = entry.read(history, look.rows)
    if entry.kind == "counter" and silences:
        values = values - _counted_before_restart(history, entry, look.rows, silences)
    kept = _shown(values) & look.wanted
    return (look.times_ms[kept], values[kept]) if kept.any() else None


def _shown(values: NDArray[np.float64]) -> NDArray[np.bool_]:
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
    restarts_s = sorted(one.to_s for one in silences if one.restarted and one.of(entry.endpoint))
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
