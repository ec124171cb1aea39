"""CSV as Grafana and people write it."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.telemetry.alignment import align
from perdix.telemetry.exports.long_table import no_labels
from perdix.telemetry.exports.naming import Hint, HintError
from perdix.telemetry.exports.time_text import parse_times


def one(named):
    assert len(named) == 1
    return named[0].series


@pytest.mark.parametrize(
    ("texts", "zone", "first_ms", "local"),
    [
        (["2023-02-22 11:10:00", "2023-02-22 11:10:15"], "UTC", 1_677_064_200_000, True),
        (["2023-02-22 11:10:00", "2023-02-22 11:10:15"], "Europe/Berlin", 1_677_060_600_000, True),
        (["2023-02-22T11:10:00Z", "2023-02-22T11:10:15Z"], "Europe/Berlin", 1_677_064_200_000, False),
        (["2023-02-22T11:10:00.250+01:00"], "UTC", 1_677_060_600_250, False),
        (["1677064200", "1677064215"], "UTC", 1_677_064_200_000, False),
        (["1677064200000", "1677064215000"], "UTC", 1_677_064_200_000, False),
        (["1677064200000000"], "UTC", 1_677_064_200_000, False),
        (["1677064200000000000"], "UTC", 1_677_064_200_000, False),
        (["-400", "-399"], "UTC", -400_000, False),
        (["20230222111000", "20230222111015", "nonsense"], "Europe/Berlin", 1_677_060_600_000, True),
        (["202302221110", "202302221111"], "UTC", 1_677_064_200_000, True),
        (["20230222111000.0", "", "20230222111015.0"], "UTC", 1_677_064_200_000, True),
        (["20230222T111000Z"], "Europe/Berlin", 1_677_064_200_000, False),
        (["2023022211", "2023022212", "nonsense"], "UTC", 1_677_063_600_000, True),
        (["2023022211", "2023022212"], "Europe/Berlin", 1_677_060_000_000, True),
        (["2023-02-22 11:10:00 UTC", "2023-02-22 11:10:00.5 UTC"], "Europe/Berlin", 1_677_064_200_000, False),
        (["2023-02-22 11:10:00 GMT"], "Europe/Berlin", 1_677_064_200_000, False),
        (["2023-02-22 11:10:00 +0000 UTC", "nonsense"], "Europe/Berlin", 1_677_064_200_000, False),
        (["2023-02-22 12:10:00.25 +0100 CET"], "UTC", 1_677_064_200_250, False),
        (["2023-02-22 11:10:00", "nonsense"], "UTC", 1_677_064_200_000, True),
        (["2023-02-22T11:10:00Z", "2023-02-22 11:10:00"], "Europe/Berlin", 1_677_064_200_000, True),
    ],
)
def test_times(texts, zone, first_ms, local):
    times = parse_times(texts, zone)
    assert times.times_ms[0] == first_ms
    assert times.local is local
    assert times.good.tolist() == [text not in ("", "nonsense") for text in texts]


def test_digits_that_are_no_date_are_no_time():
    """As milliseconds they would lie in the year 2612, and be refused for a clock that runs ahead."""
    assert parse_times(["20230222111000", "20231399111015"], "UTC").good.tolist() == [True, False]


@pytest.mark.parametrize(
    "numbers",
    [
        range(190 * 10**9, 212 * 10**9, 10**9),
        range(200 * 10**9, 210 * 10**9, 10**9),
        range(199 * 10**11, 211 * 10**11, 10**11),
        range(1_999_999_000_000, 2_000_003_000_000, 60_000),
    ],
    ids=["190 to 211 s", "200 to 209 s", "14 digits", "the year 2033"],
)
def test_a_stop_watch_that_passes_digits_like_a_date_keeps_its_times(numbers):
    times = parse_times([str(number) for number in numbers], "UTC")
    assert times.good.all()
    assert not times.local
    assert times.times_ms.tolist() == list(numbers)


@pytest.mark.parametrize("lacking", ["", " ", "NaN", "inf"])
def test_a_cell_without_a_time_leaves_the_others_the_unit_of_their_column(lacking):
    times = parse_times(["50000000000", lacking, "200000000000"], "UTC")
    assert times.times_ms.tolist() == [50_000_000_000, 0, 200_000_000_000]
    assert times.good.tolist() == [True, False, True]


def test_a_number_among_dates_in_digits_leaves_them_dates():
    times = parse_times(["20230222111000", "0", "20230222111015"], "UTC")
    assert times.times_ms.tolist() == [1_677_064_200_000, 0, 1_677_064_215_000]


def test_an_hour_that_the_clock_repeats_is_the_first_where_it_comes_once():
    times = parse_times(["2023-10-29 02:30:00", "2023-10-29 03:30:00"], "Europe/Berlin")
    assert (times.times_ms[1] - times.times_ms[0]) / 3_600_000 == 2


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("series", [1, 3])
@pytest.mark.parametrize("begin", [0, 7, 20])  # before the hour, within it
@pytest.mark.parametrize("damaged", [False, True])
def test_an_hour_that_the_clock_repeats_is_two_where_it_comes_twice(order, series, begin, damaged):
    """The samples of the second overwrote those of the first, and an hour was missing."""
    clock = [f"2023-10-29 {h:02d}:{m:02d}:00" for h in (1, 2, 2, 3) for m in range(0, 60, 5)][begin:]
    rows = [text for text in clock for _ in range(series)]
    rows = [*rows, "nonsense"] if damaged else rows
    times = parse_times(rows[::order], "Europe/Berlin")
    start_ms = 1_698_534_000_000 + begin * 300_000
    expected = [start_ms + 300_000 * k for k in range(len(clock)) for _ in range(series)]
    assert times.times_ms[times.good].tolist() == expected[::order]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("minutes", [60, 15])
def test_times_of_the_hour_that_the_clock_repeats_may_stand_side_by_side(order, minutes):
    """Of a table with a row each hour, or sorted by its local times, the second hour overwrote the first."""
    clock = sorted(f"2023-10-29 {h:02d}:{m:02d}:00" for h in (0, 1, 2, 2, 3, 4) for m in range(0, 60, minutes))
    times_ms = parse_times(clock[::order], "Europe/Berlin").times_ms
    assert len(set(times_ms)) == len(clock)
    assert set(np.diff(sorted(times_ms))) == {60_000 * minutes}
    assert minutes < 60 or times_ms.tolist() == sorted(times_ms)[::order]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("rows", [slice(0, 48), slice(4, 24), slice(5, 26)], ids=["to 05:00", "to 02:55", "to 03:05"])
def test_series_below_each_other_begin_anew_in_the_hour_that_the_clock_repeats(rows, order):
    clock = [f"2023-10-29 {h:02d}:{m:02d}:00" for h in (2, 2, 3, 4) for m in range(0, 60, 5)][rows][::order]
    times = parse_times(clock * 3, "Europe/Berlin").times_ms.reshape(3, -1)
    assert (times == times[0]).all()
    assert set(np.diff(times[0])) == {order * 300_000}


@pytest.mark.parametrize("title", ["", "Unnamed: 0", "Unnamed: 0.1"])
def test_a_column_that_numbers_the_rows_is_no_series_and_no_label(read, title):
    named, reading = read(f"{title},time,rate\n0,1677064200,5\n1,1677064215,6\n".encode(), "workload.csv")
    assert (one(named).metric, one(named).values.tolist()) == ("workload_per_s", [5.0, 6.0])
    assert reading.remarks == [f"column '{title}' is left out: it does not distinguish series"]
    named, _ = read(f"{title},ts,metric,value\n0,1677064200,cpu_load,0.5\n1,1677064215,cpu_load,0.6\n".encode())
    assert (dict(one(named).labels), one(named).values.tolist()) == ({}, [0.5, 0.6])


@pytest.mark.parametrize(
    ("title", "first", "second"),
    [
        ("", "2023-02-22 11:10:00+00:00", "2023-02-22 11:10:15+00:00"),  # of a Series or a frame by time, of pandas
        ("", "1677064200", "1677064215"),
        ("index", "2023-02-22T11:10:00Z", "2023-02-22T11:10:15Z"),
        ("Timestamp (UTC)", "2023-02-22T11:10:00Z", "2023-02-22T11:10:15Z"),
        ("timestamp_ms", "1677064200000", "1677064215000"),
        ("@timestamp", "1677064200000000000", "1677064215000000000"),
    ],
)
@pytest.mark.parametrize("above", ["", "sep=,\n", "\n"])
def test_times_are_found_by_their_cells_where_none_is_titled_so(read, title, first, second, above):
    """As replay finds them in a trace: ``perdix ingest`` refused what pandas writes of a Series."""
    named, reading = read(f"{above}{title},workload_per_s\r\n{first},5\r\n{second},6\r\n".encode())
    assert (one(named).metric, one(named).times_ms.tolist()) == ("workload_per_s", [1677064200000, 1677064215000])
    assert (reading.tally.quarantined, reading.remarks) == (0, [])
    long = f"{above}{title},metric,value\n{first},cpu_load,0.5\n{second},cpu_load,0.6\n"
    named, reading = read(long.encode())
    assert (dict(one(named).labels), len(one(named)), reading.remarks) == ({}, 2, [])


@pytest.mark.parametrize("row", ["2023-02-22,5,7", "cpu_load,2023-02-22,7"])
def test_a_name_or_a_value_of_a_long_table_is_no_time(read, row):
    assert read(f"metric,value,n\n{row}\n".encode())[1].format == "unknown"


@pytest.mark.parametrize("row", ["0,5", "1677064200,5", "77,2023-02-2"])
def test_numbers_under_a_title_that_says_nothing_of_time_are_no_times(read, row):
    assert read(f"step,lag\n{row}\n".encode())[1].format == "unknown"


def test_a_column_without_a_title_behind_the_time_is_a_series(read):
    """Pandas writes its index first."""
    named, reading = read(b"time,\n1677064200,5.5\n1677064215,6\n", "workload.csv")
    assert (one(named).metric, one(named).values.tolist()) == ("workload_per_s", [5.5, 6.0])
    assert reading.remarks == []
    named, _ = read(b"ts,metric,value,\n1677064200,cpu_load,0.5,\n1677064215,cpu_load,0.6,\n")
    assert (dict(one(named).labels), one(named).values.tolist()) == ({}, [0.5, 0.6])


@pytest.mark.parametrize("every", [1, 2], ids=["alone", "workers"])
def test_a_key_of_the_rows_of_a_long_table_is_no_label(read, every):
    """As of a database; each row would be a series of its own."""
    rows = [(k, 1677064200 + 15 * (k // every), f"w{k % every}") for k in range(20)]
    text = "id,ts,worker,metric,value\n" + "".join(f"{k},{at},{worker},cpu_load,0.5\n" for k, at, worker in rows)
    named, reading = read(text.encode())
    assert {s.series.worker: len(s.series) for s in named} == {f"w{k}": 20 // every for k in range(every)}
    assert reading.remarks == ["column 'id' is left out: it does not distinguish series"]


@pytest.mark.parametrize("count", [5, 20])
def test_further_values_of_a_long_table_are_no_labels(read, count):
    rows = [(1677064200 + 15 * k, 0.5 + k / 100, 0.4 + k / 100, 0.6 + k / 100) for k in range(count)]
    text = "ts,metric,value,min,max\n" + "".join(f"{at},cpu_load,{mean},{low},{high}\n" for at, mean, low, high in rows)
    named, reading = read(text.encode())
    assert (dict(one(named).labels), len(one(named))) == ({}, count)
    assert reading.remarks == [
        f"column '{column}' is left out: it does not distinguish series" for column in ("max", "min")
    ]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("order", [1, -1])
def test_a_count_beside_the_values_of_a_long_table_is_no_label(read, workers, order):
    """Each number of samples, or of errors, was a series: of a workload two thirds were missing, the rest doubled."""
    rows = [(1677064200 + 15 * k, w, 3 + (7 * k * k + w) % 11 % 3) for k in range(60) for w in range(workers)][::order]
    text = "ts,host,metric,value,count\n" + "".join(f"{at},h{w},cpu_load,0.5,{n}\n" for at, w, n in rows)
    named, reading = read(text.encode())
    assert sorted(s.series.labels["host"] for s in named) == [f"h{w}" for w in range(workers)]
    assert reading.remarks == ["column 'count' is left out: it does not distinguish series"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_number_that_changes_where_the_next_series_begins_stays_a_label(order):
    """A block of a file that ends one series and begins the next: no time comes twice in it."""
    rows = [(k, "0") for k in range(900, 1_000)] + [(k, "1") for k in range(100)]
    times, shards = zip(*rows[::order], strict=True)
    names = ["consumer_lag_records"] * 200
    assert no_labels({"shard": shards}, names, np.array(times), numbers={"shard"}) == set()


def test_an_error_of_one_worker_among_several_is_no_label(read):
    """It came and went between two rows of the same time."""
    rows = (f"{1677064200 + 15 * k},w{w},cpu_load,0.5,{int((k, w) == (9, 1))}\n" for k in range(20) for w in range(3))
    named, reading = read(f"ts,worker,metric,value,errors\n{''.join(rows)}".encode())
    assert [(s.series.worker, len(s.series)) for s in named] == [(f"w{w}", 20) for w in range(3)]
    assert reading.remarks == ["column 'errors' is left out: it does not distinguish series"]


def test_errors_that_come_late_in_a_long_table_are_no_label(read):
    """The first block of a file is small, and had none; those after it were a series of their own."""
    lines = (f"{1677064200 + 15 * k},cpu_load,0.5,{int(k > 9_000 and k % 7 == 0)}\n" for k in range(10_000))
    named, reading = read(f"ts,metric,value,errors\n{''.join(lines)}".encode())
    assert {s.series.labels.get("errors") for s in named} <= {"0", None}
    assert sum(len(s.series) for s in named if s.series.labels) < 9_000
    assert reading.remarks == ["column 'errors' is left out: it does not distinguish series"]


@pytest.mark.parametrize("cell", ["", "0.95"])
def test_a_label_that_is_no_whole_number_is_never_taken_for_a_count(read, cell):
    """Latencies are known by their quantile, which other metrics do not have."""
    name = "flink_taskmanager_job_latency_source_latency"
    lines = (f"{1677064200 + 15 * k},{name},5,0.95\n{1677064200 + 15 * k},cpu_load,0.5,{cell}\n" for k in range(30))
    named, reading = read(f"ts,metric,value,quantile\n{''.join(lines)}".encode())
    assert {s.series.metric for s in named} == {"latency_p95_ms", "cpu_load"}
    assert reading.remarks == []


def test_a_number_may_be_a_label_also_where_each_worker_is_scraped_at_its_own_time(read):
    """Beside another metric, which has no tasks, at the times of the first."""
    lines = [f"{1677064200 + 5 * k},{k % 3},cpu_load,0.5\n" for k in range(60)]
    lags = [f"{1677064200 + 15 * k},,consumer_lag_records,7\n" for k in range(20)]
    for rows in (lines, [*lines, *lags], sorted([*lines, *lags])):
        named, reading = read(f"ts,task,metric,value\n{''.join(rows)}".encode())
        tasks = [(dict(s.series.labels), len(s.series)) for s in named if s.series.metric == "cpu_load"]
        assert tasks == [({"task": f"{k}"}, 20) for k in range(3)]
        assert reading.remarks == []


@pytest.mark.parametrize(
    ("offsets_ms", "few"), [([2_000 * k for k in range(6)], 4), ([0, 0, *[700 * k for k in range(1, 19)]], 20)]
)
def test_tasks_that_are_scraped_in_turn_are_labels_where_some_come_late_or_two_at_once(read, offsets_ms, few):
    """The tasks of a job that was scaled out after four fifths of its rows were one series, as were 20 with a tie."""
    rows = [
        f"{1677064200000 + 15_000 * k + offset_ms},{task},cpu_load,0.5\n"
        for k in range(60)
        for task, offset_ms in enumerate(offsets_ms[: few if k < 48 else None])
    ]
    named, reading = read(f"ts,task,metric,value\n{''.join(rows)}".encode())
    assert {s.series.labels.get("task") for s in named} == {f"{task}" for task in range(len(offsets_ms))}
    assert reading.remarks == []


@pytest.mark.parametrize("counts", [(58, 59), (4, 5, 4, 5, 5), (0, 15)])
def test_counts_that_alternate_are_no_tasks_that_are_scraped_in_turn(read, counts):
    """As of samples in a minute: each count was a series, and the values of both were added."""
    rows = (f"{1677064200 + 15 * k},workload_per_s,500,{counts[k % len(counts)]}\n" for k in range(60))
    named, reading = read(f"ts,metric,value,n\n{''.join(rows)}".encode())
    assert (dict(one(named).labels), len(one(named))) == ({}, 60)
    assert reading.remarks == ["column 'n' is left out: it does not distinguish series"]


def test_tasks_of_several_hosts_that_are_scraped_in_turn_are_labels(read):
    """The hosts are scraped at the same times: of each task of a host, a third of the samples were another's."""
    rows = (f"{1677064200 + 5 * k},rack{r},{k % 3},cpu_load,0.5\n" for k in range(60) for r in range(2))
    named, reading = read(f"ts,rack,task,metric,value\n{''.join(rows)}".encode())
    assert sorted(tuple(s.series.labels.values()) for s in named) == [(f"rack{r}", f"{k}") for r in "01" for k in "012"]
    assert reading.remarks == []


