"""What holds for every policy in every situation."""

import copy
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.build import POLICIES, build_policy
from perdix.policies.contract import Decision, Policy, Reason, Situation
from perdix.policies.daedalus import Daedalus
from perdix.policies.daedalus_options import AS_PRINTED
from perdix.settings.stream_job import Bounds, Objectives
from tests.policies.known_profile import profile_of

HALF = settings(max_examples=settings.default.max_examples // 2)  # for each of a dozen policies
NOW_S = 1_700_000_000.0
HOLDS = {reason for reason in Reason if reason.name.startswith("HOLD_")} | {Reason.SCALE_MAXIMUM}
rates = st.one_of(st.just(0.0), st.floats(1e-3, 1e6))
awkward = st.sampled_from([math.nan, math.inf, -math.inf, -1.0])
since = st.one_of(st.just(math.inf), st.floats(0, 1_000))


PROFILES = (
    profile_of(),
    profile_of({1: 90.0}, normal_up_to=0.9),
    profile_of({1: 1e4, 4: 5e4, 9: 6e4}, normal_up_to=0.0),
)
shares = st.lists(st.floats(0, 1), min_size=1, max_size=6)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 20), st.floats(-10, NOW_S), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def memories(draw: st.DrawFn) -> dict[str, Any]:
    """What some policy, this one or another, may have asked to remember; or what became of it."""
    running = draw(st.integers(0, 20))
    ages = sorted(draw(st.lists(st.floats(0, 2_000), max_size=6)), reverse=True)
    of_a_policy = {
        "recommendations": [[NOW_S - 60.0, draw(st.integers(1, 20))]],
        "scale_out": running,
        "samples": [[NOW_S - age, draw(rates), 0.5, draw(rates), 0.0, draw(rates), None] for age in ages],
        "pending": [NOW_S - 3_700.0, [[NOW_S - 60.0, draw(st.integers(1, 20)), True]]],
        "history": [[NOW_S - 900.0, 2, 4, draw(rates), None]],
        "asked": [NOW_S - 100.0, draw(st.integers(1, 20))],
        "epoch": draw(st.lists(rates, min_size=4, max_size=4)),
        "evaluated_s": NOW_S - draw(st.floats(0, 2_000)),
        "results": draw(st.lists(st.integers(1, 20), max_size=3)),
    }
    broken = draw(st.dictionaries(st.sampled_from(sorted(of_a_policy)), anything, max_size=2))
    return draw(st.sampled_from([{}, of_a_policy, {**of_a_policy, **broken}]))


@st.composite
def situations(draw: st.DrawFn, *, blind: bool = False, growing: bool = False, calm: bool = False) -> Situation:
    """``blind``: any number may be unusable. ``growing``: each worker more adds capacity. ``calm``: some size holds."""
    number = st.one_of(rates, awkward) if blind else rates
    low = draw(st.integers(1, 6))
    bounds = Bounds(minimum=low, maximum=low + draw(st.integers(0, 10)))
    sizes = range(bounds.minimum, bounds.maximum + 1)
    gains = [draw(st.floats(1, 1e5)) for _ in sizes]
    values = np.cumsum(gains).tolist() if growing else [draw(number) for _ in sizes]
    capacities = {n: Estimate(n, value, value, value, False, "drawn") for n, value in zip(sizes, values, strict=True)}
    if calm:
        number = st.floats(0, 0.5 * values[-1])
    if blind:
        capacities = {n: item for n, item in capacities.items() if draw(st.booleans())}
    steps = draw(st.lists(number, min_size=0 if blind else 1, max_size=12))
    optional = st.one_of(st.none(), number)
    downtime = st.floats(1, 120)
    return Situation(
        now_s=NOW_S,
        scale_out=draw(st.integers(bounds.minimum, bounds.maximum) if growing else st.integers(1, 20)),
        workload_per_s=draw(number),
        recent_workload_per_s=draw(number),
        lag_records=draw(optional if blind else number),
        cpu_load=draw(st.one_of(st.none(), awkward, st.floats(0, 2)) if blind else st.floats(0, 2)),
        forecast=Forecast(NOW_S, 60.0, np.array(steps, dtype=float)),
        capacities=capacities,
        downtimes=Downtimes.assumed(draw(downtime), draw(downtime), draw(downtime)),
        bounds=bounds,
        objectives=Objectives(recovery_time_s=draw(st.floats(600 if calm else 1, 3_600))),
        since_rescale_s=math.inf if calm else draw(since),
        memory=draw(memories()),
        throughput_per_s=draw(optional if blind else number),
        worker_cpu=tuple(draw(shares)),
        worker_busy=tuple(draw(st.lists(st.one_of(awkward, st.floats(0, 1)), max_size=3) if blind else shares)),
        uptime_s=draw(st.one_of(st.none(), awkward, since) if blind else st.floats(0, 4_000)),
        latency_p95_ms=draw(optional if blind else number),
        profiled=draw(st.sampled_from([None, *PROFILES])),
    )


