"""What machines read of a campaign: one JSON document, and a Parquet file per replay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.replay.campaign import Campaign, Setup
from perdix.replay.clairvoyant.bound import Clairvoyant
from perdix.replay.contenders import contenders
from perdix.replay.document import document, folder_name, result, slug, spreads, summary, write_series
from perdix.replay.frontier.curve import Frontier
from perdix.replay.frontier.programme import Plan
from perdix.replay.outcome import Course, Latency, Outcome, Played, Recovery
from perdix.replay.side_by_side import Failed
from perdix.replay.workload import own
from perdix.settings.stream_job import Bounds
from perdix.twin.parameters import load_twin

NAN = float("nan")
# What the issue asks of every result, by name.
ASKED = {
    "policy",
    "seed",
    "average_workers",
    "rescales",
    "latency_ms",
    "share_above_objective",
    "recovery_error_pct",
    "forecast_wape_pct",
    "capacity_error_pct",
    "unprocessed",
    "clairvoyant_ratio",
    "wall_s",
}


def outcome(policy: str = "daedalus", seed: int = 1, workers: float = 5.0, **changes: object) -> Outcome:
    made = Outcome(
        policy=policy,
        trace="sine",
        seed=seed,
        hours=1.0,
        ticks=60,
        average_workers=workers,
        worker_s=3600 * workers,
        rescales=3,
        failures=0,
        latency_ms=Latency(900.0, 700.0, 2_000.0, NAN),
        share_above_objective=0.01,
        lag_maximum_records=1e6,
        lag_at_end_records=5e3,
        unprocessed=0.0,
        recovery_error=0.125,
        forecast_wape=0.03,
        first_minute_wape=None,
        capacity_error=0.02,
        capacity_error_all=None,
        clairvoyant_worker_s=3600 * 4.0,
        clairvoyant_ratio=workers / 4.0,
        wall_s=1.0,
        twin_s=0.1,
        recoveries=(Recovery(1000.0, "out", 4, 5, 90.0, 101.0, 100.0), Recovery(2000.0, "in", 5, 4, None, None, None)),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def course(seconds: int = 30) -> Course:
    columns = {name: np.arange(seconds, dtype=np.float64) for name in Course.__dataclass_fields__}
    return Course(**{**columns, "latency_p95_ms": np.full(seconds, NAN)})


@pytest.fixture
def campaign() -> Campaign:
    parameters = load_twin("wordcount")
    setup = Setup(
        contenders("daedalus,static-12:tick_s=30"),
        own(parameters, 3_600),
        parameters,
        Bounds(maximum=12),
        seeds=(1, 2),
        hours=1.0,
        price_per_h=0.5,
    )
    played = tuple(Played(outcome(seed=seed, workers=workers), course()) for seed, workers in ((1, 5.0), (2, 7.0)))
    least = Clairvoyant(3600 * 4.0, np.full(3600, 4), ())
    failed = (Failed("static-12:tick_s=30", 1, "ValueError: no"), Failed("static-12:tick_s=30", 2, "ValueError: no"))
    curve = Frontier((Plan(18_000, 0, 5, ()), Plan(10_800, 360, 3, ((60, 2),))), 3_600)
    return Campaign(setup, played, failed, {1: least}, ("seed 2: no plan holds",), 3.0, frontiers={1: curve})


def test_a_result_has_what_was_asked_for_in_the_units_of_its_names() -> None:
    found = result(outcome(), price_per_h=0.5)
    assert set(found) >= ASKED
    assert found["latency_ms"] == {"mean": 900.0, "p50": 700.0, "p95": 2_000.0, "p99": None}
    assert found["recovery_error_pct"] == 12.5
    assert found["forecast_wape_pct"] == 3.0
    assert found["capacity_error_pct"] == 2.0
    assert found["first_minute_wape_pct"] is None
    assert found["share_above_objective"] == 0.01
    assert found["worker_seconds"] == 18_000.0
    assert (found["lag_maximum"], found["lag_at_end"], found["unprocessed"]) == (1e6, 5e3, 0.0)
    assert found["cost"] == 2.5
    assert found["recoveries"][0]["error_pct"] == pytest.approx(10.0)
    assert found["recoveries"][1]["error_pct"] is None


def test_the_document_is_json_and_says_what_was_replayed(campaign: Campaign) -> None:
    made = document(campaign)
    again = json.loads(json.dumps(made, allow_nan=False))
    assert [(row["policy"], row["seed"]) for row in again["results"]] == [("daedalus", 1), ("daedalus", 2)]
    assert again["trace"]["name"] == "wordcount"
    assert again["trace"]["digest"] == campaign.setup.trace.digest
    assert again["policies"][1] == {
        "label": "static-12:tick_s=30",
        "policy": "static",
        "options": {"scale_out": 12},
        "tick_interval_s": 30,
    }
    assert set(again["peak_per_s"]) == {"1", "2"}
    assert again["clairvoyant"] == [
        {"seed": 1, "worker_seconds": 14_400.0, "average_workers": 4.0, "rescales": 0, "unguarded": 0, "cost": 2.0}
    ]
    assert again["frontier"][0]["corners"] == [
        {"share_above_objective": 0.0, "worker_seconds": 18_000, "average_workers": 5.0, "rescales": 0},
        {"share_above_objective": 0.1, "worker_seconds": 10_800, "average_workers": 3.0, "rescales": 1},
    ]
    at = {row["share_above_objective"]: row["average_workers"] for row in again["frontier"][0]["at"]}
    assert at == {0.01: pytest.approx(4.8), 0.02: pytest.approx(4.6), 0.05: pytest.approx(4.0), 0.1: 3.0}
    assert again["failed"][0] == {"policy": "static-12:tick_s=30", "seed": 1, "reason": "ValueError: no"}
    assert again["notes"][-1] == "seed 2: no plan holds"
    assert again["versions"]["perdix"]


def test_the_summary_spreads_every_figure_over_the_seeds(campaign: Campaign) -> None:
    daedalus, static, fixed = document(campaign)["summary"]
    assert daedalus["seeds"] == 2
    assert daedalus["average_workers"] == {"mean": 6.0, "sd": pytest.approx(np.sqrt(2)), "min": 5.0, "max": 7.0}
    assert daedalus["latency_ms"]["mean"]["mean"] == 900.0
    assert daedalus["latency_ms"]["p99"] is None
    assert "recoveries" not in daedalus
    assert "first_minute_wape_pct" not in daedalus
    assert daedalus["held"] == 2
    assert static == {"policy": "static-12:tick_s=30", "seeds": 0, "held": 0}
    assert fixed == {"policy": "best-static", "seeds": 0, "held": 0}


def test_a_seed_that_does_not_know_a_figure_leaves_it_to_the_others() -> None:
    assert spreads([float("nan"), 2.0, None, 4.0]) == {"mean": 3.0, "sd": pytest.approx(2**0.5), "min": 2.0, "max": 4.0}
    assert spreads([float("nan"), float("inf")]) is None


def test_a_result_says_whether_the_objective_was_held_and_the_best_fixed_size_its_workers() -> None:
    found = result(outcome("best-static", share_above_objective=0.02, scale_out=5, best_static_ratio=1.0), 1.0)
    assert (found["held"], found["scale_out"], found["best_static_ratio"]) == (True, 5, 1.0)
    late = result(outcome(share_above_objective=0.02, error_budget=0.01), 1.0)
    assert (late["held"], late["scale_out"], late["best_static_ratio"]) == (False, None, None)


def test_the_document_recommends_a_policy(campaign: Campaign) -> None:
    found = document(campaign)["recommendation"]
    assert (found["policy"], found["held"], found["beaten"]) == ("daedalus", True, [])
    assert found["sentence"].startswith("Recommended: daedalus.")


def test_a_policy_that_failed_with_one_of_the_seeds_is_not_said_to_have_held_with_every_seed(
    campaign: Campaign,
) -> None:
    cheap = Played(outcome("static-12:tick_s=30", 1, 3.0), course())
    found = document(replace(campaign, played=(*campaign.played, cheap), failed=campaign.failed[1:]))
    assert found["summary"][1]["held"] == found["summary"][1]["seeds"] == 1
    assert found["recommendation"]["policy"] == "daedalus"
    assert "Not held: static-12:tick_s=30 with 3 workers" in found["recommendation"]["sentence"]
    assert "failed with 1 seed" in found["recommendation"]["sentence"]


def test_one_seed_has_no_spread() -> None:
    assert summary("a", [result(outcome(), 1.0)])["rescales"] == {"mean": 3.0, "sd": None, "min": 3.0, "max": 3.0}


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=8))
def test_a_mean_lies_between_the_least_and_the_greatest(workers: list[float]) -> None:
    found = summary("a", [result(outcome(workers=worker), 1.0) for worker in workers])["average_workers"]
    assert found["min"] <= found["mean"] * (1 + 1e-9)
    assert found["mean"] <= found["max"] * (1 + 1e-9)


def test_series_are_one_table_however_many_files_they_are(campaign: Campaign, tmp_path: Path) -> None:
    paths = write_series(campaign.played, tmp_path / "series")
    assert [path.name for path in paths] == ["daedalus-seed-1.parquet", "daedalus-seed-2.parquet"]
    found = duckdb.sql(
        f"SELECT policy, trace, seed, count(*), avg(workers), max(latency_p95_ms) FROM '{tmp_path}/series/*.parquet' "
        "GROUP BY ALL ORDER BY seed"
    ).fetchall()
    assert [row[:5] for row in found] == [("daedalus", "sine", 1, 30, 14.5), ("daedalus", "sine", 2, 30, 14.5)]


def test_another_question_has_another_folder(campaign: Campaign) -> None:
    name = folder_name(campaign.setup)
    assert name == folder_name(campaign.setup)
    assert name.startswith("replay-wordcount-75-")
    for changes in ({"seeds": (1,)}, {"forecaster": None}, {"failures": 1}, {"bounds": Bounds(maximum=11)}):
        assert name != folder_name(replace(campaign.setup, **changes)), changes  # type: ignore[arg-type]


@given(st.text(max_size=60))
def test_any_label_names_a_file(label: str) -> None:
    assert slug(label)
    assert Path(slug(label)).name == slug(label)
