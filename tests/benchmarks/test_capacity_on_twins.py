"""How far off sizes that never ran are, on drawn jobs."""

import math

from benchmarks.capacity_on_twins import foreseen, never_ran


def test_a_job_is_asked_for_sizes_that_never_ran_and_is_held_against_its_truth():
    found = foreseen((1, 1))
    assert {case.side for case in found} <= {"fewer", "between", "more"}
    assert len(found) > 5
    assert all(math.isfinite(case.off) for case in found)
    assert sum(case.held for case in found) / len(found) > 0.5
    assert foreseen((1, 1)) == found


def test_rows_say_how_many_estimates_they_are_of():
    rows = list(never_ran(1, 3, 1))
    of_all = sum(row["estimates"] for row in rows if row["workers"] == "all")
    assert of_all == sum(row["estimates"] for row in rows if row["workers"] != "all") > 0
    assert all(0.0 <= row["held_pct"] <= 100.0 and row["rms_pct"] >= abs(row["mean_pct"]) for row in rows)
