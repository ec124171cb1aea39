"""Series of one job onto one grid: :func:`align` makes the :class:`~perdix.telemetry.window.Window` that all read.

Belongs here: which samples count, which series belong together, and the account of what became of every sample. Does
not belong here: the arithmetic of a grid (``perdix.telemetry.resampling``), and whether the result is good enough to
act on (``perdix.telemetry.quality``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from perdix.settings.replacing import replace
from perdix.telemetry.joining import StreamKey, Target, join_rows, restarts_ms
from perdix.telemetry.metrics import CANONICAL, SCALE_OUT, UPTIME, Scope
from perdix.telemetry.resampling import Grid, Ints, Streams, gauges_on_grid, rates_on_grid, scrape_intervals_ms
from perdix.telemetry.series import Series
from perdix.telemetry.window import Rejected, SampleCounts, Values, Window

CELLS_AT_ONCE = 1 << 22  # bounds the memory of a day at one second with very many series


def align(job: str, series: Iterable[Series], start_s: float, end_s: float, step_s: float) -> Window:
    """Put the series of one job on one grid.

    ``series``: in any order, in any number of chunks; those whose metric is not canonical are left alone and not
    counted.
    ``start_s``, ``end_s``: epoch seconds. The grid has the whole steps within ``(start_s, end_s]``, at multiples of
    ``step_s``.
    ``step_s``: width of a step, named by its end: step ``t`` covers ``(t - step_s, t]``, so nothing is known early.

    Gauges are means over a step, held as described in :func:`perdix.telemetry.resampling.gauges_on_grid`; counters are
    rates (:func:`perdix.telemetry.resampling.rates_on_grid`). A missing value is NaN, never 0. Columns of workers are
    joined by name and sorted by it.

    Every sample is counted once: *masked* (NaN, infinite, or outside what the metric can be), else *outside* the grid,
    else *duplicate* (same series and time; the last one read wins), else *used*. Samples before the grid still serve
    as the base of a counter and of a held gauge.

    Several series of one metric (and worker) are one number: records are summed, where all of the series that are
    expected report, else the step is missing; latency, busy ratio and scale-out are the highest, CPU the mean, uptime
    the lowest. A series is expected from its first sample until two minutes after its last, or until the job is seen to
    restart (scale-out changed or uptime fell). Series that differ only in a label of a Prometheus replica are averaged.
    """
    read = [(StreamKey.of(stream), stream) for stream in series if stream.metric in CANONICAL]
    read.sort(key=itemgetter(0))  # stable: of the same series, what was read last stays last
    ordered = tuple(key for key, _ in groupby(key for key, _ in read))
    number = {key: i for i, key in enumerate(ordered)}
    pieces = Pieces(
        Keys(ordered),
        np.array([number[key] for key, _ in read], dtype=np.int64),
        np.array([len(stream) for _, stream in read], dtype=np.int64),
        np.concatenate([np.empty(0, dtype=np.int64), *(stream.times_ms for _, stream in read)]).astype(np.int64),
        np.concatenate([np.empty(0), *(stream.values for _, stream in read)]),
    )
    return align_pieces(job, pieces, start_s, end_s, step_s)


@dataclass(frozen=True, eq=False)
class Keys:
    """Streams in their order, and what follows from it: worked out once where the same are read again and again."""

    ordered: tuple[StreamKey, ...]  # sorted, each once

    @cached_property
    def bounds(self) -> tuple[Values, Values]:
        """The least and the most that each can be."""
        low = np.array([CANONICAL[key.metric].low for key in self.ordered])
        high = np.array([np.inf if key.kind == "counter" else CANONICAL[key.metric].high for key in self.ordered])
        return low, high

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kind of each."""
        return tuple(key.kind for key in self.ordered)

    @cached_property
    def alone(self) -> bool:
        """Whether each is a target of its own: there is nothing to join."""
        return len({key.target for key in self.ordered}) == len(self.ordered)

    @cached_property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers, sorted."""
        return tuple(sorted({key.worker for key in self.ordered if CANONICAL[key.metric].scope is Scope.WORKER}))

    @cached_property
    def of_metrics(self) -> dict[str, tuple[Ints, Ints]]:
        """Metric -> its streams, and the column of each one's worker; no columns of a job's metric."""
        column = {worker: i for i, worker in enumerate(self.workers)}
        found: dict[str, tuple[Ints, Ints]] = {}
        for name in dict.fromkeys(key.metric for key in self.ordered):
            streams = [i for i, key in enumerate(self.ordered) if key.metric == name]
            of_workers = CANONICAL[name].scope is Scope.WORKER
            columns = [column[self.ordered[i].worker] for i in streams] if of_workers else []
            found[name] = np.array(streams, dtype=np.int64), np.array(columns, dtype=np.int64)
        return found


@dataclass(frozen=True)
class Pieces:
    """The samples of many series one after the other: what :func:`align` makes of them first."""

    keys: Keys
    # stream, lengths: of each piece: the number of its key, never decreasing, and how many samples it has. Shape
    # ``(pieces,)``
    stream: Ints
    lengths: Ints
    # times_ms, values: of all pieces; as in :class:`~perdix.telemetry.series.Series`
    times_ms: Ints
    values: Values


def align_pieces(job: str, pieces: Pieces, start_s: float, end_s: float, step_s: float) -> Window:
    """Do as :func:`align` for samples that lie one after the other already, as those of the twin do."""
    grid, ordered = Grid.between(start_s, end_s, step_s), pieces.keys.ordered
    flat = _clean(pieces, grid, round(end_s * 1000))
    rows: dict[Target, Values] = {}
    resets = 0
    restarts = np.empty(0, dtype=np.int64)
    at_once: Values | None = None
    if flat.streams.count * grid.n <= CELLS_AT_ONCE:  # a tick: one pass over all metrics costs as much as over one
        at_once, resets = _on_grid(flat.streams, pieces.keys.kinds, grid)
    if at_once is not None and pieces.keys.alone:
        return _window(job, step_s, grid, pieces.keys, at_once, flat=flat, resets=resets)
    for metric in _restart_first({key.metric for key in ordered}):
        found, seen = _metric_rows(metric, ordered, flat.streams, grid, restarts, known=at_once)
        rows.update(found)
        resets += seen
        if metric in (SCALE_OUT.name, UPTIME.name):
            restarts = restarts_ms(rows.get((SCALE_OUT.name, "")), rows.get((UPTIME.name, "")), grid)
    targets = sorted(rows)
    keys = Keys(tuple(StreamKey(*target, (), (), "gauge") for target in targets))
    return _window(job, step_s, grid, keys, [rows[target] for target in targets], flat=flat, resets=resets)


def natural_step_s(series: Iterable[Series]) -> float:
    """Return the scrape interval in seconds: the smallest, over metrics, of the median spacing of their samples.

    Of two middle spacings the shorter, as between exports of one metric at two intervals. Whole seconds from one second
    on (scrapes jitter by milliseconds). Raises ``ValueError`` when no series has two samples at different times.
    """
    spacing: dict[str, list[float]] = {}
    for stream in series:
        times = np.unique(stream.times_ms)
        if len(times) > 1:
            spacing.setdefault(stream.metric, []).append(_lower_median(np.diff(times)))
    if not spacing:
        raise ValueError("no series has two samples, so there is no scrape interval")
    finest_s = min(map(_lower_median, spacing.values())) / 1000.0
    return float(round(finest_s)) if finest_s >= 1.0 else finest_s


def _lower_median(values: Sequence[float] | Ints) -> float:
    return float(np.percentile(values, 50, method="lower"))


@dataclass(frozen=True)
class _Flat:
    streams: Streams
    counts: SampleCounts
    newest_ms: int | None
    ahead: int
    rejected: tuple[Rejected, ...] = ()


def _clean(pieces: Pieces, grid: Grid, end_ms: int) -> _Flat:
    """Mask, sort and drop duplicates; account for every sample."""
    ordered, times, values = pieces.keys.ordered, pieces.times_ms, pieces.values
    low, high = pieces.keys.bounds
    stream = np.repeat(pieces.stream, pieces.lengths)
    fine = np.isfinite(values) & (values >= low[stream]) & (values <= high[stream]) if len(values) else values == 0
    out_of_order = 0
    if not (ascends := _ascend(times, stream)):
        source = np.repeat(np.arange(len(pieces.lengths)), pieces.lengths)
        backwards = (times[1:] < times[:-1]) & (source[1:] == source[:-1]) & fine[1:] & grid.holds(times[1:])
        out_of_order = int(np.count_nonzero(backwards))
    rejected: tuple[Rejected, ...] = ()
    if not fine.all():
        rejected = _rejected(times, values, stream, ~fine & grid.holds(times), ordered)
        times, values, stream = times[fine], values[fine], stream[fine]
    if not ascends:
        order = np.lexsort((times, stream))  # stable, so among duplicates the last one read stays last
        times, values, stream = times[order], values[order], stream[order]
    inside = grid.holds(times)
    repeated = np.zeros(len(times), dtype=np.bool_)
    repeated[:-1] = (stream[1:] == stream[:-1]) & (times[1:] == times[:-1])
    masked, outside = int(np.count_nonzero(~fine)), int(np.count_nonzero(~inside))
    duplicate = int(np.count_nonzero(repeated & inside))
    read = len(pieces.times_ms)
    counts = SampleCounts(
        read=read,
        used=read - masked - outside - duplicate,
        masked=masked,
        duplicate=duplicate,
        outside=outside,
        out_of_order=out_of_order,
    )
    if repeated.any():
        times, values, stream = times[~repeated], values[~repeated], stream[~repeated]
    streams = Streams(times, values, stream, scrape_intervals_ms(times, stream, len(ordered)))
    streams = _filled_intervals(streams, ordered, grid.step_ms)
    past = times[times <= end_ms]
    ahead = int(np.count_nonzero(times > end_ms + streams.interval_ms[stream])) if len(past) < len(times) else 0
    return _Flat(streams, counts, int(past.max()) if len(past) else None, ahead, rejected)


def _rejected(
    times: Ints, values: Values, stream: Ints, unfit: NDArray[np.bool_], ordered: Sequence[StreamKey]
) -> tuple[Rejected, ...]:
    """Return the numbers, per metric, that its unit does not allow; what is no number is missing, not wrong."""
    metric = np.array([key.metric for key in ordered])[stream]
    unfit = unfit & np.isfinite(values)
    found = []
    for name in dict.fromkeys(metric[unfit].tolist()):
        theirs = unfit & (metric == name)
        limits = CANONICAL[name]
        found.append(Rejected(name, limits.low, limits.high, times[theirs] / 1000.0, values[theirs]))
    return tuple(found)


def _ascend(times: Ints, stream: Ints) -> bool:
    """Return whether samples, which are sorted by stream, are by time too, as a scrape's are."""
    return bool(((times[1:] >= times[:-1]) | (stream[1:] != stream[:-1])).all())


