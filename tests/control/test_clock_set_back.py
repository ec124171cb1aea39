"""Every clock of a job, also that of its metrics, is set back: what was seen before lies in the future, for hours."""

from dataclasses import replace

import numpy as np
import pytest

from perdix.control.believe import coarse
from perdix.control.fleet import _retrains
from perdix.control.job_memory import recall
from perdix.control.learn import judge
from perdix.control.memories import Memories
from perdix.control.publish.standing import PublishedState
from perdix.control.state.journal import JobStatus, Status
from perdix.control.state.ledger import Intent
from perdix.control.state.store import StateStore
from perdix.models.forecasting.contract import Forecast, Workload
from perdix.policies.contract import Reason
from perdix.policies.holding import AHEAD_S
from perdix.replay.run import TwinSource
from perdix.settings.durations import DAY_S
from perdix.settings.stream_job import Objectives, PolicySettings
from perdix.targets.contract import Fault
from perdix.telemetry.window import Window
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.workloads import arrivals_from
from tests.control.rig import HIGH, LOW, FaultySource, FaultyTarget, Rig, champion, constant, parameters

BEFORE = 15_000.0  # records/s
WARM_S = 1_800
NOW_S = 1_790_000_000.0


def set_back(rig: Rig, back_s: float, scale_out: int = 2) -> None:
    """Let all clocks go back; half an hour before that, by the clocks of now, the load was as before."""
    start_s = int(rig.now_s - back_s) - WARM_S
    arrivals = arrivals_from(np.concatenate([constant(BEFORE, WARM_S / 3600), constant(HIGH)]), start_s)
    rig.twin = JobTwin(parameters(), 3, start_s=start_s, scale_out=scale_out, arrivals=arrivals)
    rig.twin.step(WARM_S)
    rig.source, rig.target = FaultySource(TwinSource(rig.twin, Scraping(interval_s=5.0))), FaultyTarget(rig.twin)


def planned_on_what_is_seen(rig: Rig) -> None:
    reports = rig.minutes(60)
    assert all(report.decision is not None and report.decision.reason is not Reason.SCALE_IN for report in reports)
    assert all(report.decision.reason is not Reason.HOLD_BLIND for report in reports if report.decision is not None)
    for report in reports:
        assert report.forecast is not None
    newest = reports[-1].forecast
    assert newest is not None
    assert newest.origin_s <= rig.now_s
    assert newest.mean.mean() == pytest.approx(HIGH, rel=0.05)


@pytest.mark.parametrize(
    ("back_s", "restarting"), [(3_600.0, False), (3_600.0, True), (86_400.0, False)], ids=["hour", "restarts", "day"]
)
def test_a_load_seen_before_the_clock_was_set_back_is_not_planned_on(
    store: StateStore, back_s: float, restarting: bool
) -> None:
    rig = Rig.of(store, BEFORE, scale_out=2, policy=PolicySettings(name="perdix"))
    rig.memories, rig.restarting = None if restarting else Memories(), restarting
    rig.minutes(100)
    set_back(rig, back_s)
    planned_on_what_is_seen(rig)


@pytest.mark.parametrize(
    ("back_s", "restarting"), [(3_600.0, False), (86_400.0, False), (86_400.0, True)], ids=["hour", "day", "restarts"]
)
def test_a_champion_trained_by_a_clock_that_was_ahead_goes_on(
    store: StateStore, back_s: float, restarting: bool
) -> None:
    rig = Rig.of(store, BEFORE, scale_out=2, policy=PolicySettings(name="perdix"))
    rig.memories, rig.restarting = None if restarting else Memories(), restarting
    rig.champions = champion(constant(BEFORE, 2.0), rig.now_s)
    rig.minutes(40)
    set_back(rig, back_s)
    planned_on_what_is_seen(rig)
    memory = recall(store, "orders").memory
    assert memory.champion is not None
    assert memory.champion.forecaster.end_s == rig.now_s
    assert memory.wape is not None, "its forecasts are judged"
    assert memory.scored_until_s <= rig.now_s
    assert memory.drift.horizon.forecasts > 15
    assert all(forecast.origin_s <= rig.now_s for forecast in (*memory.pending, *memory.trust.made))
    assert memory.capacity.newest_s > rig.now_s - 300.0, "it learns"
    assert memory.normal.newest_s <= rig.now_s


def test_what_is_set_back_by_seconds_is_kept(store: StateStore) -> None:
    rig = Rig.of(store, BEFORE, scale_out=2, policy=PolicySettings(name="perdix"))
    rig.minutes(30)
    before = recall(store, "orders").memory
    set_back(rig, 60.0)
    rig.minutes(1)
    after = recall(store, "orders").memory
    assert before.minutes is not None
    assert after.minutes is not None
    assert after.minutes.start_s == before.minutes.start_s
    assert after.normal.newest_s >= before.normal.newest_s


def test_a_rescale_of_before_is_watched_no_longer_and_explains_no_failure(store: StateStore) -> None:
    rig = Rig.of(store, BEFORE, scale_out=2, policy=PolicySettings(name="static", options={"scale_out": 2}))
    then_s = rig.now_s + 3_600.0
    made = Intent("orders", then_s, then_s, 3, 2, "static", "scale_in", "why", then_s + 900.0, {}, {})
    store.ledger.record(made)
    store.ledger.applied(made.decision_id, then_s)
    store.ledger.confirmed(made.decision_id, then_s)
    rig.minutes(5)
    assert recall(store, "orders").memory.watching is None
    rig.twin.fail()
    rig.minutes(1)
    watching = recall(store, "orders").memory.watching
    assert watching is not None
    assert watching.decision_id is None


