"""The guards, one by one and together; pure."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.control.decide import Avoided, Circumstances, decide
from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.models.forecasting.foresight import foresight
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Candidate, Decision, Reason, Situation, SizedWorker
from perdix.policies.planning.policy import Perdix
from perdix.settings.stored import restored
from perdix.settings.stream_job import Bounds, Objectives
from perdix.targets.contract import Running

NOW_S = 1_000.0


class Wanting:
    """A policy that wants a number of workers."""

    name = "wanting"
    learns = False

    def __init__(self, scale_out: int) -> None:
        self.scale_out = scale_out

    def decide(self, situation: Situation) -> Decision:
        way = Reason.SCALE_OUT if self.scale_out > situation.scale_out else Reason.SCALE_IN
        candidates = tuple(Candidate(n, 10.0 * n, 10.0 + n, None) for n in range(1, 13))
        return Decision("wanting", self.scale_out, way, "Wanted.", candidates, 10.0 + self.scale_out, {"asked": True})


def situation(**changes) -> Situation:
    base = Situation(
        now_s=NOW_S,
        scale_out=4,
        workload_per_s=30.0,
        recent_workload_per_s=30.0,
        lag_records=0.0,
        cpu_load=0.5,
        forecast=Forecast(NOW_S, 1.0, np.full(900, 30.0)),
        capacities={n: Estimate(n, 10.0 * n, 9.0 * n, 11.0 * n, True, "") for n in range(1, 13)},
        downtimes=Downtimes(),
        bounds=Bounds(),
        objectives=Objectives(rescales_per_day=5),
    )
    return replace(base, **changes)


def circumstances(**changes) -> Circumstances:
    return replace(Circumstances(Running(4, 4, settled=True)), **changes)


def test_without_a_guard_the_policy_has_its_way() -> None:
    verdict = decide(Wanting(6), situation(), circumstances())
    assert verdict.decision == verdict.proposed
    assert not verdict.guarded


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        (Reason.HOLD_PAUSED, {"paused": "by an operator until noon"}),
        (Reason.HOLD_UNSETTLED, {"running": Running(4, 6, settled=False)}),
        (Reason.HOLD_UNSETTLED, {"wanted": 6}),
        (Reason.HOLD_AVOIDED, {"avoided": [Avoided(5, NOW_S + 1, "no room", and_above=True)]}),
        (Reason.HOLD_BUDGET, {}),
    ],
)
def test_each_guard_holds_and_tells_what_would_have_been(reason: Reason, changes) -> None:
    spent = situation(rescales_today=5 if reason is Reason.HOLD_BUDGET else 0)
    verdict = decide(Wanting(6), spent, circumstances(**changes))
    assert verdict.decision.scale_out == 4
    assert verdict.decision.reason is reason
    assert "Without that, 6 workers: Wanted." in verdict.decision.sentence
    assert verdict.proposed.scale_out == 6
    assert verdict.decision.recovery_s is None


def test_grace_holds_right_after_a_rescale() -> None:
    verdict = decide(Wanting(6), situation(since_rescale_s=119.0), circumstances())
    assert verdict.decision.reason is Reason.HOLD_GRACE
    assert decide(Wanting(6), situation(since_rescale_s=120.0), circumstances()).decision.scale_out == 6


def test_another_size_supersedes_the_one_under_way() -> None:
    assert decide(Wanting(7), situation(), circumstances(wanted=6)).decision.scale_out == 7


def test_what_a_target_tries_to_give_already_is_not_asked_for_again_where_perdix_asks() -> None:
    """As while a worker that was lost has no place to come back to."""
    short, wanted = Running(3, 4, settled=True), situation(scale_out=3)
    assert decide(Wanting(4), wanted, circumstances(running=short, acts=True)).decision.reason is Reason.HOLD_AVOIDED
    for other in (circumstances(running=short), circumstances(running=short, acts=True, wanted=6)):
        assert decide(Wanting(4), wanted, other).decision.scale_out == 4
    assert decide(Wanting(5), wanted, circumstances(running=short, acts=True)).decision.scale_out == 5


def test_an_overloaded_job_may_overdraw_its_budget_but_not_to_scale_in() -> None:
    overloaded = situation(workload_per_s=50.0, rescales_today=5)
    assert decide(Wanting(6), overloaded, circumstances()).decision.scale_out == 6
    assert decide(Wanting(2), overloaded, circumstances()).decision.reason is Reason.HOLD_BUDGET
    never = replace(overloaded, objectives=Objectives(rescales_per_day=0))
    assert decide(Wanting(6), never, circumstances()).decision.reason is Reason.HOLD_BUDGET


@pytest.mark.parametrize(("least", "most", "wanted"), [(1, 3, 3), (6, 8, 6)])
def test_a_budget_that_is_used_up_keeps_a_job_outside_bounds_that_changed_for_an_hour_at_most(
    least: int, most: int, wanted: int
) -> None:
    outside = situation(bounds=Bounds(minimum=least, maximum=most), rescales_today=5, since_rescale_s=3_600.0)
    decision = decide(Wanting(wanted), outside, circumstances()).decision
    assert decision.scale_out == wanted
    sentence = f"Beyond the budget of 5 rescales per day, because the job's bounds are {least} to {most}."
    assert decision.sentence.endswith(sentence)
    never = Objectives(rescales_per_day=0)
    for held in (replace(outside, since_rescale_s=3_599.0), replace(outside, objectives=never)):
        assert decide(Wanting(wanted), held, circumstances()).decision.reason is Reason.HOLD_BUDGET


def test_a_bad_size_is_passed_over_towards_what_runs() -> None:
    small = circumstances(avoided=[Avoided(2, NOW_S + 1, "did not recover")])
    decision = decide(Wanting(2), situation(), small).decision
    assert decision.scale_out == 3
    assert decision.recovery_s == 13.0
    assert "did not recover" in decision.sentence
    large = circumstances(avoided=[Avoided(6, NOW_S + 1, "5 of 8 were reached", and_above=True)])
    assert decide(Wanting(8), situation(), large).decision.scale_out == 5
    over = circumstances(avoided=[Avoided(2, NOW_S, "long ago")])
    assert decide(Wanting(2), situation(), over).decision.scale_out == 2


@pytest.mark.parametrize("current", [4, 6])
def test_no_bad_size_keeps_a_job_above_bounds_that_were_lowered(current: int) -> None:
    bad = circumstances(running=Running(current, current, settled=True), avoided=[Avoided(3, NOW_S + 1, "failed")])
    above = situation(scale_out=current, bounds=Bounds(minimum=1, maximum=3))
    assert decide(Wanting(3), above, bad).decision.scale_out == 3
    assert decide(Wanting(2), above, replace(bad, avoided=[Avoided(2, NOW_S + 1, "failed")])).decision.scale_out == 3


def test_nor_below_bounds_that_were_raised() -> None:
    bad = circumstances(running=Running(3, 3, settled=True), avoided=[Avoided(6, NOW_S + 1, "failed")])
    below = situation(scale_out=3, bounds=Bounds(minimum=6, maximum=8))
    assert decide(Wanting(6), below, bad).decision.scale_out == 6
    assert decide(Wanting(7), below, replace(bad, avoided=[Avoided(7, NOW_S + 1, "failed")])).decision.scale_out == 6


# ---- a policy that fails, or answers what cannot be -----------------------------------------------


class Rogue:
    """A policy whose answer a test chooses."""

    name = "rogue"
    learns = False

    def __init__(self, act: Callable[[Situation], Any]) -> None:
        self.act = act

    def decide(self, situation: Situation) -> Decision:
        return self.act(situation)


def answer(**changes: Any) -> Rogue:
    """A policy that is right in all but what is changed."""
    whole = Decision("rogue", 6, Reason.SCALE_OUT, "I know better.", (), 60.0, {"asked": 1})
    return Rogue(lambda _: replace(whole, **changes))


def raising(error: Exception) -> Rogue:
    def act(_: Situation) -> Decision:
        raise error

    return Rogue(act)


def recursing(situation: Situation) -> Decision:
    return recursing(situation)


def endless() -> list[Any]:
    """A list that contains itself."""
    made: list[Any] = []
    made.append(made)
    return made


def nested(depth: int) -> list[Any]:
    """What a policy remembers that keeps its former memory inside its new one."""
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        pytest.param(raising(ZeroDivisionError("division by zero")), "it failed: ZeroDivisionError", id="raises"),
        pytest.param(raising(KeyError(0.95)), "it failed: KeyError", id="looks up what is not there"),
        pytest.param(raising(MemoryError()), "it failed: MemoryError", id="runs out of memory"),
        pytest.param(Rogue(recursing), "it failed: RecursionError", id="never comes to an end of itself"),
        pytest.param(Rogue(lambda _: None), "None", id="answers nothing"),
        pytest.param(Rogue(lambda _: 6), "6", id="answers a bare number"),
        pytest.param(Rogue(lambda _: {"scale_out": 6}), "scale_out", id="answers a mapping"),
        pytest.param(answer(scale_out=math.nan), "nan", id="not a number"),
        pytest.param(answer(scale_out=math.inf), "inf", id="infinite"),
        pytest.param(answer(scale_out=4.5), "4.5", id="a fraction"),
        pytest.param(answer(scale_out=6.0), "6.0", id="a float, whole or not"),
        pytest.param(answer(scale_out=True), "True", id="a truth value"),
        pytest.param(answer(scale_out="six"), "six", id="a word"),
        pytest.param(answer(scale_out=None), "None", id="no scale-out"),
        pytest.param(answer(scale_out=0), "0, outside 1..12", id="none at all"),
        pytest.param(answer(scale_out=-3), "-3, outside 1..12", id="negative"),
        pytest.param(answer(scale_out=13), "13, outside 1..12", id="above the bounds"),
        pytest.param(answer(scale_out=10**12), "outside 1..12", id="absurd"),
        pytest.param(answer(mix=[6]), "it failed: AttributeError", id="a mix without names"),
        pytest.param(answer(recovery_s=math.nan), "nan", id="a recovery that is not a number"),
        pytest.param(answer(recovery_s=-1.0), "-1.0", id="a recovery before the stop"),
        pytest.param(answer(recovery_s="soon"), "soon", id="a word for a recovery"),
        pytest.param(answer(memory={"at": object()}), "object", id="memory that is not JSON"),
        pytest.param(answer(memory={"at": math.nan}), "", id="memory with NaN, which is not JSON"),
        pytest.param(answer(memory={"at": endless()}), "", id="memory that contains itself"),
        pytest.param(answer(memory={"at": nested(100_000)}), "", id="memory that is nested ever deeper"),
        pytest.param(answer(memory=None), "", id="no memory"),
        pytest.param(answer(memory=[1, 2]), "", id="memory without names"),
    ],
)
def test_a_policy_that_cannot_be_followed_leaves_what_runs(policy: Rogue, why: str) -> None:
    here = situation(memory={"asked": 0})
    verdict = decide(policy, here, circumstances())
    assert verdict.decision.scale_out == 4
    assert verdict.decision.reason is Reason.HOLD_INVALID
    assert verdict.decision.sentence.startswith("The policy rogue cannot be followed: ")
    assert why in verdict.decision.sentence
    assert verdict.decision.recovery_s is None
    assert verdict.proposed.memory == {"asked": 0}, "what it remembered before is kept"


@pytest.mark.parametrize("numpy_int", [np.int64(6), np.int32(6)])
def test_a_whole_number_of_another_library_is_no_defect_or_is_said_so(numpy_int: Any) -> None:
    verdict = decide(answer(scale_out=numpy_int), situation(), circumstances())
    assert verdict.decision.scale_out in (4, 6)
    assert verdict.decision.scale_out == 6 or verdict.decision.reason is Reason.HOLD_INVALID


def test_outside_the_bounds_holding_what_runs_is_no_defect() -> None:
    outside = situation(scale_out=15)
    verdict = decide(answer(scale_out=15, reason=Reason.HOLD_BLIND), outside, circumstances())
    assert (verdict.decision.scale_out, verdict.decision.reason) == (15, Reason.HOLD_BLIND)
    lower = decide(answer(scale_out=14), outside, circumstances())
    assert (lower.decision.scale_out, lower.decision.reason) == (15, Reason.HOLD_INVALID)


def test_a_recovery_that_never_ends_or_is_not_predicted_is_no_defect() -> None:
    for recovery_s in (None, 0.0, 60):
        assert decide(answer(recovery_s=recovery_s), situation(), circumstances()).decision.scale_out == 6


def test_a_defect_is_still_paused_or_settled_first() -> None:
    """The reader is told what binds: an operator's pause is no defect of the policy."""
    paused = decide(raising(ValueError("?")), situation(), circumstances(paused="by an operator until noon"))
    assert paused.decision.scale_out == 4
    assert paused.decision.reason is Reason.HOLD_PAUSED


