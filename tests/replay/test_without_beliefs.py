"""A policy that decides by what is measured alone is replayed without learning anything, and does the very same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perdix.replay.case import Case, Contender
from perdix.replay.contenders import BY_MEASUREMENT, contender, needs_beliefs
from perdix.replay.outcome import Played
from perdix.replay.run import play
from perdix.settings.stream_job import Objectives, PolicySettings
from tests.control.rig import HIGH, LOW, parameters

HOURS = 0.6
COURSE = ("workers", "throughput_per_s", "lag_records", "latency_p95_ms", "cpu_load", "capacity_per_s")


def restless() -> np.ndarray:
    """A load that jumps up and down every eight minutes, up to what two thirds of the workers take."""
    high = np.arange(round(3600 * HOURS) + 600) // 480 % 2 == 1
    return np.where(high, 0.8 * HIGH, 1.5 * LOW)


def case(name: str, rescales_per_day: int, **options: Any) -> Case:
    return Case(
        Contender(name, PolicySettings(name=name, options=options), grace_s=0.0),
        "restless",
        parameters(),
        seed=5,
        hours=HOURS,
        arrivals=restless(),
        objectives=Objectives(rescales_per_day=rescales_per_day),
        forecaster=None,
    )


def both(case: Case) -> tuple[Played, Played]:
    return play(case), play(replace(case, beliefs=False))


@pytest.mark.parametrize(
    ("name", "options"),
    [("hpa", {}), ("ds2-global", {}), ("flink-autoscaler", {"preset": "tuned"}), ("static", {"scale_out": 3})],
)
def test_every_second_and_every_decision_is_the_same_without_beliefs(name: str, options: dict[str, Any]) -> None:
    """Also where the day's rescales are used up: whether a job is overloaded is then told by its learned capacity."""
    with_beliefs, without = both(case(name, 2, **options))
    for column in COURSE:
        assert np.array_equal(getattr(with_beliefs.course, column), getattr(without.course, column), equal_nan=True)
    assert [report.sentence for report in without.reports] == [report.sentence for report in with_beliefs.reports]
    assert without.outcome.worker_s == with_beliefs.outcome.worker_s
    assert without.outcome.unprocessed == with_beliefs.outcome.unprocessed


def test_an_overloaded_job_overdraws_its_budget_and_what_was_not_believed_has_no_error() -> None:
    without = play(replace(case("hpa", 2), beliefs=False))
    assert without.outcome.rescales > 2
    assert any("Beyond the budget of 2 rescales" in report.sentence for report in without.reports)
    one = without.outcome
    assert (one.forecast_wape, one.first_minute_wape, one.capacity_error, one.recovery_error) == (None,) * 4
    assert all(report.forecast is None and not report.capacities for report in without.reports)


def test_only_policies_that_look_at_nothing_learned_do_without_beliefs() -> None:
    assert sorted(BY_MEASUREMENT) == ["ds2-global", "flink-autoscaler", "hpa", "static"]
    assert not needs_beliefs(contender("hpa-80"))
    assert needs_beliefs(contender("daedalus"))
    assert needs_beliefs(contender("visp")), "it does not learn, and looks at forecasts and capacities all the same"
