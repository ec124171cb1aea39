"""A size that ran is judged by what it did: late seconds are counted for each size, and fade."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.policies.late_at import BELIEVED_S, MEMORY_S, MOST_SIZES, LateAt

MINUTE_S = 60.0


def minutes(late, count, scale_out=4, begun=None, begin_s=1e6):
    begun = begun or LateAt()
    for k in range(count + 1):
        begun = begun.counted(begin_s + k * MINUTE_S, scale_out, late, longest_s=600.0)
    return begun


def test_what_was_measured_counts_beside_what_is_believed_and_soon_more():
    assert LateAt().share(4, 0.02) == 0.02
    one_hour, ten_hours = minutes(0.10, 60), minutes(0.10, 600)
    assert one_hour.share(4, 0.0) == pytest.approx(0.10 * 0.94 / (0.94 + BELIEVED_S / 3600), rel=0.02)
    assert ten_hours.share(4, 0.0) == pytest.approx(0.10 * 5.7 / (5.7 + BELIEVED_S / 3600), rel=0.02)
    assert ten_hours.share(5, 0.01) == 0.01, "nothing was measured of it"


def test_it_takes_hours_to_overspend():
    assert not minutes(0.055, 300).overspent(4, 0.05)
    assert minutes(0.055, 660).overspent(4, 0.05)
    assert not minutes(0.045, 3_000).overspent(4, 0.05)
    assert not minutes(0.055, 660).overspent(5, 0.05)


def test_without_a_budget_a_late_minute_is_forgotten_as_well():
    late_at = LateAt(at_s=0.0).counted(60.0, 4, 1.0, longest_s=600.0)
    assert late_at.overspent(4, 0.0)
    for at_s in range(660, 3 * 86_400, 600):
        late_at = late_at.counted(float(at_s), 4, 0.0, longest_s=600.0)
    assert not late_at.overspent(4, 0.0)
    assert late_at.share(4, 0.0) == 0.0


def test_a_size_is_remembered_after_it_was_left_and_forgotten_after_days():
    left = minutes(0.0, 60, scale_out=5, begun=minutes(0.10, 600), begin_s=1e6 + 600 * MINUTE_S)
    assert left.share(4, 0.0) > 0.06
    assert minutes(0.0, 3 * 1440, scale_out=5, begun=left, begin_s=1.1e6).share(4, 0.0) < 0.001


def test_time_that_nobody_saw_and_clocks_that_step_back_count_nothing():
    seen = LateAt().counted(1e6, 4, 1.0, longest_s=600.0)
    assert seen.sizes == {4: (0.0, 0.0)} or not seen.sizes
    late = seen.counted(1e6 + 86_400.0, 4, 1.0, longest_s=600.0)
    assert late.sizes[4] == (600.0, 600.0)
    assert late.counted(1e6, 4, 1.0, longest_s=600.0).sizes[4] == (600.0, 600.0)
    assert late.counted(1e6 + 86_460.0, 4, None, longest_s=600.0).sizes[4][1] < 600.0


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0.0, 1.0), st.floats(0.0, 1e5)), max_size=60))
def test_it_survives_the_state_store_and_stays_small(course):
    found, now_s = LateAt(), 1e9
    for scale_out, late, passed_s in course:
        now_s += passed_s
        found = found.counted(now_s, scale_out, late, longest_s=600.0)
    again = LateAt.of_memory(json.loads(json.dumps({"late_at": found.to_state()})))
    assert again == found
    assert len(found.sizes) <= MOST_SIZES
    assert all(0.0 <= late_s <= seen_s <= MEMORY_S + 600.0 for late_s, seen_s in found.sizes.values())


@pytest.mark.parametrize(
    "damaged",
    [None, 3, "x", {}, {"sizes": 3, "at_s": "x"}, {"sizes": {"4": [2.0, 1.0], "x": [0.0, 1.0], "5": [math.inf, 1.0]}}],
)
def test_what_cannot_be_read_is_left_out(damaged):
    assert LateAt.of_memory({"late_at": damaged}) == LateAt()
    assert LateAt().share(4, 0.3) * BELIEVED_S == 0.3 * BELIEVED_S