def test_hosts_of_which_few_samples_are_read_at_once_are_no_key_of_the_rows(read):
    """Each sampled at its own time: 37 of 2,022 rows were read by themselves, and 37 hosts were one series there."""
    lines = (f"{1677064200 + k},host-{k % 50:03d},cpu_load,0.5\n" for k in range(2022))
    named, reading = read(f"ts,host,metric,value\n{''.join(lines)}".encode())
    assert {series.series.labels.get("host") for series in named} == {f"host-{k:03d}" for k in range(50)}
    assert reading.remarks == []


def test_workers_of_one_moment_are_no_key_of_the_rows(read):
    text = "ts,worker,metric,value\n" + "".join(f"1677064200,w{k},cpu_load,0.5\n" for k in range(20))
    named, reading = read(text.encode())
    assert len({s.series.worker for s in named}) == 20
    assert reading.remarks == []


def test_a_line_may_end_with_a_delimiter(read):
    _, reading = read(b"time;cpu_load;\n1677064200;0.5;\n")
    assert (reading.tally.read, reading.remarks) == (1, [])


def test_a_time_that_is_given_twice_counts_once(read):
    rows = "2023-02-22 11:10:00,1677064200,{0}0.5\n2023-02-22 11:10:15,1677064215,{0}0.6\n"
    for header in ("time,epoch", "epoch,time", "date,epoch"):
        wide, reading = read(f"{header},a\n{rows.format('')}".encode(), "cpu.csv")
        assert [(s.series.worker, s.series.values.tolist()) for s in wide] == [("a", [0.5, 0.6])]
        assert reading.tally.quarantined == 0
        long, _ = read(f"{header},metric,value\n{rows.format('cpu_load,')}".encode())
        assert (dict(one(long).labels), one(long).values.tolist()) == ({}, [0.5, 0.6])


