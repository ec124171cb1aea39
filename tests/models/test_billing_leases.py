"""Leases: hosts that are needed are there, and no rule pays less than it must."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from perdix.models.billing.leases import Leases, Release, leases
from perdix.settings.prices import Billing

AT_ONCE, END_OF_UNIT = Release("at-once"), Release("end-of-unit")
HOUR = Billing(unit_s=3600)
COURSES = st.lists(st.tuples(st.integers(1, 400), st.integers(0, 6)), min_size=1, max_size=25)
BILLINGS = st.sampled_from(
    [Billing(unit_s=1), Billing(unit_s=1, minimum_s=60), Billing(unit_s=60), HOUR, Billing(unit_s=60, minimum_s=180)]
)


def leased(course: list[tuple[int, int]], billing: Billing, release: Release, start_up_s: float = 0.0) -> Leases:
    """Lease for a course of ``(seconds, hosts)``."""
    starts = np.cumsum([0, *(length for length, _ in course)])
    hosts = np.array([count for _, count in course])
    return leases(starts[:-1], hosts, int(starts[-1]), billing, start_up_s=start_up_s, release=release)


def spans(found: Leases) -> list[tuple[float, float, float]]:
    return list(zip(found.begins_s.tolist(), found.ends_s.tolist(), found.paid_s.tolist(), strict=True))


def paid_s(*given_: object) -> float:
    return float(leased(*given_).paid_s.sum())  # type: ignore[arg-type]


def test_released_at_once_a_host_that_comes_again_is_paid_anew() -> None:
    course = [(600, 1), (600, 0), (600, 1)]
    assert spans(leased(course, HOUR, AT_ONCE)) == [(0, 600, 3600), (1200, 1800, 3600)]


def test_kept_while_it_is_paid_it_is_paid_once() -> None:
    course = [(600, 1), (600, 0), (600, 1)]
    assert spans(leased(course, HOUR, END_OF_UNIT)) == [(0, 1800, 3600)]


def test_what_is_idle_when_its_unit_ends_is_given_back_then() -> None:
    course = [(600, 1), (4000, 0), (600, 1)]
    assert spans(leased(course, HOUR, END_OF_UNIT)) == [(0, 3600, 3600), (4600, 5200, 3600)]


def test_a_busy_host_is_leased_again_at_the_end_of_its_unit() -> None:
    assert spans(leased([(7300, 1)], HOUR, END_OF_UNIT)) == [(0, 7300, 3 * 3600)]


def test_the_host_whose_paid_time_ends_first_is_emptied_first() -> None:
    """The older one is paid until 3600 and the younger until 4200: the younger goes on, and nothing is paid twice."""
    course = [(600, 1), (600, 2), (3000, 1)]
    assert spans(leased(course, HOUR, END_OF_UNIT)) == [(0, 3600, 3600), (600, 4200, 3600)]
    assert paid_s(course, HOUR, AT_ONCE) == 3 * 3600  # the older one goes on, and its second hour is paid


def test_the_last_host_is_given_back_first() -> None:
    assert spans(leased([(600, 1), (600, 2), (600, 1)], HOUR, AT_ONCE)) == [(0, 1800, 3600), (600, 1200, 3600)]


def test_an_autoscaler_that_waits_keeps_a_host_over_a_short_gap() -> None:
    course = [(600, 1), (300, 0), (600, 1), (2000, 0)]
    second = Billing(unit_s=1)
    assert spans(leased(course, second, Release("at-once", 300))) == [(0, 1800, 1800)]
    assert spans(leased(course, second, Release("at-once", 299))) == [(0, 899, 899), (900, 1799, 899)]


def test_a_host_is_leased_its_start_up_time_before_it_carries() -> None:
    assert spans(leased([(100, 1), (100, 2)], Billing(unit_s=1), AT_ONCE, 45.0)) == [(0, 200, 200), (55, 200, 145)]


def test_nothing_before_the_course_is_billed() -> None:
    course = [(10, 0), (190, 1)]
    assert spans(leased(course, Billing(unit_s=1), AT_ONCE, 45.0)) == [(0, 200, 200)]
    assert paid_s([(7200, 1)], HOUR, AT_ONCE, 45.0) == 7200


def test_a_host_that_still_carries_when_the_next_is_ordered_is_used_in_its_place() -> None:
    """It is needed again in 40 s, and a new one would take 45: nobody would give it back and order another."""
    assert spans(leased([(100, 1), (40, 0), (100, 1)], Billing(unit_s=1), AT_ONCE, 45.0)) == [(0, 240, 240)]


def test_nothing_costs_nothing() -> None:
    assert len(leased([(600, 0)], HOUR, AT_ONCE, 45.0).begins_s) == 0
    assert leased([(3, 0)], HOUR, END_OF_UNIT).hosts(3).tolist() == [0.0, 0.0, 0.0]
    empty = np.array([], dtype=np.int64)
    assert len(leases(empty, empty, 0, HOUR).begins_s) == 0


@pytest.mark.parametrize(
    ("starts", "hosts", "words"),
    [([0], [-1], "from 0 on"), ([0, 0], [1, 2], "must rise"), ([0, 9], [1, 2], "before the end"), ([0], [], "needs")],
)
def test_a_course_that_cannot_be_is_refused(starts: list[int], hosts: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        leases(np.array(starts), np.array(hosts, dtype=np.int64), 5, HOUR)


def test_a_release_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="0 s or more"):
        Release("at-once", -1)
    with pytest.raises(ValueError, match="at the end of a unit there is none"):
        Release("end-of-unit", 60)


@given(COURSES, BILLINGS, st.sampled_from([AT_ONCE, END_OF_UNIT, Release("at-once", 90)]), st.floats(0, 100))
def test_hosts_that_are_needed_are_there_and_whatever_is_leased_is_paid(
    course: list[tuple[int, int]], billing: Billing, release: Release, start_up_s: float
) -> None:
    found = leased(course, billing, release, start_up_s)
    needed = np.repeat([count for _, count in course], [length for length, _ in course])
    there = found.hosts(len(needed))
    assert (there >= needed - 1e-6).all()
    assert (found.ends_s >= found.begins_s).all()
    assert (found.ends_s <= len(needed)).all()
    assert (found.paid_s >= found.ends_s - found.begins_s - 1e-6).all()
    assert float(there.sum()) == pytest.approx(float((found.ends_s - found.begins_s).sum()), abs=1e-3)


@given(COURSES, BILLINGS, st.floats(0, 100))
def test_the_end_of_a_unit_is_never_dearer_than_at_once(
    course: list[tuple[int, int]], billing: Billing, start_up_s: float
) -> None:
    assert paid_s(course, billing, END_OF_UNIT, start_up_s) <= paid_s(course, billing, AT_ONCE, start_up_s) + 1e-6


@given(COURSES)
def test_paid_per_second_without_minimum_what_is_used_is_paid(course: list[tuple[int, int]]) -> None:
    used_s = sum(length * count for length, count in course)
    for release in (AT_ONCE, END_OF_UNIT):
        assert paid_s(course, Billing(unit_s=1), release) == pytest.approx(used_s)


@given(COURSES, st.integers(0, 24), st.integers(1, 3), st.sampled_from([Billing(unit_s=60), HOUR]), st.floats(0, 90))
def test_at_the_end_of_units_more_hosts_never_cost_less(
    course: list[tuple[int, int]], where: int, more: int, billing: Billing, start_up_s: float
) -> None:
    raised = [(length, count + more * (k == where % len(course))) for k, (length, count) in enumerate(course)]
    assert paid_s(raised, billing, END_OF_UNIT, start_up_s) >= paid_s(course, billing, END_OF_UNIT, start_up_s)


def test_released_at_once_more_hosts_may_cost_less() -> None:
    """A host that is needed throughout is paid for one hour; one that is given back and leased again, for two."""
    assert paid_s([(600, 1), (60, 0), (600, 1)], HOUR, AT_ONCE) > paid_s([(600, 1), (60, 1), (600, 1)], HOUR, AT_ONCE)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=14), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_the_end_of_units_buys_as_few_units_as_there_can_be(needed: list[int], unit_s: int) -> None:
    """The linear programme of covering each second by units is integral (consecutive ones), so it is the optimum."""
    seconds = len(needed)
    covers = np.array(
        [[1.0 if begin <= at < begin + unit_s else 0.0 for begin in range(seconds)] for at in range(seconds)]
    )
    least = linprog(np.ones(seconds), A_ub=-covers, b_ub=-np.array(needed, dtype=float), method="highs").fun
    assert paid_s([(1, count) for count in needed], Billing(unit_s=unit_s), END_OF_UNIT) == pytest.approx(
        unit_s * least
    )
