"""DESIGN section 5, row by row: what goes wrong, and what perdix does."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdix.control.decide import Avoided
from perdix.control.job_memory import AVOIDED, CAPACITY, WORKLOAD, recall
from perdix.control.reconcile import AVOID_S, Event
from perdix.control.state.journal import Status
from perdix.control.state.ledger import Entry, Intent, State
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.stored import restored
from perdix.settings.stream_job import Objectives, PolicySettings, PrometheusSource
from perdix.targets.contract import TargetError
from perdix.telemetry.window import Window
from tests.control.rig import HIGH, LOW, START_S, Rig, applied, champion, constant, masked

# ---- the line that works -------------------------------------------------------------------------


def test_an_overloaded_job_is_scaled_out_and_a_calm_one_in(store: StateStore) -> None:
    rising = np.concatenate([constant(LOW, 0.5), constant(HIGH, 1.0), constant(LOW, 3.0)])
    rig = Rig.of(store, rising, scale_out=2)
    first = rig.minutes(3)
    assert first[0].decision is not None
    assert any(decision.reason in (Reason.SCALE_OUT, Reason.SCALE_MAXIMUM) for decision in decisions(first))
    assert max(to for _, to in applied(rig)) >= 6
    rest = rig.minutes(120)
    assert any(decision.reason is Reason.SCALE_IN for decision in decisions(rest))
    assert rig.twin.scale_out <= 2
    assert rig.twin.totals.lag == 0
    assert rest[-1].status is Status.ACTING


def decisions(reports):
    return [report.decision for report in reports if report.decision is not None]


# ---- Prometheus unreachable, empty, or stale -----------------------------------------------------


@pytest.mark.parametrize("case", ["unreachable", "empty", "stale"])
def test_without_fresh_metrics_the_job_is_blind_and_nothing_is_decided(store: StateStore, case: str) -> None:
    rig = Rig.of(store, LOW, scale_out=6)
    if case == "unreachable":
        rig.source.error = "http://prometheus cannot be reached"
    elif case == "empty":
        rig.source.change = lambda window: Window(window.job, window.step_s, window.times_s)
    else:
        rig.source.change = lambda window: _cut_after(window, START_S + 1800 + 60)
    rig.twin.step(240)
    report = rig.tick()
    assert report.status is Status.BLIND
    assert report.decision is not None
    assert report.decision.reason is Reason.HOLD_BLIND
    assert report.decision.scale_out == 6
    assert applied(rig) == []
    assert "Blind" in report.sentence
    assert store.ledger.decisions("orders")[0].intent.reason == "hold_blind"


def test_a_job_that_was_blind_sees_again(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=6)
    rig.source.error = "down"
    assert rig.minutes(2)[-1].status is Status.BLIND
    rig.source.error = None
    assert rig.minutes(1)[-1].status is Status.ACTING


def test_a_stored_scale_out_is_still_carried_out_while_blind(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.refusing = TargetError("busy")
    assert rig.minutes(1)[-1].event is Event.REFUSED
    rig.target.refusing, rig.source.error = None, "down"
    report = rig.minutes(1)[-1]
    assert report.status is Status.BLIND
    assert report.event is Event.APPLIED
    assert applied(rig) == [(2, rig.twin.requested)]


def _cut_after(window: Window, at_s: float) -> Window:
    late = window.times_s > at_s
    return replace(
        window,
        job_metrics={name: np.where(late, np.nan, values) for name, values in window.job_metrics.items()},
        worker_metrics={name: np.where(late[:, None], np.nan, v) for name, v in window.worker_metrics.items()},
        newest_sample_s=at_s,
    )


# ---- NaN, gaps, duplicates, resets: never a scale-in on missing data -----------------------------


def test_a_window_below_the_needed_coverage_makes_no_decision(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=6)
    rig.source.change = lambda window: masked(window, 0.4, 1, ["throughput_per_s"])
    report = rig.minutes(1)[-1]
    assert report.decision is not None
    assert report.decision.reason is Reason.HOLD_BLIND
    assert "throughput_per_s covers" in report.sentence
    assert applied(rig) == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.3, 1.0), seed=st.integers(0, 2**16))
def test_never_scales_in_on_missing_data(share: float, seed: int) -> None:
    """Whatever is missing beyond a fifth, in whatever pattern: a job that could shrink keeps its eight workers."""
    memory = StateStore("sqlite://")
    try:
        rig = Rig.of(memory, LOW, scale_out=8)
        rig.source.change = lambda window: masked(window, share, seed)
        for report in rig.minutes(3):
            assert report.decision is None or report.decision.scale_out >= 8
        assert applied(rig) == []
    finally:
        memory.close()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(metric=st.sampled_from(["workload_per_s", "throughput_per_s", "cpu_load", "consumer_lag_records"]))
def test_never_scales_in_when_one_metric_is_gone(metric: str) -> None:
    memory = StateStore("sqlite://")
    try:
        rig = Rig.of(memory, LOW, scale_out=8)
        rig.source.change = lambda window: masked(window, 1.1, 0, [metric])
        rig.minutes(3)
        assert applied(rig) == []
    finally:
        memory.close()


def test_the_same_job_does_scale_in_when_nothing_is_missing(store: StateStore) -> None:
    """The property above would hold for a loop that does nothing; this one would not."""
    rig = Rig.of(store, LOW, scale_out=8)
    rig.minutes(3)
    assert applied(rig)[0][1] < 8


# ---- MLflow: champions (their cache is tested in test_champions.py) ------------------------------


def test_without_any_champion_the_fallback_forecasts_and_says_so(store: StateStore) -> None:
    report = Rig.of(store, LOW).minutes(1)[-1]
    assert report.forecast is not None
    assert (report.forecast.family, report.forecast.version) == ("ensemble", 0)
    assert any("no champion can forecast" in note for note in report.notes)


def test_a_champion_whose_state_is_damaged_leaves_the_one_in_use(store: StateStore) -> None:
    history = constant(LOW, 0.5)
    rig = Rig.of(store, LOW, champions=champion(history, START_S + 1800))
    rig.minutes(3)
    good = rig.minutes(1)[-1]
    assert good.forecast is not None
    assert good.forecast.version == 1
    broken = champion(history, START_S + 1800, version=2)
    row = broken.fleets["perdix-forecast"].rows["orders"]
    broken.fleets["perdix-forecast"].rows["orders"] = replace(row, state='{"family": "damped-trend", "format": 1}')
    rig.champions = broken
    report = rig.minutes(1)[-1]
    assert report.forecast is not None
    assert report.forecast.version == 1
    assert any("version 2 cannot be used" in note for note in report.notes)


# ---- forecast poor -------------------------------------------------------------------------------


def test_poor_forecasts_lead_to_the_fallback_and_to_exactly_one_retrain_request(store: StateStore) -> None:
    jumping = np.repeat(np.tile([LOW, 4 * LOW], 400), 97)[: 8 * 3600]
    rig = Rig.of(store, jumping, scale_out=8, policy=PolicySettings(name="static"))
    # A model of another job's flat workload: it forecasts that the level stays, which is wrong every minute here.
    rig.champions = champion(constant(100.0, 0.5), rig.now_s, family="damped-trend")
    reports = rig.minutes(45)
    assert reports[-1].forecast is not None
    assert reports[-1].forecast.version == 0
    assert any("poor" in note for note in reports[-1].notes)
    keys = [report.retrain for report in reports if report.retrain is not None]
    assert len(keys) == 1
    assert [request.run_key for request in store.journal.open_retrains()] == keys
    assert keys[0].startswith("orders:")
    asked = reports.index(next(report for report in reports if report.retrain is not None))
    assert [report.drifting for report in reports] == [False] * asked + [True] * (len(reports) - asked)


def test_a_request_that_nobody_answered_is_made_again_as_soon_as_it_is_closed(store: StateStore) -> None:
    """What is refused because one is open was never sent: it counts as no attempt, and starts no longer pause."""
    jumping = np.repeat(np.tile([LOW, 4 * LOW], 400), 97)[: 8 * 3600]
    rig = Rig.of(store, jumping, scale_out=8, policy=PolicySettings(name="static"))
    rig.champions = champion(constant(100.0, 0.5), rig.now_s, family="damped-trend")
    first = [report.retrain for report in rig.minutes(100) if report.retrain is not None]
    assert len(first) == 1
    store.journal.close_retrain(first[0], rig.now_s)
    assert [report.retrain is not None for report in rig.minutes(3)] == [True, False, False]


def test_a_new_champion_answers_the_retrain_request_and_is_used_without_a_restart(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=4, champions=champion(constant(LOW, 0.5), START_S + 1800))
    rig.minutes(3)
    key = store.journal.request_retrain("orders", rig.now_s, "drift")
    assert key is not None
    rig.champions = champion(constant(LOW, 0.5), START_S + 1800, version=2, family="last-value")
    reports = rig.minutes(3)
    assert reports[-1].forecast is not None
    assert (reports[-1].forecast.family, reports[-1].forecast.version) == ("last-value", 2)
    assert store.journal.open_retrains() == []


# ---- flapping: grace, budget, pause, advice ------------------------------------------------------


def test_a_fresh_rescale_is_left_alone_whatever_the_policy(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=6, policy=PolicySettings(name="static", options={"scale_out": 3}))
    rig.minutes(1)
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 5})})
    report = rig.minutes(1)[-1]
    assert report.decision is not None
    assert report.decision.reason is Reason.HOLD_GRACE
    rig.minutes(3)
    assert applied(rig) == [(6, 3), (3, 5)]


def test_the_budget_of_the_day_holds_back_scaling_in(store: StateStore) -> None:
    waves = np.concatenate([constant(LOW, 0.5), *[np.r_[constant(HIGH, 0.4), constant(LOW, 0.4)] for _ in range(6)]])
    rig = Rig.of(store, waves, scale_out=2, objectives=Objectives(rescales_per_day=2))
    reports = rig.minutes(240)
    held = [decision for decision in decisions(reports) if decision.reason is Reason.HOLD_BUDGET]
    assert held
    assert "of 2 rescales within 24 h are used up" in held[0].sentence
    after = applied(rig)[2:]
    assert all(to > came for came, to in after), "beyond the budget only an overloaded job scales out"


def test_a_budget_of_zero_means_no_rescale_at_all(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2, objectives=Objectives(rescales_per_day=0))
    reports = rig.minutes(5)
    assert applied(rig) == []
    assert reports[-1].decision is not None
    assert reports[-1].decision.reason is Reason.HOLD_BUDGET


def test_a_pause_holds_and_ends_by_itself(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    store.journal.pause("orders", rig.now_s + 200, rig.now_s, "maintenance")
    reports = rig.minutes(3)
    assert {report.status for report in reports} == {Status.PAUSED}
    assert reports[0].decision is not None
    assert reports[0].decision.reason is Reason.HOLD_PAUSED
    assert "maintenance" in reports[0].sentence
    assert "Without that" in reports[0].sentence
    assert applied(rig) == []
    rig.minutes(2)
    assert len(applied(rig)) == 1


def test_the_pause_of_the_job_file_ends_by_itself(store: StateStore) -> None:
    until = datetime.fromtimestamp(START_S + 1800 + 130, UTC)
    rig = Rig.of(store, HIGH, scale_out=2, paused_until=until)
    assert [report.status for report in rig.minutes(3)] == [Status.PAUSED, Status.PAUSED, Status.ACTING]


def test_a_pause_stops_what_was_decided_before_it(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.refusing = TargetError("busy")
    rig.minutes(1)
    rig.target.refusing = None
    store.journal.pause("orders", rig.now_s + 150, rig.now_s)
    rig.minutes(2)
    assert applied(rig) == []
    rig.minutes(2)
    assert len(applied(rig)) == 1


def test_advice_changes_nothing_and_is_recorded(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2, mode="advise")
    report = rig.minutes(3)[-1]
    assert report.status is Status.ADVISE
    assert report.decision is not None
    assert report.decision.scale_out > 2
    assert rig.target.asked == []
    assert {decision.state for decision in store.ledger.decisions("orders")} == {State.ADVISED}


def test_a_job_that_is_put_back_to_advice_withdraws_what_was_wanted(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.refusing = TargetError("busy")
    rig.minutes(1)
    rig.job = rig.job.model_copy(update={"mode": "advise"})
    rig.target.refusing = None
    assert rig.minutes(1)[-1].event is Event.WITHDRAWN
    assert store.ledger.desired("orders") is None
    assert applied(rig) == []


def test_what_was_decided_too_long_ago_is_no_longer_carried_out(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.refusing = TargetError("busy")
    rig.minutes(1)
    rig.target.refusing, rig.source.error = None, "down"
    rig.twin.step(3_600)
    report = rig.tick()
    assert report.event is Event.EXPIRED
    assert applied(rig) == []


def test_documents_that_cannot_be_read_are_started_afresh(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=4)
    rig.minutes(3)
    store.learned.learn("orders", rig.now_s, {CAPACITY: {"state": {"format": 99}, "version": 1}, WORKLOAD: {"x": 1}})
    report = rig.minutes(1)[-1]
    assert sum("starting afresh" in note for note in report.notes) == 2
    assert report.status is Status.ACTING


def test_an_avoided_size_is_kept_only_while_it_lasts() -> None:
    size = Avoided(4, until_s=100.0, why="too small")
    assert size.bars(4, 99.0)
    assert not size.bars(4, 100.0)
    assert not size.bars(5, 99.0)
    assert replace(size, and_above=True).bars(9, 99.0)
    assert restored(Avoided, size.to_state()) == size


# ---- the clock is set back -----------------------------------------------------------------------


@pytest.mark.parametrize("back_s", [3_600.0, 86_400.0])
def test_a_rescale_noted_before_the_clock_was_set_back_keeps_nothing_from_being_rescaled(
    store: StateStore, back_s: float
) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    then_s = rig.now_s + back_s
    made = Intent("orders", then_s, then_s, 3, 2, "daedalus", "scale_in", "why", then_s + 900.0, {}, {})
    store.ledger.record(made)
    store.ledger.applied(made.decision_id, then_s)
    store.ledger.confirmed(made.decision_id, then_s)
    assert rig.minutes(1)[-1].event is Event.APPLIED


def test_a_pause_between_attempts_begun_before_the_clock_was_set_back_is_over() -> None:
    intent = Intent("orders", 0.0, 0.0, 3, 2, "daedalus", "scale_in", "why", 900.0, {}, {})
    entry = Entry("id", intent, State.INTENT, attempts=1, next_attempt_s=86_400.0 + 15.0)
    assert entry.is_due(0.0)
    assert entry.is_due(86_415.0)
    assert not entry.is_due(86_400.0)
    assert replace(entry, next_attempt_s=None).is_due(0.0)


@pytest.mark.parametrize("back_s", [3_600.0, 86_400.0])
def test_a_size_barred_before_the_clock_was_set_back_is_barred_no_longer(store: StateStore, back_s: float) -> None:
    rig = Rig.of(store, HIGH, scale_out=2, policy=PolicySettings(name="static", options={"scale_out": 6}))
    barred = Avoided(6, rig.now_s + back_s + AVOID_S, "the rescale to 6 workers did not end")
    store.learned.learn("orders", rig.now_s, {AVOIDED: {"sizes": [barred.to_state()]}})
    assert rig.minutes(1)[-1].event is Event.APPLIED
    assert recall(store, "orders").memory.avoided == ()


@pytest.mark.parametrize("scrape_s", [120.0, 300.0])
def test_a_job_that_is_scraped_less_often_than_it_is_looked_at_is_not_blind_between(
    store: StateStore, scrape_s: float
) -> None:
    prometheus = PrometheusSource(url="http://in.process", scrape_interval_s=scrape_s)
    rig = Rig.of(store, LOW, scale_out=2, warm_s=3_600, interval_s=scrape_s, prometheus=prometheus)
    assert {report.status for report in rig.minutes(15)} == {Status.ACTING}