def _filled_intervals(streams: Streams, ordered: Sequence[StreamKey], step_ms: int) -> Streams:
    """Let a stream of few samples be no coarser than its metric's other streams; a lone sample else has the step."""
    interval = streams.interval_ms.copy()
    few = np.bincount(streams.stream, minlength=streams.count) < 4
    if not few.any():
        return streams
    metric = np.array([key.metric for key in ordered])
    for name in set(metric[few].tolist()):
        others = interval[(metric == name) & ~few]
        usual = float(np.median(others)) if len(others) else np.inf
        here = (metric == name) & few
        interval[here] = np.fmin(interval[here], usual)
    return replace(streams, interval_ms=np.where(np.isfinite(interval), interval, float(step_ms)))


def _restart_first(metrics: set[str]) -> list[str]:
    first = [name for name in (SCALE_OUT.name, UPTIME.name) if name in metrics]
    return first + sorted(metrics.difference(first))


def _metric_rows(
    metric: str, ordered: Sequence[StreamKey], streams: Streams, grid: Grid, restarts: Ints, *, known: Values | None
) -> tuple[dict[Target, Values], int]:
    """Return ``(metric, worker) -> row`` for one metric, and the counter resets seen; a few targets at a time.

    ``known``, shape ``(streams, n)``, is what is on the grid already: its resets are counted.
    """
    numbers = [i for i, key in enumerate(ordered) if key.metric == metric]
    rows: dict[Target, Values] = {}
    resets = 0
    at_once = max(1, CELLS_AT_ONCE // max(grid.n, 1))
    low = numbers[0]
    while low <= numbers[-1]:
        high = min(low + at_once, numbers[-1] + 1)
        while high <= numbers[-1] and ordered[high].target == ordered[high - 1].target:
            high += 1  # a target is never cut
        part = streams.take(low, high)
        if known is None:
            matrix, seen = _on_grid(part, [key.kind for key in ordered[low:high]], grid)
        else:
            matrix, seen = known[low:high], 0
        rows.update(join_rows(ordered[low:high], part, matrix, grid, restarts))
        resets += seen
        low = high
    return rows, resets


def _on_grid(part: Streams, kinds: Sequence[str], grid: Grid) -> tuple[Values, int]:
    if "counter" not in kinds:
        return gauges_on_grid(part, grid), 0
    counter = np.array([kind == "counter" for kind in kinds])
    rates, resets = rates_on_grid(_only(part, counter), grid)
    if counter.all():
        return rates, resets
    matrix = np.empty((part.count, grid.n))
    matrix[counter] = rates
    matrix[~counter] = gauges_on_grid(_only(part, ~counter), grid)
    return matrix, resets


def _only(part: Streams, wanted: NDArray[np.bool_]) -> Streams:
    if wanted.all():
        return part
    renumbered = np.cumsum(wanted) - 1
    kept = wanted[part.stream]
    return Streams(part.times_ms[kept], part.values[kept], renumbered[part.stream[kept]], part.interval_ms[wanted])


def _window(
    job: str, step_s: float, grid: Grid, keys: Keys, rows: Sequence[Values] | Values, *, flat: _Flat, resets: int
) -> Window:
    """Return the window of rows, shape ``(n,)`` each, of keys that are a target of their own each."""
    job_metrics: dict[str, Values] = {}
    worker_metrics: dict[str, Values] = {}
    for name, (streams, columns) in keys.of_metrics.items():
        if not len(columns):
            job_metrics[name] = rows[streams[0]]
            continue
        table = np.full((grid.n, len(keys.workers)), np.nan)
        table[:, columns] = np.array([rows[stream] for stream in streams]).T
        worker_metrics[name] = table
    return Window(
        job=job,
        step_s=step_s,
        times_s=grid.times_s,
        workers=keys.workers,
        job_metrics=job_metrics,
        worker_metrics=worker_metrics,
        newest_sample_s=None if flat.newest_ms is None else flat.newest_ms / 1000.0,
        counts=replace(flat.counts, resets=resets),
        ahead=flat.ahead,
        rejected=flat.rejected,
    )
