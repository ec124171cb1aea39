"""What a profile taught, as it is stored, learns on and comes back."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from perdix.models.latency.selection import FAMILIES
from perdix.models.profiling.profiled import Profiled
from perdix.models.profiling.tmax import HighestRates
from tests.models.measured_profile import known_job

SIZES, RATES = np.array([2, 3, 8, 11]), np.array([15_000.0, 10_000.0, 90_000.0, 70_000.0])


def taught(family: int = 0, downtime_s: float | None = 42.0) -> Profiled:
    points, most = known_job()
    return Profiled(FAMILIES[family].fit(points, most, 0), HighestRates.fit(most), downtime_s, failures=4)


def stored(profiled: Profiled) -> dict[str, Any]:
    return dict(json.loads(json.dumps(profiled.to_state(), allow_nan=False)))


@pytest.mark.parametrize("family", range(len(FAMILIES)))
def test_it_comes_back_as_it_was_stored(family: int) -> None:
    kept = taught(family)
    found = Profiled.from_state(stored(kept))
    assert (found.downtime_s, found.failures, found.highest) == (42.0, 4, kept.highest)
    before, after = kept.latency.predict(SIZES, RATES), found.latency.predict(SIZES, RATES)
    assert np.array_equal(before.normal, after.normal)
    np.testing.assert_allclose(after.latency_ms, before.latency_ms)


def test_without_a_failure_that_was_tried_no_downtime_is_known() -> None:
    assert Profiled.from_state(stored(taught(downtime_s=None))).downtime_s is None
    old = {name: value for name, value in stored(taught()).items() if name not in ("downtime_s", "failures")}
    assert (Profiled.from_state(old).downtime_s, Profiled.from_state(old).failures) == (None, 0)


@pytest.mark.parametrize("downtime_s", [math.nan, math.inf, -5.0])
def test_a_downtime_that_cannot_be_is_none(downtime_s: float) -> None:
    assert Profiled.from_state({**stored(taught()), "downtime_s": downtime_s}).downtime_s is None


@pytest.mark.parametrize(
    "damage",
    [
        {"format": "of another program"},
        {"highest_rates": None},
        {"highest_rates": {"format": "x"}},
        {"downtime_s": "soon"},
        {"failures": [1]},
        {"failures": math.inf},
        {"curve": None},
    ],
)
def test_a_damaged_state_is_refused_as_such(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Profiled.from_state({**stored(taught()), **damage})


@pytest.mark.parametrize("state", [{}, [], None, "text"])
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="not "):
        Profiled.from_state(state)


def test_steady_operation_teaches_latency_and_at_most_a_higher_t_max() -> None:
    kept = taught()
    learned = kept.settled(8, 40_000.0, 900.0)
    assert learned.latency.to_state() != kept.latency.to_state()
    assert learned.highest == kept.highest, "40,000/s are no news of what 8 workers take"
    more = kept.settled(8, 100_000.0, 900.0)
    assert more.highest.per_s(8) > kept.highest.per_s(8)
    assert (more.downtime_s, more.failures) == (42.0, 4)


@pytest.mark.parametrize("family", range(len(FAMILIES)))
def test_a_backlog_that_is_worked_off_teaches_t_max_which_latency_rests_on_too(family: int) -> None:
    kept = taught(family)
    learned = kept
    for _ in range(20):
        learned = learned.caught_up(8, 60_000.0)
    assert learned.highest.per_s(8) < 0.9 * kept.highest.per_s(8)
    if family == 0:
        assert kept.latency.predict([8], [65_000.0]).normal[0]
        assert not learned.latency.predict([8], [65_000.0]).normal[0]
    assert kept.highest.per_s(8) == pytest.approx(80_000.0, rel=0.01), "the former is left alone"
