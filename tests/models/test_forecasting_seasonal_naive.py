"""Yesterday and last week, at the same time."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.seasonal_naive import SeasonalNaive, WeeklyNaive
from perdix.models.forecasting.tail import Tail

HOURS = np.arange(24 * 22)
RATES = 100.0 + 10.0 * (HOURS % 24) + 500.0 * (HOURS // 24 % 7 == 5)
HISTORY = Workload(0.0, 3600.0, RATES)


@pytest.mark.parametrize(("family", "back"), [(SeasonalNaive, 24), (WeeklyNaive, 168)])
def test_it_repeats_what_was_measured_one_season_earlier(family, back):
    origin = 24 * 19 + 7
    member = family.fit(HISTORY.part(0, origin), horizon_s=12 * 3600.0)
    tail = Tail.of(HISTORY.part(0, origin), member.cell_s, member.keep_s)
    forecast = member.project(tail, 3600.0 * np.arange(13.0))
    assert np.allclose(forecast, RATES[origin - back : origin - back + 12])


def test_a_week_needs_two():
    with pytest.raises(ValueError, match=r"weekly-naive needs two seasons of 168 h; the history spans 240\.0 h"):
        WeeklyNaive.fit(HISTORY.part(0, 240), horizon_s=12 * 3600.0)


def test_its_state_belongs_to_its_season():
    member = WeeklyNaive.fit(HISTORY, horizon_s=12 * 3600.0)
    assert WeeklyNaive.with_parameters(member.cell_s, member.keep_s, member.parameters()) == member
    with pytest.raises(ValueError, match="train again"):
        SeasonalNaive.with_parameters(member.cell_s, member.keep_s, member.parameters())
