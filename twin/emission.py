"""Scraping a twin: its history turned into series, with jitter, lost scrapes, staleness and counter resets."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from telemetry.series import Series
from twin.exposition import Exposed, Names, expose
from twin.history import History
from twin.job import JobTwin

BLOCK = 512  # scrapes whose luck is drawn together, so that any range of time can be scraped by itself

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
    history = twin.history
    first_s = history.start_s + 1 if from_s is None else max(from_s, history.start_s + 1)
    end_s = history.end_s + 1 if to_s is None else min(to_s, history.end_s + 1)
    looks: dict[str, _Look] = {}
    found = []
    for entry in exposed:
        clock = scraping.clock(entry.endpoint)
        if clock not in looks:
            times_ms = scrape_times_ms(scraping, twin.seed, entry.endpoint, first_s, end_s)
            looks[clock] = _Look.of(history, times_ms, int(1000 * first_s))
        series = _samples(history, entry, looks[clock], scraping.silences)
        if series is not None:
            found.append(series)
    return found


def scrape_times_ms(scraping: Scraping, seed: int, endpoint: str, from_s: float, to_s: float) -> NDArray[np.int64]:
    """Return when an endpoint is scraped in ``[from_s, to_s)``, and the scrape before: it tells what went stale."""
    first = max(int(from_s // scraping.interval_s) - LOOK_BACK, 0)
    last = max(int(to_s // scraping.interval_s) + 1, first)
    scrapes = np.arange(first, last + 1)
    if scraping.clock(endpoint):
        delay_s, luck = _luck(scrapes, seed, zlib.crc32(endpoint.encode()))
    else:
        delay_s, luck = np.zeros(len(scrapes)), np.ones(len(scrapes))
    delay_s = np.minimum(np.abs(delay_s) * scraping.jitter_s, 0.9 * scraping.interval_s)
    times_ms = np.floor(1000.0 * (scrapes * scraping.interval_s + delay_s)).astype(np.int64)
    kept = times_ms[(luck >= scraping.loss) & ~_silent(times_ms, scraping.silences, endpoint)]
    begin = max(int(np.searchsorted(kept, 1000.0 * from_s)) - 1, 0)
    return kept[begin : int(np.searchsorted(kept, 1000.0 * to_s))]


def _luck(scrapes: NDArray[np.int64], seed: int, endpoint: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    blocks = range(int(scrapes[0]) // BLOCK, int(scrapes[-1]) // BLOCK + 1)
    drawn = [_luck_of_block(seed, endpoint, block) for block in blocks]
    positions = scrapes - blocks[0] * BLOCK
    delays, lost = (np.concatenate(parts)[positions] for parts in zip(*drawn, strict=True))
    return delays, lost


def _silent(times_ms: NDArray[np.int64], silences: Iterable[Silence], endpoint: str) -> NDArray[np.bool_]:
    found = np.zeros(len(times_ms), dtype=np.bool_)
    for silence in silences:
        if silence.of(endpoint):
            found |= (times_ms >= 1000.0 * silence.from_s) & (times_ms < 1000.0 * silence.to_s)
    return found


@lru_cache(maxsize=512)
def _luck_of_block(seed: int, endpoint: int, block: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng([seed, endpoint, block])
    return rng.standard_normal(BLOCK), rng.random(BLOCK)


@dataclass(frozen=True)
class _Look:
    """When some endpoints are scraped, the rows of the history that they then show, and which of it is asked for.

    All of shape ``(n,)``.
    """

    times_ms: NDArray[np.int64]
    rows: NDArray[np.int64]
    wanted: NDArray[np.bool_]

    @staticmethod
    def of(history: History, times_ms: NDArray[np.int64], first_ms: int) -> _Look:
        rows = (times_ms // 1000 - history.start_s) // history.step_s - 1
        inside = (rows >= 0) & (rows < len(history))
        return _Look(times_ms[inside], rows[inside], times_ms[inside] >= first_ms)


def _samples(history: History, entry: Exposed, look: _Look, silences: Iterable[Silence]) -> Series | None:
    """Read one series; ``None`` where it has no sample.

    The first scrape that no longer shows it leaves a staleness marker (NaN), as Prometheus does.
    """
    values = entry.read(history, look.rows)
    if entry.kind == "counter" and silences:
        values = values - _counted_before_restart(history, entry, look.rows, silences)
    absent = np.isnan(values)
    kept = look.wanted
    if absent.any():
        shown = ~absent
        shown[1:] |= ~absent[:-1]
        kept = kept & shown
    if not kept.any():
        return None
    return Series(entry.metric, entry.worker, look.times_ms[kept], values[kept], dict(entry.labels), entry.kind)


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
