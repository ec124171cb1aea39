"""Which stages of a plan, and which candidates, are kept with a decision."""

from __future__ import annotations

from perdix.control.account import MOST_CANDIDATES, PLAN_ROWS, kept_candidates, kept_stages
from perdix.control.decide import Verdict
from perdix.policies.contract import Candidate, Decision, Planned, Reason
from tests.policies.conftest import situation_of


def planned(*scale_outs: int, lasts_s: float = 60.0) -> list[Planned]:
    return [Planned(k * lasts_s, 1_000.0, n, 0.0, 60.0, lasts_s) for k, n in enumerate(scale_outs)]


def test_a_plan_that_ends_before_a_quarter_of_an_hour_is_kept_to_its_end() -> None:
    assert [stage.after_s for stage in kept_stages(planned(*[4] * 14))] == [0.0, 240.0, 780.0]


def test_each_change_of_the_workers_is_kept() -> None:
    plan = planned(4, 4, 4, 6, 6, 6, 6, 6, 3, 3, 3, 3, 3, 3)
    assert [(stage.after_s, stage.scale_out) for stage in kept_stages(plan)] == [
        (0.0, 4),
        (180.0, 6),
        (240.0, 6),
        (480.0, 3),
        (780.0, 3),
    ]


def test_a_plan_that_changes_with_every_stage_stays_small() -> None:
    plan = planned(*[4, 5] * 30)
    kept = kept_stages(plan)
    assert len(kept) == PLAN_ROWS
    assert {0.0, 240.0, 840.0, 1_740.0, 3_540.0} <= {stage.after_s for stage in kept}
    assert sorted(kept, key=lambda stage: stage.after_s) == list(kept)


def test_no_plan_has_no_stages() -> None:
    assert list(kept_stages([])) == []


def kept(decided: int, *, proposed: int, runs: int) -> list[int]:
    """The scale-outs that are kept of 100."""
    every = tuple(Candidate(n, 1_000.0 * n, None, None) for n in range(1, 101))
    policy, guards = (Decision("perdix", n, Reason.SCALE_OUT, "Why.", every) for n in (proposed, decided))
    return [candidate.scale_out for candidate in kept_candidates(Verdict(guards, policy), situation_of(scale_out=runs))]


def test_of_many_candidates_those_that_are_asked_about_are_kept() -> None:
    assert kept(3, proposed=3, runs=3) == list(range(1, MOST_CANDIDATES + 1))
    assert {5, 6, 7, 39, 40, 41, 59, 60, 61} <= set(kept(40, proposed=60, runs=6))
    assert len(kept(40, proposed=60, runs=6)) == MOST_CANDIDATES
    assert kept(99, proposed=99, runs=99)[-3:] == [98, 99, 100]
