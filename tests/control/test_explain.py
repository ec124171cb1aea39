"""Explanations from the ledger of a real run."""

import json
import re

import numpy as np
import pytest

from control.explain import explain
from control.explain_text import render
from control.memories import Memories
from control.state import StateStore
from control.state_ledger import Entry
from control.tick_io import TickReport
from policies.contract import Reason
from settings.stream_job import PolicySettings
from tests.control.rig import LOW, START_S, Rig, champion, constant

BUSY = 36_000.0
SIMPLE = ("last-value", "linear", "damped-trend")


@pytest.fixture
def rig(store: StateStore) -> Rig:
    rising = np.concatenate([constant(LOW, 0.5), constant(BUSY, 4.0)])
    rig = Rig.of(store, rising, scale_out=2, champions=champion(constant(LOW, 0.5), START_S + 1800))
    rig.minutes(50)
    return rig


def recovered(rig: Rig, store: StateStore) -> tuple[Entry, TickReport]:
    """The first scale-out that was seen to its end, and the report of the tick that decided it."""
    made = reversed(store.ledger.decisions("orders"))
    entry = next(one for one in made if one.intent.reason == Reason.SCALE_OUT and one.observed_recovery_s)
    return entry, next(one for one in rig.reports if one.decision_id == entry.decision_id)


def test_it_tells_what_was_seen_believed_ruled_out_and_how_it_turned_out(rig: Rig, store: StateStore) -> None:
    entry, scaled = recovered(rig, store)
    document = explain(store, "orders", entry.intent.made_s).to_dict()
    decision = document["decision"]
    assert decision["reason"] == "scale_out"
    assert decision["from_scale_out"] == entry.intent.from_scale_out
    assert decision["scale_out"] == scaled.decision.scale_out
    assert decision["seen"]["workload_per_s"] == pytest.approx(BUSY, rel=0.01)
    assert {one["scale_out"] for one in decision["believed"]["capacities"]} == set(range(1, 9))
    rejected = [one for one in decision["candidates"] if one["rejected_by"]]
    assert rejected
    assert all(one["scale_out"] < scaled.decision.scale_out for one in rejected)
    assert decision["state"] == "confirmed"
    assert decision["observed_recovery_s"] > 0
    assert decision["predicted_recovery_s"] > 0
    assert decision["outcome"]["recovered"] is True
    assert document["forecast_wape"] is not None
    json.dumps(document, allow_nan=False)


@pytest.mark.slow
def test_what_perdix_ran_is_told_against_the_best_fixed_size(store: StateStore) -> None:
    rig = Rig.of(store, BUSY, scale_out=6, policy=PolicySettings(name="perdix"))
    rig.memories = Memories()
    rig.minutes(70)
    told = explain(store, "orders").to_dict()["decision"]["against_fixed"]
    assert told["workers"] == pytest.approx(rig.twin.history.column("scale_out")[-3600:].mean(), rel=0.1)
    assert told["late_share"] < 0.05
    text = render(explain(store, "orders"))
    fixed = f"the best fixed size, {told['fixed_workers']:.0f}, would have been late in {told['fixed_late_share']:.1%}"
    assert f"Last hours: {told['workers']:.1f} workers on average, late in {told['late_share']:.1%}; {fixed}" in text


def test_the_past_is_explained_by_the_decision_that_held_then(rig: Rig, store: StateStore) -> None:
    made = [one.intent.made_s for one in reversed(store.ledger.decisions("orders"))]
    between = explain(store, "orders", made[3] + 30.0)
    assert between.entry is not None
    assert between.entry.intent.made_s == made[3]
    assert between.status is None
    assert explain(store, "orders", made[0] - 1).entry is None
    now = explain(store, "orders")
    assert now.entry is not None
    assert now.entry.intent.made_s == made[-1]


def test_the_text_has_the_numbers_and_the_rules(rig: Rig, store: StateStore) -> None:
    entry, scaled = recovered(rig, store)
    text = render(explain(store, "orders", entry.intent.made_s))
    assert re.search(r"\d to \d workers \(scale_out, by daedalus\)", text)
    assert scaled.decision.sentence in text
    assert "rejected: " in text
    assert "accepted" in text
    assert re.search(r"Caught up after \d+ s, \d+ s had been predicted", text)
    assert "turned out" in text
    assert "\x1b" not in text


def test_an_ensemble_tells_who_counts_and_what_the_workload_stays_below(store: StateStore) -> None:
    wave = 2 * LOW + LOW * np.sin(np.arange(4 * 3600) / 800.0)
    rig = Rig.of(store, wave, warm_s=5_400, champions=champion(wave[:5_400], START_S + 5_400, family=SIMPLE))
    rig.minutes(20)
    document = explain(store, "orders").to_dict()
    forecast = document["decision"]["believed"]["forecast"]
    assert forecast["family"] == "ensemble"
    assert sum(one["weight"] for one in forecast["members"]) == pytest.approx(1.0, abs=0.001)
    assert [one["weight"] for one in forecast["members"]] == sorted(
        (one["weight"] for one in forecast["members"]), reverse=True
    )
    assert forecast["maximum_per_s"] <= forecast["maximum_p90_per_s"] <= forecast["maximum_p95_per_s"]
    assert forecast["horizon_wape"] > forecast["wape"]
    text = render(explain(store, "orders"))
    assert re.search(r"at most [\d,]+/s ahead \(p90 [\d,]+/s, p95 [\d,]+/s\)", text)
    assert re.search(r"Members by weight: [a-z-]+ \d+% \(WAPE [\d.]+%\), ", text)
    assert re.search(r"recent WAPE [\d.]+% in the first minute and [\d.]+% over the horizon", text)


def test_a_held_decision_points_to_the_last_rescale(rig: Rig, store: StateStore) -> None:
    text = render(explain(store, "orders"))
    assert "Last rescale: " in text


def test_a_blind_tick_and_a_pause_are_explained(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=2)
    rig.source.error = "http://prometheus:9090 did not answer in time"
    rig.minutes(1)
    assert "did not answer in time" in render(explain(store, "orders"))
    rig.source.error = None
    store.journal.pause("orders", rig.now_s + 600, rig.now_s, "load test")
    rig.minutes(1)
    text = render(explain(store, "orders"))
    assert "Paused until" in text
    assert "load test" in text


def test_an_unknown_job_is_no_error(store: StateStore) -> None:
    explanation = explain(store, "nobody")
    assert explanation.entry is None
    assert "no decision is in the ledger" in render(explanation)
    assert explanation.to_dict()["decision"] is None
