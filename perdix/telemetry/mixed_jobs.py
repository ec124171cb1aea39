"""Series of several jobs that were ingested as one, distinguished by the labels that ``conf/queries`` names (``jobs``).

Belongs here: which values of those labels a metric had at the same time, and the sentence about it. One value after
the other is a job that was renamed, and no sum of two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from perdix.settings.outside_text import printable
from perdix.telemetry.metrics import CANONICAL

_NAMED: Final = 3


class JobSpan(NamedTuple):
    """From when until when a metric's series had one value of a label that tells jobs apart; epoch ms."""

    metric: str
    label: str
    value: str
    first_ms: int
    last_ms: int


def mixed_jobs(spans: Iterable[JobSpan]) -> tuple[str, ...]:
    """Return a sentence for each label of which a metric had several values at the same time."""
    found: defaultdict[tuple[str, str], list[JobSpan]] = defaultdict(list)
    for span in spans:
        found[span.label, span.metric].append(span)
    mixed: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
    for (label, metric), some in found.items():
        if values := _at_once(some):
            mixed[label][metric] = values
    return tuple(_sentence(label, of_metric) for label, of_metric in sorted(mixed.items()))


def _at_once(spans: Iterable[JobSpan]) -> set[str]:
    """Return the values whose spans overlap one of another value."""
    values: set[str] = set()
    latest: dict[str, int] = {}
    for span in sorted(spans, key=lambda span: span.first_ms):
        others = {value for value, last_ms in latest.items() if value != span.value and last_ms >= span.first_ms}
        values |= {*others, span.value} if others else set()
        latest[span.value] = max(span.last_ms, latest.get(span.value, span.last_ms))
        latest = {value: last_ms for value, last_ms in latest.items() if last_ms >= span.first_ms}
    return values


def _sentence(label: str, of_metric: dict[str, set[str]]) -> str:
    values = [printable(value) for value in sorted(set().union(*of_metric.values()))]
    shown = [f"'{value}'" for value in values[:_NAMED]]
    last = f"{len(values) - _NAMED} more" if len(values) > _NAMED else shown.pop()
    metrics = ", ".join(name for name in CANONICAL if name in of_metric)
    return (
        f"series of {len(values)} jobs were taken as one: {label} is {', '.join(shown)} and {last} in {metrics};"
        f' export one of them, with {{{label}="{values[0]}"}}, and ingest each under its own --job'
    )