def test_what_an_operator_does_to_the_process_is_not_swallowed() -> None:
    def interrupted(_: Situation) -> Decision:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decide(Rogue(interrupted), situation(), circumstances())


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2)
)


@given(
    scale_out=st.one_of(st.integers(1, 12), anything),
    recovery_s=anything,
    memory=st.one_of(anything, st.dictionaries(st.text(max_size=3), anything)),
)
def test_whatever_is_answered_what_is_decided_can_be_carried_out_and_stored(scale_out, recovery_s, memory) -> None:
    decision = decide(
        answer(scale_out=scale_out, recovery_s=recovery_s, memory=memory), situation(), circumstances()
    ).decision
    assert type(decision.scale_out) is int
    assert 1 <= decision.scale_out <= 12
    assert decision.recovery_s is None or decision.recovery_s >= 0
    json.dumps(dict(decision.memory), allow_nan=False)


@given(
    wanted=st.integers(1, 12),
    current=st.integers(1, 12),
    since_s=st.floats(0, 1_000),
    today=st.integers(0, 10),
    barred=st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=4),
    paused=st.booleans(),
    settled=st.booleans(),
)
def test_guards_only_ever_move_towards_what_runs(wanted, current, since_s, today, barred, paused, settled) -> None:
    avoided = [Avoided(size, NOW_S + 1, "bad", above) for size, above in barred]
    around = Circumstances(
        Running(current, current, settled),
        paused="why" if paused else None,
        avoided=avoided,
    )
    here = situation(scale_out=current, since_rescale_s=since_s, rescales_today=today)
    verdict = decide(Wanting(wanted), here, around)
    chosen = verdict.decision.scale_out
    assert min(wanted, current) <= chosen <= max(wanted, current)
    if chosen != current:
        assert not paused
        assert settled
        assert since_s >= around.grace_s
        assert not any(size.bars(chosen, NOW_S) for size in avoided)
    assert verdict == decide(Wanting(wanted), here, around)