@pytest.mark.parametrize("header", ["timestamp,time", "date,seconds"])
def test_numbers_that_have_the_name_of_a_time_and_are_none_are_a_series(read, header):
    named, _ = read(f"{header}\n1677064200,0.5\n1677064215,0.6\n".encode(), "lag.csv")
    assert (one(named).metric, one(named).values.tolist()) == ("consumer_lag_records", [0.5, 0.6])


@pytest.mark.parametrize(
    ("header", "clocks"),
    [
        ("date,hour", ["9", "10"]),
        ("Date,Time", ["9:00", "10:00:00"]),
        ("time,date", ["09:00Z", "10:00Z"]),
        ("date,hour,minute", ["9,0", "10,00"]),
    ],
)
def test_a_day_and_its_clock_in_columns_of_their_own_are_one_time(read, header, clocks):
    day_first = header.lower().startswith("date")
    times = [f"2023-02-22,{clock}" if day_first else f"{clock},2023-02-22" for clock in clocks]
    for name, cell in (("cpu_load", ""), ("metric,value", "cpu_load,")):
        text = f"{header},{name}\n" + "".join(f"{time},{cell}0.5\n" for time in times)
        named, _ = read(text.encode())
        assert one(named).times_ms.tolist() == [1_677_056_400_000, 1_677_060_000_000]
        assert one(named).metric == "cpu_load"


