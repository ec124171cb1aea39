"""Fixtures of the telemetry tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from perdix.telemetry.exports.naming import Hint, Naming
from perdix.telemetry.exports.reading import ExportReading, file_stem
from perdix.telemetry.exports.records import NamedSeries
from perdix.telemetry.queries import SeriesMap, load_series_map


@pytest.fixture(scope="session")
def series_map() -> SeriesMap:
    """The names of ``conf/queries``."""
    return load_series_map()


@pytest.fixture
def read(tmp_path: Path, series_map: SeriesMap) -> Callable[..., tuple[list[NamedSeries], ExportReading]]:
    """Write bytes to a file and read it as an export."""

    def reader(
        content: bytes, name: str = "export", hint: Hint | None = None
    ) -> tuple[list[NamedSeries], ExportReading]:
        path = tmp_path / name
        path.write_bytes(content)
        reading = ExportReading(path, Naming(series_map, hint or Hint(), file_stem(path.name)))
        return list(reading.series()), reading

    return reader
