"""Equal workers on leased hosts: added when they are needed, taken away only where a host's unit ends."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.policies.build import build_policy
from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.visp.hosts import LeasedHost, Placement
from perdix.policies.visp.options import VispOptions
from perdix.policies.visp.policy import Visp
from perdix.settings.yaml_files import SettingsError
from tests.policies.conftest import NOW_S, situation_of

Situate = Callable[..., Situation]
WELL = {"latency_p95_ms": 900.0, "lag_records": 100.0}  # far below the objective of 5 s; 29 ms of records wait
LATE = {"latency_p95_ms": 6_000.0, "lag_records": 70_000.0}  # 20 s of records wait


def hosts(**kept: tuple[float, int]) -> dict[str, Any]:
    """Hosts as they are remembered, by the seconds that their units still run and their workers."""
    return {"hosts": {name.replace("_", "-"): [NOW_S + left - 3_600.0, n] for name, (left, n) in kept.items()}}


def decided(situation: Situation, **options: Any) -> Decision:
    decision = Visp(VispOptions(**{"fill_hosts": False, **options})).decide(situation)
    assert json.loads(json.dumps(dict(decision.memory), allow_nan=False)) == dict(decision.memory)
    return decision


def planned(decision: Decision) -> dict[str, int]:
    """Host -> workers once the decision has happened."""
    kept = decision.memory["planned"] or decision.memory["hosts"]
    return {name: count for name, (_, count) in kept.items()}


def test_what_runs_is_packed_onto_hosts_that_are_leased_from_the_first_tick_on(situate: Situate) -> None:
    decision = decided(situate(scale_out=5, **WELL))
    assert decision.memory["hosts"] == {"host-1": [NOW_S, 4], "host-2": [NOW_S, 1]}
    assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_GOOD)
    assert decision.sentence == (
        "Latency 900 ms of 5,000 ms, 100 records wait. Host-1 has 4 workers, paid for 3,600 s more; "
        "host-2 has 1 worker, room for 3, paid for 3,600 s more."
    )


def test_a_late_job_gets_a_worker_where_there_is_room(situate: Situate) -> None:
    decision = decided(situate(scale_out=5, memory=hosts(host_1=(1_000, 4), host_2=(2_000, 1)), **LATE))
    assert (decision.scale_out, decision.reason) == (6, Reason.SCALE_OUT)
    assert planned(decision) == {"host-1": 4, "host-2": 2}
    assert decision.sentence == (
        "Latency 6,000 ms of 5,000 ms, 70,000 records wait: 1 worker more on host-2. Host-1 has 4 workers, "
        "paid for 1,000 s more; host-2 has 2 workers, room for 2, paid for 2,000 s more."
    )


def test_a_scale_out_fills_what_is_paid_for_because_each_one_stops_the_job(situate: Situate) -> None:
    late = situate(scale_out=5, memory=hosts(host_1=(1_000, 4), host_2=(2_000, 1)), **LATE)
    decision = decided(late, fill_hosts=True)
    assert planned(decision) == {"host-1": 4, "host-2": 4}
    assert "1 worker more on host-2, 2 workers more fill hosts that are paid for." in decision.sentence
    bounded = replace(late, bounds=late.bounds.model_copy(update={"maximum": 7}))
    assert decided(bounded, fill_hosts=True).scale_out == 7
    assert decided(replace(late, latency_p95_ms=900.0), fill_hosts=True).scale_out == 5


def test_a_host_is_leased_when_all_are_full(situate: Situate) -> None:
    decision = decided(situate(scale_out=4, memory=hosts(host_1=(1_000, 4)), **LATE), out_step=2)
    assert planned(decision) == {"host-1": 4, "host-2": 2}
    assert decision.memory["planned"]["host-2"] == [NOW_S, 2]
    assert "host-2 is leased" in decision.sentence


@pytest.mark.parametrize("missing", [{"latency_p95_ms": None}, {"lag_records": None}, {"latency_p95_ms": math.nan}])
def test_what_is_not_measured_changes_nothing(situate: Situate, missing: dict[str, Any]) -> None:
    memory = hosts(host_1=(1_000, 4), host_2=(90, 1))
    for seen in (WELL, LATE):
        for forecast in (False, True):
            decision = decided(situate(scale_out=5, memory=memory, **{**seen, **missing}), forecast=forecast)
            assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_BLIND)
            assert "not measured" in decision.sentence


def test_workers_go_only_at_the_end_of_a_hosts_unit(situate: Situate) -> None:
    early = decided(situate(scale_out=5, memory=hosts(host_1=(1_000, 4), host_2=(500, 1)), **WELL))
    assert (early.scale_out, early.reason) == (5, Reason.HOLD_GOOD)
    ends = decided(situate(scale_out=5, load=3_000.0, memory=hosts(host_1=(1_000, 4), host_2=(90, 1)), **WELL))
    assert (ends.scale_out, ends.reason, planned(ends)) == (4, Reason.SCALE_IN, {"host-1": 4})
    assert "1 worker fewer, host-2 is given back, its unit ends in 90 s" in ends.sentence


def test_a_fifth_may_go_and_the_rest_moves_or_the_host_is_leased_again(situate: Situate) -> None:
    unknown: dict[str, Any] = {"capacities": {}, **WELL}
    room = decided(situate(scale_out=5, memory=hosts(host_1=(1_000, 3), host_2=(90, 2)), **unknown))
    assert planned(room) == {"host-1": 4}
    none = decided(situate(scale_out=6, memory=hosts(host_1=(1_000, 4), host_2=(90, 2)), **unknown))
    assert (none.scale_out, planned(none)) == (6, {"host-1": 4, "host-2": 2})
    assert "host-2 is leased again, its unit ends in 90 s, and no other host has room for worker" in none.sentence
    later = replace(situate(scale_out=6, **unknown), now_s=NOW_S + 60.0, memory=none.memory)
    assert "leased again" not in decided(later).sentence  # decided once for each unit


def test_hosts_that_end_together_are_named_together(situate: Situate) -> None:
    full = {f"host_{k}": (90, 4) for k in range(1, 6)}
    decision = decided(situate(scale_out=20, bounds=(20, 40), memory=hosts(**full), **WELL))
    assert "host-1, host-2, host-3 and 2 more are leased again, its unit ends in 90 s" in decision.sentence


def test_workers_never_only_move_because_the_job_restarts_for_it(situate: Situate) -> None:
    memory = hosts(host_1=(1_000, 2), host_2=(90, 1))
    decision = decided(situate(scale_out=3, memory=memory, bounds=(3, 12), **WELL))
    assert (decision.scale_out, planned(decision)) == (3, {"host-1": 2, "host-2": 1})
    assert "none of its instances could go for good" in decision.sentence


def test_an_empty_host_is_given_back_without_a_rescale(situate: Situate) -> None:
    decision = decided(situate(scale_out=4, memory=hosts(host_1=(1_000, 4), host_2=(90, 0)), **WELL))
    assert (decision.scale_out, planned(decision)) == (4, {"host-1": 4})
    assert "host-2 is given back" in decision.sentence


def test_the_lag_that_counts_depends_on_the_workload(situate: Situate) -> None:
    slow = {"latency_p95_ms": 6_000.0, "lag_records": 20_000.0}
    assert decided(situate(load=3_500.0, **slow)).scale_out == 6
    assert decided(situate(load=35_000.0, **slow)).scale_out == 5


@pytest.mark.parametrize("per_s", [0.05, 0.2, 0.9, 5.0])
def test_seconds_of_lag_are_those_of_a_slow_stream_too(situate: Situate, per_s: float) -> None:
    late = situate(load=per_s, latency_p95_ms=60_000.0, lag_records=20.0 * per_s)
    assert decided(late).scale_out == 6
    assert decided(replace(late, lag_records=4.0 * per_s)).scale_out == 5


def test_a_trend_counts_and_is_not_kept_over_a_rescale(situate: Situate) -> None:
    rising = {"latencies_s": [3.0, 3.5, 4.0, 4.4]}
    near = {"latency_p95_ms": 4_900.0, "lag_records": 70_000.0}
    assert decided(situate(memory=rising, **near)).scale_out == 6
    assert decided(situate(**near)).scale_out == 5
    grace = decided(situate(memory=rising, since_rescale_s=200.0, **near))
    assert (grace.reason, grace.memory["latencies_s"]) == (Reason.HOLD_GRACE, [])


def test_a_decision_that_was_refused_leaves_the_hosts_as_they_were(situate: Situate) -> None:
    memory = hosts(host_1=(1_000, 4))
    asked = decided(situate(scale_out=4, memory=memory, **LATE))
    assert planned(asked) == {"host-1": 4, "host-2": 1}
    refused = decided(replace(situate(scale_out=4, **WELL), now_s=NOW_S + 60.0, memory=asked.memory))
    assert refused.memory["hosts"] == memory["hosts"]
    carried = decided(replace(situate(scale_out=5, **WELL), now_s=NOW_S + 60.0, memory=asked.memory))
    assert carried.memory["hosts"] == {**memory["hosts"], "host-2": [NOW_S, 1]}
    assert carried.memory["scalings"] == 1


def test_when_others_rescale_the_hosts_follow_what_runs(situate: Situate) -> None:
    memory = hosts(host_1=(1_000, 4), host_2=(2_000, 2))
    fewer = decided(situate(scale_out=3, memory=memory, **WELL))
    assert planned(fewer) == {"host-1": 3, "host-2": 0}
    more = decided(situate(scale_out=9, memory=memory, **WELL))
    assert planned(more) == {"host-1": 4, "host-2": 4, "host-3": 1}
    assert more.memory["hosts"]["host-3"] == [NOW_S, 1]


@pytest.mark.parametrize(
    "broken",
    [
        {"hosts": 3},
        {"hosts": {"host-1": [NOW_S, 99]}},
        {"hosts": {"host-1": [NOW_S + 50.0, 1]}},
        {"hosts": {"host-1": [NOW_S, 1.5]}},
        {"hosts": {}, "planned": [], "latencies_s": "x", "scalings": -1, "leased": None, "leased_again": 7},
    ],
)
def test_what_was_remembered_and_cannot_be_is_forgotten(situate: Situate, broken: dict[str, Any]) -> None:
    decision = decided(situate(scale_out=2, memory=broken, **WELL))
    assert decision.memory["hosts"] == {"host-1": [NOW_S, 2]}


def test_the_shortest_lease_that_is_paid_comes_before_the_first_end() -> None:
    options = VispOptions(unit_s=1, minimum_s=60)
    placed = Placement({"host-1": LeasedHost(NOW_S, 1)})
    assert placed.end_s("host-1", options, NOW_S + 10.0) == NOW_S + 60.0
    assert placed.end_s("host-1", options, NOW_S + 100.5) == NOW_S + 101.0


def test_there_are_no_more_workers_than_the_bounds_and_the_hosts_allow(situate: Situate) -> None:
    most = decided(situate(scale_out=12, **LATE))
    assert (most.scale_out, most.reason) == (12, Reason.SCALE_MAXIMUM)
    assert "more would be needed, but 12 workers are the most" in most.sentence
    full = decided(situate(scale_out=4, memory=hosts(host_1=(1_000, 4)), **LATE), most_hosts=1)
    assert (full.scale_out, full.reason) == (4, Reason.SCALE_MAXIMUM)
    assert "all 1 hosts that may be are leased and full" in full.sentence
    above = decided(situate(scale_out=14, **WELL))
    assert (above.scale_out, above.reason) == (12, Reason.SCALE_IN)
    below = decided(situate(scale_out=1, bounds=(3, 12), **WELL))
    assert (below.scale_out, below.reason) == (3, Reason.SCALE_OUT)


def test_with_a_forecast_what_comes_decides_what_stays(situate: Situate) -> None:
    memory = hosts(host_1=(1_000, 4), host_2=(90, 3))
    falls = situate(scale_out=7, load=3_000.0, memory=memory, **WELL)
    kept = decided(
        replace(falls, forecast=replace(falls.forecast, mean=np.linspace(3_000.0, 5_500.0, 900))), forecast=True
    )
    assert (kept.scale_out, planned(kept)) == (7, {"host-1": 4, "host-2": 3})
    goes = decided(falls, forecast=True)  # 3,000/s at 85 % of 1,000/s each take 4 workers
    assert (goes.scale_out, planned(goes)) == (4, {"host-1": 4})


def test_a_whole_host_goes_where_the_learned_capacity_of_the_rest_carries_the_load(situate: Situate) -> None:
    memory = hosts(host_1=(1_000, 4), host_2=(90, 3))
    goes = decided(situate(scale_out=7, load=3_000.0, memory=memory, **WELL))
    assert planned(goes) == {"host-1": 4}
    assert planned(decided(situate(scale_out=7, load=3_500.0, memory=memory, **WELL))) == {"host-1": 4, "host-2": 3}
    unknown = situate(scale_out=7, load=3_000.0, capacities={}, memory=memory, **WELL)
    assert decided(unknown).scale_out == 7  # a fifth of 7 is one, and the other two have no room


def test_with_a_forecast_workers_come_before_they_are_needed(situate: Situate) -> None:
    calm = situate(scale_out=4, load=3_000.0, memory=hosts(host_1=(1_000, 4)), **WELL)
    rises = replace(calm, forecast=replace(calm.forecast, mean=np.linspace(3_000.0, 15_000.0, 900)))
    decision = decided(rises, forecast=True)
    assert decision.scale_out == 9  # 7,000/s within 300 s, at 85 % of 1,000/s each
    assert "(3,000/s wait" not in decision.sentence
    assert "4 workers more on host-2, 1 worker more on host-3, host-2 is leased" in decision.sentence
    assert "forecast within 300 s take 9" in decision.sentence


def test_a_worker_that_fits_on_no_host_is_an_error_with_the_mend() -> None:
    with pytest.raises(SettingsError) as caught:
        build_policy("visp", {"worker_cpu_cores": 8})
    assert str(caught.value) == (
        "policy 'visp': a worker needs 8 cores and 1,792 MB, but a host has 4 cores and 7,168 MB; "
        "take larger hosts or smaller workers"
    )
    with pytest.raises(SettingsError, match="minimum_s 90 is no multiple of unit_s 60"):
        build_policy("visp", {"unit_s": 60, "minimum_s": 90})


@st.composite
def walks(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Ticks of a job whose load, latency and real workers go their own way: late at first, and calmer then."""
    hot = {"load": 3_500.0, "latency_p95_ms": 9_000.0, "lag_records": 50_000.0, "happens": "done"}
    often = 6 if draw(st.booleans()) else 1
    tick = st.fixed_dictionaries(
        {
            "load": st.sampled_from([900.0, 900.0, 3_500.0]),
            "latency_p95_ms": st.sampled_from([*[500.0] * often, None, 4_900.0, 9_000.0]),
            "lag_records": st.sampled_from([*[0.0] * often, None, 50_000.0]),
            "happens": st.sampled_from([*["done"] * 6, "refused", "lost"]),
            "since_rescale_s": st.sampled_from([math.inf, math.inf, 100.0]),
        }
    )
    return [{**hot, "since_rescale_s": math.inf}] * draw(st.integers(0, 3)) + draw(
        st.lists(tick, min_size=10, max_size=25)
    )


