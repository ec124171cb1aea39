"""Learned scaling curves: DS2's rule with one observation, the real curve with a few, never wilder than seen."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.dataflow.graph import Dataflow, Operator
from perdix.models.dataflow.optimal import Sizing, optimal_parallelism
from perdix.models.dataflow.rates import OperatorRates
from perdix.models.dataflow.scaling_curve import WILDEST, ScalingCurve

RATES = st.floats(1e-3, 1e9)
SEEN = st.lists(st.tuples(st.integers(1, 60), RATES, st.floats(0, 1e6)), min_size=1, max_size=8)


def curve_of(*seen: tuple[int, float]) -> ScalingCurve:
    curve = ScalingCurve()
    for instances, per_s in seen:
        curve = curve.observed(instances, per_s)
    return curve


def fewest(curve: ScalingCurve, per_s: float) -> int:
    """The fewest instances that take ``per_s`` records/s."""
    last = curve.points[-1].instances
    return max(1, math.ceil(curve.unrounded_for(per_s, last, float(curve.per_s(last))) * (1 - 1e-6)))


def law(n: float, sigma: float = 0.04, kappa: float = 0.0005) -> float:
    return 1000.0 * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


@given(st.integers(1, 50), RATES, RATES)
def test_with_one_parallelism_observed_it_is_the_linear_rule(instances: int, per_s: float, wanted: float) -> None:
    curve = curve_of((instances, per_s))
    assert curve.unrounded_for(wanted, instances, per_s) == wanted / (per_s / instances)
    assert ScalingCurve().unrounded_for(wanted, instances, per_s) == wanted / (per_s / instances)
    np.testing.assert_allclose(curve.per_s(np.array([1.0, 2.5, 80.0])), per_s / instances * np.array([1, 2.5, 80]))


def test_a_believed_contention_bends_the_curve_before_anything_else_was_observed() -> None:
    curve = ScalingCurve(contention=0.05).observed(1, 1000.0)
    assert float(curve.per_s(11)) == pytest.approx(1000 * 11 / 1.5)
    assert fewest(curve, 1000 * 11 / 1.5) == 11


def test_between_and_beyond_observations_it_follows_the_law() -> None:
    curve = curve_of(*((n, law(n)) for n in (1, 4, 8, 16, 24) for _ in range(5)))
    for n in (2, 6, 12, 20, 30):
        assert float(curve.per_s(n)) == pytest.approx(law(n), rel=0.03)
    for n in (2, 6, 12, 20):
        assert fewest(curve, law(n) * 0.97) in (n - 1, n)


def test_two_observations_say_more_than_one() -> None:
    """From 4 to a rate that takes 20: the linear rule stops far below, two observations come close."""
    linear = fewest(curve_of((4, law(4))), law(20))
    learned = fewest(curve_of((4, law(4)), (12, law(12))), law(20))
    assert linear == 12
    assert learned in (19, 20)


@settings(max_examples=150, deadline=None)
@given(SEEN)
def test_more_instances_never_take_less_and_an_instance_never_more_among_others(
    seen: list[tuple[int, float, float]],
) -> None:
    curve = ScalingCurve()
    for instances, per_s, at_s in seen:
        curve = curve.observed(instances, per_s, at_s)
    counts = np.arange(1.0, 200.0)
    total = curve.per_s(counts)
    assert np.all(np.isfinite(total))
    assert np.all(np.diff(total) >= -1e-9 * total[1:])
    assert np.all(np.diff(total / counts) <= 1e-9 * (total / counts)[1:])
    last = curve.points[-1].instances
    here = float(curve.per_s(last))
    assert float(curve.per_s(10 * last)) >= 10 * here / WILDEST * (1 - 1e-9), "nor wilder than what was seen allows"


@settings(max_examples=100, deadline=None)
@given(SEEN, RATES, st.floats(1.0, 50.0))
def test_the_fewest_that_suffice_and_more_for_a_higher_rate(
    seen: list[tuple[int, float, float]], wanted: float, factor: float
) -> None:
    curve = curve_of(*((n, per_s) for n, per_s, _ in seen))
    found = fewest(curve, wanted)
    if found <= 50_000:
        assert float(curve.per_s(found)) >= wanted * (1 - 1e-5)
        assert found == 1 or float(curve.per_s(found - 1)) < wanted * (1 + 1e-9)
        assert fewest(curve, wanted * factor) >= found


def test_noise_is_averaged_and_a_lower_rate_at_more_instances_is_not_believed() -> None:
    curve = curve_of((10, 1010.0), (10, 990.0), (12, 980.0))
    assert float(curve.per_s(10)) == pytest.approx(1000.0, rel=1e-6)
    assert float(curve.per_s(12)) >= float(curve.per_s(10))


def test_when_records_become_heavier_the_shape_stays() -> None:
    curve = curve_of(*((n, law(n)) for n in (2, 8, 16)))
    shape = curve.per_s(16) / curve.per_s(2)
    for _ in range(60):
        curve = curve.observed(16, law(16) / 2)
    assert float(curve.per_s(16)) == pytest.approx(law(16) / 2, rel=0.01)
    assert float(curve.per_s(16) / curve.per_s(2)) == pytest.approx(float(shape), rel=0.02)


def test_more_than_noise_is_followed_at_once_and_noise_is_learned() -> None:
    steady = curve_of(*((10, 1000.0 * (1 + 0.01 * (-1) ** k)) for k in range(30)))
    assert steady.noise < 0.013
    assert float(steady.observed(10, 1015.0).per_s(10)) == pytest.approx(1000, rel=0.004), "within noise: averaged"
    assert float(steady.observed(10, 1500.0).per_s(10)) == pytest.approx(1250, rel=0.01), "beyond: half the way"
    wild = curve_of(*((10, 1000.0 * (1 + 0.08 * (-1) ** k)) for k in range(30)))
    assert 0.05 < wild.noise < 0.12


def test_old_observations_count_less_and_are_forgotten() -> None:
    curve = ScalingCurve(half_life_s=3600).observed(4, 400.0, 0.0).observed(8, 600.0, 3600.0)
    assert [point.weight for point in curve.points] == [0.5, 1.0]
    later = curve.observed(8, 600.0, 20 * 3600.0)
    assert [point.instances for point in later.points] == [8]


@pytest.mark.parametrize(("instances", "per_s"), [(0, 1.0), (1, 0.0), (1, -1.0), (1, math.nan), (1, math.inf)])
def test_what_cannot_be_is_not_learned(instances: int, per_s: float) -> None:
    assert curve_of((2, 200.0)).observed(instances, per_s) == curve_of((2, 200.0))


def test_a_saturated_operator_is_not_given_ever_more() -> None:
    curve = curve_of((4, 400.0), (8, 400.0), (16, 400.0))
    assert fewest(curve, 800.0) <= 16 * 2 * WILDEST


def test_the_state_is_json_and_comes_back() -> None:
    curve = ScalingCurve(contention=0.1).observed(3, 300.0, 5.0).observed(9, 700.0, 9.0)
    assert ScalingCurve.of_json(json.loads(json.dumps(curve.to_json()))) == curve
    for wrong in (
        {},
        {"points": [[1, 2]]},
        {"points": [[1, -2.0, 1, 0]]},
        {"points": [[1, 2, 1, 0]] * 2},
        {"points": 3},
    ):
        with pytest.raises(ValueError, match="give"):
            ScalingCurve.of_json(wrong)


def test_the_equations_take_a_curve_instead_of_a_line() -> None:
    graph = Dataflow((Operator("s"), Operator("a", ("s",)), Operator("b", ("a",))))
    window = {"s": OperatorRates(1, 0.0, 100.0, 0.0, 100.0)} | {
        name: OperatorRates(8, law(8), law(8), law(8), law(8)) for name in "ab"
    }
    curve = curve_of((2, law(2)), (8, law(8)))
    found = optimal_parallelism(graph, [window], {"s": law(16)}, curves={"a": curve})
    assert found.parallelism()["a"] in (16, 17)
    assert found.parallelism()["b"] == math.ceil(law(16) / (law(8) / 8))
    more = optimal_parallelism(graph, [window], {"s": law(16)}, curves={"a": curve}, sizing=Sizing(rate_factor=0.1))
    assert more.parallelism()["a"] == math.ceil(curve.unrounded_for(law(16) * 1.1, 8, law(8)))


@pytest.mark.shared
def test_the_measured_curve_of_nexmark_from_a_few_of_its_points(shared_data: Path) -> None:
    """Left out parallelisms are told within 8 %, where the linear rule is up to 45 % off."""
    table = np.loadtxt(shared_data / "nexmark/q1_mapper_processing_ability.csv", delimiter=",", skiprows=1)
    measured = {int(n): table[table[:, 0] == n, 2].mean() for n in np.unique(table[:, 0])}
    learned = curve_of(*((n, measured[n]) for n in (4, 10, 20)))
    errors = {n: float(learned.per_s(n)) / value - 1 for n, value in measured.items()}
    linear = {n: float(curve_of((4, measured[4])).per_s(n)) / value - 1 for n, value in measured.items()}
    assert max(map(abs, errors.values())) < 0.08
    assert max(map(abs, linear.values())) > 0.45
