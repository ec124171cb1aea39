"""The benchmark of replays: plans of the frontier come true on the twin, and what its rows say of budgets and seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import replay
from benchmarks.frontier_check import checked, off
from benchmarks.replay import recovery_rows, rows_of
from perdix.replay.campaign import Campaign, Setup
from perdix.replay.contenders import contenders
from perdix.replay.frontier.curve import Frontier
from perdix.replay.frontier.programme import Plan
from perdix.replay.outcome import Recovery
from perdix.replay.side_by_side import Failed
from perdix.replay.workload import own
from perdix.settings.stream_job import Bounds, Objectives
from perdix.twin.parameters import load_twin
from tests.replay.played import played


def setup(**changes: object) -> Setup:
    parameters = load_twin("wordcount")
    return Setup(contenders("static-6"), own(parameters, 3_600), parameters, Bounds(maximum=8), hours=1.0, **changes)  # type: ignore[arg-type]


def test_plans_of_the_frontier_are_as_they_are_said_to_be_when_they_are_played() -> None:
    rows = list(checked("sine", 0.75, setup()))
    assert {row["twin"] for row in rows} == {"as it is", "without luck"}
    for row in rows:
        assert row["workers"] == pytest.approx(row["said_workers"], rel=0.02)
        if row["twin"] == "without luck":
            assert row["of_frontier"] <= 1.001, "later than it is said to be it never is: no work is done again"
            assert row["late_pct"] == pytest.approx(row["said_late_pct"], abs=1.0)
    assert off(rows).startswith(f"{len(rows)} plans: workers off by at most 0.")


def test_a_row_says_how_far_a_policy_is_from_the_frontier_and_with_how_many_seeds_it_held_the_budget() -> None:
    runs = (
        played("hpa-80", 1, share_above_objective=0.015, error_budget=0.02, of_frontier=1.2),
        played("hpa-80", 2, share_above_objective=0.045, error_budget=0.02, of_frontier=1.4),
    )
    curve = Frontier((Plan(18_000, 0, 5, ()),), 3_600)
    asked = setup(objectives=Objectives(error_budget=0.02))
    (row,) = rows_of("sine", 0.75, Campaign(asked, runs, frontiers={1: curve, 2: curve}))
    assert (row["error_budget"], row["held"], row["seeds"]) == (0.02, 1, 2)
    assert row["of_frontier"] == pytest.approx(1.3)
    assert row["above_pct_by_seed"] == pytest.approx([1.5, 4.5])
    assert row["frontier_workers"] == {"0.01": 5.0, "0.02": 5.0, "0.05": 5.0, "0.1": 5.0}


def test_ratios_are_of_the_same_seed_whichever_replays_failed() -> None:
    runs = (
        played("hpa-80", 1, worker_s=100.0),
        played("daedalus", 2, worker_s=400.0),
        played("hpa-80", 3, worker_s=100.0),
        played("daedalus", 3, worker_s=100.0),
    )
    assert [row.get("of_hpa-80") for row in rows_of("sine", 0.75, Campaign(setup(), runs))] == [None, 1.0]
    assert [row.get("of_hpa-80") for row in rows_of("sine", 0.75, Campaign(setup(), runs[:2]))] == [None, None]


@pytest.mark.parametrize("how", [[], ["--json"], ["--recoveries"]])
def test_a_replay_that_failed_is_reported_and_ends_with_1(
    how: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    failed = Campaign(setup(), (), (Failed("hpa-80", 1, "MemoryError"),))
    monkeypatch.setattr(replay, "DATA", tmp_path)
    monkeypatch.setattr(replay, "_setups", lambda _: [("sine", 0.75, failed.setup)])
    monkeypatch.setattr(replay, "run_campaign", lambda *_, **__: failed)
    assert replay.main(how) == 1
    assert "FAILED hpa-80, seed 1: MemoryError" in capsys.readouterr().err


def test_what_no_seed_knows_is_null_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    campaign = Campaign(setup(), (played("static-6", 1, of_frontier=None, clairvoyant_ratio=None),))
    monkeypatch.setattr(replay, "DATA", tmp_path)
    monkeypatch.setattr(replay, "_setups", lambda _: [("sine", 0.75, campaign.setup)])
    monkeypatch.setattr(replay, "run_campaign", lambda *_, **__: campaign)
    assert replay.main(["--json"]) == 0
    said = capsys.readouterr().out
    assert "NaN" not in said, "which is no JSON"
    assert json.loads(said)[0]["of_frontier"] is None


def test_a_prediction_is_near_that_is_a_quarter_or_three_seconds_off() -> None:
    told = ((5.0, 2.5), (126.0, 100.0), (124.0, 100.0), (6.0, 2.0))
    recoveries = [Recovery(60.0, "out", 2, 4, predicted_s, None, true_s) for predicted_s, true_s in told]
    out, every = recovery_rows([(recovery, 0.2) for recovery in recoveries])
    assert out["within_25_pct_or_3_s_pct"] == every["within_25_pct_or_3_s_pct"] == 50.0
    assert every["least_within_pct"] == 100.0
