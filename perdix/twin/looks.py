"""When a Prometheus looks at a twin's exporters: the times of scrapes, which of them are lost, and what they see.

Belongs here: luck and times. Does not belong here: which series there are (:mod:`perdix.twin.exposition`) and their
values.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from perdix.twin.history import History

BLOCK = 512  # scrapes whose luck is drawn together, so that any range of time can be scraped by itself
LOOK_BACK = 64  # scrapes among which the one before the range is found, however many were lost
USUAL_LOOK_BACK = 6  # of which hardly ever all are lost


@dataclass(frozen=True)
class Silence:
    """A time in which nothing is scraped: a Prometheus that is down, an exporter that restarts."""

    # from_s, to_s: epoch seconds; the scrapes of ``[from_s, to_s)`` are missing
    from_s: float
    to_s: float
    # The exporter that is silent (a worker's is called as its pod is); ``None``: all of them
    endpoint: str | None = None
    restarted: bool = False  # the exporter's process is another one afterwards: its counters begin at 0

    def __post_init__(self) -> None:
        if not self.from_s < self.to_s:
            raise ValueError(f"a silence must end after it begins, found {self}")

    def of(self, endpoint: str) -> bool:
        """Return whether it is about this exporter."""
        return self.endpoint is None or self.endpoint == endpoint


@dataclass(frozen=True)
class Scraping:
    """How a Prometheus scrapes the twin."""

    interval_s: float = 15.0  # scrape interval in seconds
    # Standard deviation of a scrape's delay in seconds; a delay is never negative nor longer than 0.9 intervals
    jitter_s: float = 0.0
    loss: float = 0.0  # share of an endpoint's scrapes that leave no samples at all
    silences: tuple[Silence, ...] = ()  # times in which nothing is scraped

    def clock(self, endpoint: str) -> str:
        """Return a name that endpoints share which are scraped at the very same times."""
        return endpoint if self.jitter_s or self.loss or self.silences else ""

    def __post_init__(self) -> None:
        if not self.interval_s > 0 or not self.jitter_s >= 0 or not 0 <= self.loss < 1:
            raise ValueError(f"expected interval_s > 0, jitter_s >= 0 and 0 <= loss < 1, found {self}")


@dataclass(frozen=True)
class Look:
    """When an endpoint is scraped, the rows of the history that it then shows, and which of it is asked for.

    All of shape ``(n,)``.
    """

    times_ms: NDArray[np.int64]
    rows: NDArray[np.int64]
    wanted: NDArray[np.bool_]


@dataclass(frozen=True)
class Looks:
    """The same of several endpoints, each with ``counts`` of them and then zeros; shape ``(endpoints, n)``."""

    times_ms: NDArray[np.int64]
    rows: NDArray[np.int64]
    wanted: NDArray[np.bool_]
    counts: NDArray[np.int64]

    @staticmethod
    def of(
        history: History, scraping: Scraping, seed: int, endpoints: Sequence[str], *, from_s: float, to_s: float
    ) -> Looks:
        """Return the scrapes of ``[from_s, to_s)`` of exporters whose luck ``seed`` draws, and the one before."""
        if not endpoints:
            none = np.zeros((0, 0), dtype=np.int64)
            return Looks(none, none, none > 0, none.ravel())
        # What lies outside the history shows nothing, and a range may begin in 1970 or earlier.
        from_s, to_s = (min(max(at_s, history.start_s), history.end_s + history.step_s) for at_s in (from_s, to_s))
        times_ms, counts = _scrape_times_ms(scraping, seed, endpoints, from_s, to_s)
        rows = (times_ms // 1000 - history.start_s) // history.step_s - 1
        there = np.arange(rows.shape[1]) < counts[:, None]
        inside = (rows >= 0) & (rows < len(history)) & there
        if not (inside == there).all():
            times_ms, counts = _to_the_left(times_ms, inside)
            rows, _ = _to_the_left(rows, inside)
            there = np.arange(rows.shape[1]) < counts[:, None]
        rows = np.where(there, rows, 0)
        return Looks(times_ms, rows, there & (times_ms >= int(1000 * from_s)), counts)

    def rows_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of some endpoints; beyond one's last scrape its first stands in, so that no other is read."""
        rows, counts = self.rows[numbers], self.counts[numbers]
        there = np.arange(rows.shape[1]) < counts[:, None]
        return np.where(there, rows, np.where(counts > 0, rows[:, 0], rows.max(initial=0))[:, None])

    def __getitem__(self, number: int) -> Look:
        count = self.counts[number]
        return Look(self.times_ms[number, :count], self.rows[number, :count], self.wanted[number, :count])