@pytest.mark.parametrize("name", POLICIES)
@HALF
@given(data=st.data())
def test_a_choice_is_within_the_bounds_or_leaves_what_runs(name: str, data: st.DataObject) -> None:
    situation = data.draw(situations(blind=data.draw(st.booleans())))
    decision = build_policy(name).decide(situation)
    bounds = situation.bounds
    inside = bounds.minimum <= decision.scale_out <= bounds.maximum
    assert inside or (decision.scale_out == situation.scale_out and decision.reason in HOLDS)
    expected = {Reason.SCALE_OUT: 1, Reason.SCALE_IN: -1}.get(decision.reason)
    if expected is not None:
        assert np.sign(decision.scale_out - situation.scale_out) == expected
    elif decision.reason is not Reason.SCALE_MAXIMUM:
        assert decision.scale_out == situation.scale_out
    assert decision.sentence.endswith(".")


@pytest.mark.parametrize("name", POLICIES)
@HALF
@given(data=st.data())
def test_the_same_situation_gives_the_same_decision_and_is_left_alone(name: str, data: st.DataObject) -> None:
    situation = data.draw(situations(blind=data.draw(st.booleans())))
    untouched = copy.deepcopy(situation)
    policy = build_policy(name)
    first = policy.decide(situation)
    assert repr(policy.decide(situation)) == repr(first) == repr(build_policy(name).decide(untouched))
    assert repr(situation) == repr(untouched)


@pytest.mark.parametrize("name", POLICIES)
@HALF
@given(data=st.data())
def test_what_is_remembered_survives_the_state_store(name: str, data: st.DataObject) -> None:
    situation = data.draw(situations())
    policy = build_policy(name)
    first = policy.decide(situation)
    stored = json.loads(json.dumps(dict(first.memory), allow_nan=False))
    later = replace(situation, now_s=situation.now_s + situation.tick_interval_s)
    from_memory = policy.decide(replace(later, memory=first.memory))
    assert repr(policy.decide(replace(later, memory=stored))) == repr(from_memory)


def blinded(situation: Situation, draw: Any) -> dict[str, Any]:
    """One thing that Daedalus decides by, made unusable."""
    forecasts = [[], [math.nan, 1.0], [math.inf]]
    return draw(
        st.sampled_from(
            [
                {"workload_per_s": math.nan},
                {"workload_per_s": -1.0},
                {"recent_workload_per_s": math.inf},
                {"lag_records": None},
                {"lag_records": math.nan},
                {"capacities": {}},
                {"since_rescale_s": math.nan},
                {"downtimes": Downtimes.assumed(in_s=math.nan)},
                *({"forecast": Forecast(NOW_S, 60.0, np.array(item))} for item in forecasts),
                {"forecast": Forecast(NOW_S - 3_600.0, 60.0, np.ones(10))},
            ]
        )
    )


@given(data=st.data())
def test_daedalus_never_scales_in_blind(data: st.DataObject) -> None:
    situation = data.draw(situations(growing=True))
    changed = Situation(**{**situation.__dict__, **blinded(situation, data.draw)})
    assert Daedalus().decide(changed).scale_out >= situation.scale_out


@given(data=st.data())
def test_hpa_never_scales_blind(data: st.DataObject) -> None:
    situation = data.draw(situations())
    cpu = data.draw(st.one_of(st.none(), awkward))
    decision = build_policy("hpa").decide(Situation(**{**situation.__dict__, "cpu_load": cpu}))
    assert (decision.scale_out, decision.reason) == (situation.scale_out, Reason.HOLD_BLIND)


@pytest.mark.parametrize("name", ["flink-autoscaler", "ds2-global"])
@given(data=st.data())
def test_without_true_rates_nothing_is_rescaled(name: str, data: st.DataObject) -> None:
    situation = data.draw(situations())
    missing = data.draw(
        st.sampled_from(
            [
                {"throughput_per_s": None},
                {"throughput_per_s": math.nan},
                {"worker_busy": (), "worker_cpu": ()},
                {"worker_busy": (0.5, math.nan)},
                {"uptime_s": math.nan},
                {"since_rescale_s": math.nan},
            ]
        )
    )
    decision = build_policy(name).decide(Situation(**{**situation.__dict__, **missing}))
    assert (decision.scale_out, decision.reason) == (situation.scale_out, Reason.HOLD_BLIND)