def test_a_day_beside_a_clock_that_cannot_be_read_is_no_time(read):
    named, reading = read(b"date,hour,cpu_load\n2023-02-22,9 PM,0.5\n2023-02-22,10 PM,0.6\n")
    assert named == []
    assert reading.tally.quarantined == 2
    assert reading.quarantined[0].reason.startswith("time '2023-02-22T9 PM:00' is not an ISO date-time")


@pytest.mark.parametrize("clock", ["hour", "time"])
@pytest.mark.parametrize("long", [False, True])
def test_a_day_and_its_hour_beside_a_whole_time_do_not_replace_it(read, clock, long):
    """As of a warehouse, which splits a table by them: all samples of an hour had the same time."""
    cells = {"hour": "11", "time": "11:10:00"}[clock]
    header, cell = ("metric,value", "cpu_load,") if long else ("cpu_load", "")
    rows = (f"{1677064200 + k},2023-02-22,{cells},{cell}0.5\n" for k in range(20))
    named, reading = read(f"ts,date,{clock},{header}\n{''.join(rows)}".encode())
    assert (one(named).metric, len(set(one(named).times_ms.tolist()))) == ("cpu_load", 20)
    assert reading.tally.quarantined == 0


def test_a_day_that_cannot_be_read_costs_its_own_row(read):
    """All rows near it were of midnight, and the hours a series."""
    rows = [f"2023-02-{'?2' if k == 7 else '22'},{k},0.5\n" for k in range(20)]
    named, reading = read(f"date,hour,cpu_load\n{''.join(rows)}".encode())
    assert (one(named).metric, len(set(one(named).times_ms.tolist()))) == ("cpu_load", 19)
    assert reading.quarantined[0].reason.startswith("time '2023-02-?2' is not an ISO date-time")


