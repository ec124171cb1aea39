"""Which stages of a plan are kept with a decision."""

from __future__ import annotations

from perdix.control.account import PLAN_ROWS, kept_stages
from perdix.policies.contract import Planned


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
