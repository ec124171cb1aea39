"""The variant that looks ahead: what comes decides what may go, and what must be there."""

import math
from dataclasses import replace

import numpy as np
import pytest

from perdix.models.forecasting.contract import Forecast
from perdix.policies.hosts.btu_forecast import BtuForecast, BtuForecastOptions
from perdix.policies.hosts.contract import LeaseAgain, Migrate, ReleaseHost, Seen, StartInstance, StopInstance
from perdix.policies.hosts.forecast_need import Draining, demand, highest_per_s
from perdix.settings.stream_job import MOST_WORKERS
from tests.policies.hosts_situation import NOW_S, UNIT_S, actions, forecast, host, instances, operator, situation

A, B = operator("A"), operator("B")
DUE_S = 80.0


def seen(*rates: float, queue: float = 0.0, each: float | None = 1.0) -> Seen:
    """An operator with a forecast by minutes, of which one instance works off ``each`` items/s."""
    return Seen((0.5,) * 5, queue, 0, forecast(*rates), each)


def plain(**options: float) -> BtuForecast:
    return BtuForecast(BtuForecastOptions(**{"use": 1.0, **options}))


def test_the_instances_carry_the_highest_rate_and_work_off_what_waits() -> None:
    def needed(seen: Seen, ahead_s: float = 600.0, use: float = 1.0) -> int:
        found = demand(seen, NOW_S, ahead_s, quantile=0.9, use=use, draining=Draining(100.0))
        assert found is not None
        return found.instances

    rising = seen(*range(10))
    assert needed(rising) == 9
    assert needed(rising, ahead_s=120.0) == 1
    assert needed(rising, use=0.75) == 12
    assert needed(replace(rising, queue_items=250.0)) == 12  # 9/s, and 2.5/s for what waits
    assert needed(seen(0.0, 0.0)) == 1


def test_no_more_instances_are_asked_for_than_any_job_may_have() -> None:
    found = demand(seen(1e300), NOW_S, 600.0, quantile=0.9, use=1.0, draining=Draining(100.0))
    assert found is not None
    assert found.instances == MOST_WORKERS


def test_a_queue_is_worth_instances_while_they_cost_less_than_what_is_late_meanwhile() -> None:
    dear = Draining(600.0, penalty=0.0001, price=0.5)
    assert dear.instances(8_000.0, 70.0, 7.0) == pytest.approx(4.0)
    assert replace(dear, price=0.125).instances(8_000.0, 70.0, 7.0) == pytest.approx(8.0)
    best = min(range(1, 30), key=lambda m: m * 0.5 + 0.0001 * 70.0 * 8_000.0 / (m * 7.0))
    assert best == 4
    assert dear.instances(8_400.0, 0.0, 7.0) == pytest.approx(2.0)  # whatever it costs, within 600 s
    assert replace(dear, price=None).instances(8_400.0, 70.0, 7.0) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "unknown",
    [
        seen(1.0, each=None),
        seen(1.0, each=0.0),
        seen(1.0, queue=math.nan),
        replace(seen(1.0), queue_items=None),
        replace(seen(1.0), forecast=None),
        seen(math.nan, 1.0),
        replace(seen(1.0), forecast=Forecast(NOW_S - 900.0, 60.0, np.ones(15), {}, "late", 1)),
    ],
)
def test_what_is_not_known_is_no_demand_of_nothing(unknown: Seen) -> None:
    assert demand(unknown, NOW_S, 600.0, quantile=0.9, use=1.0, draining=Draining(100.0)) is None


def test_only_what_comes_from_now_on_counts_of_a_forecast() -> None:
    old = Forecast(NOW_S - 120.0, 60.0, np.array([9.0, 9.0, 1.0, 2.0]), {}, "older", 1)
    assert highest_per_s(old, NOW_S, 600.0, 0.9) == 2.0
    assert highest_per_s(old, NOW_S, 60.0, None) == 1.0


def test_instances_are_started_before_they_are_needed() -> None:
    now = situation([A], [host("host-1")], instances(A={"host-1": 1}), seen={"A": seen(1.0, 3.0, 9.0)})
    decision = plain(lead_s=120.0).decide(now)
    assert actions(decision) == [StartInstance("A", "host-1")] * 2
    assert "3/s forecast within 120 s take 3" in decision.sentence


def test_what_is_idle_now_and_needed_soon_stays() -> None:
    placed = instances(A={"host-1": 2, "host-2": 2})
    rising = {"A": seen(*np.linspace(1.0, 4.0, 10))}
    now = situation([A], [host("host-1"), host("host-2", DUE_S)], placed, seen=rising)
    assert actions(plain().decide(now)) == [Migrate("A-3", "host-1"), Migrate("A-4", "host-1"), ReleaseHost("host-2")]
    falling = replace(now, seen={"A": seen(*np.linspace(2.0, 1.0, 10))})
    assert actions(plain().decide(falling)) == [StopInstance("A-3"), StopInstance("A-4"), ReleaseHost("host-2")]


def test_what_is_needed_in_the_next_unit_keeps_its_host() -> None:
    placed = instances(A={"host-1": 7, "host-2": 4})
    rising = {"A": seen(*np.linspace(5.0, 11.0, 10))}
    now = situation([A], [host("host-1"), host("host-2", DUE_S)], placed, seen=rising, unit_s=UNIT_S)
    assert actions(plain().decide(now)) == [LeaseAgain("host-2")]


def test_without_a_forecast_a_type_is_scaled_out_by_algorithm_1_and_never_in() -> None:
    blind = Seen((0.9,) * 5, 90.0)
    now = situation(
        [A, B], [host("host-1")], instances(A={"host-1": 1}, B={"host-1": 1}), seen={"A": blind, "B": seen(1.0)}
    )
    assert actions(plain().decide(now)) == [StartInstance("A", "host-1")]
    calm = {"A": Seen((0.5,) * 5, 0.0), "B": seen(1.0)}
    ends = [host("host-1"), host("host-2", DUE_S)]
    idle = situation([A, B], ends, instances(A={"host-1": 1, "host-2": 1}, B={"host-1": 1}), seen=calm)
    assert actions(plain().decide(idle)) == [Migrate("A-2", "host-1"), ReleaseHost("host-2")]
