"""QEScalor and CBA as policies: one golden situation per branch, and what holds in every situation with sizes."""

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Forecast
from perdix.policies.build import build_policy
from perdix.policies.contract import Decision, Reason, Situation, SizedWorker
from perdix.policies.mix_problem import epoch_rates_per_s
from tests.policies.conftest import NOW_S, situation_of

SIZES = {
    "small": SizedWorker(cpu_cores=1.0, memory_mb=512, price_per_h=1.0, per_s=100.0),
    "large": SizedWorker(cpu_cores=2.0, memory_mb=1_024, price_per_h=1.6, per_s=180.0),
}
PLAIN = {"headroom": 0.0, "kept_headroom": 0.0, "quantile": None, "change_s": 0.0}


def sized(mix: dict[str, int], load: float, **changes: Any) -> Situation:
    """What the policies see of a job of small (100/s, 1.0) and large (180/s, 1.6) workers at a flat load."""
    return situation_of(**{"load": load, "sizes": SIZES, "mix": mix, "scale_out": sum(mix.values()), **changes})


def decided(situation: Situation, policy: str = "qescalor", **options: Any) -> Decision:
    return build_policy(policy, {**PLAIN, **options}).decide(situation)


def test_the_cheapest_mix_that_carries_the_load_is_taken_and_told() -> None:
    decision = decided(sized({"small": 1}, 260.0))
    assert (decision.mix, decision.scale_out, decision.reason) == ({"small": 1, "large": 1}, 2, Reason.SCALE_OUT)
    assert decision.sentence.startswith(
        "2 workers (1 large, 1 small) (280/s, 2.6 per hour) carry the 260/s asked for within 300 s (260/s with "
        "head-room): the first of the cheapest plan for 900 s"
    )
    assert "1 worker (1 small) (100/s) would not" in decision.sentence


def test_candidates_are_told_with_their_mixes_and_what_is_taken_comes_last() -> None:
    decision = decided(sized({"small": 1}, 260.0))
    *others, taken = decision.candidates
    assert taken.rejected_by is None
    assert taken.mix == decision.mix
    assert taken.capacity_per_s == 280.0
    assert {"small": 3} in [dict(other.mix) for other in others]
    assert all("its best plan costs" in (other.rejected_by or "") for other in others)


def test_another_mix_of_as_many_workers_is_a_scale_out_when_it_is_stronger() -> None:
    decision = decided(sized({"small": 1}, 150.0))
    assert (decision.mix, decision.scale_out, decision.reason) == ({"large": 1}, 1, Reason.SCALE_OUT)


def test_another_mix_of_as_many_workers_is_a_scale_in_when_it_is_weaker() -> None:
    decision = decided(sized({"large": 1}, 90.0))
    assert (decision.mix, decision.scale_out, decision.reason) == ({"small": 1}, 1, Reason.SCALE_IN)


def test_what_runs_is_kept_where_it_is_the_first_of_the_cheapest_plan() -> None:
    decision = decided(sized({"small": 1, "large": 1}, 260.0))
    assert (decision.mix, decision.reason) == ({"small": 1, "large": 1}, Reason.HOLD_GOOD)


def test_a_worker_that_is_needed_again_soon_is_not_stopped() -> None:
    dip = np.repeat([90.0, 170.0, 170.0], 300)
    assert decided(sized({"large": 1}, 90.0, forecast=dip), start_s=0, stop_s=0).mix == {"small": 1}
    assert decided(sized({"large": 1}, 90.0, forecast=dip), start_s=600).mix == {"large": 1}


def test_a_change_must_be_worth_the_stop_of_the_whole_job() -> None:
    situation = sized({"large": 1}, 90.0)
    # Small saves 0.6 of 1.6 per hour: 337 s of running large within 900 s.
    assert decided(situation, start_s=0, stop_s=0, change_s=330.0).mix == {"small": 1}
    decision = decided(situation, start_s=0, stop_s=0, change_s=340.0)
    assert (decision.mix, decision.reason) == ({"large": 1}, Reason.HOLD_GOOD)