@pytest.mark.parametrize("day", ["20230222", "2023-02-22 00:00:00", "2023-02-22T00:00:00.000"])
def test_a_day_beside_its_hour_may_be_digits_or_midnight(read, day):
    """Its digits were seconds since 1970, and all rows of the day one time."""
    named, _ = read(f"date,hour,cpu_load\n{day},9,0.5\n{day},10,0.6\n".encode())
    assert (one(named).metric, one(named).times_ms.tolist()) == ("cpu_load", [1_677_056_400_000, 1_677_060_000_000])


def test_an_hour_beside_whole_times_is_a_series(read):
    named, _ = read(b"date,hour,cpu_load\n2023-02-22 09:10:00,9,0.5\n2023-02-22 10:10:00,10,0.6\n")
    assert [(s.series.metric, len(s.series)) for s in named] == [("hour", 2), ("cpu_load", 2)]


def test_delimiters_and_empty_cells(read):
    named, reading = read(b"sep=;\nTime;cpu a;cpu b\n2023-02-22 11:10:00;0.5;\n2023-02-22 11:10:15;;0.25\n", "cpu.csv")
    assert [(s.series.worker, s.series.values.tolist()) for s in named] == [("cpu a", [0.5]), ("cpu b", [0.25])]
    assert reading.tally.read == 2
    assert reading.remarks == ["date-times carry no zone; they were read as UTC"]


@pytest.mark.parametrize("absent", ["", "NA", "N/A", "None", "null", "undefined", "-"])
def test_what_was_not_measured_is_no_sample_however_that_is_written(read, absent):
    named, reading = read(f"Time,cpu_load\n1677064200,0.5\n1677064215,{absent}\n1677064230,0.6\n".encode())
    assert one(named).values.tolist() == [0.5, 0.6]
    assert reading.tally.read == 2


def test_a_long_table(read):
    named, _ = read(b"Series;Time;Value\ncpu_load;2023-02-22T11:10:00Z;0.5\ncpu_load;2023-02-22T11:10:15Z;0.6\n")
    assert (one(named).metric, one(named).values.tolist()) == ("cpu_load", [0.5, 0.6])


@pytest.mark.parametrize("title", ["metric", "__name__", "metric_name", "variable"])
def test_a_name_beside_the_metric_is_a_label(read, title):
    """As of a pod, or of the job: it was taken for the metric where it stood first, and not in Parquet."""
    named, _ = read(f"ts,name,{title},value\n1677064200,ads,cpu_load,0.5\n".encode())
    assert (one(named).metric, dict(one(named).labels)) == ("cpu_load", {"name": "ads"})


@pytest.mark.parametrize("title", ["metric", "variable", "name"])
def test_a_series_beside_a_name_is_a_label(read, title):
    """As its number, or its legend: it was taken for the metric."""
    named, _ = read(f"ts,series,{title},value\n1677064200,7,cpu_load,0.5\n".encode())
    assert (one(named).metric, dict(one(named).labels)) == ("cpu_load", {"series": "7"})


@pytest.mark.parametrize(("pods", "title"), [(("a", "b"), "pod"), (("7", "8"), "worker")])
@pytest.mark.parametrize("together", [True, False])
def test_a_long_table_of_one_metric_needs_no_name(read, pods, title, together):
    """As of a query: it was refused for want of a column that says in each row what the user says once."""
    rows = [(1677064200 + 15 * k, pod) for k in range(30) for pod in pods]
    rows = rows if together else sorted(rows, key=lambda row: row[1])
    text = f"ts,{title},value,n\n" + "".join(f"{at},{pod},0.5,{50 + at % 7}\n" for at, pod in rows)
    for name, hint in (("cpu.csv", None), ("x.csv", Hint("cpu_load"))):
        named, reading = read(text.encode(), name, hint)
        found = [(s.series.metric, s.series.worker, dict(s.series.labels), len(s.series)) for s in named]
        assert found == [("cpu_load", pod, {title: pod}, 30) for pod in pods]
        assert reading.remarks == ["column 'n' is left out: it does not distinguish series"]


@pytest.mark.parametrize("cell", ["", "7", "7,5", "1.2 K", "-.5 %", "null"])
def test_values_beside_a_value_are_series_of_a_wide_table(read, cell):
    named, _ = read(f'Time,Value,other\n1677064200,0.5,"{cell}"\n'.encode(), "x.csv")
    assert {"column": "Value"} in [dict(s.series.labels) for s in named]


