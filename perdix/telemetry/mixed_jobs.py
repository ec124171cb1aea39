"""Series of several jobs that were ingested as one, distinguished by the labels that ``conf/queries`` names (``jobs``).

Belongs here: which values of those labels the series of one name had at the same time, and the sentence about it. One
value after the other is a job that was renamed, and no sum of two. So for topics, of which a job may read several, and
for the names or titles of series that ``--metric``, or the name of their file, says are one metric.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perdix.settings.outside_text import printable
from perdix.telemetry.exports.csv_table import COLUMN
from perdix.telemetry.joining import word_of_join
from perdix.telemetry.metrics import CANONICAL
from perdix.telemetry.query_text import with_or_without

_NAMED: Final = 3
_TOPIC: Final = "topic"
_FEW: Final = 3  # scrapes that two values may share: one job takes over from another
_APART: Final = 2  # usual distances of samples that a stretch bridges
_MOST: Final = 200  # stretches of one series: where it has more, the widest gaps are kept


class Stretch(NamedTuple):
    """From when until when a series had samples without a gap, and their usual distance (0: unknown); epoch ms."""

    first_ms: int
    last_ms: int
    step_ms: int


class JobSpan(NamedTuple):
    """A stretch in which series of one name had one value of a label that tells jobs apart.

    Of :data:`COLUMN`, in which series have their own names, ``name`` is the worker's: of each, they count as one.
    """

    metric: str
    name: str
    label: str
    value: str
    stretch: Stretch


def stretches(times_ms: NDArray[np.int64]) -> list[Stretch]:
    """Return the stretches of one series, whose times may come in any order."""
    gaps = np.diff(times_ms)
    if len(gaps) and gaps.min() <= 0:
        times_ms = np.unique(times_ms)
        gaps = np.diff(times_ms)
    return _cut(times_ms, times_ms, int(np.median(gaps)) if len(gaps) else 0)


def joined(some: Sequence[Stretch]) -> list[Stretch]:
    """Return the stretches of series that count as one, or of a series that was read in pieces."""
    firsts, lasts, steps = np.array(sorted(some), dtype=np.int64).T
    known = steps[steps > 0]
    if not known.size:
        return stretches(firsts)
    return _cut(firsts, np.maximum.accumulate(lasts), int(np.median(known)))


def mixed_jobs(spans: Iterable[JobSpan]) -> tuple[str, ...]:
    """Return a sentence for each label of which the series of one name had several values at the same time."""
    found: defaultdict[tuple[str, str, str], list[JobSpan]] = defaultdict(list)
    for span in spans:
        found[span.label, span.metric, span.name].append(span)
    mixed: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for (label, metric, _), some in found.items():
        if values := _at_once(some):
            mixed[label][metric] |= values
    return tuple(said for label, of_metric in sorted(mixed.items()) for said in _sentences(label, of_metric))


def _cut(firsts: NDArray[np.int64], lasts: NDArray[np.int64], step_ms: int) -> list[Stretch]:
    gaps = firsts[1:] - lasts[:-1]
    bridged = _APART * step_ms
    if len(gaps) > _MOST:
        bridged = max(bridged, int(np.partition(gaps, -_MOST)[-_MOST]))
    breaks = np.flatnonzero(gaps > bridged)
    begins, ends = [0, *(breaks + 1)], [*breaks, len(lasts) - 1]
    return [Stretch(int(firsts[at]), int(lasts[to]), step_ms) for at, to in zip(begins, ends, strict=True)]


def _at_once(spans: Iterable[JobSpan]) -> set[str]:
    """Return the values that share more than a few scrapes with another value."""
    values: set[str] = set()
    latest: dict[str, Stretch] = {}
    for span in sorted(spans, key=lambda span: span.stretch):
        mine = span.stretch
        latest = {value: span_of for value, span_of in latest.items() if span_of.last_ms >= mine.first_ms}
        others = {value for value, span_of in latest.items() if value != span.value and _shared(span_of, mine) > _FEW}
        values |= {*others, span.value} if others else set()
        latest[span.value] = max(mine, latest.get(span.value, mine), key=lambda span: span.last_ms)
    return values


def _shared(earlier: Stretch, later: Stretch) -> float:
    """Return about how many scrapes two stretches share, the later of which begins within the other."""
    shared_ms = min(earlier.last_ms, later.last_ms) - later.first_ms
    return 1.0 + shared_ms / max(earlier.step_ms, later.step_ms, 1)


def _sentences(label: str, of_metric: dict[str, set[str]]) -> Iterator[str]:
    metrics = [name for name in CANONICAL if name in of_metric]
    if label == COLUMN:
        for metric in metrics:
            what = f"{metric} is the {word_of_join(metric)} of {len(of_metric[metric])} series"
            yield f"{what}, {_named(of_metric[metric])}; leave out of the export what is not part of it"
        return
    values = set().union(*of_metric.values())
    metric = ", ".join(metrics)
    selected = (
        f"with {printable(with_or_without(label, min(values)))} in each selector, which keeps series without {label}"
    )
    if label == _TOPIC:
        yield (
            f"{metric} is the sum of {len(values)} topics, {_named(values)}; where the job does not read all of them,"
            f" export {selected}"
        )
        return
    yield (
        f"series of {len(values)} jobs were taken as one: {label} is {_named(values)} in {metric}; export one of them,"
        f" {selected}, and ingest each under its own --job"
    )


def _named(values: Collection[str]) -> str:
    """Return the first of some values, and how many there are beyond."""
    shown = [f"'{printable(value)}'" for value in sorted(values)[:_NAMED]]
    last = f"{len(values) - _NAMED} more" if len(values) > _NAMED else shown.pop()
    return f"{', '.join(shown)} and {last}"
