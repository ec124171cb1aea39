"""Several twins that live on one clock, safe to read and to rescale from many threads."""

import threading
from collections.abc import Mapping
from typing import Protocol

from perdix.telemetry.series import Series
from perdix.twin.emission import Scraping, scrape
from perdix.twin.exposition import expose
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters
from perdix.twin.promql import Matcher, meant
from perdix.twin.tending import tend

KEEP_S = 3 * 86_400


class Clock(Protocol):
    """Anything that returns epoch seconds."""

    def now_s(self) -> float:
        """Return epoch seconds (UTC)."""


class SimulatedClock:
    """A clock that moves only when it is moved. All that start from one time are of one machine."""

    boot = "simulated"

    def __init__(self, now_s: float) -> None:
        self._now_s = self._elapsed_s = now_s

    def now_s(self) -> float:
        """Return epoch seconds (UTC)."""
        return self._now_s

    def advance(self, seconds: float) -> float:
        """Move on by ``seconds`` and return the new time. Raises ``ValueError`` when negative."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds} s")
        self._now_s += seconds
        self._elapsed_s += seconds
        return self._now_s

    def elapsed_s(self) -> float:
        """Return how long it has moved on, counted as epoch seconds were at first; :meth:`step` changes it not."""
        return self._elapsed_s

    def step(self, seconds: float) -> None:
        """Set the time of day on or back, as NTP or a hand does; no time passes by it."""
        self._now_s += seconds


class LivingTwin:
    """Twins by name, moved on to the clock's time whenever someone looks at them."""

    def __init__(
        self, jobs: Mapping[str, JobTwin], clock: Clock, *, scraping: Scraping | None = None, keep_s: int = KEEP_S
    ) -> None:
        self._jobs = dict(jobs)
        self._clock = clock
        self._keep_s = keep_s
        self.lock = threading.RLock()  # to be held while a twin's arrays are read
        self.scraping = scraping or Scraping(interval_s=5.0)
        self._exposed = {
            name: expose(twin, "canonical", self.scraping.interval_s) + expose(twin, "flink")
            for name, twin in self._jobs.items()
        }

    def now_s(self) -> float:
        """Return the clock's epoch seconds."""
        return self._clock.now_s()

    def names(self) -> tuple[str, ...]:
        """Return the jobs' names."""
        return tuple(self._jobs)

    def job(self, name: str) -> JobTwin:
        """Return one twin, moved on to the clock's time. Raises ``KeyError`` when there is none of that name."""
        with self.lock:
            twin = self._jobs[name]
            self.advance()
            return twin

    def advance(self) -> None:
        """Move all twins on to the clock's time."""
        self.advance_to(self._clock.now_s())

    def advance_to(self, now_s: float) -> None:
        """Move all twins on to the last whole second before ``now_s``; a time that has passed changes nothing."""
        with self.lock:
            for twin in self._jobs.values():
                twin.step(max(int(now_s) - twin.now_s, 0))
                if len(twin.history) > 1.5 * self._keep_s:
                    twin.history.discard_before(twin.now_s - self._keep_s)

    def rescale(self, name: str, scale_out: int, key: str, mix: Mapping[str, int] | None = None) -> JobTwin:
        """Rescale one job now; see :meth:`perdix.twin.job.JobTwin.rescale`."""
        with self.lock:
            twin = self.job(name)
            twin.rescale(scale_out, key, mix)
            return twin

    def fail(self, name: str, worker: int = 0) -> JobTwin:
        """Let a worker of one job crash now."""
        with self.lock:
            twin = self.job(name)
            twin.fail(worker)
            return twin

    def series(self, matchers: tuple[Matcher, ...], from_s: float, to_s: float) -> list[Series]:
        """Return the scraped series, under canonical and Flink's names alike, that all ``matchers`` mean."""
        with self.lock:
            self.advance()
            found = []
            for name, twin in self._jobs.items():
                wanted = [entry for entry in self._exposed[name] if meant(matchers, entry.metric, entry.labels)]
                found += scrape(twin, wanted, self.scraping, from_s=from_s, to_s=to_s)
            return found


def revive(
    parameters: Mapping[str, TwinParameters],
    clock: Clock,
    *,
    seed: int = 0,
    hours: float = 2.0,
    scraping: Scraping | None = None,
) -> LivingTwin:
    """Return living twins with ``hours`` of history before the clock's time; job ``k`` has the seed ``seed + k``.

    In that history a plain CPU rule looked after the jobs (:mod:`perdix.twin.tending`).

    Raises ``ValueError`` when ``hours`` is negative.
    """
    if hours < 0:
        raise ValueError(f"the history cannot be {hours} hours long")
    history_s = round(3_600 * hours)
    start_s = int(clock.now_s()) - history_s
    jobs = {name: JobTwin(job, seed + offset, start_s=start_s) for offset, (name, job) in enumerate(parameters.items())}
    for twin in jobs.values():
        tend(twin, history_s)
    return LivingTwin(jobs, clock, scraping=scraping, keep_s=max(KEEP_S, history_s))
