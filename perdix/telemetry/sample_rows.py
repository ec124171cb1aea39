"""Runs of series into rows of the ``samples`` table, as Arrow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perdix.telemetry.exports.records import NamedSeries
from perdix.telemetry.tables import TIMESTAMP

DAY_MS = 86_400_000
STALE_NAN = 0x7FF0000000000002  # the NaN by which Prometheus ends a series
_MASKS = pa.array(["nan", "inf", "stale"])
_NAN, _INF, _STALE = 0, 1, 2

# Dictionaries where values repeat; deltas for time, which only grows: two thirds of the size, and faster.
PARQUET = {
    "compression": "zstd",
    "use_dictionary": ["series_id", "metric", "worker", "mask"],
    "column_encoding": {"ts": "DELTA_BINARY_PACKED"},
    "store_schema": False,
}


def sample_rows(runs: Sequence[NamedSeries]) -> pa.Table:
    """Return the rows of ``runs`` in their order; repeated texts are dictionary-encoded.

    A value that is no finite number is null, and ``mask`` says why: ``nan``, ``inf`` or ``stale``.
    """
    lengths = [len(run.series) for run in runs]
    values = np.concatenate([run.series.values for run in runs])
    times_us = np.concatenate([run.series.times_ms for run in runs]) * 1000
    unusable = ~np.isfinite(values)
    return pa.table(
        {
            "series_id": np.repeat(np.array([run.series_id for run in runs], dtype=np.int64), lengths),
            "metric": _repeated([run.series.metric for run in runs], lengths),
            "worker": _repeated([run.series.worker for run in runs], lengths),
            "ts": pa.array(times_us).cast(TIMESTAMP),
            "value": pa.array(values, mask=unusable),
            "mask": pa.DictionaryArray.from_arrays(pa.array(_mask_codes(values), mask=~unusable), _MASKS),
        }
    )


def split_by_day(named: NamedSeries) -> list[tuple[int, NamedSeries]]:
    """Return the run cut at UTC midnights: day since 1970 and the samples of that day, in their order."""
    days = named.series.times_ms // DAY_MS
    first = int(days[0])
    if int(days[-1]) == first and bool(np.all(days == first)):
        return [(first, named)]
    return [(int(day), _part(named, days == day)) for day in np.unique(days)]


def _part(named: NamedSeries, chosen: NDArray[np.bool_]) -> NamedSeries:
    series = named.series
    part = type(series)(
        series.metric, series.worker, series.times_ms[chosen], series.values[chosen], series.labels, series.kind
    )
    return NamedSeries(part, named.name, named.series_id, named.mapped)


def _repeated(texts: Sequence[str | None], lengths: Sequence[int]) -> pa.DictionaryArray:
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    return encoded.take(pa.array(np.repeat(np.arange(len(texts)), lengths)))


def _mask_codes(values: NDArray[np.float64]) -> NDArray[np.int32]:
    codes = np.where(np.isinf(values), _INF, _NAN)
    codes[values.view(np.uint64) == STALE_NAN] = _STALE
    return codes.astype(np.int32)
