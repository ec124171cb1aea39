"""True rates from useful time, and useful time from Flink's own metrics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.dataflow.flink_rates import (
    SubtaskCounters,
    SubtaskReadings,
    counted,
    instance_window,
    readings_between,
)
from perdix.models.dataflow.rates import InstanceWindow
from perdix.models.dataflow.useful_time import measured_rates

NAN = float("nan")


def window(
    processed: list[float], produced: list[float], useful_s: list[float], window_s: float = 10.0
) -> InstanceWindow:
    return InstanceWindow(window_s, np.array(processed), np.array(produced), np.array(useful_s))


def test_rates_are_records_over_useful_and_over_observed_time() -> None:
    found = measured_rates(window([100.0, 300.0], [200.0, 300.0], [5.0, 10.0])).rates
    assert found.true_processing_per_s == pytest.approx(100 / 5 + 300 / 10)
    assert found.true_output_per_s == pytest.approx(200 / 5 + 300 / 10)
    assert found.observed_processing_per_s == pytest.approx(400 / 10)
    assert found.observed_output_per_s == pytest.approx(500 / 10)
    assert found.instances == 2


def test_figure_2_of_the_paper() -> None:
    """10 records/s through o1, which emits 100/s; o2 works half of its time."""
    assert measured_rates(window([100.0], [1000.0], [10.0])).rates.true_processing_per_s == 10
    assert measured_rates(window([1000.0], [0.0], [5.0])).rates.true_processing_per_s == 200


@pytest.mark.parametrize(
    ("third", "why"),
    [
        pytest.param((0.0, 0.0, 0.0), "it was idle", id="idle"),
        pytest.param((0.0, 0.0, 0.1), "it was idle", id="spinning"),
        pytest.param((NAN, NAN, 5.0), "its records were not counted", id="no-counters"),
        pytest.param((100.0, 100.0, NAN), "its useful time was not measured", id="no-useful-time"),
        pytest.param((100.0, 100.0, 0.0), "200 records in no useful time", id="no-time"),
        pytest.param((100.0, 100.0, 11.0), "11 s of useful time in a window of 10 s cannot be", id="too-long"),
        pytest.param((100.0, 100.0, -1.0), "-1 s of useful time", id="negative-time"),
        pytest.param((-5.0, 100.0, 1.0), "-5 records in and 100 out cannot be", id="negative-records"),
    ],
)
def test_the_mean_of_the_others_stands_for_an_instance_without_a_true_rate(
    third: tuple[float, float, float], why: str
) -> None:
    processed, produced, useful_s = third
    found = measured_rates(window([100.0, 300.0, processed], [200.0, 600.0, produced], [5.0, 10.0, useful_s]))
    assert found.rates.true_processing_per_s == pytest.approx(3 * (20 + 30) / 2)
    assert found.rates.true_output_per_s == pytest.approx(3 * (40 + 60) / 2)
    (told,) = found.left_out
    assert told.startswith("instance 3: ")
    assert why in told


def test_useful_time_a_little_over_the_window_is_cut_to_it() -> None:
    found = measured_rates(window([100.0], [100.0], [10.1]))
    assert found.rates.true_processing_per_s == 10
    assert found.left_out == ()


def test_where_all_are_idle_the_true_rate_is_not_known_and_the_observed_is_zero() -> None:
    found = measured_rates(window([0.0, 0.0], [0.0, 0.0], [0.0, 0.0]))
    assert np.isnan(found.rates.true_processing_per_s)
    assert found.rates.observed_processing_per_s == 0
    assert len(found.left_out) == 2


def test_a_source_has_a_true_output_rate_though_it_reads_nothing() -> None:
    for reads in (0.0, NAN):
        assert measured_rates(window([reads], [500.0], [5.0])).rates.true_output_per_s == 100


def test_what_is_sent_by_edge_becomes_a_rate() -> None:
    given_window = replace(window([100.0], [100.0], [5.0]), sent={"left": 25.0, "right": 75.0})
    assert measured_rates(given_window).rates.sent_per_s == {"left": 2.5, "right": 7.5}


def test_no_window_no_rates() -> None:
    for length_s in (0.0, -1.0, NAN):
        found = measured_rates(window([1.0], [1.0], [1.0], length_s))
        assert np.isnan(found.rates.observed_processing_per_s)
        assert "the window is" in found.left_out[0]
    with pytest.raises(ValueError, match="a value per instance"):
        measured_rates(window([1.0], [1.0, 2.0], [1.0]))


ANY = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.just(0.0), st.floats(0, 1e9))


@given(st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=6))
def test_rates_are_never_negative_nor_divided_by_zero(rows: list[tuple[float, float, float]]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    found = measured_rates(window(*columns)).rates
    for value in (found.true_processing_per_s, found.true_output_per_s, found.observed_processing_per_s):
        assert np.isnan(value) or value >= 0


# Flink's metrics


def readings(
    busy: list[float], idle: list[float], waited: list[float], records_in: list[float], records_out: list[float]
) -> SubtaskReadings:
    zeros = np.zeros(len(busy))
    columns = map(np.array, (busy, idle, waited))
    return SubtaskReadings(10.0, *columns, zeros, np.array(records_in), zeros, np.array(records_out))


def test_busy_time_is_useful_time_and_what_is_left_of_the_second_where_it_is_not_measured() -> None:
    found = instance_window(
        readings([400.0, NAN, NAN], [600.0, 250.0, NAN], [0.0, 250.0, 100.0], [1e3] * 3, [1e3] * 3), is_source=False
    )
    np.testing.assert_allclose(found.useful_s, [4.0, 5.0, NAN])
    np.testing.assert_allclose(found.back_pressured_s, [0.0, 2.5, 1.0])
    assert found.processed.tolist() == [1e3] * 3


def test_a_source_is_useful_unless_it_waits_for_output_or_tells_of_its_idle_time() -> None:
    found = instance_window(
        readings([NAN, NAN, 300.0], [NAN, 300.0, NAN], [200.0, 200.0, 200.0], [NAN, NAN, 0.0], [1e3] * 3),
        is_source=True,
    )
    np.testing.assert_allclose(found.useful_s, [8.0, 5.0, 3.0])
    assert found.processed.tolist() == [0.0] * 3
    assert measured_rates(found).rates.true_output_per_s == pytest.approx(1e3 / 8 + 1e3 / 5 + 1e3 / 3)


def test_gauges_that_add_up_to_more_than_the_second_leave_no_negative_time() -> None:
    found = instance_window(readings([NAN], [900.0], [150.0], [0.0], [0.0]), is_source=False)
    assert found.useful_s.tolist() == [0.0]


def test_a_counter_that_was_reset_is_not_measured() -> None:
    assert np.isnan(counted(np.array([900.0]), np.array([100.0]))).all()
    given_readings = replace(
        readings([500.0, 500.0], [500.0] * 2, [0.0] * 2, [100.0, 200.0], [100.0, 200.0]),
        records_in_begin=np.array([900.0, 0.0]),
        records_out_begin=np.array([900.0, 0.0]),
        sent_begin={"next": np.array([900.0, 0.0])},
        sent_end={"next": np.array([100.0, 200.0])},
    )
    found = measured_rates(instance_window(given_readings, is_source=False))
    assert found.rates.true_processing_per_s == pytest.approx(2 * 200 / 5)
    assert found.rates.sent_per_s == {"next": pytest.approx(40.0)}
    assert found.left_out == ("instance 1: its records were not counted",)


def test_readings_of_different_subtasks_are_refused() -> None:
    with pytest.raises(ValueError, match="a value per subtask"):
        instance_window(readings([1.0], [1.0, 2.0], [1.0], [1.0], [1.0]), is_source=False)


def counters(
    busy: list[float], idle: list[float], waited: list[float], read: list[float], written: list[float]
) -> SubtaskCounters:
    return SubtaskCounters(*(np.array(each, dtype=float) for each in (busy, idle, waited, read, written)))


def test_a_window_is_what_subtasks_account_for_and_not_what_a_clock_says() -> None:
    begin = counters([1_000.0, 0.0], [9_000.0, 10_000.0], [0.0, 0.0], [100.0, 50.0], [10.0, 5.0])
    end = counters([5_000.0, 2_000.0], [11_000.0, 17_000.0], [4_000.0, 1_000.0], [500.0, 250.0], [30.0, 15.0])
    found = readings_between(begin, end, clock_s=17.0)
    assert found.window_s == 10.0
    rates = measured_rates(instance_window(found, is_source=False)).rates
    assert rates.true_processing_per_s == pytest.approx(400 / 4 + 200 / 2)
    assert rates.observed_processing_per_s == pytest.approx(600 / 10)
    assert rates.true_output_per_s == pytest.approx(20 / 4 + 10 / 2)


def test_where_no_subtask_accounts_for_its_time_the_clock_counts() -> None:
    begin = counters([NAN], [NAN], [0.0], [100.0], [100.0])
    end = counters([NAN], [NAN], [500.0], [300.0], [300.0])
    found = readings_between(begin, end, clock_s=10.0)
    assert found.window_s == 10.0
    assert found.back_pressured_ms_per_s.tolist() == [50.0]


def test_counters_that_were_not_refreshed_make_a_window_without_length() -> None:
    once = counters([1_000.0], [9_000.0], [0.0], [100.0], [10.0])
    assert readings_between(once, once, clock_s=3.0).window_s == 0.0


def test_counters_of_another_number_of_subtasks_are_refused() -> None:
    one, two = counters([0.0], [0.0], [0.0], [0.0], [0.0]), counters(*([[0.0, 0.0]] * 5))
    with pytest.raises(ValueError, match="readings of 1 and of 2 subtasks"):
        readings_between(one, two, clock_s=10.0)
