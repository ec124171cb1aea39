"""VictoriaMetrics ``/api/v1/export``: one JSON object per line with ``metric``, ``values`` and ``timestamps`` (ms).

A NaN (and a staleness marker) is written as ``null`` there, infinities as ``"Infinity"``.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.json_text import labels_of, loads
from perdix.telemetry.exports.lines import Lines, line_blocks
from perdix.telemetry.exports.numbers import FIRST_MS, LAST_MS, samples
from perdix.telemetry.exports.records import Limits, Quarantined, RawSeries, Remark, excerpt
from perdix.telemetry.series import Series


def victoriametrics_line(series: Series) -> str:
    """Return a series as such a line, with its newline."""
    known = [value if math.isfinite(value) else _NOT_FINITE[str(value)] for value in series.values.tolist()]
    line = {
        "metric": {"__name__": series.metric, **series.labels},
        "values": known,
        "timestamps": series.times_ms.tolist(),
    }
    return json.dumps(line, separators=(",", ":")) + "\n"


_NOT_FINITE = {"nan": None, "inf": "Infinity", "-inf": "-Infinity"}


def read_victoriametrics(content: Content, limits: Limits) -> Iterator[RawSeries | Quarantined | Remark]:
    """Yield the series of the lines in ``content``; a line may repeat a series."""
    repaired = 0
    for block in line_blocks(content, limits):
        if not isinstance(block, Lines):
            yield block
            continue
        for index, line in enumerate(block.split()):
            if not line or line.isspace():
                continue
            try:
                document, fixed = loads(line)
            except ValueError as error:
                yield Quarantined(f"not JSON: '{error}'", *block.place(index), excerpt(line))
                continue
            repaired += fixed
            for found in _series(document):
                if isinstance(found, Quarantined):
                    place = block.place(index)
                    yield Quarantined(found.reason, *place, excerpt(line), found.samples)
                else:
                    yield found
    if repaired:
        yield Remark(f"{repaired} lines have labels that are not UTF-8; their bytes are shown as \\xNN")


def _series(document: Any) -> Iterator[RawSeries | Quarantined]:
    if not isinstance(document, dict):
        yield Quarantined("a line that is not a JSON object")
        return
    values, times = document.get("values"), document.get("timestamps")
    if not isinstance(values, list) or not isinstance(times, list):
        yield Quarantined("a line without 'values' and 'timestamps'")
        return
    named = labels_of(document.get("metric"))
    if named is None:
        yield Quarantined("a line without its 'metric' labels", samples=max(1, len(values)))
        return
    if len(values) != len(times):
        reason = f"values and timestamps differ in number: '{len(values)}' against '{len(times)}'"
        yield Quarantined(reason, samples=max(1, len(values), len(times)))
        return
    try:
        times_ms = np.array(times, dtype=np.int64) if set(map(type, times)) <= {int} else None
        # numpy turns None into NaN
        plain = set(map(type, values)) <= {int, float, type(None)}
        numbers = np.array(values, dtype=np.float64) if plain else None
    except (OverflowError, ValueError, TypeError):
        times_ms = numbers = None
    if times_ms is not None and numbers is not None and np.all((times_ms >= FIRST_MS) & (times_ms <= LAST_MS)):
        if len(values):
            yield RawSeries(*named, times_ms, numbers)
        return
    times_ms, numbers, bad = samples(times, ["NaN" if value is None else value for value in values], 1.0)
    if len(numbers):
        yield RawSeries(*named, times_ms, numbers)
    for at, reason in bad:
        yield Quarantined(f"{reason} (sample {at + 1} of {len(values)})")