def test_a_rise_is_met_at_once_where_changes_are_dear() -> None:
    rising = np.repeat([90.0, 170.0, 270.0], 300)
    assert decided(sized({"small": 1}, 90.0, forecast=rising)).mix == {"small": 1}
    assert decided(sized({"small": 1}, 150.0, forecast=rising)).mix == {"large": 1}
    assert decided(sized({"small": 1}, 150.0, forecast=rising), change_s=900.0).mix == {"small": 1, "large": 1}


def test_head_room_is_left_free_and_lag_asks_for_more_only_where_that_is_too_slow() -> None:
    assert decided(sized({"small": 1}, 95.0), headroom=0.1, kept_headroom=0.1).mix == {"large": 1}
    little = sized({"large": 1}, 95.0, lag_records=300.0)
    assert decided(little, headroom=0.1, catch_up_s=600.0).mix == {"large": 1}
    much = sized({"large": 1}, 95.0, lag_records=60_000.0)
    decision = decided(much, headroom=0.1, catch_up_s=600.0)
    assert decision.mix == {"small": 2}
    assert "60,000 records of lag" in decision.sentence


def test_what_runs_may_leave_less_free_than_a_new_mix_must() -> None:
    options = {"headroom": 0.2, "kept_headroom": 0.05}
    kept = decided(sized({"small": 1}, 95.0), **options)
    assert (kept.mix, kept.reason) == ({"small": 1}, Reason.HOLD_GOOD)
    assert "with less head-room than a change would bring" in kept.sentence
    assert decided(sized({"small": 1}, 96.0), **options).mix == {"large": 1}


def test_the_load_of_the_last_tick_counts_where_the_forecast_is_below_it() -> None:
    assert decided(sized({"small": 1}, 150.0, forecast=50.0)).mix == {"small": 2}


def test_the_quantile_is_planned_for_where_the_forecast_has_it() -> None:
    forecast = Forecast(NOW_S, 60.0, np.full(15, 90.0), {0.8: np.full(15, 150.0)})
    assert decided(sized({"small": 1}, 90.0, forecast=90.0)).mix == {"small": 1}
    situation = Situation(**{**sized({"small": 1}, 90.0).__dict__, "forecast": forecast})
    assert decided(situation, quantile=0.8).mix == {"large": 1}
    assert decided(situation, quantile=0.95).mix == {"small": 1}


def test_later_epochs_are_raised_as_the_first_is() -> None:
    wide = Forecast(NOW_S, 300.0, np.array([100.0, 200.0, 50.0]), {0.8: np.array([110.0, 400.0, 300.0])})
    assert epoch_rates_per_s(wide, NOW_S, 300.0, 900.0, 0.8).tolist() == pytest.approx([110.0, 220.0, 55.0])


def test_bounds_that_are_too_small_give_the_most_performance() -> None:
    decision = decided(sized({"small": 1}, 1_000.0, bounds=(1, 3)))
    assert (decision.mix, decision.reason) == ({"large": 3}, Reason.SCALE_MAXIMUM)
    assert "540/s" in decision.sentence
    again = decided(sized({"large": 3}, 1_000.0, bounds=(1, 3)))
    assert (again.scale_out, again.mix, again.reason) == (3, {"large": 3}, Reason.SCALE_MAXIMUM)


def test_workers_that_are_not_told_apart_are_taken_for_the_first_size() -> None:
    decision = decided(sized({}, 260.0, scale_out=3))
    assert (decision.scale_out, decision.mix) == (2, {"small": 1, "large": 1})
    assert "3 workers (3 small) are taken" not in decision.sentence
    assert "3 workers are taken for small" in decision.sentence
    kept = decided(sized({}, 90.0, scale_out=1))
    assert (kept.reason, kept.mix) == (Reason.HOLD_GOOD, {})


def test_without_prices_cores_are_what_is_saved() -> None:
    free = {name: SizedWorker(size.cpu_cores, 512, 0.0, size.per_s) for name, size in SIZES.items()}
    decision = decided(sized({"large": 1}, 90.0, sizes=free))
    assert decision.mix == {"small": 1}
    assert "Every size is free, so cores stand for prices." in decision.sentence


