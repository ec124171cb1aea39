"""Which streams are one number: replicas of a series, and several series of one metric (and worker).

Belongs here: identity of streams, and how rows of one target are joined. Does not belong here: samples and grids.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.metrics import BUSY, CANONICAL, CPU, LATENCY, MEMORY, SCALE_OUT, UPTIME, Scope
from perdix.telemetry.resampling import Floats, Grid, Ints, Streams
from perdix.telemetry.series import Series

UNNAMED_WORKER = "unnamed"
REPLICA_LABELS = frozenset({"prometheus_replica", "__replica__", "replica", "prometheus"})
EXPECTED_FOR_MS = 120_000  # a series that ends is waited for this long, unless the job was seen to restart

Target = tuple[str, str]


class StreamKey(NamedTuple):
    """What tells streams apart. A target (metric, worker) has identities, an identity has replicas."""

    metric: str
    worker: str
    identity: tuple[tuple[str, str], ...]
    replica: tuple[tuple[str, str], ...]
    kind: str

    @classmethod
    def of(cls, series: Series) -> StreamKey:
        """Return the key of a series; the worker is empty for a job-level metric."""
        worker = "" if CANONICAL[series.metric].scope is Scope.JOB else series.worker or UNNAMED_WORKER
        labels = tuple(sorted(series.labels.items()))
        if REPLICA_LABELS.isdisjoint(series.labels):
            return cls(series.metric, worker, labels, (), series.kind)
        identity = tuple(pair for pair in labels if pair[0] not in REPLICA_LABELS)
        return cls(series.metric, worker, identity, tuple(pair for pair in labels if pair not in identity), series.kind)

    @property
    def target(self) -> Target:
        """Metric and worker."""
        return self.metric, self.worker


def join_rows(
    keys: Sequence[StreamKey], streams: Streams, matrix: Floats, grid: Grid, restarts_ms: Ints
) -> dict[Target, Floats]:
    """Return one row, shape ``(n,)``, per target.

    ``keys``: sorted, one per stream and row of ``matrix``.
    ``streams``: the samples that ``matrix`` was made of: their first and last times say when a stream is expected to
    report.
    ``matrix``: shape ``(streams, n)``.
    ``restarts_ms``: sorted times at which the job was seen to restart.
    """
    rows: dict[Target, Floats] = {}
    for low, high in _runs([key.target for key in keys]):
        if high - low == 1:
            rows[keys[low].target] = matrix[low]
            continue
        identities = list(_runs([key.identity for key in keys[low:high]]))
        values = np.stack([_quiet(np.nanmean, matrix[low + a : low + b]) for a, b in identities])
        if joined := _JOIN.get(keys[low].metric):
            rows[keys[low].target] = _quiet(joined[1], values)
            continue
        begin, end = _expected_ms(streams, keys, low, high, restarts_ms)
        begin = np.array([begin[a:b].min() for a, b in identities])
        end = np.array([end[a:b].max() for a, b in identities])
        rows[keys[low].target] = _sum_of_all_expected(values, begin, end, grid)
    return rows


def restarts_ms(scale_out: Floats | None, uptime: Floats | None, grid: Grid) -> Ints:
    """Return the ends of the steps in which the job is seen to have restarted: scale-out changed, or uptime fell."""
    found = [np.empty(0, dtype=np.int64)]
    for row, is_restart in ((scale_out, np.not_equal), (uptime, np.less)):
        if row is not None:
            at = np.flatnonzero(~np.isnan(row))
            found.append(grid.edges_ms[1:][at[1:][is_restart(np.diff(row[at]), 0.0)]])
    return np.unique(np.concatenate(found))


def word_of_join(metric: str) -> str:
    """Return in a word what several series of a metric (and worker) become: their sum, highest, mean or lowest."""
    return _JOIN.get(metric, ("sum",))[0]


_HIGHEST, _MEAN, _LOWEST = ("highest", np.nanmax), ("mean", np.nanmean), ("lowest", np.nanmin)
_JOIN: dict[str, tuple[str, Callable[..., Floats]]] = {
    LATENCY.name: _HIGHEST,
    CPU.name: _MEAN,
    BUSY.name: _HIGHEST,  # a worker's tasks: the busiest one bounds what the job can do
    SCALE_OUT.name: _HIGHEST,
    MEMORY.name: _HIGHEST,
    UPTIME.name: _LOWEST,
}


def _quiet(how: Callable[..., Floats], rows: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a step that no row knows stays NaN: that is meant
        return how(rows, axis=0)


def _runs(names: Sequence[object]) -> Iterator[tuple[int, int]]:
    low = 0
    for i in range(1, len(names) + 1):
        if i == len(names) or names[i] != names[low]:
            yield low, i
            low = i


def _expected_ms(
    streams: Streams, keys: Sequence[StreamKey], low: int, high: int, restarts: Ints
) -> tuple[Floats, Floats]:
    """Return from when until when each of these streams is expected to report: never, for an empty one."""
    size = np.bincount(streams.stream, minlength=streams.count)[low:high]
    if not len(streams.times_ms):
        return np.full(high - low, np.inf), np.full(high - low, -np.inf)
    first = np.minimum(streams.first[low:high], len(streams.times_ms) - 1)
    begin = streams.times_ms[first].astype(np.float64)
    last = streams.times_ms[np.maximum(first + size - 1, 0)]
    counter = np.array([key.kind == "counter" for key in keys[low:high]])
    begin += np.where(counter, streams.interval_ms[low:high], 0.0)  # the first rate needs two samples
    released = np.append(restarts.astype(np.float64), np.inf)[np.searchsorted(restarts, last, side="right")]
    end = np.minimum(last + np.maximum(EXPECTED_FOR_MS, 2.0 * streams.interval_ms[low:high]), released)
    return np.where(size > 0, begin, np.inf), np.where(size > 0, end, -np.inf)


def _sum_of_all_expected(values: Floats, begin_ms: Floats, end_ms: Floats, grid: Grid) -> Floats:
    """Sum rows ``(identities, n)``; a step in which an expected row is missing is missing.

    A sum over some of the consumers would look like a job that has caught up.
    """
    ends = grid.edges_ms[1:]
    expected = (ends >= begin_ms[:, None]) & (ends - grid.step_ms < end_ms[:, None])
    present: NDArray[np.bool_] = ~np.isnan(values)
    complete = (present | ~expected).all(axis=0) & present.any(axis=0)
    return np.where(complete, np.where(present, values, 0.0).sum(axis=0), np.nan)
