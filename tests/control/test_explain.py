"""Explanations from the ledger of a real run."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from perdix.control.explain import Explanation, explain
from perdix.control.explain_text import render
from perdix.control.freshness import Freshness
from perdix.control.memories import Memories
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.ledger import Entry
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickReport
from perdix.models.forecasting.contract import Forecast
from perdix.policies.contract import Reason
from perdix.settings.stream_job import PolicySettings
from tests.control.published import an_intent
from tests.control.rig import LOW, START_S, Rig, champion, constant

BUSY = 36_000.0
OPEN = (
    "coverage",
    "mean_per_s",
    "versions",
    "rejected",
    "from_mix",
    "mix",
    "stages_ms",
)  # by metric, time, size, stage
SIMPLE = ("last-value", "linear", "damped-trend")


@pytest.fixture
def rig(store: StateStore) -> Rig:
    rising = np.concatenate([constant(LOW, 0.4), constant(BUSY, 4.1)])
    rig = Rig.of(store, rising, scale_out=4, champions=champion(constant(LOW, 0.5), START_S + 1800))
    rig.minutes(50)
    return rig


def recovered(rig: Rig, store: StateStore) -> tuple[Entry, TickReport]:
    """The first scale-out that was seen to its end, and the report of the tick that decided it."""
    made = reversed(store.ledger.decisions("orders"))
    entry = next(entry for entry in made if entry.intent.reason == Reason.SCALE_OUT and entry.observed_recovery_s)
    return entry, next(report for report in rig.reports if report.decision_id == entry.decision_id)


def test_it_tells_what_was_seen_believed_ruled_out_and_how_it_turned_out(rig: Rig, store: StateStore) -> None:
    entry, scaled = recovered(rig, store)
    document = explain(store, "orders", entry.intent.made_s).to_dict()
    decision = document["decision"]
    assert decision["reason"] == "scale_out"
    assert decision["from_scale_out"] == entry.intent.from_scale_out
    assert decision["scale_out"] == scaled.decision.scale_out
    assert decision["seen"]["workload_per_s"] == pytest.approx(BUSY, rel=0.01)
    assert {capacity["scale_out"] for capacity in decision["believed"]["capacities"]} == set(range(1, 9))
    rejected = [candidate for candidate in decision["candidates"] if candidate["rejected_by"]]
    assert rejected
    assert all(row["scale_out"] < scaled.decision.scale_out for row in rejected)
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
    rig.minutes(125)  # an hour in which something may be given back
    told = explain(store, "orders").to_dict()["decision"]["against_fixed"]
    assert told["workers"] == pytest.approx(rig.twin.history.column("scale_out")[-3600:].mean(), rel=0.1)
    assert told["late_share"] < 0.05
    text = render(explain(store, "orders"), verbose=True)
    fixed = f"the best fixed size, {told['fixed_workers']:.0f}, would have been late in {told['fixed_late_share']:.1%}"
    assert f"Last hours: {told['workers']:.1f} workers on average, late in {told['late_share']:.1%}; {fixed}" in text


def test_the_past_is_explained_by_the_decision_that_held_then(rig: Rig, store: StateStore) -> None:
    made = [decision.intent.made_s for decision in reversed(store.ledger.decisions("orders"))]
    between = explain(store, "orders", made[3] + 30.0)
    assert between.entry is not None
    assert between.entry.intent.made_s == made[3]
    assert between.status is None
    assert explain(store, "orders", made[0] - 1).entry is None
    now = explain(store, "orders")
    assert now.entry is not None
    assert now.entry.intent.made_s == made[-1]


def test_scores_of_a_moment_long_past_are_found_behind_a_thousand_newer_ones(rig: Rig, store: StateStore) -> None:
    made_s = store.ledger.decisions("orders")[0].intent.made_s
    origins_s = [made_s + 60.0 * k for k in range(1, 1_101)]
    for origin_s in origins_s:
        store.learned.save_forecast("orders", Forecast(origin_s, 1.0, np.array([LOW])))
        store.learned.settle("orders", origin_s, origin_s + 900.0, 0.05)
    recent = explain(store, "orders", origins_s[49]).recent
    assert [forecast.origin_s for forecast in recent] == origins_s[49:34:-1]


def test_the_text_has_the_numbers_and_the_rules(rig: Rig, store: StateStore) -> None:
    entry, scaled = recovered(rig, store)
    text = render(explain(store, "orders", entry.intent.made_s), verbose=True)
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
    assert sum(member["weight"] for member in forecast["members"]) == pytest.approx(1.0, abs=0.001)
    assert [member["weight"] for member in forecast["members"]] == sorted(
        (member["weight"] for member in forecast["members"]), reverse=True
    )
    assert forecast["maximum_per_s"] <= forecast["maximum_p90_per_s"] <= forecast["maximum_p95_per_s"]
    assert forecast["horizon_wape"] > forecast["wape"]
    text = render(explain(store, "orders"), verbose=True)
    assert re.search(r"15-minute peak: mean [\d,]+/s, p90 [\d,]+/s, p95 [\d,]+/s", text)
    assert re.search(r"Members by weight: [a-z-]+ \d+% \(WAPE [\d.]+%\), ", text)
    assert re.search(r"recent WAPE [\d.]+% in the first minute and [\d.]+% over the horizon", text)


def test_a_forecast_that_no_registry_knows_has_no_version(store: StateStore) -> None:
    rig = Rig.of(store, constant(LOW, 1.0))
    rig.minutes(15)
    text = render(explain(store, "orders"), verbose=True)
    assert re.search(r"by [a-z-]+, not from the registry", text)
    assert "version 0" not in text


def test_the_page_names_every_key(rig: Rig, store: StateStore) -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page.partition("## perdix explain")[2].partition("\n## ")[0]))
    named |= set(re.findall(r"`(\w+)`", page.partition("| `perdix.capacity/1` ")[2].partition("\n")[0]))

    def keys(value: object) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(keys, value))
        if not isinstance(value, dict):
            return set()
        inner = {key for name in value if name not in OPEN for key in keys(value[name])}
        return {*value, *inner}

    entry, _ = recovered(rig, store)
    for at_s in (entry.intent.made_s, None):
        assert keys(explain(store, "orders", at_s).to_dict()["decision"]) <= named
    assert keys(rig.reports[-1].to_dict()) <= set(
        re.findall(r"`(\w+)`", page.partition("## perdix tick")[2].partition("\n## ")[0])
    )


def test_a_held_decision_points_to_the_last_rescale(rig: Rig, store: StateStore) -> None:
    text = render(explain(store, "orders"), verbose=True)
    assert "Last rescale: " in text


def test_a_blind_tick_and_a_pause_are_explained(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=2)
    rig.source.error = "http://prometheus:9090 did not answer in time"
    rig.minutes(1)
    assert "did not answer in time" in render(explain(store, "orders"), verbose=True)
    rig.source.error = None
    store.journal.pause("orders", rig.now_s + 600, rig.now_s, "load test")
    rig.minutes(1)
    text = render(explain(store, "orders"), verbose=True)
    assert "Paused until" in text
    assert "load test" in text


def test_an_unknown_job_is_no_error(store: StateStore) -> None:
    explanation = explain(store, "nobody")
    assert explanation.entry is None
    assert "no decision is in the ledger" in render(explanation)
    assert explanation.to_dict()["decision"] is None


# ---- on call, at 03:12 -----------------------------------------------------------------------------------------------

POLICIES = ("perdix", "daedalus", "hpa", "flink-autoscaler", "ds2-global", "static", "visp", "phoebe", "twres")


@pytest.fixture(scope="module", params=POLICIES)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateStore]:
    """Twelve minutes of a load that rises fourfold, under one policy."""
    store = StateStore(f"sqlite:///{tmp_path_factory.mktemp('story') / 'state.db'}")
    rising = np.concatenate([constant(LOW, 0.5), constant(BUSY, 1.0)])
    policy = PolicySettings(name=request.param, options={"scale_out": 8} if request.param == "static" else {})
    rig = Rig.of(store, rising, scale_out=4, champions=champion(constant(LOW, 0.5), START_S + 1800), policy=policy)
    rig.memories = Memories()
    rig.minutes(12)
    yield store
    store.close()


def all_told(store: StateStore) -> Iterator[Explanation]:
    for entry in store.ledger.decisions("orders"):
        yield explain(store, "orders", entry.intent.made_s)


def test_it_is_read_in_half_a_minute(story: StateStore) -> None:
    for explanation in all_told(story):
        assert explanation.entry is not None
        text = render(explanation)
        lines = text.splitlines()
        assert len(lines) <= 16, text
        assert len(text.split()) <= 200, text
        assert lines[0].startswith("orders: ")
        assert explanation.entry.intent.sentence in lines[0]
        assert ("to" if explanation.entry.intent.rescales else "stay") in lines[0].split(". ")[0]
        assert lines[-1].endswith("--verbose")


RATE = r"([\d,]+)/s"


@pytest.mark.parametrize("verbose", [False, True])
def test_a_number_means_the_same_in_table_and_reason(story: StateStore, verbose: bool) -> None:
    for explanation in all_told(story):
        text = render(explanation, verbose=verbose)
        for row in re.finditer(rf"^ +(?P<size>\d+) +(?P<rate>[\d,]+)/s +.*rejected: {RATE} (?:do not|are)", text, re.M):
            assert row["rate"] == row[3], text
        assert explanation.entry is not None
        of_sentence = re.match(rf"(\d+) workers \({RATE}", explanation.entry.intent.sentence)
        if of_sentence:
            row = re.search(rf"^ +{of_sentence[1]} +{RATE}", text, re.M)
            assert row is not None, text
            assert row[1] == of_sentence[2], text


def test_what_is_seen_is_told_with_the_digits_of_the_sentence(story: StateStore) -> None:
    for explanation in all_told(story):
        assert explanation.entry is not None
        for load in re.findall(rf"mean workload of {RATE}", explanation.entry.intent.sentence):
            assert f"workload {load}/s" in render(explanation)


def test_what_is_seen_has_the_objective_beside_the_latency(story: StateStore) -> None:
    for explanation in all_told(story):
        if "p95 latency" in (text := render(explanation)):
            assert re.search(r"p95 latency [\d,]+ ms of 5,000 ms allowed", text), text


def test_words_are_those_of_the_field(story: StateStore) -> None:
    told = [render(explanation, verbose=verbose) for explanation in all_told(story) for verbose in (False, True)]
    for text in told:
        for odd in (
            "just now",
            "not seen",
            "at most",
            "for ever",
            "unlimited time",
            "the bounds makes",
            "raised by 1,",
            "nan",
            "inf/s",
        ):
            assert odd not in text, text


def test_candidates_are_in_the_order_of_their_size(story: StateStore) -> None:
    for explanation in all_told(story):
        rows = re.findall(r"^ +(\d+) +(?:[\d,]+/s|-) ", render(explanation, verbose=True), re.M)
        assert [int(n) for n in rows] == sorted(int(n) for n in rows)


def test_an_old_decision_says_how_old_it_is_and_that_nobody_ticks(rig: Rig, store: StateStore) -> None:
    found = explain(store, "orders")
    assert "No tick looked" not in render(found, now_s=rig.now_s + 60)
    text = render(found, now_s=rig.now_s + 3 * 3600)
    assert "No tick looked at orders for 3 h: does perdix controller run" in text
    assert "No tick looked" not in render(found, now_s=rig.now_s + 3 * 3600, freshness=Freshness(3_600.0))


def test_the_command_that_shows_all_of_it_shows_the_same_decision(rig: Rig, store: StateStore) -> None:
    (entry,) = store.ledger.decisions("orders", limit=1)
    at_s = entry.intent.made_s + 59.999
    text = render(explain(store, "orders", at_s), now_s=rig.now_s)
    (hint,) = re.findall(r"--at (\S+) --verbose", text)
    assert datetime.fromisoformat(hint).timestamp() == int(at_s), "its second is looked at to its end"


def test_of_a_job_without_decisions_too_it_is_said_that_nobody_ticks(store: StateStore) -> None:
    blind = JobStatus("dark", Status.BLIND, START_S, "Blind: no lag.")
    store.journal.record_tick(Tick(START_S, START_S, "a", {}), [blind])
    found = explain(store, "dark")
    assert "No tick looked at dark for 3 h: does perdix controller run" in render(found, now_s=START_S + 3 * 3600)
    assert "No tick looked" not in render(found, now_s=START_S + 60)


def test_what_was_decided_before_the_clock_was_set_back_is_not_what_holds_now(rig: Rig, store: StateStore) -> None:
    now_s = START_S - 5 * 3600.0
    assert explain(store, "orders", now_s=now_s).entry is None
    an_intent(store, now_s, "orders", 7)
    found = explain(store, "orders", now_s=now_s + 60.0)
    assert found.entry is not None
    assert found.entry.intent.scale_out == 7
    assert found.last_rescale == found.entry
    assert not found.recent
    assert explain(store, "orders", now_s=rig.now_s).recent, "it is as late again"


def test_what_a_guard_holds_is_told_beside_what_the_policy_wants(store: StateStore) -> None:
    rig = Rig.of(store, BUSY, scale_out=2)
    store.journal.pause("orders", rig.now_s + 600, rig.now_s, "load test")
    rig.minutes(2)
    found = explain(store, "orders")
    assert found.entry is not None
    wanted = found.entry.intent.explanation["proposed"]["scale_out"]
    text = render(found)
    assert text.startswith("orders: 2 workers stay. Paused: ")
    assert "load test" in text.splitlines()[0]
    assert re.search(r"^ +2 +[\d,]+/s  runs, wanted, the policy rejected: ", text, re.M)
    assert re.search(rf"^ +{wanted} +[\d,]+/s  the policy wants it", text, re.M)


def test_a_blind_job_says_so_first(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=2)
    rig.minutes(2)
    rig.source.error = "http://prometheus:9090 did not answer in time"
    rig.minutes(1)
    found = explain(store, "orders")
    blind = "Blind: http://prometheus:9090 did not answer in time."
    assert render(found).splitlines()[0] == f"orders: 1 worker stays. {blind}"
    status = JobStatus("orders", Status.BLIND, rig.now_s, blind)
    assert render(replace(found, status=status)).splitlines()[0] == f"orders: 1 worker stays. {blind}"
    status = replace(status, status=Status.UNREACHABLE, sentence="The target cannot be read: HTTP 503.")
    lines = render(replace(found, status=status)).splitlines()
    assert lines[0] == "orders: unreachable. The target cannot be read: HTTP 503."
    assert lines[1].startswith("Before that: 1 worker stays.")


def test_a_job_that_was_blind_from_the_first_is_called_so_once(store: StateStore) -> None:
    blind = "Blind: no sample at all."
    store.journal.record_tick(Tick(1_000.0, 1_001.0, "a"), [JobStatus("orders", Status.BLIND, 1_000.0, blind)])
    said = render(explain(store, "orders"))
    assert said.startswith("orders: Blind: no sample at all.\n")


def test_all_of_it_says_what_was_decided_once(rig: Rig, store: StateStore) -> None:
    found = explain(store, "orders")
    assert found.entry is not None
    decided = found.entry.intent.sentence
    status = JobStatus("orders", Status.ACTING, rig.now_s, f"{decided} Target: 2 workers run.")
    text = render(replace(found, status=status), verbose=True)
    assert text.splitlines()[0] == "orders: acting. Target: 2 workers run."
    assert text.count(decided) == 1