SIZES = {"small": SizedWorker(0.6, 512.0, 0.03, 6.0), "large": SizedWorker(2.4, 1024.0, 0.11, 18.0)}
RUNS = {"small": 3, "large": 1}


class WantingSizes:
    """A policy that wants a mix of sizes."""

    name = "wanting-sizes"
    learns = False

    def __init__(self, mix: dict, scale_out: int | None = None) -> None:
        self.mix, self.scale_out = mix, sum(mix.values()) if scale_out is None else scale_out

    def decide(self, situation: Situation) -> Decision:
        return Decision(self.name, self.scale_out, Reason.SCALE_OUT, "Wanted.", mix=self.mix)


def of_sizes(**changes) -> Situation:
    return situation(**{"sizes": SIZES, "mix": RUNS, "capacities": {}, **changes})


def test_other_sizes_of_as_many_workers_are_a_rescale_like_any() -> None:
    policy = WantingSizes({"large": 4})
    assert decide(policy, of_sizes(), circumstances()).decision.mix == {"large": 4}
    soon = decide(policy, of_sizes(since_rescale_s=60.0), circumstances())
    assert (soon.decision.reason, soon.decision.mix, soon.guarded) == (Reason.HOLD_GRACE, RUNS, True)
    assert "Without that, 4 workers (4 large): Wanted." in soon.decision.sentence
    same = decide(WantingSizes(dict(reversed(RUNS.items()))), of_sizes(since_rescale_s=60.0), circumstances())
    assert same.decision.reason is Reason.SCALE_OUT, "what runs already is no rescale, and needs no guard"


