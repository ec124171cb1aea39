"""What all jobs come to, on rows made by hand: each target with a case that meets it and one that misses it."""

from typing import Any

import pytest

from benchmarks.zoo.coverage import CLASSES
from benchmarks.zoo.picture import picture
from benchmarks.zoo.summary import against_frontier, summary
from perdix.replay.canvas import to_png

Row = dict[str, Any]


def row(job: int, policy: str = "daedalus", kind: str = "noise", **changes: Any) -> Row:
    """A calm day on two workers."""
    figures = {
        "seed": 11,
        "job": job,
        "hours": 24.0,
        "policy": policy,
        "version": "v",
        "regime": None,
        "kind": kind,
        "held": True,
        "late_share": 0.01,
        "worker_s": 100.0,
        "rescales": 2,
        "rescales_per_day": 2.0,
        "asked_workers": 3,
        "size": 2 if policy == "best-static" else None,
    }
    return {**figures, **changes}


def best(job: int, kind: str = "noise", **changes: Any) -> Row:
    return row(job, "best-static", kind, rescales=0, rescales_per_day=0.0, asked_workers=None, **changes)


def missed(found: dict[str, Any], target: str) -> list[Any]:
    (one,) = [violation for violation in found["violations"] if violation["target"] == target]
    return [case.get("job", case.get("utilisation")) for case in one["missed"]]


def test_shares_are_of_the_jobs_that_a_fixed_size_can_hold() -> None:
    rows = [
        *(row(0, worker_s=50.0), best(0)),
        *(row(1, worker_s=200.0, held=False), best(1)),
        *(row(2, worker_s=800.0), best(2)),
        *(row(3, worker_s=900.0, held=False), best(3, held=False)),
    ]
    found = summary(rows, ["daedalus"])
    mine, fixed = found["policies"]
    assert (mine["policy"], mine["jobs"], mine["holdable"]) == ("daedalus", 4, 3)
    assert mine["held_share"] == pytest.approx(2 / 3)
    assert mine["of_best_static"] == pytest.approx((0.5 * 2.0 * 8.0) ** (1 / 3))
    assert mine["most_of_best_static"] == 8.0
    assert mine["rescales_per_day"] == 2.0
    assert (fixed["policy"], fixed["held_share"], fixed["of_best_static"]) == ("best-static", 1.0, 1.0)
    assert found["hopeless"] == [3]


def test_a_policy_is_held_against_the_plan_that_is_late_as_often() -> None:
    corners = [{"late_s": 864, "worker_s": 80.0}, {"late_s": 4_320, "worker_s": 40.0}]
    rows = [
        *(row(0, worker_s=120.0, late_share=0.03), best(0, late_share=0.0), row(0, "frontier", corners=corners)),
        *(row(1, worker_s=90.0), best(1), row(1, "frontier", failed="MemoryError")),
        *(row(2, worker_s=90.0, late_share=0.05), best(2, held=False), row(2, "frontier", corners=corners)),
    ]
    mine, _, fixed = summary(against_frontier(rows), ["daedalus", "frontier"])["policies"]
    assert mine["of_frontier"] == pytest.approx(120.0 / 60.0), "job 1 has none, and job 2 no fixed size holds"
    assert fixed["of_frontier"] == pytest.approx(100.0 / 80.0), "of none that is never late: the least late"
    without = summary(against_frontier([row(0), best(0)]), ["daedalus"])
    assert [policy["of_frontier"] for policy in without["policies"]] == [None, None]


def test_a_job_that_raised_is_counted_and_named() -> None:
    rows = [
        row(0),
        best(0),
        {"seed": 11, "job": 1, "hours": 24.0, "policy": "daedalus", "regime": None, "failed": "KeyError: 1"},
        best(1),
    ]
    found = summary(rows, ["daedalus"])
    assert (found["policies"][0]["jobs"], found["policies"][0]["failed"]) == (1, 1)
    assert found["failed"] == [{"job": 1, "policy": "daedalus", "reason": "KeyError: 1"}]
    assert found["worst"][0]["job"] == 1
    assert "KeyError" in found["worst"][0]["why"]


