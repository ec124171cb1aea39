"""Parquet of the canonical form, and of its cousins."""

from __future__ import annotations

import io
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perdix.telemetry.exports import parquet_table
from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.staged_export import STALE_NAN, sample_rows
from tests.telemetry.export_writers import gzipped

T0 = 1_700_000_000_000


def written(**columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    "times",
    [
        pa.array([T0, T0 + 1000], pa.timestamp("ms", "UTC")),
        pa.array([T0 * 1000, (T0 + 1000) * 1000], pa.timestamp("us")),
        pa.array([T0 * 10**6 + 7, (T0 + 1000) * 10**6], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([T0 // 1000, T0 // 1000 + 1], pa.timestamp("s")),
        pa.array([T0 // 1000, T0 // 1000 + 1]),
        pa.array([T0, T0 + 1000]),
        pa.array([T0 * 10**6 + 1, (T0 + 1000) * 10**6]),
        pa.array([T0 / 1000, T0 / 1000 + 1]),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("name", ["ts", "Time", "timestamp"])
def test_times_of_any_type(read, times, name):
    named, reading = read(
        written(**{name: times, "metric": ["cpu_load"] * 2, "value": [0.5, 0.6], "worker": ["a", "b"]})
    )
    assert reading.format == "parquet"
    assert [(stream.series.worker, stream.series.times_ms.tolist()) for stream in named] == [
        ("a", [T0]),
        ("b", [T0 + 1000]),
    ]


def test_timestamps_are_the_times_where_none_is_titled_so(read):
    """As the index of a frame of pandas."""
    index = pd.to_datetime([T0, T0 + 1000], unit="ms", utc=True)
    sink = io.BytesIO()
    pd.DataFrame({"metric": "cpu_load", "value": [0.5, 0.6]}, index=index).to_parquet(sink)
    named, reading = read(sink.getvalue())
    assert [(dict(s.series.labels), s.series.times_ms.tolist()) for s in named] == [({}, [T0, T0 + 1000])]
    assert reading.remarks == []


@pytest.mark.parametrize(
    "stored", [pa.array([1_000 * T0], pa.timestamp("us")), pa.array(["2023-11-14 22:13:20"])], ids=["naive", "text"]
)
def test_times_that_carry_no_zone_are_of_the_one_that_is_named(read, stored):
    content = written(ts=stored, metric=["cpu_load"], value=[0.5])
    for zone, earlier_h in (("UTC", 0), ("Europe/Berlin", 1)):
        named, reading = read(content, hint=Hint(timezone=zone))
        assert [stream.series.times_ms.tolist() for stream in named] == [[T0 - earlier_h * 3_600_000]]
        assert reading.remarks == [f"date-times carry no zone; they were read as {zone}"]


@pytest.mark.parametrize(
    "stored",
    [
        pa.array([20231114221320, 20231114221321, None]),
        pa.array([20231114221320.0, 20231114221321.0, np.nan]),
        pa.array([20231114221320.0, 20231114221321.0, np.inf]),
        pa.array([20231114221320, 20231114221321, None]).dictionary_encode(),
        pa.array(["20231114221320", "20231114221321", None]),
    ],
    ids=["integer", "float", "float and infinity", "dictionary", "text"],
)
def test_dates_in_digits_are_dates_whatever_their_type(read, stored):
    content = written(ts=stored, metric=["cpu_load"] * 3, value=[0.5, 0.6, 0.7])
    for zone, earlier_h in (("UTC", 0), ("Europe/Berlin", 1)):
        named, reading = read(content, hint=Hint(timezone=zone))
        first = T0 - earlier_h * 3_600_000
        assert [stream.series.times_ms.tolist() for stream in named] == [[first, first + 1000]]
        assert reading.remarks == [f"date-times carry no zone; they were read as {zone}"]
        assert reading.tally.quarantined == 1


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()], ids=str)
def test_whole_numbers_beyond_those_of_a_float_are_rounded(read, kind):
    content = written(ts=[T0, T0 + 1000], metric=["consumer_lag"] * 2, value=pa.array([2**53 + 1, 5], kind))
    named, reading = read(content)
    assert [stream.series.values.tolist() for stream in named] == [[2.0**53, 5.0]]
    assert reading.tally.quarantined == 0


def test_dates_in_digits_may_be_without_seconds(read):
    named, _ = read(written(ts=pa.array([202311142213]), metric=["cpu_load"], value=[0.5]))
    assert [stream.series.times_ms.tolist() for stream in named] == [[T0 - 20_000]]


def test_a_stop_watch_that_passes_digits_like_a_date_keeps_its_times(read):
    stored = list(range(190 * 10**9, 212 * 10**9, 10**9))
    named, _ = read(written(ts=pa.array(stored), metric=["cpu_load"] * 22, value=[0.5] * 22))
    assert [stream.series.times_ms.tolist() for stream in named] == [stored]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_times_may_be_text_of_any_type(read, kind):
    stored = pa.array(["2023-11-14T22:13:20Z", None, "2023-11-14T22:13:21Z"], kind)
    named, reading = read(written(ts=stored, metric=["cpu_load"] * 3, value=[0.5, 0.6, 0.7]))
    assert [stream.series.times_ms.tolist() for stream in named] == [[T0, T0 + 1000]]
    assert reading.tally.quarantined == 1


@pytest.mark.parametrize("other", ["datetime", "date"])
@pytest.mark.parametrize("first", [True, False])
def test_a_time_that_is_given_twice_is_no_label(read, other, first):
    other_times = {
        "datetime": pa.array(["2023-11-14T22:13:20Z", "2023-11-14T22:13:21Z"]),
        "date": pa.array(["2023-11-14", "2023-11-14"]),
    }[other]
    times = {other: other_times, "ts": [T0, T0 + 1000]} if first else {"ts": [T0, T0 + 1000], other: other_times}
    named, _ = read(written(**times, metric=["cpu_load"] * 2, value=[0.5, 0.6]))
    found = [(dict(stream.series.labels), stream.series.times_ms.tolist()) for stream in named]
    assert found == [({}, [T0, T0 + 1000])]


@pytest.mark.parametrize(
    "days",
    [
        pa.array(["2023-11-14"] * 3),
        pa.array([19_675] * 3, pa.date32()),
        pa.array([19_675 * 86_400_000] * 3, pa.timestamp("ms")),
        pa.array([19_675 * 86_400_000_000_000] * 3, pa.timestamp("ns")),
    ],
    ids=lambda days: str(days.type),
)
@pytest.mark.parametrize(
    ("title", "clocks"),
    [("hour", [21, 22, 23]), ("hour", ["21", "22", "23"]), ("time", ["21:00", "22:00:00", "23:00"])],
)
def test_a_day_and_its_clock_in_two_columns(read, days, title, clocks):
    """All rows were of midnight, and a day's rates the last of them."""
    named, reading = read(written(date=days, **{title: clocks}, metric=["cpu_load"] * 3, value=[0.5, 0.6, 0.7]))
    found = [(dict(stream.series.labels), stream.series.times_ms.tolist()) for stream in named]
    assert found == [({}, [T0 - 4_400_000 + 3_600_000 * k for k in range(3)])]
    assert reading.remarks == ["date-times carry no zone; they were read as UTC"]


@pytest.mark.parametrize(("zone", "midnight_ms"), [("UTC", T0 - 80_000_000), ("Europe/Berlin", T0 - 83_600_000)])
def test_a_day_may_have_a_zone_beside_its_clock(read, zone, midnight_ms):
    """As Spark writes the beginning of a day: all rows were of it."""
    days = pa.array([midnight_ms] * 2, pa.timestamp("ms", zone))
    named, reading = read(written(date=days, hour=[8, 9], metric=["cpu_load"] * 2, value=[0.5, 0.6]))
    assert [stream.series.times_ms.tolist() for stream in named] == [[midnight_ms + k * 3_600_000 for k in (8, 9)]]
    assert reading.remarks == []


def test_an_hour_beside_whole_times_leaves_them(read):
    whole = pa.array([T0, T0 + 1000], pa.timestamp("ms"))
    named, _ = read(written(date=whole, hour=[22, 22], metric=["cpu_load"] * 2, value=[0.5, 0.6]))
    assert [stream.series.times_ms.tolist() for stream in named] == [[T0, T0 + 1000]]


@pytest.mark.parametrize(
    "columns",
    [
        {"ts": [T0], "workload_per_s": [0.5]},
        {"date": pa.array([19_000], pa.date32()), "metric": ["cpu_load"], "value": [0.5]},
        {"ts": [T0], "metric": ["cpu_load"], "value": ["-"]},
    ],
    ids=["wide", "days", "text"],
)
def test_a_table_that_cannot_be_read_is_sent_to_what_can(read, columns):
    named, reading = read(written(**columns))
    assert named == []
    assert reading.quarantined[0].reason.endswith("and value (numbers), or a column per series as CSV")


def test_a_column_that_stands_twice_is_no_defect_of_the_reader(read):
    buffer = io.BytesIO()
    columns = [[T0], [T0], ["cpu_load"], [0.5]]
    pq.write_table(pa.table([pa.array(column) for column in columns], names=["ts", "ts", "metric", "value"]), buffer)
    named, reading = read(buffer.getvalue())
    assert named == []
    assert reading.quarantined[0].reason.startswith("Parquet that cannot be read")


def test_a_table_of_one_metric_needs_no_name(read):
    """As in CSV."""
    content = written(ts=[T0, T0, T0 + 1000], pod=["a", "b", "a"], value=[0.5, 0.6, 0.7])
    named, _ = read(content, hint=Hint("cpu_load"))
    assert [(s.series.metric, s.series.worker, len(s.series)) for s in named] == [
        ("cpu_load", "a", 2),
        ("cpu_load", "b", 1),
    ]
    named, reading = read(written(ts=[T0], value=[0.5], forecast=[0.6]))
    assert (named, reading.quarantined[0].reason[:28]) == ([], "Parquet without the columns ")


def test_a_label_may_have_no_title(read):
    columns = {"ts": [T0, T0], "metric": ["cpu_load"] * 2, "value": [0.5, 0.6], "": ["a", "b"]}
    named, _ = read(written(**columns))
    assert [dict(s.series.labels) for s in named] == [{"": "a"}, {"": "b"}]


def test_a_text_that_accompanies_values_cuts_them_into_no_series(read):
    """As in CSV."""
    said = ["warn" if k % 50 == 7 else "ok" for k in range(240)]
    named, _ = read(written(ts=[T0 + 60_000 * k for k in range(240)], status=said, value=[5.0] * 240))
    assert [(dict(s.series.labels), len(s.series)) for s in named] == [({}, 240)]


def test_labels_of_any_form(read):
    as_map = pa.array([[("pod", "a")], [("pod", "b")], None, []], pa.map_(pa.string(), pa.string()))
    as_text = pa.array(['{"pod": "a"}', '{"pod": "b"}', None, "no json"])
    for labels in (as_map, as_text):
        named, reading = read(written(ts=[T0] * 4, metric=["cpu_load"] * 4, value=[1.0, 2.0, 3.0, 4.0], labels=labels))
        assert {stream.series.worker for stream in named} == {"a", "b", None}
        assert reading.tally.kept == 4


def test_whole_numbers_are_labels_where_rows_would_be_alike_without(read):
    """A partition says which lag it is; a count of what was averaged, or the key of a row, does not."""
    times = [T0 + 1000 * (k // 2) for k in range(40)]
    further = {"n": [58 + k % 3 for k in range(40)], "id": list(range(40)), "partition": [k % 2 for k in range(40)]}
    content = written(ts=times, metric=["lag"] * 40, value=[1.0] * 40, **further, uuid=[f"u{k}" for k in range(40)])
    named, reading = read(content)
    found = [(dict(stream.series.labels), len(stream.series)) for stream in named]
    assert found == [({"partition": f"{k}"}, 20) for k in range(2)]
    assert reading.remarks == [
        f"column '{column}' is left out: it does not distinguish series" for column in ("id", "n", "uuid")
    ]


def lag_of_partitions(workers=0, count=400):
    """Return rows in the order of time: the lag of four partitions beside CPU loads, which are of no partition."""
    of_each_time = [("consumer_lag_records", None, partition) for partition in range(4)]
    of_each_time += [("cpu_load", f"w{worker}", None) for worker in range(workers)]
    return [(T0 + 1000 * k, *row, 1.0) for k in range(count) for row in of_each_time]


def table_of(rows, **further):
    names = ("ts", "metric", "worker", "partition", "value")
    return written(
        **{name: pa.array(cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)}, **further
    )


def labels_of_lag(named):
    return [dict(stream.series.labels) for stream in named if stream.series.metric == "consumer_lag_records"]


def test_a_number_is_a_label_also_where_most_rows_are_distinguished_without(read):
    """Partitions beside the metrics of 40 workers were one series."""
    named, reading = read(table_of(lag_of_partitions(workers=40)))
    assert labels_of_lag(named) == [{"partition": f"{k}"} for k in range(4)]
    assert reading.remarks == []


def test_a_count_beside_a_partition_is_no_label(read):
    """It was one, and the partition none: time and count distinguish nearly all rows as well."""
    named, reading = read(table_of(lag_of_partitions(), count=np.random.default_rng(0).integers(0, 500, 1600)))
    assert labels_of_lag(named) == [{"partition": f"{k}"} for k in range(4)]
    assert reading.remarks == ["column 'count' is left out: it does not distinguish series"]


@pytest.mark.parametrize(("workers", "batch"), [(2, 600), (0, 400), (0, 300)])
def test_a_number_that_the_first_rows_do_not_need_may_be_a_label(read, monkeypatch, workers, batch):
    """In the order of the series these are of one partition, or of none."""
    monkeypatch.setattr(parquet_table, "_BATCH_ROWS", batch)
    rows = sorted(lag_of_partitions(workers), key=lambda row: (row[1] != "cpu_load", str(row[2]), str(row[3])))
    named, _ = read(table_of(rows))
    assert {labels["partition"] for labels in labels_of_lag(named)} == {"0", "1", "2", "3"}


def test_a_partition_that_other_metrics_lack_is_a_label(read):
    """pandas makes it a float: the lag of four partitions was that of the last."""
    rows = lag_of_partitions(workers=2)
    frame = pd.DataFrame(rows, columns=["ts", "metric", "worker", "partition", "value"])
    assert frame["partition"].dtype == float
    sink = io.BytesIO()
    frame.assign(share=np.linspace(0.1, 0.9, len(rows))).to_parquet(sink)
    named, reading = read(sink.getvalue())
    assert labels_of_lag(named) == [{"partition": f"{k}"} for k in range(4)]
    assert reading.remarks == ["column 'share' is left out: it does not distinguish series"]


@pytest.mark.parametrize("others", [[], [0.5]])
def test_a_quantile_is_a_label_though_it_is_no_whole_number(read, others):
    """As in CSV: latencies are known by it, and were those of all quantiles together, which are no metric."""
    name = "flink_taskmanager_job_latency_source_latency"
    rows = [(T0 + 15_000 * k, *row) for k in range(30) for row in ((name, 5.0, 0.95), ("cpu_load", 0.5, None))]
    rows += [(T0 + 15_000 * k, name, 1.0, quantile) for k in range(30) for quantile in others]
    ts, metric, value, quantile = map(list, zip(*rows, strict=True))
    named, reading = read(written(ts=ts, metric=metric, value=value, quantile=quantile))
    assert {s.series.metric for s in named if s.mapped} == {"latency_p95_ms", "cpu_load"}
    assert reading.remarks == []


def test_a_number_is_a_label_also_where_each_series_has_times_of_its_own(read):
    """Three tasks were one series whose values were those of one after the other."""
    times = [T0 + 5000 * k for k in range(60)]
    named, reading = read(
        written(ts=times, metric=["cpu_load"] * 60, value=[1.0] * 60, task=[k % 3 for k in range(60)])
    )
    assert [(dict(s.series.labels), len(s.series)) for s in named] == [({"task": f"{k}"}, 20) for k in range(3)]
    assert reading.remarks == []


@pytest.mark.parametrize("workers", [0, 2])
def test_the_only_partition_of_a_topic_is_a_label(read, workers):
    """The raw lag of Kafka Streams is known by it; it was left out, and the lag was that of no canonical metric."""
    name = {"consumer_lag_records": "kafka_consumer_fetch_manager_records_lag", "cpu_load": "cpu_load"}
    rows = [(at, name[metric], *rest) for at, metric, *rest in lag_of_partitions(workers) if rest[1] in (None, 0)]
    named, reading = read(table_of(rows))
    assert labels_of_lag(named) == [{"partition": "0"}]
    assert reading.remarks == []


def test_further_text_columns_are_labels_and_numbers_are_not(read):
    zone = pa.array(["x", "x", None]).dictionary_encode()
    times = [T0, T0 + 1000, T0]
    named, _ = read(written(ts=times, metric=["m"] * 3, value=[1, 2, 3], zone=zone, rank=[1, 2, 3]))
    assert {(str(dict(stream.series.labels)), len(stream.series)) for stream in named} == {
        ("{'zone': 'x'}", 2),
        ("{}", 1),
    }


def test_a_column_of_fractions_is_left_out_with_a_remark(read):
    """As of a CSV: it was left out without a word."""
    table = {"ts": [T0, T0 + 15_000], "metric": ["cpu_load"] * 2, "value": [0.5, 0.6], "cost": [1.25, 2.0]}
    named, reading = read(written(**table))
    assert [series.series.labels for series in named] == [{}]
    assert reading.remarks == ["column 'cost' is left out: it does not distinguish series"]


def test_a_few_rows_that_would_be_alike_keep_their_numbers(read):
    """The lag of three partitions was that of the last, where a file held less than 20 rows."""
    rows = [row for row in lag_of_partitions(count=3) if row[3] != 3]
    named, reading = read(table_of(rows, n=[58 + k % 4 for k in range(len(rows))]))
    assert labels_of_lag(named) == [{"partition": f"{k}"} for k in range(3)]
    assert reading.remarks == ["column 'n' is left out: it does not distinguish series"]


@pytest.mark.parametrize(
    ("workers", "names"),
    [
        (pa.array([1, 2, None]), {"1", "2", None}),
        (pa.array([1.0, 2.0, None]), {"1", "2", None}),  # as pandas writes whole numbers where one is missing
        (pa.array([1.5, 2.0, np.nan]), {"1.5", "2", None}),
        (pa.array([1, 2, None]).dictionary_encode(), {"1", "2", None}),
        (pa.array([b"a", b"b", None]), {"a", "b", None}),
        (pa.array(["a", "b", None], pa.string_view()), {"a", "b", None}),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_a_worker_is_one_whatever_its_type(read, workers, names):
    named, reading = read(written(ts=[T0] * 3, metric=["cpu_load"] * 3, value=[1.0, 2.0, 3.0], worker=workers))
    assert {series.series.worker for series in named} == names
    assert reading.tally.kept == 3


def test_a_worker_that_is_no_single_value_is_passed_over(read):
    workers = pa.array([[1], [2]])
    named, reading = read(written(ts=[T0] * 2, metric=["cpu_load"] * 2, value=[1.0, 2.0], worker=workers))
    assert [(series.series.worker, len(series.series)) for series in named] == [(None, 2)]
    assert reading.tally.quarantined == 0


def test_labels_may_be_a_struct(read):
    labels = pa.array([{"pod": "a", "rank": 1}, {"pod": "b", "rank": None}, None])
    named, _ = read(written(ts=[T0] * 3, metric=["cpu_load"] * 3, value=[1.0, 2.0, 3.0], labels=labels))
    assert [dict(series.series.labels) for series in named] == [{"pod": "a", "rank": "1"}, {"pod": "b"}, {}]
    assert [series.series.worker for series in named] == ["a", "b", None]


def test_rows_without_a_time_are_quarantined_and_without_a_value_masked(read):
    times = pa.array([T0, None, T0 + 1, 10**18], pa.timestamp("ms"))
    _, reading = read(written(ts=times, metric=["m"] * 4, value=[1.0, 2.0, None, 4.0]))
    assert (reading.tally.kept, reading.tally.masked, reading.tally.quarantined) == (1, 1, 2)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"ts": [T0], "value": [1.0]}, "without the columns"),
        ({"ts": [T0], "metric": ["m"], "value": ["one"]}, "cannot be read"),
        ({"ts": ["yesterday"], "metric": ["m"], "value": [1.0]}, "rows without a time"),
    ],
)
def test_what_is_not_of_the_form_is_named(read, columns, says):
    named, reading = read(written(**columns))
    assert named == []
    assert says in reading.quarantined[0].reason
    assert reading.tally.read == 1


def test_gzipped_and_cut_parquet(read):
    content = written(ts=[T0], metric=["m"], value=[1.0])
    assert read(gzipped(content))[1].tally.kept == 1
    for broken in (content[:-20], gzipped(content)[:-30], content[:40]):
        _, reading = read(broken)
        assert (reading.tally.kept, reading.tally.quarantined) == (0, 1)


def test_a_staleness_marker_is_told_from_a_nan(read):
    [stale] = struct.unpack("<d", struct.pack("<Q", STALE_NAN))
    values = np.array([1.0, np.nan, stale, np.inf, -np.inf])
    named, _ = read(written(ts=[T0 + k for k in range(5)], metric=["m"] * 5, value=values))
    rows = sample_rows(named)
    assert rows["mask"].to_pylist() == [None, "nan", "stale", "inf", "inf"]
    assert rows["value"].to_pylist() == [1.0, None, None, None, None]