def test_an_extrapolated_size_is_named_or_refused() -> None:
    guess = {**SIZES, "large": SizedWorker(2.0, 1_024, 1.6, 180.0, extrapolated=True)}
    decision = decided(sized({"small": 1}, 150.0, sizes=guess))
    assert decision.mix == {"large": 1}
    assert "The performance of large is extrapolated" in decision.sentence
    assert decided(sized({"small": 1}, 150.0, sizes=guess), refuse_extrapolated=True).mix == {"small": 2}
    kept = decided(sized({"large": 1}, 150.0, sizes=guess), refuse_extrapolated=True)
    assert kept.mix == {"large": 1}


@pytest.mark.parametrize("policy", ["qescalor", "cba"])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sizes": {}}, "no sizes whose performance is known"),
        ({"sizes": {"small": SizedWorker(1, 512, 1.0, 0.0)}}, "no sizes whose performance is known"),
        ({"sizes": {"small": SizedWorker(1, 512, 1.0, math.nan), "large": SIZES["large"]}}, "cannot be"),
        ({"sizes": {"large": SIZES["large"]}}, "the performance of that size is not known"),
    ],
)
def test_what_is_not_known_holds(policy: str, changes: dict[str, Any], said: str) -> None:
    decision = decided(sized({"small": 3}, 90.0, **changes), policy)
    assert (decision.scale_out, decision.mix, decision.reason) == (3, {"small": 3}, Reason.HOLD_UNKNOWN)
    assert said in decision.sentence


def test_only_extrapolated_sizes_hold_where_they_are_refused() -> None:
    guess = {name: SizedWorker(1, 512, 1.0, 100.0, extrapolated=True) for name in SIZES}
    decision = decided(sized({"small": 3}, 90.0, sizes=guess), refuse_extrapolated=True)
    assert (decision.scale_out, decision.reason) == (3, Reason.HOLD_UNKNOWN)


def test_sizes_that_do_not_add_up_to_what_runs_hold() -> None:
    decision = decided(sized({"small": 2}, 90.0, scale_out=3))
    assert (decision.scale_out, decision.reason) == (3, Reason.HOLD_BLIND)


@pytest.mark.parametrize(
    "blind", [{"lag_records": math.nan}, {"workload_per_s": math.nan}, {"forecast": np.array([math.nan])}]
)
def test_blind_holds(blind: dict[str, Any]) -> None:
    decision = decided(sized({"small": 3}, 90.0, **blind))
    assert (decision.scale_out, decision.mix, decision.reason) == (3, {"small": 3}, Reason.HOLD_BLIND)


def test_without_the_lag_nothing_is_taken_away_but_more_may_come() -> None:
    kept = decided(sized({"small": 3}, 90.0, lag_records=None))
    assert (kept.mix, kept.reason) == ({"small": 3}, Reason.HOLD_BLIND)
    assert "the consumer lag is not measured" in kept.sentence
    assert decided(sized({"small": 3}, 400.0, lag_records=None)).mix == {"small": 4}


def test_cba_uses_one_size_and_stops_the_others() -> None:
    assert decided(sized({"small": 1}, 260.0), "cba").mix == {"small": 3}
    assert decided(sized({"small": 3}, 260.0), "cba", size="large").mix == {"large": 2}
    unknown = decided(sized({"small": 3}, 260.0), "cba", size="huge")
    assert (unknown.scale_out, unknown.reason) == (3, Reason.HOLD_UNKNOWN)
    assert "no size 'huge'" in unknown.sentence


def test_too_many_candidates_give_a_good_plan_that_says_so() -> None:
    decision = decided(sized({"small": 1}, 1_000.0), exact_candidates=0)
    assert "the first of a good plan" in decision.sentence
    assert decision.mix == decided(sized({"small": 1}, 1_000.0)).mix


def test_epochs_begin_now_and_tell_their_highest_rate() -> None:
    rates = np.arange(10.0)
    forecast = Forecast(NOW_S, 60.0, rates)
    assert epoch_rates_per_s(forecast, NOW_S, 120.0, 600.0, None).tolist() == [1, 3, 5, 7, 9]
    assert epoch_rates_per_s(forecast, NOW_S + 90.0, 120.0, 240.0, None).tolist() == [3, 5]
    assert epoch_rates_per_s(forecast, NOW_S + 599.0, 300.0, 900.0, None).tolist() == [9]
    assert epoch_rates_per_s(forecast, NOW_S, 3_600.0, 900.0, None).tolist() == [9]


