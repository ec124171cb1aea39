"""What is not an export, or a damaged one: named with place and fix, and the rest is read."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import numpy as np
import pytest

from perdix.telemetry.exports.naming import Naming
from perdix.telemetry.exports.reading import ExportReading, file_stem
from perdix.telemetry.exports.records import Limits
from tests.telemetry.export_writers import WRITERS, Written, gzipped, openmetrics, query_range, victoriametrics

START = 1_700_000_000_000


def ramp(name="cpu_load", count=50, **labels):
    return Written(name, labels or {"worker": "tm-0"}, tuple((START + 1000 * k, k / 7) for k in range(count)))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b" \n\t\n", "nothing but white space"),
        (b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>", "HTML"),
        (b"PK\x03\x04\x14\x00", "zip"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
        ('{"status":"success"}'.encode("utf-16"), "UTF-16"),
        (b"\x00\x01\x02binary", "binary content of no known format; export it as CSV or Parquet"),
        (b"hello, this is a note\nand no export\n", "none of the known formats"),
        (b"job,entered\nstop-table,1700000000\n", "none of the known formats"),
        (b"Hour Index,Users\n0000,5\n", "none of the known formats"),
        (b"moment,count\n1700000000,5\n", "CSV that begins with its titles, one of them time, ts"),
        (b"#group,false,true\r\n#datatype,string,long\r\n", "save it with the columns ts, metric and value"),
        (b'{"status":"error","errorType":"bad_data","error":"invalid parameter"}', "invalid parameter"),
        (b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}', "scalar"),
        (b'{"status":"success","data":{"resultType":"vector","result":[]}}', "query_range"),
        (b'{"answer":42}', "not a Prometheus query result"),
        (b'{"status":"succ', "not JSON"),
        (b"[1,2,3]", "not a Prometheus query result"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
def test_what_is_no_export_is_named(read, content, reason, zipped):
    named, reading = read(gzipped(content) if zipped else content)
    assert named == []
    assert reading.tally.read == reading.tally.quarantined == sum(row.samples for row in reading.quarantined) >= 1
    assert reason in reading.quarantined[0].reason


def test_an_instant_vector_is_told_from_a_matrix(read):
    vector = {"resultType": "vector", "result": [{"metric": {"__name__": "up"}, "value": [1, "1"]}]}
    named, reading = read(json.dumps({"status": "success", "data": vector}).encode())
    assert named == []
    assert "instant vector" in reading.quarantined[0].reason


def test_a_query_that_matched_nothing_is_said(read):
    _, reading = read(query_range([]))
    assert reading.tally.read == 0
    assert reading.remarks == ["the query matched no series"]


@pytest.mark.parametrize("form", ["query_range", "victoriametrics", "openmetrics", "tsdb_dump", "csv"])
def test_a_truncated_gzip_keeps_what_was_readable(read, form):
    rng = np.random.default_rng(3)
    series = [Written("cpu_load", {"worker": "a"}, tuple((START + 1000 * k, float(rng.random())) for k in range(4000)))]
    series += [Written("cpu_load", {"worker": "b"}, series[0].samples)]
    content = WRITERS[form](series)
    zipped = gzipped(content)
    _, whole = read(zipped)
    named, reading = read(zipped[: len(zipped) * 2 // 3])
    assert 0 < reading.tally.kept < whole.tally.kept
    assert reading.tally.quarantined == 1
    row = reading.quarantined[0]
    assert "gzip ends early" in row.reason
    assert row.byte_offset is not None
    assert 0 < row.byte_offset <= len(content)
    truth = dict(series[0].samples)
    for stream in named:  # half a number is a wrong number: none was made up at the cut
        assert all(truth[at] == value for at, value in zip(stream.series.times_ms, stream.series.values, strict=True))


def test_a_gzip_with_a_flipped_byte_keeps_what_came_before(read):
    rng = np.random.default_rng(3)
    content = openmetrics([Written("x", {}, tuple((START + 1000 * k, float(rng.random())) for k in range(20_000)))])
    zipped = bytearray(gzipped(content))
    zipped[len(zipped) // 2] ^= 0xFF
    _, reading = read(bytes(zipped))
    assert reading.tally.kept > 1000
    assert "gzip is damaged" in " ".join(row.reason for row in reading.quarantined)


def test_gzip_members_and_padding_are_read_through(read):
    parts = [openmetrics([ramp(worker=f"tm-{k}")]).replace(b"# EOF\n", b"") for k in range(3)]
    named, reading = read(b"".join(gzip.compress(part) for part in parts) + b"\0" * 512)
    assert reading.tally.kept == 150
    assert {stream.series.worker for stream in named} == {"tm-0", "tm-1", "tm-2"}


@pytest.mark.parametrize("cut", [1, 3, 10, 200, 700])
def test_a_document_that_ends_early_keeps_its_whole_samples(read, cut):
    series = [ramp(worker="a"), ramp(worker="b")]
    content = query_range(series)[:-cut]
    named, reading = read(content)
    truth = dict(series[0].samples)
    for stream in named:
        assert all(truth[at] == value for at, value in zip(stream.series.times_ms, stream.series.values, strict=True))
    if cut > 3:
        assert "ends early" in reading.quarantined[-1].reason
        assert reading.tally.quarantined == 1
    assert reading.tally.kept >= 50


def test_one_broken_series_costs_only_itself(read):
    content = query_range([ramp(worker="a"), ramp(worker="b"), ramp(worker="c")])
    at = content.index(b'"worker":"b"')
    broken = content[:at] + b'"worker:"b' + content[at + 12 :]
    named, reading = read(broken)
    assert {stream.series.worker for stream in named} == {"a", "c"}
    assert reading.tally.kept == 100
    assert reading.quarantined[0].byte_offset is not None
    assert broken[reading.quarantined[0].byte_offset :].startswith(b'{"metric"')


def test_one_broken_sample_costs_only_itself(read):
    content = query_range([ramp(worker="a"), ramp(worker="b")]).replace(b'"1.0"', b'"one"')
    named, reading = read(content)
    assert (reading.tally.kept, reading.tally.quarantined) == (98, 2)
    assert reading.quarantined[0].reason.startswith("value 'one' is not a number (sample 8 of 50")
    assert sum(len(stream.series) for stream in named) == 98


@pytest.mark.parametrize("bad", [[1, "2", "3"], "x", [None, "1"], [True, "1"], [1, {}], [1e300, "1"], [[], []]])
def test_misshapen_samples_are_counted(read, bad):
    document = json.loads(query_range([ramp()]))
    document["data"]["result"][0]["values"][7] = bad
    _, reading = read(json.dumps(document).encode())
    assert (reading.tally.kept, reading.tally.quarantined) == (49, 1)


def test_native_histograms_are_named_and_the_rest_is_read(read):
    document = json.loads(query_range([ramp(worker="a"), ramp(worker="b")]))
    histogram = [1_700_000_000, {"count": "1", "sum": "1", "buckets": [[0, "0", "1", "1"], [0, "1", "2", "1"]]}]
    for row in document["data"]["result"]:
        row["histograms"] = [histogram, histogram]
    _, reading = read(json.dumps(document, separators=(",", ":")).encode())
    assert (reading.tally.kept, reading.tally.quarantined) == (100, 4)
    assert "histograms" in reading.quarantined[0].reason


@pytest.mark.parametrize("form", ["query_range", "victoriametrics", "openmetrics", "tsdb_dump", "csv"])
def test_labels_that_are_not_utf8_stay_visible(read, form):
    series = [ramp("odd_metric", drink="caf#"), ramp("odd_metric", drink="tea")]
    named, reading = read(WRITERS[form](series).replace(b"caf#", b"caf\xe9"))
    assert reading.tally.kept == 100
    assert reading.tally.quarantined == 0
    shown = {str(stream.series.labels) for stream in named}
    assert any("caf\\\\xe9" in text for text in shown), shown


def test_lines_without_a_time_say_how_to_export_them(read):
    _, reading = read(b'# TYPE up gauge\nup{job="a b"} 1\nup{job="c"} 0\n')
    assert reading.tally.read == reading.tally.quarantined == 2
    assert "without its time" in reading.quarantined[0].reason
    assert [row.line for row in reading.quarantined] == [2, 3]


def test_exemplars_tabs_comments_and_types_are_understood(read):
    content = (
        b"# HELP a help\n# TYPE a counter\n"
        b'a_total{b="x # y"} 1 1700000000 # {trace="t"} 0.5 1700000000.1\n'
        b"a_total\t2\t1700000001\n"
        b'{"dotted.name",b="q\\"uote\\n"} 3 1700000002000\n'
        b"# EOF\n"
    )
    named, reading = read(content)
    assert reading.quarantined == []
    named.sort(key=lambda item: item.series.times_ms[0])  # lines in the usual form are read first
    assert [(stream.name, dict(stream.series.labels), stream.series.values.tolist()) for stream in named] == [
        ("a_total", {"b": "x # y"}, [1.0]),
        ("a_total", {}, [2.0]),
        ("dotted.name", {"b": 'q"uote\n'}, [3.0]),
    ]
    assert [stream.series.kind for stream in named] == ["counter", "counter", "gauge"]
    assert [stream.series.times_ms.tolist() for stream in named] == [
        [1_700_000_000_000],
        [1_700_000_001_000],
        [1_700_000_002_000],
    ]


def test_a_bad_line_is_named_by_line_and_offset(read):
    lines = victoriametrics([ramp(worker=f"tm-{k}") for k in range(5)]).split(b"\n")
    lines[2] = b'{"metric":{"__name__":"x"},"values":[1,2,3],"timestamps":[1]}'
    lines[3] = b"garbage"
    _, reading = read(b"\r\n".join(lines))
    assert (reading.tally.kept, reading.tally.quarantined) == (150, 3 + 1)
    first, second = reading.quarantined
    assert (first.line, first.samples) == (3, 3)
    assert (second.line, second.samples, second.excerpt) == (4, 1, "garbage")
    assert second.byte_offset == sum(len(line) + 2 for line in lines[:3])


def test_many_bad_lines_fill_few_rows_and_still_add_up(read):
    content = victoriametrics([ramp()]) + b"garbage\n" * 5000
    _, reading = read(content)
    assert reading.tally.quarantined == 5000
    assert len(reading.quarantined) == Limits().quarantine_rows + 1
    assert sum(row.samples for row in reading.quarantined) == 5000


def test_of_bad_rows_that_are_only_counted_one_is_shown(read):
    """Of rows with too many cells nothing was said but '40 more:'."""
    content = b"time,cpu\n" + b"".join(b"2026-01-01T00:00:00Z,0,%d\n" % k for k in range(240))
    *_, last = read(content)[1].quarantined
    assert (last.samples, last.reason) == (40, "40 more like: a row of '3' cells where the header has 2")


# ------------------------------------------------------------------ bounds


def bounded(path, series_map, limits):
    reading = ExportReading(path, Naming(series_map, file_stem=file_stem(path.name)), limits)
    return list(reading.series()), reading


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_a_line_over_the_bound_is_passed_over(tmp_path, series_map, where):
    good = victoriametrics([ramp()])
    values = ",".join("1" for _ in range(20_000))
    long = f'{{"metric":{{"__name__":"x"}},"values":[{values}],"timestamps":[]}}\n'.encode()
    order = {"first": [long, good, good], "middle": [good, long, good], "last": [good, good, long.rstrip()]}[where]
    path = tmp_path / "export.jsonl"
    path.write_bytes(b"".join(order))
    _, reading = bounded(path, series_map, Limits(line_bytes=10_000))
    assert (reading.tally.kept, reading.tally.quarantined) == (100, 1)
    row = reading.quarantined[0]
    assert f"'{len(long) - 1}' bytes" in row.reason
    assert row.byte_offset == sum(len(part) for part in order[: order.index(long if long in order else long.rstrip())])
    assert row.excerpt.startswith('{"metric"')


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_series_over_the_bound_is_passed_over(tmp_path, series_map, where):
    series = [ramp(worker="a"), ramp(worker="b")]
    series.insert(where, ramp(worker="long", count=2000))
    path = tmp_path / "export.json"
    content = query_range(series)
    path.write_bytes(content)
    named, reading = bounded(path, series_map, Limits(line_bytes=8_000))
    assert {stream.series.worker for stream in named} == {"a", "b"}
    assert (reading.tally.kept, reading.tally.quarantined) == (100, 1)
    assert "8000 bytes" in reading.quarantined[0].reason
    offset = reading.quarantined[0].byte_offset
    assert content[offset:].startswith(b'{"metric":{"__name__":"cpu_load","worker":"long"}')


def test_an_unusual_document_over_the_bound_says_how_to_export(tmp_path, series_map):
    path = tmp_path / "export.json"
    path.write_bytes(json.dumps({"data": {"result": []}, "pad": "x" * 3_000_000}).encode())
    _, reading = bounded(path, series_map, Limits(document_bytes=1_000_000))
    assert reading.tally.quarantined == 1
    assert "export shorter ranges" in reading.quarantined[0].reason


def test_a_huge_line_takes_no_memory(tmp_path, series_map):
    """A sparse file holds a line of 300 MB; the reader may hold little more than its bound of it."""
    path = tmp_path / "export.jsonl"
    good = victoriametrics([ramp()])
    with path.open("wb") as stream:
        stream.write(good)
        stream.seek(300 << 20, 1)
        stream.write(b"\n" + good)
    tracemalloc.start()
    try:
        _, reading = bounded(path, series_map, Limits(line_bytes=1 << 20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (reading.tally.kept, reading.tally.quarantined) == (100, 1)
    assert f"'{300 << 20}' bytes" in reading.quarantined[0].reason
    assert reading.quarantined[0].line == 2
    assert peak < 32 << 20


@pytest.mark.parametrize("form", ["victoriametrics", "openmetrics", "tsdb_dump"])
@pytest.mark.parametrize("slice_bytes", [97, 1000, 4096, 100_000])
def test_slices_of_a_file_read_what_the_whole_reads(tmp_path, series_map, form, slice_bytes):
    series = [ramp(worker=f"tm-{k}", count=7 + k) for k in range(9)]
    content = WRITERS[form](series).replace(b"\n", b"\nbad line\n", 3)
    path = tmp_path / "export.txt"
    path.write_bytes(content)
    whole, reading = bounded(path, series_map, Limits())
    parts, tallies = [], []
    for start in range(0, len(content), slice_bytes):
        part = ExportReading(path, Naming(series_map), start=start, end=min(start + slice_bytes, len(content)))
        parts += list(part.series())
        tallies.append(part.tally)

    def samples(named):
        return sorted(
            (stream.series_id, t, v)
            for stream in named
            for t, v in zip(stream.series.times_ms, stream.series.values, strict=True)
        )

    assert samples(parts) == samples(whole)
    assert sum(tally.read for tally in tallies) == reading.tally.read == 99 + 3


def test_samples_from_the_future_are_set_aside_and_the_rest_is_kept(tmp_path, series_map):
    path = tmp_path / "export.json"
    path.write_bytes(query_range([ramp(worker="a"), ramp(worker="b", count=20)]))
    named, reading = bounded(path, series_map, Limits.until(START / 1000 + 29 - 300))
    assert [len(stream.series) for stream in named] == [30, 20]
    assert (reading.tally.kept, reading.tally.masked, reading.tally.quarantined) == (50, 0, 20)
    (row,) = reading.quarantined
    assert row.samples == 20
    assert row.excerpt == "cpu_load, 2023-11-14 22:13Z to 2023-11-14 22:14Z"
    assert row.reason == (
        "samples lie more than five minutes in the future; correct the clock that wrote them, or this machine's,"
        " or name the zone of their times (--timezone), and ingest again"
    )
