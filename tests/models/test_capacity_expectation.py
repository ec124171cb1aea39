"""What each scale-out is expected to take: of what was seen, beside it and beyond it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.capacity.contract import REACH_SDS, Estimate
from perdix.models.capacity.evidence import EFFICIENCY, Curve, Evidence, as_workers_add
from perdix.models.capacity.expectation import Expectation
from perdix.models.capacity.key_groups import KeyGroups
from perdix.models.capacity.scale_outs import ScaleOuts
from tests.models.capacity_stays import history, stay, window


def test_other_scale_outs_are_the_mean_worker_times_n_less_what_being_many_costs():
    model = stay(ScaleOuts(), 4)
    here = model.capacity(4)
    assert here.seen
    assert here.per_s == pytest.approx(4 * 50_000 * 0.95, rel=0.03)
    assert here.basis.startswith("observed in the minute before at 4 workers, CPU up to about 0.7")
    for n in (1, 2, 8, 12):
        other = model.capacity(n)
        assert not other.seen
        if n > 4:
            assert other.per_s == pytest.approx(here.per_s * (n / 4) ** (1 + EFFICIENCY), rel=1e-2)
        else:
            assert here.per_s * n / 4 < other.per_s < here.per_s * (n / 4) ** (1 + EFFICIENCY)
        assert f"{n} x mean worker of" in other.basis
        assert other.high_per_s / other.low_per_s > here.high_per_s / here.low_per_s


def test_an_estimate_knows_its_interval_and_its_deviation():
    found = Estimate.about(4, math.log(200.0), 0.1, seen=True, basis="")
    assert (found.per_s, found.log_sd) == (pytest.approx(200.0), pytest.approx(0.1))
    assert (found.low_per_s, found.high_per_s) == (
        pytest.approx(found.at(-REACH_SDS)),
        pytest.approx(found.at(REACH_SDS)),
    )
    assert found.at(1.0) == pytest.approx(200.0 * math.exp(0.1))


@pytest.mark.parametrize("times", [10.0, 1e6])
def test_scale_outs_that_contradict_each_other_are_estimated_all_the_same(times):
    """Where subtasks were known, a query that counts in other units since some rescale left no capacity known."""
    groups = KeyGroups().after(4, np.full(4, 0.25), judged=True)
    per_s = {4: 2e5, 6: 3e5, 8: times * 4e5, 12: times * 6e5}
    typical = {n: Evidence(n, rate, 0.02, 0.0, 0.8) for n, rate in per_s.items()}
    found = Expectation(typical, None, 0.0, groups=groups).estimates(range(1, 17))
    assert all(estimate.usable for estimate in found.values())


def test_unknown_is_said_not_guessed():
    model = ScaleOuts()
    assert not model.known
    assert model.table(12) == {}
    with pytest.raises(ValueError, match="nothing is known of the capacity yet"):
        model.capacity(3)
    with pytest.raises(ValueError, match="asked for 1 to 10000 workers"):
        stay(model, 2).capacity(0)
    with pytest.raises(ValueError, match="1 to 10000 workers"):
        model.update(window(0, 1), 0)


def test_nothing_is_known_of_a_job_that_has_processed_nothing_yet():
    """A job that is switched off has workers, CPU and throughput, and none of them tells what it can take."""
    model = ScaleOuts()
    for minute in range(5):
        silent = window(60.0 * minute, 2)
        silent.worker_metrics["throughput_per_s"][:] = 0.0
        model = model.update(silent, 2)
    assert not model.known
    assert model.table(12) == {}
    with pytest.raises(ValueError, match="nothing is known of the capacity yet"):
        model.capacity(3)


def test_seen_values_are_preferred_to_the_average():
    # 8 workers take far less than twice what 4 take.
    model = stay(stay(ScaleOuts(), 8, per_worker=30_000.0), 4, start_s=4000.0)
    assert model.capacity(8).seen
    assert model.capacity(8).per_s == pytest.approx(8 * 30_000 * 0.95, rel=0.12)
    assert model.capacity(8).per_s < 0.8 * 2 * model.capacity(4).per_s


def test_a_job_that_scales_out_at_its_first_tick_keeps_what_that_tick_found():
    """Else nothing is known of it until the new workers are warm, and an overload that goes on waits for that."""
    once = ScaleOuts().update(window(0.0, 4, minutes=1), 4)
    scaled = once.update(window(60.0, 8, minutes=1, uptime_s=5.0), 8)
    expected = 2 ** (1 + EFFICIENCY)
    assert scaled.capacity(8).per_s == pytest.approx(expected * once.capacity(4).per_s, rel=1e-2)
    assert scaled.capacity(8).low_per_s < expected * once.capacity(4).low_per_s, "and says how little that is to go by"


def test_a_glimpse_is_not_remembered_beside_what_was_seen_for_long():
    model = stay(ScaleOuts(), 6).update(window(3_600.0, 4, minutes=1, uptime_s=600.0), 4)
    assert set(model.update(window(3_660.0, 8, minutes=1, uptime_s=5.0), 8).memory) == {6}


def test_a_glimpse_at_what_a_backlog_was_worked_off_with_is_remembered():
    """Else a size that fell short of its estimate is tried again as soon as the job has left it."""
    model = stay(ScaleOuts(), 6).update(window(3_600.0, 4, minutes=1, uptime_s=600.0), 4)
    took = 0.85 * model.capacity(4).per_s
    left = model.worked_off(4, took, 3_660.0).update(window(3_660.0, 8, minutes=1, uptime_s=5.0), 8)
    assert left.capacity(4).seen
    assert left.capacity(4).per_s < model.capacity(4).per_s


def test_a_stale_memory_loses_to_fresh_evidence():
    model = stay(ScaleOuts(), 8, per_worker=30_000.0)
    soon = stay(model, 4, start_s=4000.0)
    late = stay(model, 4, start_s=30 * 86_400.0)
    linear = 2 * soon.capacity(4).per_s
    remembered = 8 * 30_000 * 0.95
    assert abs(soon.capacity(8).per_s - remembered) < 0.5 * abs(late.capacity(8).per_s - remembered)
    assert abs(late.capacity(8).per_s - linear) < abs(soon.capacity(8).per_s - linear)
    assert "30 days before" in late.capacity(8).basis


def test_workers_that_lose_by_being_many_are_extrapolated_so():
    model = ScaleOuts.from_features(history([2, 4, 8], lambda n: 50_000 * n**-0.2))
    predicted, linear = model.capacity(16), 2 * model.capacity(8).per_s
    assert predicted.per_s < 0.97 * linear
    assert predicted.low_per_s < 16 * 50_000 * 16**-0.2 * 0.93 < predicted.high_per_s
    assert "per doubling" in predicted.basis


def test_a_scale_out_that_lies_off_the_curve_is_believed_to():
    """One slow worker among few: it is there at every stay, however smooth the curve through its neighbours."""
    seen = {n: Evidence(n, 50_000.0 * n * (0.8 if n == 2 else 1.0), 0.03, 0.0, 0.9) for n in (1, 2, 4, 8)}
    believed = ScaleOuts(memory=seen).capacity(2).per_s
    assert 80_000 < believed < 87_000, "its neighbours' curve, 96,000 here, tells a little"
    assert ScaleOuts(memory=seen).capacity(8).per_s == pytest.approx(400_000, rel=0.02)


def test_never_super_linear():
    model = ScaleOuts.from_features(history([2, 4, 8], lambda n: 30_000 * n**0.3))
    assert model.capacity(16).per_s <= 2.05 * model.capacity(8).per_s


evidences = st.lists(
    st.tuples(st.integers(1, 24), st.floats(1e3, 1e6), st.floats(0.01, 0.5), st.floats(0, 1e6)),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=60)
@given(evidences)
def test_capacity_never_decreases_and_intervals_hold_it(found):
    memory = {n: Evidence(n, per_s, sd, at, 0.9) for n, per_s, sd, at in found}
    table = list(ScaleOuts(memory=memory).table(36).values())
    values = [estimate.per_s for estimate in table]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(values))
    assert all(0 < e.low_per_s <= e.per_s <= e.high_per_s < math.inf for e in table)
    assert {e.scale_out for e in table if e.seen} == set(memory)


@settings(max_examples=30, deadline=None)
@given(evidences, st.integers(1, 12), st.floats(10_000.0, 200_000.0))
def test_beside_what_runs_capacity_never_decreases(found, runs, per_worker):
    memory = {n: Evidence(n, per_s, sd, at, 0.9) for n, per_s, sd, at in found if n != runs}
    model = stay(ScaleOuts(memory=memory), runs, start_s=1e6, minutes=5, per_worker=per_worker)
    others = [estimate.per_s for n, estimate in model.table(36).items() if n != runs]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(others))


def test_an_unlucky_stay_says_little_of_its_neighbours():
    """Else eleven workers, which took their load for an hour, look too few as soon as twelve get a bad deal."""
    eleven = stay(ScaleOuts(), 11)
    unlucky = stay(eleven, 12, start_s=4_000.0, per_worker=40_000.0)
    assert unlucky.capacity(12).per_s == pytest.approx(12 * 40_000 * 0.95, rel=0.05)
    assert unlucky.capacity(12).per_s < unlucky.capacity(11).per_s
    assert unlucky.capacity(11).per_s > 0.9 * eleven.capacity(11).per_s


# -- the curve and what bounds it --------------------------------------------------------------------------------------


def test_one_point_gives_the_linear_rule_less_what_being_many_usually_costs():
    curve = Curve.through([Evidence(4, 200_000.0, 0.02, 0.0, 0.9)], 0.0)
    assert math.exp(curve.log_value(12)) == pytest.approx(600_000.0 * 3**EFFICIENCY)
    assert curve.exponent == pytest.approx(EFFICIENCY)


def test_scale_outs_that_ran_say_what_being_many_costs():
    ran = [Evidence(n, 50_000.0 * n, 0.02, 0.0, 0.9) for n in (1, 2, 4, 8, 16)]
    assert Curve.through(ran, 0.0).exponent == pytest.approx(0.0, abs=0.03), "linear jobs exist"


@pytest.mark.parametrize("per_s", [5e-324, 1e300])
def test_a_curve_goes_through_the_least_and_the_most_that_can_be_seen(per_s: float):
    curve = Curve.through([Evidence(64, per_s, 0.02, 0.0, 0.9)], 0.0)
    assert curve.log_value(64) == pytest.approx(math.log(per_s), abs=0.5)


def test_evidence_combines_by_precision_and_ages():
    old = Evidence(4, 100.0, 0.1, 0.0, 0.8)
    new = Evidence(4, 200.0, 0.1, 0.0, 0.9)
    assert old.combined(new).per_s == pytest.approx(math.sqrt(100 * 200))
    later = Evidence(4, 200.0, 0.1, 10 * 86_400.0, 0.9)
    assert old.combined(later).per_s > 180


@given(st.lists(st.tuples(st.floats(-10, 10), st.floats(0.1, 10), st.booleans()), min_size=1, max_size=20))
def test_no_worker_lowers_the_total_or_is_hoped_to_add_more_than_was_seen(rows):
    values, weights, seen = (np.array(column) for column in zip(*rows, strict=True))
    found = as_workers_add(values, weights, seen)
    assert np.all(np.diff(found) >= 0.0)
    each = found - np.log(np.arange(1, len(found) + 1))
    for n in np.flatnonzero(~seen):
        smaller = each[:n][seen[:n]]
        assert not len(smaller) or each[n] <= max(smaller) + 1e-9 or found[n] == found[n - 1]


def test_a_larger_size_that_never_ran_is_not_believed_to_be_stronger_per_worker():
    seen = np.array([True, True, False, False])
    found = np.exp(as_workers_add(np.log([100.0, 180.0, 330.0, 420.0]), np.ones(4), seen))
    np.testing.assert_allclose(found, [100.0, 180.0, 300.0, 400.0])