@pytest.mark.parametrize(
    "said",
    [
        lambda k: "warn" if k % 50 == 7 else "ok",
        lambda k: ("Mon", "Tue", "Wed")[k // 40 % 3],
        lambda k: "" if k else "begins",
    ],
)
def test_a_text_that_accompanies_values_cuts_them_into_no_series(read, said):
    """They were summed as if those of each text were measured all the time."""
    rows = [f"{1677064200 + 60 * k},5,{said(k)}\n" for k in range(240)]
    named, reading = read("".join(["ts,value,status\n", *rows]).encode(), "workload.csv")
    assert [(dict(s.series.labels), len(s.series)) for s in named] == [({}, 240)]
    assert reading.remarks == ["column 'status' is left out: it does not distinguish series"]


@pytest.mark.parametrize(("first", "apart_s"), [(0, 0), (0, 7), (95, 0)])
def test_a_text_of_series_that_are_measured_apart_or_seldom_is_a_label(read, first, apart_s):
    rows = [(1677064200 + 60 * k + at * apart_s, "ab"[at]) for k in range(99) for at in (0, 1) if k >= first or not at]
    text = "ts,feed,value\n" + "".join(f"{at},{feed},5\n" for at, feed in rows)
    named, _ = read(text.encode(), "workload.csv")
    assert {s.series.labels["feed"] for s in named} == {"a", "b"}


def test_a_value_beside_a_column_titled_as_a_metric_makes_no_long_table(read):
    named, _ = read(b"ts,value,latency_p95_ms,status\n1677064200,0.5,120,ok\n1677064215,0.5,130,ok\n")
    assert [(s.series.metric, len(s.series)) for s in named] == [("value", 2), ("latency_p95_ms", 2)]


def test_what_pandas_melts_is_a_long_table(read):
    named, _ = read(b"time,variable,value\n1677064200,cpu_load,0.5\n1677064200,scale_out,2\n")
    assert [s.series.metric for s in named] == ["cpu_load", "scale_out"]


def test_a_long_table_with_worker_and_labels(read):
    named, _ = read(b"ts,metric,worker,zone,value\n1677064200,cpu_load,a,x,0.5\n1677064200,cpu_load,b,,0.6\n")
    assert {(s.series.worker, str(dict(s.series.labels))) for s in named} == {
        ("a", "{'worker': 'a', 'zone': 'x'}"),
        ("b", "{'worker': 'b'}"),
    }


def test_labels_of_a_long_table_may_be_json_in_one_column(read):
    """As in Parquet, of which pandas makes such a CSV: no label was known, and the workers were one without a name."""
    rows = (
        f'{1677064200 + 15 * k},cpu_load,"{{""pod"": ""{pod}"", ""rank"": 1}}",0.5\n' for k in range(3) for pod in "ab"
    )
    named, _ = read(f"ts,metric,Labels,value\n{''.join(rows)}1677064200,scale_out,,2\n".encode())
    assert [(s.series.worker, dict(s.series.labels)) for s in named] == [
        ("a", {"pod": "a", "rank": "1"}),
        ("b", {"pod": "b", "rank": "1"}),
        (None, {}),
    ]
    named, _ = read(b"ts,metric,labels,value\n1677064200,cpu_load,no json,0.5\n1677064200,cpu_load,[1],0.5\n")
    assert [dict(s.series.labels) for s in named] == [{"labels": "no json"}, {"labels": "[1]"}]
    deep = b"[" * 20_000
    named, _ = read(b"ts,metric,labels,value\n1677064200,cpu_load," + deep + b",0.5\n")
    assert [dict(s.series.labels) for s in named] == [{"labels": deep.decode()}]


@pytest.mark.parametrize(
    ("title", "metric", "worker"),
    [
        ("tm-7", "cpu_load", "tm-7"),
        ("Value", "cpu_load", None),
        ('"{pod=""tm-7""}"', "cpu_load", "tm-7"),
        ('"{job=""flink""}"', "cpu_load", None),
        ('"flink_taskmanager_Status_JVM_CPU_Load{tm_id=""tm-7""}"', "cpu_load", "tm-7"),
    ],
)
def test_titles_and_legends_name_the_worker(read, title, metric, worker):
    named, _ = read(f"Time,{title}\n1677064200,0.5\n".encode(), "run_cpu_3.csv.gz")
    assert (one(named).metric, one(named).worker) == (metric, worker)


@pytest.mark.parametrize(
    ("cell", "fix"),
    [
        ("1.2 K", "export without formatting"),
        ("-4,5", "export without formatting"),
        (".5%", "export without formatting"),
        ("orders", "a label needs a table of ts, metric, value and labels"),
        ("sum:lag{*}", "a label needs a table of ts, metric, value and labels"),
    ],
)
def test_what_is_no_number_is_reported_with_the_fix(read, cell, fix):
    """Labels in a column of their own were to be exported 'without formatting'."""
    _, reading = read(f'time,topic,lag\n1677064200,"{cell}",5\n'.encode())
    assert reading.quarantined[0].reason == f"value '{cell}' of column 'topic' is not a number; {fix}"


def test_rows_of_several_series_in_a_wide_table_are_refused(read):
    """The lag was that of the last topic, and the number of its partition was added."""
    rows = [f"{1677064200 + 15 * k},{topic},{p},{100 * p}" for k in range(3) for topic in "ab" for p in range(2)]
    named, reading = read("\n".join(["timestamp,topic,partition,lag", *rows]).encode(), "lag.csv")
    assert named == []
    reason = "rows of one time differ in the column 'topic'; a label needs a table of ts, metric, value and labels"
    assert {row.reason for row in reading.quarantined} == {reason}
    assert reading.tally.quarantined == 36


@pytest.mark.parametrize("title", ["Partition", "worker", "subtask_index"])
def test_numbers_that_name_series_of_a_wide_table_are_refused(read, title):
    """The CPU load of workers 0 to 3 was that of the last."""
    rows = [f"{1677064200 + 15 * k},{p},{100 * p}\n" for k in range(3) for p in range(2)]
    named, reading = read((f"time,{title},lag\n" + "".join(rows)).encode(), "lag.csv")
    assert (named, reading.tally.quarantined) == ([], 12)
    assert reading.quarantined[0].reason.startswith(f"rows of one time differ in the column '{title}'")


@pytest.mark.parametrize(
    ("header", "row", "count"),
    [
        ("date,second,lag", lambda k: f"2023-02-22,{k},{k}", 50),
        ("time,shard,lag", lambda k: f"{1677064200 + k // 3},{k % 3},{k}", 50),
        ("time,shard,lag", lambda k: f"{1677064200 + k % 5000},{k // 5000},{k}", 15_000),  # read in several blocks
    ],
)
def test_times_that_stand_in_several_rows_of_a_wide_table_are_reported(read, header, row, count):
    """The last of each counted, without a word: a day had one sample, and three shards were the last of them."""
    named, reading = read("\n".join([header, *map(row, range(count))]).encode(), "lag.csv")
    assert {part.series.metric for part in named if part.mapped} == {"consumer_lag_records"}
    remark = (
        "most times stand in several rows, of which the last counts; a label needs a table of ts, metric, value and"
    )
    assert reading.remarks[-1] == f"{remark} labels"


def test_rows_of_one_time_that_fill_other_columns_are_not_reported(read):
    """As of two queries that were written one below the other."""
    rows = [f"{1677064200 + 15 * k},{k},\n" for k in range(30)] + [f"{1677064200 + 15 * k},,{k}\n" for k in range(30)]
    named, reading = read(("time,lag,cpu_load\n" + "".join(rows)).encode(), "lag.csv")
    assert [len(part.series) for part in named] == [30, 30]
    assert reading.remarks == []


def test_finer_times_beside_the_times_of_a_wide_table_are_no_label(read):
    rows = [f"{1677064200 + k // 2},2023-02-22T11:10:0{k // 2}.{k % 2}Z,{k}\n" for k in range(6)]
    named, reading = read(("ts,datetime,lag\n" + "".join(rows)).encode(), "lag.csv")
    assert (one(named).values.tolist(), reading.quarantined) == ([0, 1, 2, 3, 4, 5], [])


def test_a_text_that_accompanies_a_wide_table_costs_its_own_cells(read):
    rows = [f"{1677064200 + 15 * k},{'ab'[k % 2]},{k}" for k in (0, 1, 2, 2)]
    named, reading = read("\n".join(["timestamp,shift,lag", *rows]).encode(), "lag.csv")
    assert [value for part in named for value in part.series.values.tolist()] == [0.0, 1.0, 2.0, 2.0]
    assert reading.tally.quarantined == 4


def test_a_moment_that_comes_twice_refuses_no_wide_table(read):
    """As phases of a run change, or where two queries meet: all of the file was lost for one row."""
    rows = [f"{1677064200 + 15 * k},{'warm' if k < 6 else 'steady'},{k}" for k in range(12)]
    rows.insert(6, f"{1677064200 + 15 * 6},warm,6")
    named, reading = read("\n".join(["timestamp,phase,lag", *rows]).encode(), "lag.csv")
    assert sum(len(part.series.values) for part in named) == 13
    assert {row.reason.partition(" of column")[0] for row in reading.quarantined} == {"value 'warm'", "value 'steady'"}


@pytest.mark.parametrize(
    ("name", "metric", "mapped"),
    [
        ("run_task_managers-data.csv", "scale_out", True),
        ("Task Managers-data.csv", "scale_out", True),
        ("Job managers-data.csv", "a", False),
        ("node_managers.csv", "a", False),
        ("throughput.csv", "throughput_per_s", True),
        ("Workload-1.csv", "workload_per_s", True),
        ("latency_1.csv", "latency_p95_ms", True),
        ("consumer lag.csv", "consumer_lag_records", True),
        ("uptime_s.csv", "uptime_s", True),
        ("cpu_and_throughput.csv", "a", False),
        ("plane.csv", "a", False),
    ],
)
def test_the_file_name_tells_the_metric(read, name, metric, mapped):
    named, _ = read(b"Time,a\n1677064200,0.5\n", name)
    assert (named[0].series.metric, named[0].mapped) == (metric, mapped)


@pytest.mark.parametrize("hint", [None, Hint("cpu_load")])
def test_a_title_that_is_a_known_name_decides_as_in_a_long_table(read, hint):
    wide = b"time,workload_per_s,consumer_lag_records,process_uptime_seconds\n1677064200,7,9,60\n"
    long = b"ts,metric,value\n" + b"".join(
        b"1677064200,%s,%d\n" % (name, value)
        for name, value in ((b"workload_per_s", 7), (b"consumer_lag_records", 9), (b"process_uptime_seconds", 60))
    )
    named, _ = read(wide, "workload.csv", hint)
    found = [(column.series.metric, column.series.values.tolist(), column.mapped) for column in named]
    assert found == [("workload_per_s", [7], True), ("consumer_lag_records", [9], True), ("uptime_s", [60], True)]
    as_long, _ = read(long, "long.csv")
    assert [column.series_id for column in named] == [row.series_id for row in as_long]


@pytest.mark.parametrize(
    ("title", "metric", "scale"),
    [
        *((title, "workload_per_s", 1 / 60) for title in ("records/min", "Rate (per minute)", "rows_per_min", "rpm")),
        *((title, "workload_per_s", 1 / 3600) for title in ("records / h", "per hour")),
        *((title, "latency_p95_ms", 1000) for title in ("p95 (s)", "latency [sec]", "http_duration_seconds", "p95_s")),
        *((title, "latency_p95_ms", 0.001) for title in ("p95 µs", "p95_us")),
        *((title, "cpu_load", 0.01) for title in ("CPU %", "cpu%", "cpu (%)", "cpu_percent")),
        *((title, "uptime_s", 3600) for title in ("uptime_h", "Uptime (hours)")),
        *((title, "workload_per_s", 1) for title in ("records/s", "tm-h", "min", "rows/m", "norpm", "per_s")),
        *((title, "latency_p95_ms", 1) for title in ("p95 (ms)", "orders", "job-s", "min", "p95_ms")),
        ("min", "uptime_s", 1),
        ("h", "consumer_lag_records", 1),
    ],
)
def test_a_title_that_names_another_unit_is_converted_and_reported(read, title, metric, scale):
    """Records per minute were taken for records per second, seconds for milliseconds, without a word."""
    text = f'Time,"{title}"\n1677064200,30\n1677064215,60\n'
    named, reading = read(text.encode(), "export.csv", Hint(metric))
    assert one(named).values.tolist() == pytest.approx([30 * scale, 60 * scale])
    remark = f"its titles name another unit, so its values are taken times {scale:.4g} for {metric}"
    assert reading.remarks == ([] if scale == 1 else [remark])


@pytest.mark.parametrize(
    ("title", "value", "kind"),
    [
        ("records_total", lambda k: 700 * (k % 150), "counter"),  # begins anew
        ("records_total", lambda k: 700 + 9 * (k % 10), "gauge"),  # the total of rates
        ("records", lambda k: 700 * k, "gauge"),  # a ramp
    ],
)
def test_a_column_of_a_counter_is_one_where_a_rate_is_named(read, title, value, kind):
    """As a series of that name in a long table: what it had counted was read as a rate."""
    text = f"Time,{title}\n" + "".join(f"{1677064200 + 15 * k},{value(k)}\n" for k in range(9_000))
    named, _ = read(text.encode(), "workload.csv")
    assert len(named) > 1  # block by block, of which the last is short
    assert {part.series.kind for part in named} == {kind}


def test_a_known_title_of_a_workers_metric_is_no_worker(read):
    named, _ = read(b"Time,cpu_load,tm-1\n1677064200,0.5,0.6\n", "cpu.csv")
    assert [(column.series.metric, column.series.worker) for column in named] == [
        ("cpu_load", None),
        ("cpu_load", "tm-1"),
    ]


@pytest.mark.parametrize("hint", [None, Hint("workload_per_s")])
def test_what_stands_beside_the_known_title_of_a_jobs_metric_is_not_that_metric(read, hint):
    """The numbers of a step, or of a forecast, were added to the load that the file is named after."""
    named, _ = read(b"time,step,workload_per_s,forecast\n1677064200,3,700,800\n", "workload.csv", hint)
    found = [(column.series.metric, column.mapped) for column in named]
    assert found == [("step", False), ("workload_per_s", True), ("forecast", False)]


def test_a_hint_tells_the_metric_and_the_zone(read):
    hint = Hint("cpu_load", "America/New_York")
    named, reading = read(b"Time,a\n2023-02-22 11:10:00,0.5\n", "latency.csv", hint)
    assert (one(named).metric, one(named).worker, one(named).times_ms[0]) == ("cpu_load", "a", 1_677_082_200_000)
    assert "America/New_York" in reading.remarks[0]


def test_a_hint_does_not_rename_what_has_a_known_name(read):
    named, _ = read(b"ts,metric,value\n1677064200,scale_out,5\n1677064200,mine,6\n", "x.csv", Hint("workload_per_s"))
    assert [s.series.metric for s in named] == ["scale_out", "workload_per_s"]


def test_series_of_several_names_that_a_hint_names_are_several(read):
    """As legends of Grafana: without labels they were one, of which the last counted at each time."""
    rows = "".join(f"tm-{w};{1677064200 + 15 * k};{100 + w}\n" for k in range(3) for w in range(2))
    named, _ = read(f"Series;Time;Value\n{rows}".encode(), "x.csv", Hint("throughput_per_s"))
    window = align("x", [row.series for row in named], 1677064185, 1677064230, 15)
    assert window.worker_metric("throughput_per_s").tolist() == [[201.0]] * 3


@pytest.mark.parametrize("hint", [{"metric": "cpu"}, {"timezone": "Mars/Olympus"}, {"timezone": "../etc/passwd"}])
def test_a_hint_that_cannot_be_used_says_so(hint):
    with pytest.raises(HintError, match="use"):
        Hint(**hint)


def test_bad_cells_and_rows_are_counted_by_their_samples(read):
    content = (
        b"Time,a,b\n"
        b"2023-02-22 11:10:00,1,2\n"
        b"yesterday,3,4\n"  # two samples without a time
        b"2023-02-22 11:10:15,12.5 %,6\n"  # one formatted cell
        b"2023-02-22 11:10:30,7\n"  # an unreadable line
        b"\n"
        b"2023-02-22 11:10:45,undefined,NaN\n"
    )
    _, reading = read(content, "cpu.csv")
    assert (reading.tally.kept, reading.tally.masked, reading.tally.quarantined) == (3, 1, 2 + 1 + 1)
    rows = {row.line: (row.samples, row.reason) for row in reading.quarantined}
    assert rows[3][0] == 2
    assert "localized" in rows[3][1]
    assert "without formatting" in rows[4][1]
    assert "'2' cells where the header has 3" in rows[5][1]


@pytest.mark.parametrize(("each", "remarked"), [(lambda k: 9e6 + 60_000 * k, True), (lambda k: 50 - k % 9, False)])
def test_a_rate_that_only_grows_may_be_a_counter(read, each, remarked):
    """What a job had counted since its start was its workload, and a forecast of it 15 million records/s."""
    content = "time,records\n" + "".join(f"{1_770_000_000 + 60 * k},{each(k)}\n" for k in range(200))
    _, reading = read(content.encode(), "workload.csv")
    remark = "what is taken for workload_per_s hardly ever falls: if it counts records, export its rate"
    assert reading.remarks == ([remark] if remarked else [])


def test_a_table_that_is_only_a_header_is_empty(read):
    named, reading = read(b"Time,a\n", "cpu.csv")
    assert (named, reading.tally.read, reading.format) == ([], 0, "csv")


def test_relative_times_are_kept_and_said(read):
    named, reading = read(b"second|adCount\n0|50000\n1|50017\n", "sine_workload.csv")
    assert one(named).times_ms.tolist() == [0, 1000]
    assert "count from an event" in reading.remarks[0]
