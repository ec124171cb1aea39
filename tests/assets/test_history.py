"""The history that models are fitted to: on the grid of its observations, gaps kept, nothing of other days."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perdix.assets.history import as_observed, digest_of_days, workload_history
from perdix.models.forecasting.contract import Workload
from perdix.telemetry.lake import Lake
from perdix.telemetry.tables import TIMESTAMP

DAYS = ("2026-03-01", "2026-03-02", "2026-03-03")
MIDNIGHT_S = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
NOW_S = MIDNIGHT_S + 3 * 86_400.0


def write(lake: Lake, day: str, ends_s: np.ndarray, per_s: np.ndarray) -> None:
    midnight_s = datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()
    times = pa.array(((midnight_s + ends_s) * 1e6).astype(np.int64), TIMESTAMP)
    rows = pa.table({"ts": times, "workload_per_s": pa.array(per_s, from_pandas=True)})
    lake.replace("workload_features", "orders", day, rows)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


class TestReading:
    def test_a_step_is_named_by_its_end(self, lake: Lake) -> None:
        write(lake, DAYS[0], np.array([10.0, 20.0, 30.0]), np.array([5.0, 6.0, 8.0]))
        history = workload_history(lake, "orders", 14, NOW_S)
        assert (history.start_s, history.step_s) == (MIDNIGHT_S, 10.0)
        np.testing.assert_array_equal(history.per_s, [5.0, 6.0, 8.0])

    def test_what_was_not_measured_is_nan_whether_its_row_is_null_or_absent(self, lake: Lake) -> None:
        write(lake, DAYS[0], np.array([10.0, 20.0, 40.0]), np.array([5.0, np.nan, 8.0]))
        np.testing.assert_array_equal(workload_history(lake, "orders", 14, NOW_S).per_s, [5.0, np.nan, np.nan, 8.0])

    def test_only_the_newest_days_are_read(self, lake: Lake) -> None:
        for number, day in enumerate(DAYS):
            write(lake, day, np.array([10.0, 20.0]), np.array([1.0, 2.0]) + number)
        history = workload_history(lake, "orders", 2, NOW_S)
        assert history.start_s == MIDNIGHT_S + 86_400
        assert history.end_s == MIDNIGHT_S + 2 * 86_400 + 20

    def test_a_day_from_the_future_hides_no_history(self, lake: Lake) -> None:
        for number, day in enumerate(DAYS):
            write(lake, day, np.array([10.0, 20.0]), np.array([1.0, 2.0]) + number)
        before_s = MIDNIGHT_S - 3_600.0  # the last of the days begins more than a day later
        assert workload_history(lake, "orders", 14, before_s).end_s == MIDNIGHT_S + 20
        assert workload_history(lake, "orders", 14, NOW_S).end_s == MIDNIGHT_S + 2 * 86_400 + 20

    @pytest.mark.parametrize("per_s", [np.array([]), np.array([np.nan, np.nan])])
    def test_a_job_without_a_value_says_what_to_do(self, lake: Lake, per_s: np.ndarray) -> None:
        write(lake, DAYS[0], 10.0 * (1 + np.arange(len(per_s))), per_s)
        with pytest.raises(ValueError, match="no workload of orders is in the lake; ingest"):
            workload_history(lake, "orders", 14, NOW_S)
        with pytest.raises(ValueError, match="no workload of payments"):
            workload_history(lake, "payments", 14, NOW_S)

    def test_the_digest_follows_the_days_that_are_read(self, lake: Lake) -> None:
        write(lake, DAYS[0], np.array([10.0]), np.array([1.0]))
        write(lake, DAYS[1], np.array([10.0]), np.array([2.0]))
        both, newest = (digest_of_days(lake, "workload_features", "orders", days, NOW_S) for days in (14, 1))
        write(lake, DAYS[0], np.array([10.0]), np.array([3.0]))
        assert digest_of_days(lake, "workload_features", "orders", 14, NOW_S) != both
        assert digest_of_days(lake, "workload_features", "orders", 1, NOW_S) == newest


class TestGridOfTheObservations:
    """The lake's grid is 10 s; a workload observed every minute holds each value for six steps of it."""

    minutes = arrays(np.float64, st.integers(3, 40), elements=st.floats(0, 1e6))

    @given(minutes, st.sampled_from([2, 3, 6, 30]), st.integers(0, 5))
    def test_held_values_become_one_again(self, values: np.ndarray, width: int, hours: int) -> None:
        values = values + np.arange(len(values)) % 2 * 1e7  # two neighbours are never alike
        fine = Workload(3600.0 * hours, 10.0, np.repeat(values, width))
        found = as_observed(fine)
        assert (found.start_s, found.step_s, found.end_s) == (fine.start_s, 10.0 * width, fine.end_s)
        np.testing.assert_array_equal(found.per_s, values)

    @given(minutes)
    def test_a_workload_that_changes_every_step_stays_as_it_is(self, values: np.ndarray) -> None:
        fine = Workload(0.0, 10.0, np.repeat(values, 6) + 1e7 * (np.arange(6 * len(values)) % 2))
        assert as_observed(fine) is fine

    def test_rounding_of_the_lake_is_no_change(self) -> None:
        noise = 1.0 + 1e-11 * np.random.default_rng(1).normal(size=120)
        found = as_observed(Workload(0.0, 10.0, np.repeat(1e5 + np.arange(20.0), 6) * noise))
        assert found.step_s == 60.0

    def test_a_minute_of_which_little_is_known_is_missing(self) -> None:
        per_s = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 6)
        per_s[6:11], per_s[18:20] = np.nan, np.nan
        np.testing.assert_array_equal(as_observed(Workload(60.0, 10.0, per_s)).per_s, [1.0, np.nan, 3.0, 4.0, 5.0])

    def test_single_values_in_gaps_do_not_show_that_they_are_held(self) -> None:
        per_s = np.full(60, np.nan)
        per_s[::6] = np.arange(10.0)
        sparse = Workload(0.0, 10.0, per_s)
        assert as_observed(sparse) is sparse

    def test_a_part_of_a_minute_at_either_end_is_left_out(self) -> None:
        per_s = np.repeat(np.arange(10.0), 6)[4:-2]
        found = as_observed(Workload(40.0, 10.0, per_s))
        assert (found.start_s, found.end_s) == (60.0, 540.0)
        np.testing.assert_array_equal(found.per_s, np.arange(1.0, 9.0))

    @pytest.mark.parametrize("level", [0.0, 4200.0])
    def test_a_constant_workload_is_taken_for_minutes(self, level: float) -> None:
        found = as_observed(Workload(0.0, 10.0, np.full(8640, level)))
        assert (found.step_s, len(found)) == (60.0, 1440)
