"""From an exporter's names to canonical ones."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from perdix.settings.outside_text import storable
from perdix.telemetry.exports.csv_table import COLUMN, COUNTED, hardly_falls
from perdix.telemetry.exports.records import NamedSeries, RawSeries
from perdix.telemetry.metrics import BUSY, CANONICAL, CPU, LAG, LATENCY, SCALE_OUT, THROUGHPUT, UPTIME, WORKLOAD, Scope
from perdix.telemetry.queries import Mapped, SeriesMap
from perdix.telemetry.series import Kind, Series

WORDS = {
    "cpu": CPU,
    "throughput": THROUGHPUT,
    "workload": WORKLOAD,
    "lag": LAG,
    "latency": LATENCY,
    "parallelism": SCALE_OUT,
    "taskmanagers": SCALE_OUT,
    "workers": SCALE_OUT,
    "uptime": UPTIME,
}
"""Words of a file's name that tell the metric of series without a name."""

_NOT_A_WORKER = frozenset({"value", "values", "mean", "avg", "average", "max", "min", "sum", "total", "last"})
_RECORDS = frozenset(metric.name for metric in (WORKLOAD, THROUGHPUT))  # per second
_RATES = frozenset(metric.name for metric in (WORKLOAD, THROUGHPUT, CPU, BUSY))  # a counter of seconds is an uptime


_UNITS = {  # a metric's unit -> how a title or name ends that says another, and what 1 of that is
    "records/s": {r"(?:/ ?|per[ _])min(?:ute)?|rpm": 1 / 60, r"(?:/ ?|per[ _])h(?:our)?": 1 / 3_600},
    "ms": {r"s|sec|seconds": 1e3, r"[uµμ]s|microseconds": 1e-3},
    "s": {r"ms|milliseconds": 1e-3, r"minutes": 60.0, r"h|hours": 3_600.0, r"d|days": 86_400.0},
    "ratio": {r"%|percent|pct": 1e-2},
}


class HintError(ValueError):
    """A hint that cannot be used; the message says how to fix it."""


@dataclass(frozen=True)
class Hint:
    """What the user knows of a file and the file does not say."""

    metric: str | None = None  # canonical metric of series that have no name, or none that is known
    timezone: str = "UTC"  # zone of date-times that carry none

    def __post_init__(self) -> None:
        if self.metric is not None and self.metric not in CANONICAL:
            raise HintError(f"'{self.metric}' is not a canonical metric; use one of {', '.join(CANONICAL)}")
        try:
            ZoneInfo(self.timezone)
        except (ValueError, OSError, KeyError):  # KeyError: ZoneInfoNotFoundError
            raise HintError(f"'{self.timezone}' is not a time zone; use a name such as Europe/Berlin") from None


@dataclass(frozen=True)
class Naming:
    """Names the series of one file.

    A name that the series map knows decides, be it a column's title; then the hint; then, for a series without any
    name, a word of the file's name. What is left keeps its own name and counts as unmapped.
    """

    series_map: SeriesMap
    hint: Hint = Hint()
    file_stem: str = ""

    def name(self, raw: RawSeries) -> NamedSeries:
        """Return ``raw`` under its canonical name, in the canonical unit."""
        storable_labels = {storable(name): storable(value) for name, value in raw.labels.items()}
        raw = self._titled(replace(raw, name=storable(raw.name), labels=storable_labels))
        mapped = canonical(raw, self.file_stem, self.hint, self.series_map)
        own = raw.name or raw.labels.get(COLUMN, "") or "unnamed"
        metric, worker, kind = (mapped.metric, mapped.worker, mapped.kind) if mapped else (own, None, raw.kind)
        scale = mapped.scale if mapped else 1.0
        values = raw.values if scale == 1.0 else raw.values * scale
        hinted = mapped and not (raw.name and self.series_map.canonical(raw.name, raw.labels))
        named = {COLUMN: raw.name} if hinted and raw.name else {}  # what distinguishes it from its like
        labels = {**raw.labels, **named}
        series = Series(metric, worker, raw.times_ms, values, labels, kind)
        remark = ""
        if hinted and scale != 1.0:
            remark = f"its titles name another unit, so its values are taken times {scale:.4g} for {metric}"
        elif hinted and kind == "gauge" and metric in _RECORDS and hardly_falls(raw.values):
            remark = f"what is taken for {metric} hardly ever falls: if it counts records, export its rate"
        return NamedSeries(series, raw.name, series_id(metric, raw.name, raw.labels), mapped is not None, remark)

    def _titled(self, raw: RawSeries) -> RawSeries:
        """Return a column whose title the series map knows as the series of that name, as a long table has it."""
        if raw.name or raw.labels.keys() != {COLUMN} or not self.series_map.canonical(raw.labels[COLUMN], {}):
            return raw
        return replace(raw, name=raw.labels[COLUMN], labels={})


