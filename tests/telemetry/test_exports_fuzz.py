"""Damage of any kind to any format: nothing is raised, every sample that was yielded is counted, reading ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdix.telemetry.exports.naming import Naming
from perdix.telemetry.exports.reading import ExportReading
from perdix.telemetry.exports.records import Limits
from tests.telemetry.export_writers import WRITERS, Written, gzipped

START = 1_700_000_000_000
SERIES = [
    Written("cpu_load", {"worker": "tm-0"}, tuple((START + 1000 * k, k / 3) for k in range(40))),
    Written("flink_taskmanager_Status_JVM_CPU_Load", {"tm_id": "tm-1", "odd": 'q"u,o\\te'}, ((START, 0.5),)),
    Written("workload_per_s", {}, tuple((START + 1000 * k, 1e5 + k) for k in range(40))),
]
LIMITS = Limits(line_bytes=1500, document_bytes=20_000, quarantine_rows=5)
_quick = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

_noise = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.sampled_from(
        [b"\n", b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"\x00", b"\xff", b"NaN", b"1e999", b"]]}", b'"values":[[']
    ),
)
_damage = st.lists(
    st.tuples(st.sampled_from(["replace", "insert", "delete", "cut", "repeat"]), st.floats(0, 1), _noise),
    min_size=1,
    max_size=4,
)


def damaged(content, steps):
    for kind, place, noise in steps:
        at = int(place * len(content))
        if kind == "replace":
            content = content[:at] + noise + content[at + len(noise) :]
        elif kind == "insert":
            content = content[:at] + noise + content[at:]
        elif kind == "delete":
            content = content[:at] + content[at + len(noise) :]
        elif kind == "cut":
            content = content[:at] if at > 8 else content
        else:
            content = content[:at] + content[at : at + 300] * 2 + content[at:]
    return content


def check(path, series_map):
    reading = ExportReading(path, Naming(series_map), LIMITS)
    kept = masked = 0
    for named in reading.series():
        finite = int(np.isfinite(named.series.values).sum())
        kept, masked = kept + finite, masked + len(named.series) - finite
        assert len(named.series) > 0
    assert (reading.tally.kept, reading.tally.masked) == (kept, masked)
    assert reading.tally.quarantined == sum(row.samples for row in reading.quarantined)
    assert not any("please report" in row.reason for row in reading.quarantined), reading.quarantined
    assert all(row.file == path.name and row.samples >= 1 for row in reading.quarantined)
    assert reading.digest
    return reading


@pytest.mark.parametrize("form", WRITERS)
@_quick
@given(steps=_damage)
def test_damaged_exports(tmp_path, series_map, form, steps):
    path = tmp_path / "export"
    path.write_bytes(damaged(WRITERS[form](SERIES), steps))
    check(path, series_map)


@pytest.mark.parametrize("form", WRITERS)
@settings(_quick, max_examples=30)
@given(steps=_damage)
def test_damaged_gzip(tmp_path, series_map, form, steps):
    path = tmp_path / "export"
    path.write_bytes(damaged(gzipped(WRITERS[form](SERIES)), steps))
    check(path, series_map)


@_quick
@given(
    content=st.binary(max_size=300),
    start=st.sampled_from([b"", b"{", b"[", b"Time,a\n", b"# TYPE a counter\n", b"PAR1", b"\x1f\x8b"]),
)
def test_anything_at_all(tmp_path, series_map, content, start):
    path = tmp_path / "export"
    path.write_bytes(start + content)
    check(path, series_map)


@pytest.mark.parametrize("form", ["query_range", "victoriametrics", "openmetrics", "tsdb_dump"])
@_quick
@given(place=st.floats(0, 1), byte=st.integers(0, 255))
def test_a_flipped_byte_costs_the_series_that_it_is_in(tmp_path, series_map, form, place, byte):
    """The other series are read as they were written. Where it parts two series, it costs both."""
    content = bytearray(WRITERS[form](SERIES))
    at = min(int(place * len(content)), len(content) - 1)
    costs = 2 if form == "query_range" or content[at : at + 1] == b"\n" else 1
    content[at] = byte
    path = tmp_path / "export"
    path.write_bytes(bytes(content))
    reading = ExportReading(path, Naming(series_map))
    seen = {}
    for named in reading.series():
        seen.setdefault(named.name, []).extend(zip(named.series.times_ms, named.series.values, strict=True))
    if reading.format == "unknown" or (form == "query_range" and at < 80):
        return  # the damage is where the format is told
    intact = sum(seen.get(stream.name) == list(stream.samples) for stream in SERIES)
    assert intact >= len(SERIES) - costs