# What holds in every situation

rates = st.one_of(st.just(0.0), st.floats(1e-3, 1e4))


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    names = draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")]))
    sizes = {
        name: SizedWorker(
            draw(st.floats(0.1, 8)),
            512,
            draw(st.one_of(st.just(0.0), st.floats(0.01, 5))),
            draw(st.floats(10, 2_000)),
            draw(st.booleans()),
        )
        for name in names
    }
    mix = {name: draw(st.integers(1, 4)) for name in names if draw(st.booleans())}
    low = draw(st.integers(1, 4))
    return situation_of(
        load=draw(rates),
        forecast=np.array(draw(st.lists(rates, min_size=1, max_size=8))),
        step_s=60.0,
        bounds=(low, low + draw(st.integers(0, 8))),
        sizes=sizes,
        mix=mix,
        scale_out=sum(mix.values()) or draw(st.integers(1, 12)),
        lag_records=draw(st.one_of(st.none(), rates)),
    )


@pytest.mark.parametrize("policy", ["qescalor", "cba"])
@given(situation=situations())
def test_a_mix_is_within_the_bounds_adds_up_and_is_told_by_its_reason(policy: str, situation: Situation) -> None:
    decision = build_policy(policy).decide(situation)
    bounds, current = situation.bounds, situation.scale_out
    moved = decision.reason in {Reason.SCALE_OUT, Reason.SCALE_IN}
    if not moved and decision.reason is not Reason.SCALE_MAXIMUM:
        assert (decision.scale_out, decision.mix) == (current, situation.mix)
        return
    assert sum(decision.mix.values()) == decision.scale_out
    assert bounds.minimum <= decision.scale_out <= bounds.maximum
    if moved and decision.scale_out != current:
        assert (decision.reason is Reason.SCALE_OUT) == (decision.scale_out > current)
    if moved:
        carried = situation.mix_per_s(decision.mix)
        assert carried is not None
        assert carried >= situation.workload_per_s * (1 - 1e-9)


@pytest.mark.parametrize("policy", ["qescalor", "cba"])
@given(situation=situations())
def test_without_the_lag_neither_workers_nor_performance_are_taken_away(policy: str, situation: Situation) -> None:
    unmeasured = Situation(**{**situation.__dict__, "lag_records": None})
    decision = build_policy(policy).decide(unmeasured)
    assert decision.scale_out >= situation.scale_out
    before, after = situation.mix_per_s(situation.mix), situation.mix_per_s(decision.mix)
    if before is not None and after is not None:
        assert after >= before * (1 - 1e-9)


@given(situation=situations())
def test_the_same_situation_gives_the_same_decision(situation: Situation) -> None:
    assert repr(build_policy("qescalor").decide(situation)) == repr(build_policy("qescalor").decide(situation))


def test_a_decision_for_four_sizes_twelve_workers_and_fifteen_epochs_takes_milliseconds() -> None:
    """The median of CPU times is some 5 ms; the limit leaves room for slow machines."""
    given_sizes = ((0.6, 1_000.0), (1.2, 1_900.0), (1.8, 2_700.0), (2.4, 3_300.0))
    sizes = {f"{cores:g}": SizedWorker(cores, 512, cores, per_s) for cores, per_s in given_sizes}
    forecast = 11_000.0 * (0.5 + 0.4 * np.sin(np.arange(900) / 200.0))
    situation = situation_of(
        load=5_500.0, forecast=forecast, sizes=sizes, mix={"0.6": 3, "1.8": 1}, scale_out=4, bounds=(1, 12)
    )
    policy = build_policy("qescalor", {"epoch_s": 60.0})
    took = []
    for _ in range(9):
        begun = time.process_time()
        policy.decide(situation)
        took.append(time.process_time() - begun)
    assert sorted(took)[4] < 0.05