@pytest.mark.hypothesis
def test_hosts_hold_what_runs_and_workers_go_at_ends_only() -> None:
    scaled_in = 0

    @settings(max_examples=60)
    @given(ticks=walks(), forecast=st.booleans(), fill=st.booleans(), unit_s=st.sampled_from([60, 300, 600, 3_600]))
    def whatever_happens(ticks: list[dict[str, Any]], forecast: bool, fill: bool, unit_s: int) -> None:
        nonlocal scaled_in
        options = VispOptions(forecast=forecast, fill_hosts=fill, unit_s=unit_s, grace_s=120.0)
        memory: dict[str, Any] = {}
        runs = 3
        for number, tick in enumerate(ticks):
            seen = {name: value for name, value in tick.items() if name != "happens"}
            now_s = NOW_S + 60.0 * number
            situation = replace(situation_of(scale_out=runs, memory=memory, bounds=(2, 9), **seen), now_s=now_s)
            situation = replace(situation, forecast=replace(situation.forecast, origin_s=now_s))
            decision = Visp(options).decide(situation)
            memory = json.loads(json.dumps(dict(decision.memory), allow_nan=False))
            held = {name: LeasedHost(*kept) for name, kept in memory["hosts"].items()}
            waits = decision.reason is Reason.HOLD_GRACE  # for what was planned before
            placed = memory["hosts"] if waits else memory["planned"] or memory["hosts"]
            after = {name: LeasedHost(*kept) for name, kept in placed.items()}
            assert all(0 <= host.workers <= 4 for host in [*held.values(), *after.values()])
            assert sum(host.workers for host in held.values()) == runs
            assert sum(host.workers for host in after.values()) == decision.scale_out
            assert 2 <= decision.scale_out <= 9
            margin_s = max(0.05 * unit_s, 120.0)
            for name in held.keys() - after.keys():  # given back
                assert Placement(held).end_s(name, options, now_s) - now_s <= margin_s + 1e-6
            if decision.scale_out < runs:
                scaled_in += 1
                assert held.keys() - after.keys()
                assert tick["latency_p95_ms"] is not None
                assert tick["lag_records"] is not None
            runs = {"done": decision.scale_out, "refused": runs, "lost": max(1, runs - 1)}[tick["happens"]]
            runs = max(2, runs)

    whatever_happens()
    assert scaled_in > 0


