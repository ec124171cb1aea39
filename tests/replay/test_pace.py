"""How fine time is: every second, but for months of a trace with long steps."""

from __future__ import annotations

import pytest

from perdix.replay.contenders import contenders
from perdix.replay.pace import EVERY_SECOND, pace_of

DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("trace_step_s", "days", "step_s", "tick_s"),
    [(1_800.0, 215, 10, 900), (3_600.0, 30, 10, 900), (600.0, 30, 10, 300), (300.0, 30, 5, 120)],
)
def test_over_months_it_follows_the_traces_own_step(trace_step_s: float, days: int, step_s: int, tick_s: int) -> None:
    pace = pace_of(trace_step_s, days * DAY_S)
    assert (pace.step_s, pace.tick_s) == (step_s, tick_s)
    assert pace.tick_s is not None
    assert pace.tick_s % pace.scraped_s == 0


@pytest.mark.parametrize(("trace_step_s", "days"), [(1.0, 215), (60.0, 215), (1_800.0, 14)])
def test_short_replays_and_fine_traces_are_played_by_the_second(trace_step_s: float, days: int) -> None:
    assert pace_of(trace_step_s, days * DAY_S) == EVERY_SECOND


def test_it_is_told_and_can_be_refused() -> None:
    words = pace_of(1_800.0, 215 * DAY_S).in_words()
    for part in ("a row every 30 min", "look every 15 min", "every 30 s", "steps of 10 s", "--exact"):
        assert part in words
    assert pace_of(1_800.0, 215 * DAY_S, exact=True) == EVERY_SECOND


def test_policies_look_less_often_but_for_those_whose_tick_was_asked_for() -> None:
    asked = contenders("daedalus,hpa-80,static-4:tick_s=60")
    assert [pace.tick_interval_s for pace in pace_of(1_800.0, 215 * DAY_S).paced(asked)] == [900, 900, 60]
    assert EVERY_SECOND.paced(asked) == asked