def test_a_mix_that_is_asked_for_already_is_not_asked_for_anew() -> None:
    asked = circumstances(wanted=4, wanted_mix={"large": 4})
    assert decide(WantingSizes({"large": 4}), of_sizes(), asked).decision.reason is Reason.HOLD_UNSETTLED
    assert decide(WantingSizes({"large": 3, "small": 1}), of_sizes(), asked).decision.reason is Reason.SCALE_OUT


def test_a_mix_that_turned_out_badly_bars_no_other_mix_of_as_many_workers() -> None:
    barred = circumstances(avoided=(Avoided(4, NOW_S + 60, "the target refused it", mix={"large": 4}),))
    held = decide(WantingSizes({"large": 4}), of_sizes(), barred).decision
    assert (held.reason, held.mix) == (Reason.HOLD_AVOIDED, RUNS)
    assert decide(WantingSizes({"large": 3, "small": 1}), of_sizes(), barred).decision.mix == {"large": 3, "small": 1}
    assert restored(Avoided, json.loads(json.dumps(barred.avoided[0].to_state()))) == barred.avoided[0]


def test_no_bad_mix_keeps_a_job_above_bounds_that_were_lowered() -> None:
    barred = circumstances(avoided=(Avoided(2, NOW_S + 60, "the job did not recover", mix={"large": 2}),))
    above = of_sizes(bounds=Bounds(minimum=1, maximum=3))
    assert decide(WantingSizes({"large": 2}), above, barred).decision.mix == {"large": 2}


