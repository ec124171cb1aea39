"""What holds for every policy of hosts at every look."""

import copy
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Forecast
from perdix.policies.hosts.billing_unit import end_of_unit_s, is_due, margin_s
from perdix.policies.hosts.build import HOSTS_POLICIES, build_hosts_policy
from perdix.policies.hosts.contract import HostsSituation, Instance, LeaseAgain, ReleaseHost, Seen, StopInstance
from tests.policies.hosts_situation import NOW_S, actions, broken_rules, host, operator, situation

durations = st.lists(st.one_of(st.floats(0, 5), st.sampled_from([math.nan, math.inf])), max_size=6)
queues = st.one_of(st.none(), st.just(0.0), st.floats(0, 400), st.just(math.nan))


@st.composite
def forecasts(draw: st.DrawFn) -> Forecast | None:
    rates = draw(st.lists(st.floats(0, 50), max_size=5))
    path = np.array([*rates, draw(st.sampled_from([1.0, math.nan]))])
    origin_s = NOW_S - draw(st.sampled_from([0.0, 30.0, 900.0, -60.0]))
    return draw(st.sampled_from([None, Forecast(origin_s, 60.0, path, {0.9: path}, "drawn", 1)]))


@st.composite
def situations(draw: st.DrawFn) -> HostsSituation:
    """Hosts that start, leave, or are about to; instances that start, stop, or move; things that were not measured."""
    types = [
        operator(f"O{k}", draw(st.sampled_from([0.3, 0.8, 1.5, 5.0])), draw(st.sampled_from([300.0, 900.0, 2_500.0])))
        for k in range(draw(st.integers(1, 4)))
    ]
    hosts = []
    for k in range(draw(st.integers(0, 5))):
        ready = draw(st.integers(0, 4)) > 0
        leaving = ready and draw(st.integers(0, 5)) == 0
        images = draw(st.frozensets(st.sampled_from([instance_type.name for instance_type in types]), max_size=2))
        left_s = draw(st.sampled_from([-700.0, 5.0, 40.0, 89.0, 90.0, 91.0, 400.0]))
        hosts.append(host(f"host-{k}", left_s, ready=ready, releasing=leaving, images=images))
    placed: dict[str, Instance] = {}
    free = {leased.host_id: [leased.cores, leased.memory_mb] for leased in hosts}
    for number in range(draw(st.integers(0, 14)) if hosts else 0):
        one, where = draw(st.sampled_from(types)), draw(st.sampled_from(hosts))
        room = free[where.host_id]
        if room[0] < one.cpu_cores or room[1] < one.memory_mb:
            continue
        room[0], room[1] = room[0] - one.cpu_cores, room[1] - one.memory_mb
        ready = where.ready and draw(st.integers(0, 4)) > 0
        stopping = draw(st.integers(0, 6)) == 0
        works = [
            n for n, was in placed.items() if was.operator == one.name and was.ready and was.host_id != where.host_id
        ]
        taken = {was.replaces for was in placed.values()}
        old = [name for name in works if name not in taken and placed[name].stopping == ready]
        replaces = draw(st.sampled_from(old)) if old and not stopping else None
        placed[f"i{number}"] = Instance(f"i{number}", one.name, where.host_id, ready, stopping, replaces)
    seen = {
        instance_type.name: Seen(
            tuple(draw(durations)),
            draw(queues),
            draw(st.integers(0, 20)),
            draw(forecasts()),
            draw(st.sampled_from([None, 0.0, 0.5, 4.0])),
        )
        for instance_type in types
        if draw(st.integers(0, 8)) > 0
    }
    most = draw(st.sampled_from([None, 0, 3, 9]))
    again = {"leased_again": {"host-0": NOW_S + 40.0}, "leased": 3}
    memory = draw(st.sampled_from([{}, again, {"leased": None, "leased_again": [1]}]))
    return replace(situation(types, hosts, placed, most_hosts=most, memory=memory), seen=seen)


