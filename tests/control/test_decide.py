"""The guards, one by one and together; pure."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.decide import Avoided, Circumstances, decide
from models.capacity.contract import Estimate
from models.forecasting.contract import Forecast
from models.recovery.downtime import Downtimes
from policies.contract import Candidate, Decision, Reason, Situation
from settings.stream_job import Bounds, Objectives
from targets.contract import Running

NOW_S = 1_000.0


class Wanting:
    """A policy that wants a number of workers."""

    name = "wanting"

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
        (Reason.HOLD_BUDGET, {"rescales_today": 5}),
    ],
)
def test_each_guard_holds_and_tells_what_would_have_been(reason: Reason, changes) -> None:
    verdict = decide(Wanting(6), situation(), circumstances(**changes))
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


def test_an_overloaded_job_may_overdraw_its_budget_but_not_to_scale_in() -> None:
    overloaded = situation(workload_per_s=50.0)
    spent = circumstances(rescales_today=5)
    assert decide(Wanting(6), overloaded, spent).decision.scale_out == 6
    assert decide(Wanting(2), overloaded, spent).decision.reason is Reason.HOLD_BUDGET
    never = replace(overloaded, objectives=Objectives(rescales_per_day=0))
    assert decide(Wanting(6), never, circumstances()).decision.reason is Reason.HOLD_BUDGET


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
        rescales_today=today,
        paused="why" if paused else None,
        avoided=avoided,
    )
    here = situation(scale_out=current, since_rescale_s=since_s)
    verdict = decide(Wanting(wanted), here, around)
    chosen = verdict.decision.scale_out
    assert min(wanted, current) <= chosen <= max(wanted, current)
    if chosen != current:
        assert not paused
        assert settled
        assert since_s >= around.grace_s
        assert not any(one.bars(chosen, NOW_S) for one in avoided)
    assert verdict == decide(Wanting(wanted), here, around)