@given(data=st.data())
def test_the_flink_autoscaler_never_scales_in_without_the_lag(data: st.DataObject) -> None:
    situation = Situation(**{**data.draw(situations()).__dict__, "lag_records": None})
    options = {"window_s": 60, "stabilisation_s": 0, "scale_down_interval_s": 0}
    assert build_policy("flink-autoscaler", options).decide(situation).scale_out >= situation.scale_out


@pytest.mark.parametrize(("name", "missing"), [("phoebe", "lag_records"), ("twres", "latency_p95_ms")])
@given(data=st.data())
def test_policies_by_profile_never_scale_in_on_what_was_not_measured(
    name: str, missing: str, data: st.DataObject
) -> None:
    drawn = data.draw(situations())
    ready = {"uptime_s": 4_000.0, "memory": {}, "profiled": data.draw(st.sampled_from(PROFILES)), missing: None}
    situation = Situation(**{**drawn.__dict__, **ready})
    decision = build_policy(name).decide(situation)
    assert decision.scale_out >= situation.scale_out or decision.reason is Reason.SCALE_MAXIMUM


def loaded(situation: Situation, factor: float, more: float) -> Situation:
    forecast = situation.forecast
    return Situation(
        **{
            **situation.__dict__,
            "workload_per_s": situation.workload_per_s * factor + more,
            "recent_workload_per_s": situation.recent_workload_per_s * factor + more,
            "forecast": Forecast(forecast.origin_s, forecast.step_s, forecast.mean * factor + more),
        }
    )


def stronger(situation: Situation, factor: float) -> Situation:
    capacities = {
        n: Estimate(n, item.per_s * factor, item.low_per_s, item.high_per_s, False, "drawn")
        for n, item in situation.capacities.items()
    }
    return Situation(**{**situation.__dict__, "capacities": capacities})


def stays_for_want_of_better(situation: Situation, decision: Decision) -> bool:
    """Whether none holds, and less waits if what runs goes on (decision 27). As printed, the maximum is taken."""
    return decision.reason is Reason.SCALE_MAXIMUM and decision.scale_out == situation.scale_out


def daedalus(*, as_printed: bool) -> Policy:
    return build_policy("daedalus", AS_PRINTED if as_printed else {})


# Both hold where each worker adds capacity; where one takes some away, the greatest capacity may be smaller.


@pytest.mark.parametrize("printed", [False, True])
@given(situation=situations(growing=True), factor=st.floats(1, 3), more=st.floats(0, 1e5))
def test_more_workload_never_gives_fewer_workers(
    situation: Situation, factor: float, more: float, *, printed: bool
) -> None:
    policy, heavier = daedalus(as_printed=printed), loaded(situation, factor, more)
    less, greater = policy.decide(situation), policy.decide(heavier)
    assume(printed or not stays_for_want_of_better(heavier, greater))
    assert greater.scale_out >= less.scale_out


@pytest.mark.parametrize("printed", [False, True])
@given(situation=situations(growing=True), factor=st.floats(1, 3))
def test_more_capacity_never_gives_more_workers(situation: Situation, factor: float, *, printed: bool) -> None:
    policy = daedalus(as_printed=printed)
    little, much = policy.decide(situation), policy.decide(stronger(situation, factor))
    assume(printed or not stays_for_want_of_better(situation, little))
    assert much.scale_out <= little.scale_out


@given(situation=situations(growing=True))
def test_a_job_that_none_holds_for_never_goes_to_less(situation: Situation) -> None:
    decision = build_policy("daedalus").decide(situation)
    assume(decision.reason is Reason.SCALE_MAXIMUM)
    assert decision.scale_out >= situation.scale_out


@given(situations(growing=True, calm=True))
def test_what_daedalus_takes_passes_each_rule_of_the_paper(situation: Situation) -> None:
    decision = Daedalus().decide(situation)
    assume(decision.reason in {Reason.SCALE_IN, Reason.SCALE_OUT})
    capacity = situation.capacities[decision.scale_out].per_s
    assert capacity > situation.workload_per_s
    assert decision.recovery_s is not None
    assert decision.recovery_s <= situation.objectives.recovery_time_s
    assert capacity > situation.forecast.maximum_per_s()
    assert situation.since_rescale_s >= 180.0
    if decision.reason is Reason.SCALE_IN:
        assert situation.lag_records is not None
        assert capacity >= situation.lag_records
    assert every_smaller_candidate_is_rejected(decision)


def every_smaller_candidate_is_rejected(decision: Decision) -> bool:
    *smaller, chosen = decision.candidates
    return chosen.rejected_by is None and all(candidate.rejected_by for candidate in smaller)