@pytest.mark.parametrize("name", HOSTS_POLICIES)
@settings(max_examples=40)
@given(now=situations())
def test_every_step_can_be_carried_out_in_its_turn(name: str, now: HostsSituation) -> None:
    decision = build_hosts_policy(name).decide(now)
    assert broken_rules(now, decision) == []
    assert decision.sentence.endswith(".")
    assert decision.policy == name


@pytest.mark.parametrize("name", HOSTS_POLICIES)
@settings(max_examples=40)
@given(now=situations())
def test_the_same_situation_gives_the_same_decision_and_is_left_alone(name: str, now: HostsSituation) -> None:
    untouched = copy.deepcopy(now)
    policy = build_hosts_policy(name)
    decision = policy.decide(now)
    assert policy.decide(now) == decision == build_hosts_policy(name).decide(untouched)
    np.testing.assert_equal(asdict(now), asdict(untouched))  # NaN is NaN, and sets have no order
    stored = json.loads(json.dumps(dict(decision.memory), allow_nan=False))
    later = replace(now, now_s=now.now_s + 60.0, memory=stored)
    assert policy.decide(later) == policy.decide(replace(later, memory=decision.memory))


@pytest.mark.parametrize("name", ["btu", "btu-forecast"])
@settings(max_examples=40)
@given(now=situations())
def test_billing_aware_policies_give_hosts_back_at_the_end_of_their_unit_only(name: str, now: HostsSituation) -> None:
    margin = margin_s(now.unit_s, now.check_interval_s)
    for action in actions(build_hosts_policy(name).decide(now)):
        if isinstance(action, ReleaseHost | LeaseAgain) and not now.hosts[action.host_id].releasing:
            end_s = end_of_unit_s(now.hosts[action.host_id].paid_until_s, now.unit_s, now.now_s)
            assert is_due(end_s, now.now_s, margin)


@pytest.mark.parametrize("name", HOSTS_POLICIES)
@settings(max_examples=40)
@given(now=situations())
def test_without_a_measured_queue_nothing_is_taken_away(name: str, now: HostsSituation) -> None:
    blind = replace(now, seen={key: replace(seen_of, queue_items=None) for key, seen_of in now.seen.items()})
    found = actions(build_hosts_policy(name).decide(blind))
    assert not [action for action in found if isinstance(action, StopInstance)]
    given_back = [action.host_id for action in found if isinstance(action, ReleaseHost)]
    assert all(now.hosts[host_id].releasing for host_id in given_back)


@given(
    interval_s=st.floats(0.5, 4_000),
    unit_s=st.floats(1, 8_000),
    settle_s=st.floats(0, 100),
    share=st.floats(0, 0.2),
    phase=st.floats(0, 1),
    number=st.integers(0, 50),
)
def test_a_look_comes_before_the_end_of_each_unit_and_in_time(
    interval_s: float, unit_s: float, settle_s: float, share: float, phase: float, number: int
) -> None:
    """Whatever the interval between looks and the unit: the last look but one that is early enough finds it due."""
    first_s, end_s = phase * interval_s, (number + 1) * unit_s
    margin = margin_s(unit_s, interval_s, share, settle_s)
    last = math.floor((end_s - settle_s - first_s) / interval_s)  # the last look that leaves settle_s
    look_s = first_s + last * interval_s
    assert is_due(end_s, look_s, margin)
    assert end_s - look_s >= settle_s - 1e-6


@given(st.floats(0, 1e6), st.floats(1, 1e4), st.floats(0, 1e6))
def test_the_unit_that_runs_ends_after_now_and_within_a_unit(paid_s: float, unit_s: float, now_s: float) -> None:
    end_s = end_of_unit_s(paid_s, unit_s, now_s)
    assert end_s > now_s
    assert end_s <= max(paid_s, now_s + unit_s) + 1e-6
    assert math.isclose((end_s - paid_s) / unit_s, round((end_s - paid_s) / unit_s), abs_tol=1e-6)
