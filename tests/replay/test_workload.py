"""Workloads of replays: files as they come, bad rows named by line, scaled without changing their shape."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Workload
from perdix.replay.case import START_S
from perdix.replay.part import part_of
from perdix.replay.workload import Trace, arrivals, ingested, own, recorded
from perdix.settings.yaml_files import SettingsError
from perdix.twin.parameters import load_twin

RATES = [100.0, 120.0, 140.0, 130.0]


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def rows(times: list[object], rates: list[object], header: str = "second,tuples_per_second\n", sep: str = ",") -> str:
    return header + "".join(f"{time}{sep}{rate}\n" for time, rate in zip(times, rates, strict=True))


class TestFilesAsTheyCome:
    """Whatever wrote it, the trace is the same."""

    TIMES = (0, 30, 60, 90)

    @pytest.mark.parametrize(
        "text",
        [
            rows(list(TIMES), RATES),
            rows(list(TIMES), RATES, header=""),
            rows(list(TIMES), RATES, header="second|adCount\n", sep="|"),
            rows(list(TIMES), RATES, header='"Time";"incoming workload"\n', sep=";"),
            rows(list(TIMES), RATES, header="timestamp\tvalue\n", sep="\t"),
            rows([f"2026-03-04 11:00:{s:02}" if s < 60 else f"2026-03-04 11:01:{s - 60:02}" for s in TIMES], RATES),
            rows([f"2026-03-04T11:0{s // 60}:{s % 60:02}Z" for s in TIMES], RATES, header="date,messages\n"),
            rows([1_700_000_000_000 + 1_000 * s for s in TIMES], RATES, header="ts,per_s\n"),
            rows([1_700_000_000_000_000 + 1_000_000 * s for s in TIMES], RATES, header="ts,per_s\n"),
            rows([1_700_000_000_000_000_000 + 1_000_000_000 * s for s in TIMES], RATES, header="ts,per_s\n"),
            "﻿" + rows(list(TIMES), RATES).replace("\n", "\r\n"),
            rows(list(TIMES), RATES).replace("\n", "\r"),
            rows(list(TIMES), RATES, header='sep=;\n"Time";"Messages in"\n', sep=";"),
            "#group,false,false,true,false,false\r\n#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,double\r\n"
            "#default,mean,,,,\r\n,result,table,_start,_time,_value\r\n"
            + "".join(
                f",,0,2026-03-04T00:00:00Z,2026-03-04T11:0{t // 60}:{t % 60:02}Z,{r}\r\n"
                for t, r in zip(TIMES, RATES, strict=True)
            ),
            "second,host,tuples_per_second,bytes\n"
            + "".join(f"{t},a,{r},7\n" for t, r in zip(TIMES, RATES, strict=True)),
        ],
        ids=[
            "csv",
            "no header",
            "pipes",
            "semicolons",
            "tabs",
            "dates",
            "iso",
            "milliseconds",
            "microseconds",
            "nanoseconds",
            "windows",
            "old Macs",
            "for Excel",
            "annotated",
            "columns",
        ],
    )
    def test_csv(self, text: str, tmp_path: Path) -> None:
        trace = recorded(written(tmp_path, text))
        np.testing.assert_allclose(trace.times_s, self.TIMES)
        np.testing.assert_allclose(trace.rates, RATES)
        assert (trace.name, trace.peak, trace.length_s) == ("trace", 140.0, 120.0)

    @pytest.mark.parametrize("per_s", [1, 1_000, 1_000_000, 1_000_000_000])
    def test_epoch_numbers_of_any_unit_are_the_same_moments(self, per_s: int, tmp_path: Path) -> None:
        trace = recorded(written(tmp_path, rows([(1_700_000_000 + s) * per_s for s in self.TIMES], RATES)))
        assert trace.origin_s == 1_700_000_000.0
        assert "replayed is from 2023-11-14 22:13:50 to 2023-11-14 22:14:50 UTC" in part_of(trace, 1 / 60)[0].notes[-1]

    def test_gzip_by_its_content(self, tmp_path: Path) -> None:
        path = tmp_path / "work.out"
        path.write_bytes(gzip.compress(rows(list(self.TIMES), RATES).encode()))
        assert recorded(path).peak == 140.0

    def test_parquet(self, tmp_path: Path) -> None:
        frame = pd.DataFrame({"at": pd.date_range("2026-03-04", periods=4, freq="30s", tz="UTC"), "rate": RATES})
        frame.to_parquet(tmp_path / "trace.parquet")
        plain = recorded(written(tmp_path, rows(list(self.TIMES), RATES)))
        assert recorded(tmp_path / "trace.parquet").digest == plain.digest

    @pytest.mark.parametrize("day", ["2026-03-04", pd.Timestamp("2026-03-04"), pd.Timestamp("2026-03-04").date()])
    def test_parquet_with_a_day_and_an_hour(self, day: object, tmp_path: Path) -> None:
        frame = pd.DataFrame({"date": [day] * 4, "hour": [9, 10, 11, 12], "rate": RATES})
        frame.to_parquet(tmp_path / "trace.parquet")
        trace = recorded(tmp_path / "trace.parquet")
        assert (trace.times_s.tolist(), trace.origin_s) == ([0.0, 3600.0, 7200.0, 10800.0], 1_772_614_800.0)

    def test_the_column_that_was_read_is_said(self, tmp_path: Path) -> None:
        trace = recorded(written(tmp_path, rows(list(self.TIMES), RATES, header="second,adCount\n")))
        assert trace.notes == ("read from the column 'adCount'",)

    @pytest.mark.parametrize(
        ("header", "row", "read"),
        [
            ("time,partition,rate\n", "{time},7,{rate}\n", "read from the column 'rate'"),
            ("time,orders,bills\n", "{time},{rate},3\n", "read from the column 'orders', not 'bills'"),
            (
                "at,orders,of,bills,more\n",
                "{time},{rate},web,,3\n",
                "read from the column 'orders', not 'bills', 'more'",
            ),
        ],
    )
    def test_other_numbers_in_a_row_are_named(self, header: str, row: str, read: str, tmp_path: Path) -> None:
        lines = [row.format(time=f"2026-01-31T03:{k:02}:00Z", rate=rate) for k, rate in enumerate(RATES)]
        trace = recorded(written(tmp_path, header + "".join(lines)))
        assert trace.notes == (read,)
        np.testing.assert_allclose(trace.rates, RATES)

    def test_rows_without_a_rate_are_counted_and_closed_by_a_line(self, tmp_path: Path) -> None:
        trace = recorded(written(tmp_path, rows([0, 30, 60, 90], [100, "null", 140, ""])))
        assert trace.relative(31)[30] == pytest.approx(120 / 140)
        assert "2 rows without a rate left out" in trace.notes

    def test_the_row_at_the_seam_of_two_queries_counts_once(self, tmp_path: Path) -> None:
        """A script that asks Prometheus for stretches has the last moment of each once more, and its value."""
        times, rates = [0, 30, 60, 60, 90], [100, 110, 140, 140, 120]
        trace = recorded(written(tmp_path, rows(times, rates)))
        assert trace.times_s.tolist() == [0.0, 30.0, 60.0, 90.0]
        assert trace.rates.tolist() == [100.0, 110.0, 140.0, 120.0]
        assert "rows that repeat the one before, and count once: 1" in trace.notes

    def test_two_topics_with_equal_rates_are_no_seams(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="line 3: its time is that of line 2"):
            recorded(written(tmp_path, rows([0, 0, 60, 60, 120, 120], [5, 5, 7, 7, 6, 6])))

    @pytest.mark.parametrize(
        ("header", "clock"),
        [
            ("date,hour,messages\n", "{hour}"),
            ("Date,Time,Requests\n", "{hour:02}:00:00"),
            ("Date;Hour;Minute;Requests\n", "{hour};0"),
            ("messages_day,date,hour,rate\n", "{hour}"),
        ],
    )
    def test_a_day_and_its_clock_in_two_columns(self, header: str, clock: str, tmp_path: Path) -> None:
        sep = ";" if ";" in header else ","
        lines = [
            sep.join([*["7"] * header.startswith("messages"), "2026-03-04", clock.format(hour=9 + k), str(rate)]) + "\n"
            for k, rate in enumerate(RATES)
        ]
        trace = recorded(written(tmp_path, header + "".join(lines)))
        assert trace.times_s.tolist() == [0.0, 3600.0, 7200.0, 10800.0]
        assert trace.rates.tolist() == list(RATES)
        assert trace.origin_s == 1_772_614_800.0
        with pytest.raises(
            SettingsError, match=r"the file has times, in its column '(?i:date|time)'; leave --step out"
        ):
            recorded(written(tmp_path, header + "".join(lines)), step_s=60.0)

    @pytest.mark.parametrize("step_s", [1, 15, 60])
    def test_seconds_since_a_beginning_beside_a_day_are_no_clock(self, step_s: int, tmp_path: Path) -> None:
        lines = [f"2026-03-04,{step_s * k},{100 + k}\n" for k in range(100)]
        trace = recorded(written(tmp_path, "date,time,rate\n" + "".join(lines)))
        assert trace.times_s.tolist() == [float(step_s * k) for k in range(100)]

    def test_an_hour_beside_whole_times_is_no_rate(self, tmp_path: Path) -> None:
        lines = [f"2026-03-04T{9 + k:02}:00:00Z,2026-03-04,{9 + k},{rate}\n" for k, rate in enumerate(RATES)]
        trace = recorded(written(tmp_path, "timestamp,date,hour,messages\n" + "".join(lines)))
        assert (trace.rates.tolist(), trace.notes) == (list(RATES), ("read from the column 'messages'",))

    @pytest.mark.parametrize("absent", ["undefined", "N/A"])
    def test_what_ingest_takes_for_no_sample_is_a_gap(self, absent: str, tmp_path: Path) -> None:
        trace = recorded(written(tmp_path, rows([0, 30, 60, 90], [100, absent, 140, 120])))
        assert "1 row without a rate left out" in trace.notes

    def test_zeros_are_a_workload(self, tmp_path: Path) -> None:
        trace = recorded(written(tmp_path, rows([0, 60, 120], [0, 10, 0])))
        assert trace.relative(121)[[0, 60, 120]].tolist() == [0.0, 1.0, 0.0]


class TestGaps:
    """A short gap is closed and said; a long one is an error, unless lines are asked for."""

    GAPPED = rows([*range(10), *range(60, 70), *range(110, 130)], [50] * 40)
    HOLED = rows([*range(10), *range(100, 110)], [50] * 20)

    def test_up_to_a_minute_is_closed(self, tmp_path: Path) -> None:
        notes = recorded(written(tmp_path, self.GAPPED)).notes
        assert "2 gaps, 90 s in all, the longest 51 s: lines across" in notes
        notes = recorded(written(tmp_path, self.GAPPED.rsplit("\n110", 1)[0] + "\n")).notes
        assert "1 gap, 50 s in all, the longest 51 s: lines across" in notes

    def test_longer_ones_are_refused_with_their_line(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match=r"trace\.csv: gaps of more than 60 s: line 12: 91 s after") as caught:
            part_of(recorded(written(tmp_path, self.HOLED)))
        assert "--fill-gaps" in str(caught.value)

    def test_one_outside_of_the_part_hinders_nothing(self) -> None:
        day = np.where(np.arange(1_440) < 60, 50.0, np.nan)
        day[-60:] = 70.0
        trace = ingested("orders", Workload(START_S, 60.0, day))
        part, hours = part_of(trace, from_="23h10min", to="23h50min")
        assert (part.relative(60)[0], hours) == (1.0, pytest.approx(40 / 60))
        for asked in ({}, {"from_": "20h", "to": "23h50min"}):
            with pytest.raises(
                SettingsError, match=r"job 'orders': gaps .* from 2025-10-09 10:00 to .*--from"
            ) as caught:
                part_of(trace, **asked)
            assert "complete the file" not in str(caught.value)

    def test_unless_lines_are_asked_for(self, tmp_path: Path) -> None:
        assert recorded(written(tmp_path, self.HOLED), fill_gaps=True).length_s == 110.0

    def test_a_row_every_five_minutes_has_no_gaps(self, tmp_path: Path) -> None:
        times = [300 * k for k in range(12)]
        assert recorded(written(tmp_path, rows(times, [50] * 12))).length_s == 3_600.0

    def test_single_missing_rows_are_closed_and_counted(self, tmp_path: Path) -> None:
        times = [300 * k for k in range(24) if k not in (5, 11)]
        assert recorded(written(tmp_path, rows(times, [50] * 22))).notes[-1] == "2 single missing rows: lines across"

    def test_two_missing_rows_in_a_row_are_a_gap(self, tmp_path: Path) -> None:
        times = [300 * k for k in range(12) if k not in (5, 6)]
        with pytest.raises(SettingsError, match="gaps of more than 600 s: line 7: 900 s"):
            part_of(recorded(written(tmp_path, rows(times, [50] * 10))))


class TestWithoutTimes:
    """A column that numbers the rows is never read as seconds."""

    @pytest.mark.parametrize(
        "header",
        ["step,count\n", "index,count\n", "idx,count\n", ",count\n", "Unnamed: 0,count\n", "k,count\n", ""],
    )
    @pytest.mark.parametrize("first", [0, 1])
    def test_it_is_refused_with_line_and_fix(self, header: str, first: int, tmp_path: Path) -> None:
        path = written(tmp_path, rows([first + k for k in range(200)], [50 + k for k in range(200)], header=header))
        with pytest.raises(
            SettingsError, match=rf"trace\.csv: line {2 if header else 1}: .* numbers the rows"
        ) as caught:
            recorded(path)
        assert "--step 30m" in str(caught.value)
        trace = recorded(path, step_s=1_800.0)
        assert (trace.length_s, trace.step_s, trace.rates[0]) == (200 * 1_800.0, 1_800.0, 50.0)
        assert "30 min from row to row, as asked for" in trace.notes

    def test_a_step_column_of_other_increments_is_refused_too(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="the column 'step' numbers the rows"):
            recorded(written(tmp_path, rows([10 * k for k in range(100)], [50] * 100, header="step,count\n")))

    @pytest.mark.parametrize("name", ["second", "time", "timestamp", "ts"])
    def test_seconds_by_name_go_on_being_seconds(self, name: str, tmp_path: Path) -> None:
        assert recorded(written(tmp_path, rows(list(range(90)), [50] * 90, header=f"{name},n\n"))).length_s == 90.0

    def test_epoch_seconds_without_a_name_are_times(self, tmp_path: Path) -> None:
        trace = recorded(written(tmp_path, rows([1_700_000_000 + k for k in range(90)], [50] * 90, header="at,n\n")))
        assert trace.origin_s == 1_700_000_000.0

    def test_parts_of_a_second_ask_for_the_unit(self, tmp_path: Path) -> None:
        halves = rows([0.5 * k for k in range(300)], [5] * 300, header="{},load\n")
        with pytest.raises(SettingsError, match=r"rows are 0\.5 s apart.*name the column with its unit.*hours"):
            recorded(written(tmp_path, halves.format("t")))
        assert recorded(written(tmp_path, halves.format("t_hours"))).step_s == 1_800.0
        assert recorded(written(tmp_path, halves.format("t_s"))).step_s == 0.5

    def test_a_date_beside_an_index_is_the_time(self, tmp_path: Path) -> None:
        text = ",when,n\n" + "".join(f"{k},2026-03-04T11:{k:02}:00Z,{k + 1}\n" for k in range(10))
        trace = recorded(written(tmp_path, text))
        assert (trace.length_s, trace.peak) == (600.0, 10.0)

    @pytest.mark.parametrize("name", ["count", "rate"])
    def test_a_column_of_rates_alone_needs_a_step(self, tmp_path: Path, name: str) -> None:
        path = written(tmp_path, f"{name}\n5\n7\n\n9\n")
        with pytest.raises(SettingsError, match=r"one column of rates and no times; .*--step 30m"):
            recorded(path)
        assert recorded(path, step_s=60.0).rates.tolist() == [5.0, 7.0, 9.0]

    def test_a_step_for_a_file_with_times_is_refused(self, tmp_path: Path) -> None:
        path = written(tmp_path, rows([0, 60, 120], [5, 5, 5]))
        with pytest.raises(SettingsError, match="the file has times, in its column 'second'; leave --step out"):
            recorded(path, step_s=60.0)

    def test_a_missing_rate_keeps_its_place(self, tmp_path: Path) -> None:
        path = written(tmp_path, rows(list(range(4)), [10, "", 30, 40], header="step,count\n"))
        np.testing.assert_allclose(recorded(path, step_s=60.0).times_s, [0, 120, 180])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        (" \n \n", "the file is empty"),
        ("second,tuples_per_second\n", "no rows below the header"),
        ("sep=,\n", "no rows below the header"),
        ("\ufeff\n", "the file holds nothing but white space"),
        ("<!doctype html><title>503</title>\n<p>x\n", "an HTML or XML page (a login or error page was saved?)"),
        (rows([0], [5]), "at least two rows with a rate are needed; there is 1"),
        (rows([0, 1, 2], [5, 5, 5]), "covers 3 s; give at least 60"),
        (rows([0, 60, 120], [5, -3, 5]), "line 3: -3 records/s; a rate is finite and not negative"),
        (rows([0, 60, 120], [5, "NaN", 5]), "line 3: NaN records/s; a rate is finite"),
        (rows([0, 60, 120], [5, 5, "inf"]), "line 4: inf records/s; a rate is finite"),
        (rows([0, 60, 120], [5, "4,5", 5], sep=";", header="second;rate\n"), "line 3: '4,5' is not a number"),
        (rows([0, "noon", 120], [5, 5, 5]), "line 3: 'noon,5' has no time"),
        (rows([0, "1e25", 120], [5, 5, 5]), "line 3: '1e25,5' has no time"),
        (rows([0, 60, 60], [5, 5, 6]), "line 4: its time is that of line 3; sort the rows by time and add up"),
        (
            rows([0, 60, 30], [5, 5, 5]),
            "of line 3; sort the rows by time and add up those of one time; local times need their zone (+01:00)",
        ),
        (rows([0, 60, 120], [0, 0, 0]), "every rate is 0"),
        (rows([60 * k for k in range(200)], [5] * 199 + [1e9]), "line 201: 1e+09: more than 1,000 times"),
        (rows([60 * k for k in range(20)], [-1] * 20), "and 15 more"),
        ("second\n0\n60\n", "no rate beside the time"),
        (rows(range(99), [5] * 99, header="epoch,reward\n"), "the column 'epoch' numbers the rows (0, 1, ...)"),
        (
            "Users,SpawnRate\n1,1\n4,1\n2,1\n",
            "line 4: the column 'users' falls; sort the rows by it if it is a time, else give the time from row to row",
        ),
        ("1;5\n4;6\n2;7\n", "line 3: the first column falls; sort the rows by it if it is a time, else give the time"),
        ("# HELP workload_per_s x\nworkload_per_s 5 1700000000\n", "perdix ingest --job NAME reads it, and job:NAME"),
        ('{__name__="workload_per_s"} 5 1700000000000\n', "OpenMetrics text is no trace; perdix ingest --job NAME"),
        (rows([0, 60], ["1.2 K"] * 2, header="time,in\n"), "(plain numbers: a point is the decimal sign, no unit)"),
        ("sep=;\nsecond;rate\n0;5\n60;x\n", "line 4: 'x' is not a number"),
        (
            rows([0, 60], ["4,5", "5,5"], sep=";", header="second;rate\n"),
            "'4,5' is not a number (a point is the decimal sign)",
        ),
        ('second,tuples_per_second\n0,"5\n60,5\n', "cannot be read as CSV"),
        ("PAR1 but not really", "cannot be read as Parquet"),
    ],
)
def test_bad_files_are_refused_with_the_line_and_the_mend(text: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        recorded(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_a_gzip_that_is_broken_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"\x1f\x8b\x08broken")
    with pytest.raises(SettingsError, match=r"trace\.csv: cannot be read"):
        recorded(path)


def test_an_absent_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.csv", tmp_path):
        with pytest.raises(SettingsError, match="cannot be read"):
            recorded(path)


@given(
    st.lists(st.floats(0, 1e6), min_size=4, max_size=40).filter(lambda rates: max(rates) >= 1),
    st.integers(20, 60),
    st.integers(1, 500),
)
def test_a_trace_passes_through_its_rows_and_starts_anew(rates: list[float], step_s: int, seconds: int) -> None:
    times_s = step_s * np.arange(len(rates), dtype=np.float64)
    trace = Trace("any", times_s, np.array(rates), step_s * float(len(rates)), max(rates))
    relative = trace.relative(int(trace.length_s) + seconds)
    assert ((relative >= 0) & (relative <= 1 + 1e-12)).all()
    np.testing.assert_allclose(relative[times_s.astype(int)], np.array(rates) / max(rates), atol=1e-12)
    np.testing.assert_allclose(relative[int(trace.length_s) :][:step_s], relative[:seconds][:step_s], atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0, 0.2), st.floats(1, 1e6))
def test_noise_leaves_the_shape_and_is_drawn_by_the_seed(seed: int, noise: float, peak_per_s: float) -> None:
    trace = own(load_twin("wordcount"), 3_600)
    bare = arrivals(trace, 3_600, peak_per_s, seed, noise=0.0, slow_noise=0.0)
    noisy = arrivals(trace, 3_600, peak_per_s, seed, noise=noise, slow_noise=0.0)
    np.testing.assert_allclose(bare, peak_per_s * trace.relative(3_600))
    assert (noisy >= 0).all()
    busy = bare > 0
    assert abs((noisy[busy] / bare[busy]).mean() - 1) <= 0.1 * noise + 1e-9
    np.testing.assert_array_equal(noisy, arrivals(trace, 3_600, peak_per_s, seed, noise=noise, slow_noise=0.0))


def test_a_twins_own_pattern_does_not_depend_on_the_seed_and_peaks_at_one() -> None:
    parameters = load_twin("wordcount")
    trace = own(parameters, 7_200)
    assert trace.relative(7_200).max() == pytest.approx(1.0, abs=1e-6)
    assert trace.noise == parameters.workload.noise
    assert trace.peak_utilisation == parameters.workload.peak_utilisation


def test_what_a_short_replay_leaves_out_is_said(tmp_path: Path) -> None:
    trace = recorded(written(tmp_path, rows([60 * k for k in range(60)], list(range(1, 61)))))
    assert trace.about(3_600) == trace.notes
    assert trace.about(600)[-1] == "the part that is replayed reaches 18% of the trace's peak"
    assert trace.about(7_200)[-1] == "the trace covers 1.00 h and starts anew after its end"
    assert replace(trace, length_s=3_599.6).about(3_600) == trace.notes, "hours are whole seconds, its length is not"


@pytest.mark.shared
def test_every_measured_workload_is_read(shared_data: Path) -> None:
    for path in sorted((shared_data / "workloads").glob("*.csv")):
        trace = recorded(path)
        assert trace.length_s >= 21_600
        assert trace.peak > 0
        assert np.isfinite(trace.relative(21_600)).all()


def test_a_damaged_gzip_is_named(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    content = bytearray(gzip.compress(rows(list(range(600)), generator.integers(0, 1_000, 600).tolist()).encode()))
    content[200:240] = b"\xff" * 40
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(bytes(content))
    with pytest.raises(SettingsError, match=r"trace\.csv\.gz: cannot be read"):
        recorded(path)


@pytest.mark.parametrize(
    ("name", "minute"),
    [
        ("time_ms", 60_000),
        ("elapsed (µs)", 60_000_000),
        ("t_ns", 60_000_000_000),
        ("elapsed_s", 60),
        ("elapsed milliseconds", 60_000),
        ("minute", 1),
        ("hours", 1 / 60),
    ],
)
def test_a_unit_in_the_columns_name_is_the_unit(tmp_path: Path, name: str, minute: float) -> None:
    text = rows([k * minute for k in range(4)], RATES, header=f"{name},rate\n")
    found = recorded(written(tmp_path, text))
    assert found.times_s == pytest.approx([0.0, 60.0, 120.0, 180.0])
    assert found.origin_s is None


def test_the_unit_of_an_epoch_is_its_own_whatever_the_columns_name(tmp_path: Path) -> None:
    text = rows([1_700_000_000_000 + 60_000 * k for k in range(4)], RATES, header="time_s,rate\n")
    found = recorded(written(tmp_path, text))
    assert (found.step_s, found.origin_s) == (60.0, 1_700_000_000.0)


def test_a_row_each_second_in_milliseconds_does_not_number_the_rows(tmp_path: Path) -> None:
    text = rows([1_000 * k for k in range(90)], [100.0 + k for k in range(90)], header="elapsed_ms,rate\n")
    assert recorded(written(tmp_path, text)).step_s == 1.0


@pytest.mark.parametrize("name", ["kafka_messages_in_total", '"kafka_in_total{job=""a""}"', '"requests_count"'])
def test_a_counter_is_refused_whatever_the_format(tmp_path: Path, name: str) -> None:
    text = rows([60 * k for k in range(10)], [100.0 + 50 * k for k in range(10)], header=f"Time,{name}\n")
    with pytest.raises(
        SettingsError, match=r"is a counter; export its rate: sum\(rate\((kafka|requests)_\w+\[1m\]\)\)"
    ):
        recorded(written(tmp_path, text))
    falls = text.replace(",350.0\n", ",10.0\n")
    assert recorded(written(tmp_path, falls)).peak == 550.0, "what falls is no counter, whatever its name"


@pytest.mark.parametrize("count", [99, 100])
def test_rates_that_never_fall_may_be_a_counter_without_its_name(tmp_path: Path, count: int) -> None:
    """Of sum(x_total) an export names nothing."""
    said = "its rates hardly ever fall: if it counts records, export sum(rate(...))"
    grown = [float(k * k // 9) for k in range(count)]
    assert (said in recorded(written(tmp_path, rows([60 * k for k in range(count)], grown))).notes) == (count == 100)
    for other in ([*grown[:-1], 0.0], [5.0] * count):
        assert said not in recorded(written(tmp_path, rows([60 * k for k in range(count)], other))).notes


def test_a_counter_without_its_name_may_begin_anew_now_and_then(tmp_path: Path) -> None:
    restarted = [float(k % 150) for k in range(900)]
    notes = recorded(written(tmp_path, rows([60 * k for k in range(900)], restarted))).notes
    assert any("hardly ever fall: if it counts records, export sum(rate(...))" in note for note in notes)


@pytest.mark.parametrize("date", ["01.03.2026 00:{:02}", "3/1/2026 00:{:02}", "2026/03/01 00:{:02}", "3/1/26 00:{:02}"])
@pytest.mark.parametrize("header", ["Datum;rate\n", "Datum;Durchsatz\n", "time;rate\n", ""])
def test_dates_as_a_country_writes_them_are_refused_and_no_other_column_is_a_time(
    tmp_path: Path, date: str, header: str
) -> None:
    """Rates that grew were read as their own times."""
    text = rows([date.format(k) for k in range(9)], [100 + 100 * k for k in range(9)], header=header, sep=";")
    with pytest.raises(SettingsError, match=r"date.*2026-01-31T03:12:00Z"):
        recorded(written(tmp_path, text))


def test_a_rate_is_never_its_own_time(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"trace\.csv:2: no time in 'monday,100'"):
        recorded(written(tmp_path, rows(["monday", "tuesday"], [100, 200], header="day,rate\n")))


@pytest.mark.parametrize("word", ["1.2.13", "10.0.0.1", "192.168.20.2024", "555-12-3456"])
def test_versions_and_addresses_are_no_dates(tmp_path: Path, word: str) -> None:
    text = "of;elapsed_ms;rate\n" + "".join(f"{word};{60_000 * k};{5 + k}\n" for k in range(9))
    assert recorded(written(tmp_path, text)).step_s == 60.0


@pytest.mark.parametrize(("header", "date"), [("t_s,day,rps", "31.1.2026"), ("elapsed_s,version,rps", "2026.1.3")])
def test_nor_is_a_date_looked_for_beside_a_column_that_names_its_unit(tmp_path: Path, header: str, date: str) -> None:
    text = f"{header}\n" + "".join(f"{60 * k},{date},{5 + k}\n" for k in range(9))
    assert recorded(written(tmp_path, text)).step_s == 60.0


@pytest.mark.parametrize(
    "spelled",
    [
        "2026-01-31T{:02}:00:00Z",
        "2026-01-31 {:02}:00:00 UTC",
        "20260131{:02}0000",
        "20260131{:02}00",
        "20260131{:02}",
        "20260131{:02}0000.0",
    ],
)
def test_dates_in_digits_alone_are_dates(tmp_path: Path, spelled: str) -> None:
    text = rows([spelled.format(k) for k in range(9)], range(5, 14), header="time,rate\n")
    trace = recorded(written(tmp_path, text))
    assert (trace.step_s, trace.length_s) == (3_600.0, 9 * 3_600.0)


@pytest.mark.parametrize(
    ("header", "first"), [("t_ns,rate\n", 20_260_131_000_000), ("elapsed_us,rate\n", 202_601_310_000)]
)
def test_digits_are_no_dates_in_a_column_that_names_its_unit(tmp_path: Path, header: str, first: int) -> None:
    step = 60 * 10 ** (9 if "ns" in header else 6)
    text = rows([(k - 5) * step + first for k in range(9)], range(5, 14), header=header)
    trace = recorded(written(tmp_path, text))
    assert (trace.step_s, trace.origin_s) == (60.0, None)


@pytest.mark.parametrize("rate", ["records/s", "records_per_s", "records per s", "latency_ms"])
def test_what_is_counted_per_second_is_no_time_that_hides_a_date(tmp_path: Path, rate: str) -> None:
    text = f"Datum;{rate};cpu\n" + "".join(f"{k + 1}.1.2026;{500 + k % 3};{5 + k}\n" for k in range(9))
    with pytest.raises(SettingsError, match=r"'1\.1\.2026' may be a date"):
        recorded(written(tmp_path, text))


@pytest.mark.parametrize("number", ["", "index", "k"])
def test_times_beside_a_column_that_numbers_the_rows(tmp_path: Path, number: str) -> None:
    """As pandas writes a table with its index: it was refused, and with --step the times were read as rates."""
    path = written(tmp_path, f"{number},t_ms,load\n" + "".join(f"{k},{60_000 * k},{5 + k % 3}\n" for k in range(9)))
    trace = recorded(path)
    assert (trace.step_s, trace.rates.tolist()) == (60.0, [5.0, 6.0, 7.0] * 3)
    with pytest.raises(SettingsError, match="the file has times, in its column 't_ms'; leave --step out"):
        recorded(path, step_s=60.0)


@pytest.mark.parametrize("missing", ["", "null", "NA"])
def test_row_numbers_are_no_times_either_where_a_rate_is_missing(tmp_path: Path, missing: str) -> None:
    """They were read as seconds: days of hours passed in a minute and a half."""
    lines = [f"{k},{missing if k == 4 else 5 + k % 3}\n" for k in range(90)]
    path = written(tmp_path, "k,load\n" + "".join(lines))
    with pytest.raises(SettingsError, match="the column 'k' numbers the rows"):
        recorded(path)
    assert recorded(path, step_s=3_600.0).length_s == 90 * 3_600.0
    seconds = written(tmp_path, "k,load\n" + "".join(line for k, line in enumerate(lines) if k != 4))
    assert recorded(seconds).length_s == 90.0, "who leaves a number out does not number the rows"


@pytest.mark.parametrize("number", ["index", "idx", "step", "n"])
def test_a_column_that_numbers_the_rows_may_stand_after_the_time(tmp_path: Path, number: str) -> None:
    """It was read as the load, which then was a ramp; where there is no other number, it is one of them."""
    lines = [f"{60 * k},{k},{5 + k % 3}\n" for k in range(9)]
    trace = recorded(written(tmp_path, f"time,{number},load\n" + "".join(lines)))
    assert (trace.rates.tolist(), trace.notes) == ([5.0, 6.0, 7.0] * 3, ("read from the column 'load'",))
    before = "".join(f"{5 + k % 3},{60 * k},{k}\n" for k in range(9))
    assert recorded(written(tmp_path, f"load,time,{number}\n{before}")).rates.tolist() == [5.0, 6.0, 7.0] * 3
    alone = written(tmp_path, f"time,{number}\n" + "".join(f"{60 * k},{5 + k % 3}\n" for k in range(9)))
    assert recorded(alone).rates.tolist() == [5.0, 6.0, 7.0] * 3


@pytest.mark.parametrize("count", ["n", "steps"])
def test_a_column_of_counts_does_not_number_the_rows_where_it_falls(tmp_path: Path, count: str) -> None:
    """The number of records of each minute was passed over for their latency, without a word."""
    rows = [(60 * k, 100 + k % 3, 5) for k in range(9)]
    text = f"minute_s,{count},latency\n" + "".join(f"{at},{number},{ms}\n" for at, number, ms in rows)
    trace = recorded(written(tmp_path, text))
    assert (trace.rates.tolist(), trace.notes) == (
        [100.0, 101.0, 102.0] * 3,
        (f"read from the column '{count}', not 'latency'",),
    )
    text = f"{count},latency\n" + "".join(f"{number},{ms}\n" for _, number, ms in rows)
    assert recorded(written(tmp_path, text), step_s=60.0).rates.tolist() == [100.0, 101.0, 102.0] * 3
    steps = f"time,{count},load\n" + "".join(f"{60 * k},{k // 3},{5 + k % 3}\n" for k in range(9))
    assert recorded(written(tmp_path, steps)).rates.tolist() == [5.0, 6.0, 7.0] * 3
    twice = "time,index,load\n" + "".join(f"{60 * k},{k % 5},{5 + k % 3}\n" for k in range(9))
    assert recorded(written(tmp_path, twice)).rates.tolist() == [5.0, 6.0, 7.0] * 3, "as of two tables in one"


def test_epochs_are_times_and_no_rates_also_where_they_fall_or_two_are_the_same(tmp_path: Path) -> None:
    for epochs in ([1_700_000_000 - k for k in range(90)], [1_700_000_000 + k // 2 for k in range(90)]):
        text = "when,load\n" + "".join(f"{at},{5 + k % 3}\n" for k, at in enumerate(epochs))
        with pytest.raises(SettingsError, match="the file has times, in its column 'when'; leave --step out"):
            recorded(written(tmp_path, text), step_s=1.0)


@pytest.mark.parametrize("header", ["", "when,load\n", "day,load,lag\n"])
@pytest.mark.parametrize("unit", [1, 1_000])
def test_epochs_are_times_and_no_rates_where_a_step_is_given(tmp_path: Path, header: str, unit: int) -> None:
    lag = ",3" * header.count("lag")
    text = header + "".join(f"{unit * (1_700_000_000 + 60 * k)},{5 + k % 3 if k else ''}{lag}\n" for k in range(9))
    with pytest.raises(SettingsError, match=r"the file has times, .*; leave --step out"):
        recorded(written(tmp_path, text), step_s=60.0)
    rates = "".join(f"{1_700_000_000 + 1_000 * k}\n" for k in range(9))  # bytes/s, perhaps
    assert recorded(written(tmp_path, rates), step_s=60.0).peak == 1_700_008_000.0


@pytest.mark.parametrize(("name", "unit_s"), [("elapsed/ms", 1e-3), ("time/min", 60.0), ("t/h", 3_600.0), ("t/s", 1.0)])
def test_the_name_of_a_time_column_says_its_unit_behind_a_slash_too(tmp_path: Path, name: str, unit_s: float) -> None:
    text = f"{name},load\n" + "".join(f"{k * 3_600 / unit_s:.0f},{5 + k % 3}\n" for k in range(9))
    assert recorded(written(tmp_path, text)).step_s == 3_600.0


@pytest.mark.parametrize("header", ["load,lag_s", "i,load,latency_ms", "load,process_cpu_s"])
def test_what_rises_beside_the_load_is_no_time(tmp_path: Path, header: str) -> None:
    numbered = "i," in header
    text = f"{header}\n" + "".join(f"{f'{k},' * numbered}{5 + k % 3},{100 + k * k}\n" for k in range(9))
    assert recorded(written(tmp_path, text), step_s=60.0).rates.tolist() == [5.0, 6.0, 7.0] * 3
    if numbered:
        with pytest.raises(SettingsError, match="the column 'i' numbers the rows"):
            recorded(written(tmp_path, text))


def test_a_load_that_rises_step_by_step_is_no_time(tmp_path: Path) -> None:
    path = written(
        tmp_path, "step,load_per_s,latency_ms\n" + "".join(f"{k},{100 + 2 * k},{5 + k % 3}\n" for k in range(9))
    )
    with pytest.raises(SettingsError, match="the column 'step' numbers the rows"):
        recorded(path)
    assert recorded(path, step_s=60.0).rates.tolist() == [100.0 + 2 * k for k in range(9)]


def test_a_date_as_a_country_writes_it_may_stand_beside_the_time(tmp_path: Path) -> None:
    text = "ts;Datum;rate\n" + "".join(f"{1_700_000_000 + 60 * k};15.11.2023;{5 + k}\n" for k in range(9))
    assert recorded(written(tmp_path, text)).step_s == 60.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate,time\n5\n6,2026-01-01T00:01:00\n", "line 2: '5,' has no time"),
        ("rate,time\n5\n6,2026-01-01T00:01:00\n7,2026-01-01T00:02:00\n", "line 2: '5,' has no time"),
        ("time,rate\n1,2026-01-01T00:00:00,5\n2,2026-01-01T00:01:00,6\n", "line 2: more than the 2 cells"),
    ],
)
def test_lines_shorter_or_longer_than_their_header_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        recorded(written(tmp_path, text))


MINUTES = [f"2026-01-01T00:0{k}:00Z" for k in range(4)]


@pytest.mark.parametrize(
    ("header", "rates", "line"),
    [
        ("time,rate\n", ["3,75", "2,90", "1,85", "2,80"], 2),
        ("time,rate\n", ["999.5", "1,016.5", "1,033.5", "1,049.5"], 3),
        ("date,hour,rate\n", ["999.5", "1,016.5", "1,033.5", "1,049.5"], 3),
        ("", ["999.5", "1,016.5", "1,033.5", "1,049.5"], 2),
    ],
)
def test_numbers_with_commas_in_a_table_of_commas_are_named(
    tmp_path: Path, header: str, rates: list[str], line: int
) -> None:
    """Of 2,90 the rate was 2, and of 1,016.5 it was 1, without a word. In quotes they are no numbers either."""
    times = [f"2026-01-01,{k}" for k in range(4)] if "hour" in header else MINUTES
    said = rf"line {line}: more than the \d cells of the first line in '2026.*; a point .*, a number has no commas, "
    with pytest.raises(SettingsError, match=said):
        recorded(written(tmp_path, rows(times, rates, header=header)))
    with pytest.raises(SettingsError, match=r"line \d: more than the 1 cell of the first line in '"):
        recorded(written(tmp_path, rows(rates[1:], [""] * 3, header="rate\n", sep="")), step_s=60.0)


def test_without_titles_it_is_said_which_column_of_several_is_read(tmp_path: Path) -> None:
    """The rates may have been written with a decimal comma."""
    trace = recorded(written(tmp_path, rows(MINUTES, ["3,75", "2,90", "1,85", "2,80"], header="")))
    assert trace.notes == ("read from column 2 of a table without titles, not 3",)
    ended = recorded(written(tmp_path, rows(MINUTES, ["3,", "2,", "1,", "2,"], header="")))
    assert ended.notes == (), "what every line ends with is no column of numbers"


def test_a_header_may_leave_the_last_column_without_a_name(tmp_path: Path) -> None:
    text = rows(RATES, [f"2026-01-01T00:0{k}:00" for k in range(4)], header="rate\n")
    assert recorded(written(tmp_path, text)).step_s == 60.0
    assert recorded(written(tmp_path, rows(RATES, ["a", "b", "c", "d"], header="rate\n")), step_s=30.0).step_s == 30.0


@pytest.mark.parametrize("begin_s", [0, 150_000, 5_000_000])
@pytest.mark.parametrize(("name", "per_s"), [("elapsed_ms", 1_000), ("t_us", 1_000_000), ("uptime_ns", 10**9)])
def test_a_clock_that_begins_anywhere_has_the_unit_of_its_name(
    tmp_path: Path, begin_s: int, name: str, per_s: int
) -> None:
    """A process that has run for two days: 150,000,000 ms were read as seconds of 1974."""
    text = rows([(begin_s + 60 * k) * per_s for k in range(4)], RATES, header=f"{name},rate\n")
    trace = recorded(written(tmp_path, text))
    assert (round(trace.step_s, 6), trace.origin_s) == (60.0, None)


def test_an_epoch_time_has_the_unit_of_its_size_whatever_its_name(tmp_path: Path) -> None:
    for name, factor in (("time_ms", 1_000), ("t_us", 10**6), ("seconds", 1_000)):
        text = rows([(1_770_000_000 + 60 * k) * factor for k in range(4)], RATES, header=f"{name},rate\n")
        trace = recorded(written(tmp_path, text))
        assert (trace.step_s, trace.origin_s) == (60.0, 1_770_000_000.0)


def test_times_of_parquet_in_another_unit_than_they_say_are_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    times = pa.array([1_770_000_000_000 + 60_000 * k for k in range(4)], pa.timestamp("s"))
    pq.write_table(pa.table({"time": times, "rate": RATES}), path)
    with pytest.raises(SettingsError, match="cannot be read as Parquet: date value out of range"):
        recorded(path)


def test_columns_of_one_name_in_parquet_are_named(tmp_path: Path) -> None:
    """As a join leaves them: the complaint was Arrow's, of nine lines."""
    path = tmp_path / "trace.parquet"
    columns = [pa.array([0, 60, 120, 180]), pa.array(RATES), pa.array([1.0] * 4)]
    pq.write_table(pa.Table.from_arrays(columns, names=["second", "load", "load"]), path)
    trace = recorded(path)
    assert (trace.rates.tolist(), trace.notes[0]) == (RATES, "read from the column 'load', not 'load'")