def rescaled_tomorrow(store: StateStore, **job: object) -> Rig:
    """A job of four workers whose policy wants three, and that was rescaled while its clock was a day ahead."""
    rig = Rig.of(store, LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 3}), **job)
    at_s = rig.now_s + DAY_S
    made = Intent("orders", at_s, at_s, 3, 4, "static", "scale_out", "why", at_s + 900.0, {}, {})
    store.ledger.record(made)
    store.ledger.applied(made.decision_id, at_s)
    store.ledger.withdraw("orders", at_s, "by someone")
    return rig


def test_rescales_of_before_use_up_no_budget(store: StateStore) -> None:
    rig = rescaled_tomorrow(store, objectives=Objectives(rescales_per_day=1))
    rig.minutes(2)
    assert rig.twin.requested == 3


def test_a_rescale_of_before_hides_none_of_now(store: StateStore) -> None:
    rig = rescaled_tomorrow(store)
    rig.minutes(1)
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 2})})
    reasons = [report.decision.reason for report in rig.minutes(1) if report.decision is not None]
    assert (rig.twin.requested, reasons) == (3, [Reason.HOLD_GRACE])


def test_a_retraining_asked_for_before_hinders_none_of_now(store: StateStore) -> None:
    ask, closed = store.journal.request_retrain, store.journal.close_retrain
    assert closed(str(ask("orders", NOW_S + 2 * DAY_S, "poor")), NOW_S + 2 * DAY_S)
    ask("orders", NOW_S + 3 * DAY_S, "poor")
    key = ask("orders", NOW_S, "poor")
    assert key is not None
    assert [request.run_key for request in _retrains(store.journal, NOW_S + 60.0)] == [key]
    assert [request.run_key for request in store.journal.open_retrains()] == [key], "nobody waits for the other"


def test_a_forecast_from_the_future_is_settled_without_a_score() -> None:
    truth = Workload(0.0, 10.0, np.full(600, 5.0))
    ahead = coarse(Forecast(truth.end_s + AHEAD_S + 1.0, 900.0, np.array([5.0]), version=1))
    soon = replace(ahead, origin_s=truth.end_s)
    judgement = judge((soon, ahead), truth, 1, 0.0)
    assert [(forecast, found.horizon_wape) for forecast, found in judgement.settled] == [(ahead, None)]


def test_a_rescale_of_before_that_never_ends_is_given_up_in_time(store: StateStore) -> None:
    rig = rescaled_tomorrow(store)
    at_s = rig.now_s + DAY_S
    made = Intent("orders", at_s, at_s, 3, 4, "static", "scale_out", "again", at_s + 900.0, {"new": 1}, {})
    store.ledger.record(made)
    store.ledger.applied(made.decision_id, at_s)
    rig.target.never_settling = True
    reports = rig.minutes(14)
    assert not any("taken -" in report.sentence for report in reports)
    back = [report.decision is not None and report.decision.reason is Reason.ROLLBACK for report in reports]
    assert back.index(True) == 12, "it had its ten minutes"


def test_requests_of_before_use_up_no_day(store: StateStore) -> None:
    ask, closed = store.journal.request_retrain, store.journal.close_retrain
    for hour in (2, 4, 6):
        at_s = NOW_S + 3_600.0 * hour
        assert closed(str(ask("orders", at_s, "poor")), at_s)
    assert ask("orders", NOW_S, "poor") is not None


def test_the_drift_of_now_is_the_newest_one(store: StateStore) -> None:
    ask, closed = store.journal.request_retrain, store.journal.close_retrain
    for at_s in (NOW_S + 3 * DAY_S, NOW_S):
        assert closed(str(ask("orders", at_s, "poor", since_s=at_s - 900.0)), at_s)
    assert store.journal.drifts(NOW_S + 60.0) == {"orders": NOW_S - 900.0}


def test_what_was_noted_before_is_published_as_no_news(store: StateStore) -> None:
    for at_s in (NOW_S + 5 * DAY_S, NOW_S):
        store.journal.stands(JobStatus("orders", Status.ACTING, at_s))
    made = Intent("orders", NOW_S + DAY_S, NOW_S + DAY_S, 3, 4, "static", "scale_out", "why", NOW_S + 2 * DAY_S, {}, {})
    store.ledger.record(made)
    store.ledger.failed(made.decision_id, NOW_S + DAY_S, "503", retriable=True, fault=Fault.PASSING)
    found = PublishedState(store.database.url.render_as_string(hide_password=False)).read(NOW_S, 0.0).jobs["orders"]
    assert (found.since_s, found.failures) == (NOW_S, 0)


@pytest.mark.parametrize("metric", ["latency_p95_ms", "workload_per_s"])
def test_what_is_rejected_is_counted_on(store: StateStore, metric: str) -> None:
    rig = Rig.of(store, BEFORE, scale_out=2, policy=PolicySettings(name="static", options={"scale_out": 2}))

    def absurd(window: Window) -> Window:
        return replace(window, job_metrics={**window.job_metrics, metric: np.full(len(window), -1.0)})

    counts = []
    for _ in range(2):
        rig.source.change = absurd
        counts += [report.rejected[metric] for report in rig.minutes(3)]
        set_back(rig, 86_400.0)
    assert counts[0] < counts[2] <= counts[3] < counts[5]
