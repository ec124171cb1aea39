"""A twin's scrapes as an aligned window: what a Prometheus would have shown of it.

The same as aligning the series of :func:`perdix.twin.emission.emit`, to the last digit, without a series for each
worker and metric between: a replay looks a thousand times a day.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.alignment import Keys, Pieces, align_pieces
from perdix.telemetry.joining import StreamKey
from perdix.telemetry.series import Series
from perdix.telemetry.window import Values, Window
from perdix.twin.emission import Scraping, shown
from perdix.twin.exposition import Exposed, OfWorker, Read, expose
from perdix.twin.history import History
from perdix.twin.job import JobTwin
from perdix.twin.looks import Looks

Ints = NDArray[np.int64]


def scraped(twin: JobTwin, scraping: Scraping, job: str, since_s: float, now_s: float) -> Window:
    """Return the window ``(since_s, now_s]``, epoch seconds."""
    interval_s, history = scraping.interval_s, twin.history
    known = _READ.setdefault(twin, {})
    if interval_s not in known:
        known[interval_s] = _Exposition(tuple(expose(twin, "canonical", interval_s)))
    from_s = max(since_s - 2.0 * interval_s, history.start_s + 1)
    pieces = known[interval_s].pieces(twin, scraping, from_s, min(now_s + 1e-3, history.end_s + 1))
    return align_pieces(job, pieces, since_s, now_s, interval_s)


@dataclass(frozen=True, eq=False)
class _Exposition:
    """The canonical series of one twin: gauges, those of the job at one exporter and those of workers at their own."""

    exposed: tuple[Exposed, ...]
    _keys: dict[tuple[int, bytes], Keys] = field(default_factory=dict)  # by workers, and which series have samples

    @cached_property
    def of_job(self) -> Mapping[str, Read]:
        return {metric.metric: metric.read for metric in self.exposed if not isinstance(metric.read, OfWorker)}

    @cached_property
    def tables(self) -> Mapping[str, Read]:
        return {metric.metric: metric.read.table for metric in self.exposed if isinstance(metric.read, OfWorker)}

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        return tuple(sorted({metric.metric for metric in self.exposed}))

    @cached_property
    def pods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(metric.endpoint for metric in self.exposed if isinstance(metric.read, OfWorker)))

    @cached_property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(metric.endpoint for metric in self.exposed))

    @cached_property
    def by_name(self) -> Mapping[tuple[str, str], StreamKey]:
        none: Values = np.zeros(0)
        return {
            (metric.metric, metric.worker or ""): StreamKey.of(
                Series(metric.metric, metric.worker, none.astype(np.int64), none, metric.labels, metric.kind)
            )
            for metric in self.exposed
        }

    def pieces(self, twin: JobTwin, scraping: Scraping, from_s: float, to_s: float) -> Pieces:
        """Return the samples of the scrapes in ``[from_s, to_s)``, sorted by metric and worker."""
        history = twin.history
        together = not scraping.clock(self.endpoints[0])
        asked = self.endpoints[:1] if together else self.endpoints
        looks = Looks.of(history, scraping, twin.seed, asked, from_s=from_s, to_s=to_s)
        if not looks.rows.size:
            none = np.zeros(0, dtype=np.int64)
            return Pieces(Keys(()), none, none, none, np.zeros(0))
        deployed = int(history.column("scale_out")[looks.rows].max())
        workers = np.array(sorted(range(min(deployed, len(self.pods))), key=self.pods.__getitem__), dtype=np.int64)
        clocks = np.zeros_like(workers) if together else workers + 1
        job = np.zeros(1, dtype=np.int64)
        clock = np.concatenate([clocks if metric in self.tables else job for metric in self.metrics])
        values = self._values(history, looks.rows_of(job)[0], looks.rows_of(np.sort(clocks)).T, workers)
        kept = shown(values) & looks.wanted[clock]
        lengths = kept.sum(axis=1)
        some = lengths > 0
        keys = self._keys_of(workers, some)
        return Pieces(keys, np.arange(len(keys.ordered)), lengths[some], looks.times_ms[clock][kept], values[kept])

    def _values(self, history: History, of_job: Ints, of_workers: Ints, workers: Ints) -> Values:
        """Return the values of all metrics, and of each of these workers in this order, at their rows."""
        return np.concatenate(
            [
                self.tables[metric](history, of_workers).T[workers]
                if metric in self.tables
                else self.of_job[metric](history, of_job)[None]
                for metric in self.metrics
            ]
        )

    def _keys_of(self, workers: Ints, some: NDArray[np.bool_]) -> Keys:
        known = len(workers), some.tobytes()
        if known not in self._keys:
            names = [
                (metric, pod)
                for metric in self.metrics
                for pod in ([self.pods[worker] for worker in workers] if metric in self.tables else [""])
            ]
            kept = [self.by_name[name] for name, there in zip(names, some.tolist(), strict=True) if there]
            self._keys[known] = Keys(tuple(kept))
        return self._keys[known]


_READ: WeakKeyDictionary[JobTwin, dict[float, _Exposition]] = WeakKeyDictionary()