def test_an_overloaded_mix_may_overdraw_the_budget_by_what_adds_to_it() -> None:
    spent = of_sizes(rescales_today=5)
    overloaded = replace(spent, workload_per_s=40.0)  # 3 x 6 + 18 = 36
    assert decide(WantingSizes({"large": 3}), overloaded, circumstances()).decision.mix == {"large": 3}, (
        "fewer, and more"
    )
    assert decide(WantingSizes({"small": 5}), overloaded, circumstances()).decision.reason is Reason.HOLD_BUDGET
    assert decide(WantingSizes({"large": 3}), spent, circumstances()).decision.reason is Reason.HOLD_BUDGET


@pytest.mark.parametrize(
    ("mix", "scale_out", "says"),
    [
        ({"huge": 4}, None, "size 'huge', which the job does not have"),
        ({"large": 0, "small": 4}, None, "not whole numbers from 1 on"),
        ({"large": 1.5, "small": 2.5}, 4, "not whole numbers from 1 on"),
        ({"large": 2}, 4, "4 workers and a mix of 2"),
    ],
)
def test_a_mix_that_cannot_be_is_held(mix: dict, scale_out: int | None, says: str) -> None:
    decision = decide(WantingSizes(mix, scale_out), of_sizes(), circumstances()).decision
    assert (decision.reason, decision.scale_out, decision.mix) == (Reason.HOLD_INVALID, 4, RUNS)
    assert says in decision.sentence


# ---- what a policy that learns may do ------------------------------------------------------------------------------


class Learning(Wanting):
    """A policy that wants a number of workers by what it learned."""

    name = "learning"
    learns = True


WAVE = 30.0 + 5.0 * np.sin(np.arange(120) / 20.0)
NOISE = np.maximum(30.0 + 10.0 * np.random.default_rng(1).standard_normal(120), 0.0)


def seen(minutes=WAVE, **changes) -> Situation:
    measured = {
        "worker_cpu": (0.10, 0.13),
        "latency_p95_ms": 400.0,
        "minutes": minutes,
        "foresight": foresight(minutes),
    }
    return situation(**{**measured, **changes})


def test_idle_workers_are_no_ground_for_more() -> None:
    """CPU of 13 %, nothing waits, and a flat forecast: what is believed of the capacity must be wrong."""
    verdict = decide(Learning(12), seen(), circumstances())
    assert (verdict.decision.reason, verdict.decision.scale_out) == (Reason.HOLD_IDLE, 4)
    assert "13%" in verdict.decision.sentence
    assert verdict.guarded


@pytest.mark.parametrize(
    "why",
    [
        {"worker_cpu": (0.2, 0.8)},
        {"lag_records": 1_000.0},
        {"latency_p95_ms": 9_000.0},
        {"forecast": Forecast(NOW_S, 1.0, np.linspace(30.0, 300.0, 900))},
        {"lag_records": None},
        {"worker_cpu": (), "cpu_load": None},
    ],
    ids=["busy", "lag", "late", "forecast", "lag unknown", "CPU unknown"],
)
def test_any_ground_is_enough(why) -> None:
    assert decide(Learning(12), seen(**why), circumstances()).decision.scale_out == 12


def test_idle_workers_may_be_given_back_and_who_only_measures_is_not_guarded() -> None:
    assert decide(Learning(2), seen(), circumstances()).decision.scale_out == 2
    assert decide(Wanting(12), seen(), circumstances()).decision.scale_out == 12


def test_idle_workers_are_given_back_as_far_as_cpu_allows_where_rates_say_a_little_more() -> None:
    """Seen in the zoo: 45 workers need more CPU for what 11 carried for hours, and stayed for four hours as "blind"."""
    many = seen(scale_out=45, cpu_load=0.48, bounds=Bounds(minimum=1, maximum=48))
    runs = circumstances(running=Running(45, None, settled=True))
    given_back = decide(Learning(13), many, runs).decision
    assert given_back.scale_out == 23
    assert "23 instead of 13 workers: on 13 workers what is used now would take 117% of" in given_back.sentence
    busy = decide(Learning(18), replace(many, cpu_load=0.6), runs).decision
    assert (busy.scale_out, busy.reason) == (45, Reason.HOLD_BLIND)
    far = decide(Learning(8), many, runs).decision
    assert (far.scale_out, far.reason) == (45, Reason.HOLD_BLIND), "one of the two is wrong"