def test_a_time_may_stand_after_its_rate(tmp_path: Path) -> None:
    """As the index of a pandas table, which Parquet has last."""
    path = tmp_path / "trace.parquet"
    pd.DataFrame({"value": RATES}, index=pd.date_range("2026-01-01", periods=4, freq="1min")).to_parquet(path)
    trace = recorded(path)
    assert (trace.step_s, trace.rates.tolist()) == (60.0, RATES)
    with pytest.raises(SettingsError, match="no rate"):
        recorded(written(tmp_path, rows([1, 2], ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"], header="n,when\n")))


@pytest.mark.parametrize("header", ["time,in\n", ""])
def test_a_table_whose_newest_rows_come_first_is_read_from_its_last(tmp_path: Path, header: str) -> None:
    """As of databases and of logs: it was to be sorted."""
    times = [f"2026-03-04T11:0{k}:00Z" for k in range(4)]
    forward, backward = (recorded(written(tmp_path, rows(times[::k], RATES[::k], header=header))) for k in (1, -1))
    assert backward.digest == forward.digest
    assert backward.notes == (*forward.notes, "its newest rows come first: read from the last")


TABLE = rows([0, 60], [5, 6], header="Zeit,Durchsätze\n")


@pytest.mark.parametrize("separator", [None, "\t"])
def test_a_title_may_be_a_series_of_prometheus(tmp_path: Path, separator: str | None) -> None:
    path = tmp_path / "trace.csv"
    times = [f"{separator}{60 * k}" if separator else "" for k in range(200)]
    header = f'rate{{job="ads"}}{separator}time' if separator else 'rate{job="ads"}'
    path.write_text("\n".join([header, *(f"{5 + k % 3}{time}" for k, time in enumerate(times))]))
    trace = recorded(path, step_s=None if separator else 60.0)
    assert trace.peak == 7.0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (TABLE.encode("utf-16"), "UTF-16 text (PowerShell's '>' writes it); save it as UTF-8"),
        (TABLE.encode("latin-1"), "cannot be read as UTF-8 (byte 11); save it as UTF-8"),
        (b"PK\x03\x04" + bytes(99), "a workbook of Excel; unpack it, or save it as CSV UTF-8"),
        (b"<html><h1>504</h1></html>", "an HTML or XML page (a login or error page was saved?)"),
        (b'workload_per_s{job="ads"} 5 1700000000\n# EOF\n', "OpenMetrics text is no trace; perdix ingest"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    """A workbook had 'no rows below the header'."""
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        recorded(path)
    assert words in str(caught.value)