def _scrape_times_ms(
    scraping: Scraping, seed: int, endpoints: Sequence[str], from_s: float, to_s: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when endpoints are scraped in ``[from_s, to_s)``, and the scrape before: it shows what went stale.

    Shape ``(endpoints, n)``, and how many of each row there are: the others are zeros.
    """
    usual, found = _times_looking_back(scraping, seed, endpoints, (from_s, to_s), USUAL_LOOK_BACK)
    return found if usual else _times_looking_back(scraping, seed, endpoints, (from_s, to_s), LOOK_BACK)[1]


def _times_looking_back(
    scraping: Scraping, seed: int, endpoints: Sequence[str], of_s: tuple[float, float], look_back: int
) -> tuple[bool, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the same among this many scrapes before, and whether every endpoint has one among them."""
    from_s, to_s = of_s
    first = max(int(from_s // scraping.interval_s) - look_back, 0)
    last = max(int(to_s // scraping.interval_s) + 1, first)
    times_ms, kept = _scrapes(scraping, seed, _numbers(tuple(endpoints)), first, last)
    if scraping.silences:
        kept = kept & ~_silent(times_ms, scraping.silences, endpoints)
    earlier = kept & (times_ms < 1000.0 * from_s)
    newest = times_ms.shape[1] - 1 - earlier[:, ::-1].argmax(axis=1)
    kept = kept & (~earlier | (np.arange(times_ms.shape[1]) == newest[:, None])) & (times_ms < 1000.0 * to_s)
    return bool(earlier.any(axis=1).all()) or first == 0, _to_the_left(times_ms, kept)


def _to_the_left(values: NDArray[np.int64], kept: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what is kept of each row, followed by zeros, and how many that are."""
    counts = kept.sum(axis=1)
    found = np.zeros((len(values), int(counts.max(initial=0))), dtype=np.int64)
    found[np.arange(found.shape[1]) < counts[:, None]] = values[kept]
    return found, counts


@lru_cache(maxsize=64)
def _numbers(endpoints: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(zlib.crc32(endpoint.encode()) for endpoint in endpoints)


def _scrapes(
    scraping: Scraping, seed: int, endpoints: tuple[int, ...], first: int, last: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return when the scrapes ``first`` to ``last`` are, and which of them leave samples, both ``(endpoints, n)``."""
    blocks = range(first // BLOCK, last // BLOCK + 1)
    parts = [
        _block(seed, endpoints, block, (scraping.interval_s, scraping.jitter_s, scraping.loss)) for block in blocks
    ]
    wanted = slice(first - blocks[0] * BLOCK, last + 1 - blocks[0] * BLOCK)
    times_ms, kept = (
        parts[0] if len(parts) == 1 else (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    )
    return times_ms[:, wanted], kept[:, wanted]


def _silent(times_ms: NDArray[np.int64], silences: Iterable[Silence], endpoints: Sequence[str]) -> NDArray[np.bool_]:
    found = np.zeros(times_ms.shape, dtype=np.bool_)
    first_s, last_s = (times_ms.min() / 1000.0, times_ms.max() / 1000.0)
    for silence in silences:
        if silence.to_s < first_s or silence.from_s > last_s:
            continue
        theirs = np.array([silence.of(endpoint) for endpoint in endpoints])[:, None]
        found |= theirs & (times_ms >= 1000.0 * silence.from_s) & (times_ms < 1000.0 * silence.to_s)
    return found


@lru_cache(maxsize=8)
def _block(
    seed: int, endpoints: tuple[int, ...], block: int, how: tuple[float, float, float]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    interval_s, jitter_s, loss = how
    drawn = [_luck_of_block(seed, endpoint, block) for endpoint in endpoints]
    delay_s = np.minimum(np.abs(np.stack([delays for delays, _ in drawn])) * jitter_s, 0.9 * interval_s)
    scrapes = np.arange(block * BLOCK, (block + 1) * BLOCK)
    times_ms = np.floor(1000.0 * (scrapes * interval_s + delay_s)).astype(np.int64)
    return times_ms, np.stack([luck for _, luck in drawn]) >= loss


@lru_cache(maxsize=512)
def _luck_of_block(seed: int, endpoint: int, block: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng([seed, endpoint, block])
    return rng.standard_normal(BLOCK), rng.random(BLOCK)