@pytest.mark.parametrize("kind", ["idle", "near-idle", "white-noise"])
def test_calm_jobs_are_left_alone(kind: str) -> None:
    rows = [
        *(row(0, kind=kind), best(0, kind)),
        *(row(1, kind=kind, asked_workers=4), best(1, kind)),
        *(row(2, kind=kind, rescales_per_day=4.5), best(2, kind)),
        *(row(3, kind=kind, held=False), best(3, kind)),
        *(row(4, kind=kind, held=False), best(4, kind, held=False)),
        *(row(5, kind=kind, asked_workers=None), best(5, kind)),
        *(row(6, kind="daily", asked_workers=12, rescales_per_day=30.0), best(6, "daily")),
    ]
    assert missed(summary(rows, ["daedalus"]), "calm") == [1, 2, 3]


def test_who_is_dearer_and_late_more_often_is_beaten() -> None:
    rows = [
        *(row(0, worker_s=116.0, late_share=0.011), best(0)),
        *(row(1, worker_s=116.0, late_share=0.01), best(1)),
        *(row(2, worker_s=115.0, late_share=0.5), best(2)),
        *(row(3, "hpa-80", worker_s=900.0, late_share=0.5), best(3)),
    ]
    assert missed(summary(rows, ["daedalus", "hpa-80"]), "beaten") == [0]


def test_coverage_is_judged_where_enough_was_seen() -> None:
    counts = {
        "here": {CLASSES[0]: [100.0, 9.0, 0.0, 0.0, 0.0], CLASSES[1]: [100.0, 0.0, 16.0, 0.0, 0.0]},
        "elsewhere": {CLASSES[2]: [100.0, 4.0, 0.0, 0.0, 0.0], CLASSES[3]: [10.0, 10.0, 0.0, 0.0, 0.0]},
    }
    found = summary([row(0, coverage=counts), best(0), row(0, "hpa-80", coverage=counts)], ["daedalus", "hpa-80"])
    assert [record["intervals"] for record in found["coverage"]] == [100, 100, 100, 10]
    assert missed(found, "coverage") == [CLASSES[1], CLASSES[2]]


def test_the_worst_are_late_where_a_fixed_size_is_not_then_dear() -> None:
    rows = [
        *(row(0, worker_s=500.0), best(0)),
        *(row(1, held=False, late_share=0.2), best(1)),
        *(row(2, held=False, late_share=0.4), best(2)),
        *(row(3, held=False, late_share=0.9), best(3, held=False, late_share=0.9)),
        *(row(4, worker_s=90.0), best(4)),
        *(row(5, worker_s=80.0), best(5)),
    ]
    found = summary(rows, ["daedalus"])
    assert [record["job"] for record in found["worst"]] == [2, 1, 0, 3, 4]
    assert found["worst"][0]["command"] == "python -m benchmarks.zoo --seed 11 --job 2 --policy daedalus"
    assert [kind["kind"] for kind in found["kinds"]] == ["noise"]
    in_place = summary([{**record, "regime": "in-place"} for record in rows], ["daedalus"])
    assert "--job 2 --regime in-place --policy" in in_place["worst"][0]["command"]


def test_the_picture_can_be_drawn_of_any_of_this() -> None:
    rows = [row(0, worker_s=500.0), best(0), row(0, "hpa-80", held=False, late_share=1.0), row(1), best(1, held=False)]
    for some in (rows, [], rows[:2]):
        document = {
            "seed": 11,
            "hours": 24.0,
            "regime": "in-place",
            "jobs_played": [0, 1],
            "rows": some,
            **summary(some, ["daedalus", "hpa-80"]),
        }
        assert to_png(picture(document)).startswith(b"\x89PNG")