def test_a_rescale_that_takes_longer_than_a_tick_is_placed_as_it_was_planned(situate: Situate) -> None:
    before = situate(scale_out=10, memory=hosts(host_1=(100, 4), host_2=(2_000, 4), host_3=(3_000, 2)), **WELL)
    decision = decided(before, most_dropped=1.0)
    assert decision.scale_out == 6, "host-1 is given back at the end of its unit"

    def after(minutes: int, runs: int, memory: Any) -> Decision:
        since_s = 60.0 * minutes
        now = replace(before, now_s=NOW_S + since_s, scale_out=runs, since_rescale_s=since_s, memory=memory)
        return decided(now, most_dropped=1.0)

    at_once = after(2, 6, decision.memory)
    late = after(2, 6, after(1, 10, decision.memory).memory)
    assert at_once.memory == late.memory
    assert planned(late) == {"host-2": 4, "host-3": 2}


def test_a_tick_in_which_the_units_of_hundreds_of_hosts_end_is_no_wait(situate: Situate) -> None:
    """It took 54 s for 3,000 workers, as what goes was gathered anew for each worker of each host."""
    large = situate(load=1_200_000.0, bounds=(1, 2_400), scale_out=2_400, latency_p95_ms=900.0, lag_records=1.0)
    began = time.process_time()
    ending = replace(large, memory=Visp().decide(large).memory, now_s=large.now_s + 3_500.0)
    assert Visp().decide(ending).scale_out == 1_920
    assert time.process_time() - began < 3.0