def canonical(raw: RawSeries, file_stem: str, hint: Hint, series_map: SeriesMap) -> Mapped | None:
    """Return what a series is called here; ``None`` when nothing tells.

    What stands in a table beside a column that is titled as a metric of the job is not that metric. A counter, by its
    type or name, is one where the hint or the file names a rate: what it counted is turned into that. Of a title or
    name that ends with its unit, such as ``p95 (s)``, the values are scaled.

    ``raw``: its name is the exporter's; empty for a CSV column and for the result of an expression.
    ``file_stem``: the file's name, in which a word such as ``cpu`` or ``throughput`` may tell the metric.
    """
    if raw.name and (known := series_map.canonical(raw.name, raw.labels)):
        return known
    metric = hint.metric or (None if raw.name else metric_of_file(file_stem))
    if metric is None or (metric in raw.beside and CANONICAL[metric].scope is Scope.JOB):
        return None
    if raw.name.endswith("_created"):  # of OpenMetrics: when a counter began
        return None
    counted = raw.kind == "counter" or COUNTED.fullmatch(raw.name) is not None
    kind: Kind = "counter" if counted and metric in _RATES else "gauge"
    scale = unit_scale(raw.name or raw.labels.get(COLUMN, ""), metric)
    return Mapped(metric, _worker(metric, raw.labels, series_map), kind, scale)


def unit_scale(title: str, metric: str) -> float:
    """Return what 1 of the unit is that a title ends with, in the unit of a metric; 1 where it names none or that."""
    for unit, scale in _UNITS.get(CANONICAL[metric].unit, {}).items():
        if re.search(rf"(?:^|[\s_(\[]|(?=[/%]))(?:{unit})[)\]]?$", title.strip().lower()):
            return scale
    return 1.0


def metric_of_file(stem: str) -> str | None:
    """Return the canonical metric that a file's name tells; ``None`` when it tells none, or more than one."""
    if stem in CANONICAL:
        return stem
    words = re.split(r"[^a-z]+", re.sub(r"task[ _-]managers", "taskmanagers", stem.lower()))
    metrics = {WORDS[word].name for word in words if word in WORDS}
    return metrics.pop() if len(metrics) == 1 else None


def series_id(metric: str, name: str, labels: Mapping[str, str]) -> int:
    """Return a positive 63-bit digest that is the same wherever the series is read."""
    text = json.dumps([metric, name, sorted(labels.items())], ensure_ascii=True, separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(text.encode("ascii"), digest_size=8).digest(), "big") >> 1


def _worker(metric: str, labels: Mapping[str, str], series_map: SeriesMap) -> str | None:
    if CANONICAL[metric].scope is not Scope.WORKER:
        return None
    column = labels.get(COLUMN)
    if column is not None:
        return None if column.strip().lower() in _NOT_A_WORKER else column
    known = series_map.canonical(metric, labels)
    return known.worker if known else None