def test_cpu_that_workers_use_whatever_they_do_is_no_contradiction_to_a_load_of_nothing() -> None:
    """Seen in the zoo: 49 workers that each idle at 30 % stood through 17 hours without a record, as "blind"."""
    nothing = seen(scale_out=49, workload_per_s=0.0, cpu_load=0.3, bounds=Bounds(minimum=1, maximum=54))
    runs = circumstances(running=Running(49, None, settled=True))
    unknown = decide(Learning(1), nothing, runs).decision
    assert (unknown.scale_out, unknown.reason) == (49, Reason.HOLD_BLIND), "nobody knows what they idle at"
    given_back = decide(Learning(1), replace(nothing, idle_cpu=0.28), runs).decision
    assert given_back.scale_out == 3, "as many as have the CPU that is used"
    works = decide(Learning(1), replace(nothing, cpu_load=0.6, idle_cpu=0.6), runs).decision
    assert (works.scale_out, works.reason) == (49, Reason.HOLD_BLIND), "who uses so much does something"


def test_a_load_that_cannot_be_foreseen_is_not_gone_after() -> None:
    verdict = decide(Learning(9), seen(NOISE, worker_cpu=(0.7,)), circumstances())
    assert verdict.decision.scale_out != 9
    assert "cannot be foreseen" in verdict.decision.sentence
    assert decide(Wanting(9), seen(NOISE), circumstances()).decision.scale_out == 9
    ahead = seen(NOISE, worker_cpu=(0.7,), events=("sale",))
    assert decide(Learning(9), ahead, circumstances()).decision.scale_out == 9, "an event is known of"


def test_what_is_left_of_the_error_budget_is_known_while_a_job_stands_still() -> None:
    decision = decide(Perdix(), seen(NOISE, worker_cpu=(0.7,)), circumstances()).decision
    assert "cannot be foreseen" in decision.sentence
    assert decision.budget_left == 1.0


def test_of_a_few_minutes_nothing_follows_unless_the_job_falls_behind() -> None:
    few = seen(WAVE[:5], worker_cpu=(0.9,))
    assert decide(Learning(9), few, circumstances()).decision.reason is Reason.HOLD_UNKNOWN
    assert decide(Learning(9), replace(few, lag_records=1e4), circumstances()).decision.scale_out == 9


def test_a_job_whose_busiest_worker_is_full_need_not_wait_until_records_do() -> None:
    """The load rises to what three workers take in the third minute: four seconds of it wait, and none is late yet."""
    full = seen(WAVE[:3], worker_cpu=(0.7, 0.97), lag_records=4.0 * WAVE[2])
    assert decide(Learning(9), full, circumstances()).decision.scale_out == 9
    assert decide(Learning(2), full, circumstances()).decision.scale_out == 4, "there is no hurry to give back"


def test_a_job_whose_load_fills_its_workers_within_a_minute_need_not_wait() -> None:
    """Seen on a real Flink: the load doubled in two minutes, and the third was waited for with the CPU at 97 %."""
    rises = Forecast(NOW_S, 1.0, np.linspace(35.0, 50.0, 900))
    filling = seen(np.array([18.0, 24.0, 30.0]), worker_cpu=(0.7, 0.85), forecast=rises)
    assert decide(Learning(9), filling, circumstances()).decision.scale_out == 9
    assert decide(Learning(2), filling, circumstances()).decision.scale_out == 4, "there is no hurry to give back"
    half = replace(filling, worker_cpu=(0.4, 0.5))
    assert decide(Learning(9), half, circumstances()).decision.reason is Reason.HOLD_UNKNOWN
    stays = replace(filling, forecast=Forecast(NOW_S, 1.0, np.full(900, 30.0)))
    assert decide(Learning(9), stays, circumstances()).decision.reason is Reason.HOLD_UNKNOWN


def test_a_busy_job_that_is_late_need_not_wait_for_minutes() -> None:
    """Seen on a real Flink: ten minutes at a CPU load of 1 and a p95 of four times its objective, with little lag."""
    late = seen(WAVE[:5], worker_cpu=(0.7, 0.97), latency_p95_ms=9_000.0)
    assert decide(Learning(9), late, circumstances()).decision.scale_out == 9
    assert decide(Learning(2), late, circumstances()).decision.scale_out == 4, "there is no hurry to give back"
    idle = replace(late, worker_cpu=(0.2, 0.5))
    assert decide(Learning(9), idle, circumstances()).decision.scale_out == 4, "more workers would not help"
