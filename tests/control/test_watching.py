"""Recoveries watched window by window: rescales, failures that nobody asked for, and what is normal."""

import json
from dataclasses import replace

import numpy as np
import pytest

from perdix.control.job_memory import recall
from perdix.control.observe import newest, rows, standing_still, total_throughput
from perdix.control.state.ledger import Entry, Intent, State
from perdix.control.state.store import StateStore
from perdix.control.watching import Watched, Watching, look, stopping_throughput
from perdix.models.recovery.downtime import Downtimes
from perdix.models.recovery.normal import Normal
from perdix.policies.contract import Reason
from perdix.replay.run import TwinSource
from perdix.settings.stream_job import PolicySettings
from perdix.settings.targets import FlinkSettings, TwinSettings
from perdix.telemetry.window import Window
from perdix.twin.emission import Scraping
from perdix.twin.parameters import RandomTime, Restart
from tests.control.rig import HIGH, LOW, FaultySource, Rig, constant


def test_a_failure_that_nobody_asked_for_is_watched_and_its_downtime_learnt(store: StateStore) -> None:
    rig = Rig.of(store, 2 * LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 4}))
    rig.minutes(3)
    rig.twin.fail(1)
    rig.minutes(6)
    true_s = rig.twin.outages[-1].end_s - rig.twin.outages[-1].start_s
    memory = recall(store, "orders").memory
    assert memory.watching is None, "it was watched to its end, and not begun anew"
    learnt = Downtimes().observed(4, 4, float(true_s)).failure_s
    assert memory.downtimes.failure_s == pytest.approx(learnt, abs=0.3 * 10.0)
    assert (memory.downtimes.out_s, memory.downtimes.in_s) == (Downtimes().out_s, Downtimes().in_s)


@pytest.mark.parametrize("away_minutes", [50, 70, 120])
@pytest.mark.parametrize("asked", [False, True], ids=["failure", "rescale"])
def test_time_in_which_nobody_looked_is_no_part_of_a_recovery(
    store: StateStore, away_minutes: int, asked: bool
) -> None:
    """A first look back reads an hour."""
    rig = Rig.of(store, 2 * LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 4}))
    rig.minutes(5)
    if asked:
        rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 3})})
        rig.minutes(1)
    else:
        rig.twin.fail(1)
    rig.twin.step(12)
    rig.tick()
    assert recall(store, "orders").memory.watching is not None
    rig.twin.step(60 * away_minutes)
    rig.minutes(3)
    stop, memory = rig.twin.outages[-1], recall(store, "orders").memory
    down_s = stop.end_s - stop.start_s
    assert memory.watching is None
    learnt = memory.downtimes.inward if asked else memory.downtimes.failure
    outcome = next((entry.outcome for entry in store.ledger.decisions("orders") if entry.outcome), {})
    if away_minutes < 60:
        assert learnt.s == pytest.approx(Downtimes().observed(4, 3 if asked else 4, down_s).anticipated(4, 4).s, abs=20)
        return
    assert (learnt.seen, memory.downtimes.lost.seen, memory.downtimes.failure_lost.seen) == (0.0, 0.0, 0.0)
    assert outcome == ({"recovered": True, "why": "nobody looked until it had caught up"} if asked else {})


def without_prometheus(rig: Rig, minutes: int, *, more_s: int = 0, latency: bool = True) -> None:
    """Let Prometheus be down for minutes, and its scrapes begin anew ``more_s`` seconds later."""
    away_s, back_s = rig.now_s, rig.now_s + 60 * minutes + more_s

    def lost(window: Window) -> Window:
        kept = (window.times_s <= away_s) | (window.times_s > back_s)
        of_job = {name: np.where(kept, values, np.nan) for name, values in window.job_metrics.items()}
        of_job |= {} if latency else {"latency_p95_ms": np.full(len(window), np.nan)}
        of_workers = {name: np.where(kept[:, None], values, np.nan) for name, values in window.worker_metrics.items()}
        return replace(window, job_metrics=of_job, worker_metrics=of_workers)

    rig.source.error, rig.source.change = "it is down", lost
    rig.minutes(minutes)
    rig.source.error = None


def test_a_scale_in_that_nobody_saw_end_is_not_taken_back_with_the_first_samples(store: StateStore) -> None:
    rig = Rig.of(store, 14_000.0, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 2}))
    rig.minutes(1)
    rig.twin.step(12)
    rig.tick()
    without_prometheus(rig, 20, more_s=40, latency=False)
    rig.minutes(8)
    assert [entry.intent.reason for entry in store.ledger.decisions("orders") if entry.intent.rescales] == ["scale_in"]
    assert next(entry.outcome for entry in store.ledger.decisions("orders") if entry.outcome)["recovered"]


def test_a_restart_that_hides_the_jobs_own_metrics_for_minutes_is_learnt(store: StateStore) -> None:
    """As of Kafka Streams and Spark: what arrives is known all the while, from the brokers."""
    rig = Rig.of(
        store,
        6_000.0,
        scale_out=4,
        policy=PolicySettings(name="static", options={"scale_out": 2}),
        restart=Restart(**{"in": RandomTime(median_s=240.0)}),
    )

    def hidden(window: Window) -> Window:
        away = np.zeros(len(window), bool)
        for outage in rig.twin.outages:
            away |= (window.times_s > outage.start_s + 20) & (window.times_s <= outage.end_s)
        gone = {name: np.where(away, np.nan, window.job_metrics[name]) for name in ("scale_out", "uptime_s")}
        of_workers = {name: np.where(away[:, None], np.nan, values) for name, values in window.worker_metrics.items()}
        return replace(window, job_metrics={**window.job_metrics, **gone}, worker_metrics=of_workers)

    rig.source.change = hidden
    rig.minutes(15)
    (outage,) = rig.twin.outages
    outcome = next(entry.outcome for entry in store.ledger.decisions("orders") if entry.outcome)
    assert outcome["recovery_s"] == pytest.approx(rig.twin.recovery_time_s(outage), rel=0.2)
    assert recall(store, "orders").memory.downtimes.inward.s > 60.0


@pytest.mark.parametrize("away_s", [150, 240])
def test_a_scale_in_that_crashes_again_and_again_is_taken_back(store: StateStore, away_s: int) -> None:
    """Its workers show themselves for a minute, at work on nothing, and are away for minutes."""
    rig = Rig.of(store, 14_000.0, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 2}))
    rig.minutes(1)
    began_s = rig.now_s

    def crashing(window: Window) -> Window:
        since_s = window.times_s - began_s
        away = (since_s > 0.0) & (since_s % (60 + away_s) >= 60.0)
        of_job = {name: np.where(away, np.nan, values) for name, values in window.job_metrics.items()}
        of_job |= {name: np.where(since_s > 0.0, np.nan, of_job[name]) for name in ("latency_p95_ms", "uptime_s")}
        of_workers = {name: np.where(away[:, None], np.nan, values) for name, values in window.worker_metrics.items()}
        done = of_workers["throughput_per_s"]
        of_workers["throughput_per_s"] = np.where((since_s > 0.0)[:, None], 0.0 * done, done)
        return replace(window, job_metrics=of_job, worker_metrics=of_workers)

    rig.source.change = crashing
    rig.minutes(30)
    made = [entry.intent.reason for entry in store.ledger.decisions("orders") if entry.intent.rescales]
    assert made[-2:] == ["rollback", "scale_in"], "the newest first"


@pytest.mark.parametrize("outage_minutes", [1, 20])
def test_an_outage_of_prometheus_in_a_recovery_is_no_part_of_what_is_learnt_of_it(
    store: StateStore, outage_minutes: int
) -> None:
    rig = Rig.of(store, 14_000.0, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 4}))
    rig.minutes(5)
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 2})})
    rig.minutes(1)
    rig.twin.step(12)
    rig.tick()
    assert recall(store, "orders").memory.watching is not None, "it stands still"
    without_prometheus(rig, outage_minutes)
    rig.minutes(5)
    downtimes = recall(store, "orders").memory.downtimes
    outcome = next(entry.outcome for entry in store.ledger.decisions("orders") if entry.outcome)
    if outage_minutes == 1:
        assert outcome["recovery_s"] < 200.0
        assert downtimes.inward.seen == 1.0
        return
    assert outcome == {"recovered": True, "why": "metrics were missing for 1200 s of its recovery"}
    assert (downtimes.inward.seen, downtimes.lost.seen) == (0.0, 0.0)


def test_what_a_failure_leaves_waiting_did_not_wait_before_it(store: StateStore) -> None:
    rig = Rig.of(store, 2 * LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 4}))
    rig.minutes(3)
    rig.twin.step(50)  # it fails just before the tick, which sees it stand still
    rig.twin.fail(1)
    rig.twin.step(10)
    rig.tick()
    watching = recall(store, "orders").memory.watching
    assert watching is not None
    assert watching.watch.at_s == pytest.approx(rig.twin.outages[-1].start_s, abs=2.5), "between two samples"
    assert rig.twin.totals.lag > 10.0 * LOW
    assert watching.waiting_records < LOW


def test_a_rescale_teaches_the_downtime_of_its_own_direction(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 6}))
    rig.minutes(6)
    memory = recall(store, "orders").memory
    entry = next(decision for decision in store.ledger.decisions("orders") if decision.outcome)
    assert entry.outcome is not None
    stop = rig.twin.outages[-1]
    assert entry.outcome["downtime_s"] == pytest.approx(stop.end_s - stop.start_s, abs=6.0)
    learnt = Downtimes().observed(4, 6, entry.outcome["downtime_s"])
    assert replace(memory.downtimes, lost=learnt.lost) == learnt
    assert memory.downtimes.lost.seen == 1.0, "what the restart lost was learnt, too"
    true_s = rig.twin.recovery_time_s(rig.twin.outages[-1])
    assert entry.observed_recovery_s == pytest.approx(true_s, abs=10.0)


def test_an_overload_never_becomes_normal(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2, policy=PolicySettings(name="static", options={"scale_out": 2}))
    rig.minutes(5)
    memory = recall(store, "orders").memory
    assert abs(memory.normal.difference.mean) < 0.05 * HIGH


def test_a_watch_survives_a_restart_of_the_controller(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 6}))
    rig.minutes(2)
    memory = recall(store, "orders").memory
    assert memory.watching is not None
    again = Watching.from_state(memory.watching.to_state())
    assert again.decision_id == memory.watching.decision_id
    assert again.watch.samples == memory.watching.watch.samples


def test_a_watch_that_a_former_version_kept_was_read_until_its_last_sample(store: StateStore) -> None:
    """It kept no ``read_s``: else all that was read before the update would be time in which nobody looked."""
    rig = Rig.of(store, 2 * LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 6}))
    rig.minutes(2)
    memory = recall(store, "orders").memory
    assert memory.watching is not None
    kept = {name: value for name, value in memory.watching.to_state().items() if name != "read_s"}
    again = Watching.from_state(kept)
    assert again == memory.watching
    samples = again.watch.samples
    assert again.read_s == samples[-1][0] > again.watch.at_s
    assert Watching.from_state({**kept, "watch": {**kept["watch"], "samples": []}}).read_s == again.watch.at_s


def window(throughput: list[list[float]], uptime: list[float], scale_out: float = 2.0) -> Window:
    count = len(uptime)
    return Window(
        "orders",
        5.0,
        5.0 * np.arange(1, count + 1),
        ("a", "b"),
        {
            "workload_per_s": np.full(count, 10.0),
            "scale_out": np.full(count, scale_out),
            "uptime_s": np.array(uptime),
        },
        {"throughput_per_s": np.array(throughput)},
    )


def applied(at_s: float, *, from_scale_out: int, scale_out: int, reason: Reason = Reason.SCALE_IN) -> Entry:
    intent = Intent("orders", at_s, at_s, from_scale_out, scale_out, "static", reason, "", at_s + 900.0, {}, {}, 30.0)
    return Entry("d", intent, State.CONFIRMED, 1, applied_s=at_s)


def test_a_stop_that_no_metric_shows_teaches_that_it_was_short() -> None:
    """Asked at 6 s, up again at 9.5 s, a sample every 5 s; the next rescale would come before a time-out."""
    calm = [[5.0, 5.0]] * 20
    one = window(calm, [100.0, 0.5, *(5.0 * k + 0.5 for k in range(1, 19))])
    last = applied(6.0, from_scale_out=4, scale_out=2)
    found = look(None, Normal(), Downtimes(), one, last=last, objective_s=600.0)
    assert found.watching is None
    assert found.outcome == {"recovered": True, "downtime_at_most_s": 3.5, "why": "no metric showed a stop"}
    assert found.downtimes == Downtimes().observed(4, 2, 3.5), "what it lost is learnt with the capacity"
    assert found.ended is not None
    assert found.ended.recovered is not None
    assert found.ended.recovered.again_records == 0.0, "nothing was late, so nothing was done again"
    early = rows(one, one.times_s <= 50.0)
    waiting = look(None, Normal(), Downtimes(), early, last=last, objective_s=600.0)
    assert waiting.watching is not None, "a stop may still show"
    assert waiting.downtimes == Downtimes()


@pytest.mark.parametrize(
    ("target", "assumed_s"),
    [
        (FlinkSettings(url="http://127.0.0.1:8081"), 3.0),
        (TwinSettings(url="http://127.0.0.1:8081", in_place=True), 3.0),
        (None, 30.0),
    ],
)
def test_a_flink_job_is_assumed_to_stand_still_for_as_long_as_rescales_in_place_do(
    store: StateStore, target: FlinkSettings | TwinSettings | None, assumed_s: float
) -> None:
    rig = Rig.of(store, LOW, **({} if target is None else {"target": target}))
    rig.minutes(2)
    assert recall(store, "orders").memory.downtimes.out_s == assumed_s


def test_a_job_that_flink_rescaled_in_place_is_assumed_to_restart_under_another_target(store: StateStore) -> None:
    rig = Rig.of(store, LOW, policy=PolicySettings(name="static", options={"scale_out": 4}))
    other = rig.job.target
    for target in (FlinkSettings(url="http://127.0.0.1:8081"), other):
        rig.job = rig.job.model_copy(update={"target": target})
        rig.minutes(2)
    assert recall(store, "orders").memory.downtimes == Downtimes()


IN_PLACE = Restart(
    **{"out": RandomTime(median_s=1.0), "in": RandomTime(median_s=0.8)},
    rescale_replay_s=1,
    warm_up_s=0,
    warm_up_speed=1.0,
)


def test_a_backlog_from_before_a_rescale_in_place_is_not_taken_for_what_it_lost(store: StateStore) -> None:
    """A second of work is done again, after seven minutes in which two workers had fallen behind."""
    two = PolicySettings(name="static", options={"scale_out": 2})
    rig = Rig.of(store, 0.5 * HIGH, scale_out=2, warm_s=200, policy=two, restart=IN_PLACE)
    rig.minutes(4)
    eight = PolicySettings(name="static", options={"scale_out": 8})
    rig.job = rig.job.model_copy(update={"policy": eight})
    rig.minutes(10)
    (entry,) = [decision for decision in store.ledger.decisions("orders") if decision.outcome]
    true_s = rig.twin.recovery_time_s(rig.twin.outages[-1])
    assert entry.observed_recovery_s == pytest.approx(true_s, abs=6.0)
    lost = recall(store, "orders").memory.downtimes.lost
    assert lost.seen == 1.0
    assert lost.s < 3.0


def test_a_restart_that_hides_metrics_while_the_load_rises_is_learnt(store: StateStore) -> None:
    """More workers were asked for before they were needed: what the job took until then was all that arrived."""
    six = PolicySettings(name="static", options={"scale_out": 6})
    load = np.interp(np.arange(7_200), [1_700, 2_400], [LOW, 3 * LOW])
    restart = Restart(out=RandomTime(median_s=60.0))
    rig = Rig.of(store, load, scale_out=4, policy=six, restart=restart)

    def hidden(window: Window) -> Window:
        away = np.zeros(len(window), bool)
        for outage in rig.twin.outages:
            away |= (window.times_s > outage.start_s) & (window.times_s <= outage.end_s)
        gone = {name: np.where(away, np.nan, values) for name, values in window.job_metrics.items()}
        of_workers = {name: np.where(away[:, None], np.nan, values) for name, values in window.worker_metrics.items()}
        return replace(window, job_metrics=gone, worker_metrics=of_workers)

    rig.source.change = hidden
    rig.minutes(15)
    (outage,) = rig.twin.outages
    assert recall(store, "orders").memory.downtimes.out_s == pytest.approx(outage.end_s - outage.start_s, rel=0.3)


@pytest.mark.parametrize("interval_s", [15.0, 30.0])
def test_what_an_overloaded_job_does_not_take_before_it_is_rescaled_is_no_downtime(
    store: StateStore, interval_s: float
) -> None:
    """Zoo 100005-12: a second was learnt as 25, for the first sample after the request is from before it."""
    eight = PolicySettings(name="static", options={"scale_out": 8})
    in_place = TwinSettings(url="http://in.process", in_place=True)
    load = np.append(constant(0.02 * HIGH, 0.5), constant(HIGH))
    rig = Rig.of(store, load, scale_out=1, policy=eight, restart=IN_PLACE, target=in_place)
    rig.source = FaultySource(TwinSource(rig.twin, Scraping(interval_s=interval_s, jitter_s=0.1)))
    rig.minutes(20)
    (entry,) = [decision for decision in store.ledger.decisions("orders") if decision.outcome]
    assert entry.outcome is not None
    assert "downtime_s" not in entry.outcome, "no metric shows the stop"
    assert recall(store, "orders").memory.downtimes.out_s <= 5.0


def test_what_follows_a_stop_that_no_metric_shows_tells_how_long_the_recovery_took() -> None:
    """Asked at 6 s, up again at 7.5 s: less is done than usual until 10 s, more until 25 s."""
    course = [[5.0, 5.0], [4.0, 4.0], [6.0, 6.0], [6.0, 6.0], [5.5, 5.5], *([[5.0, 5.0]] * 15)]
    one = window(course, [100.0, *(5.0 * k + 2.5 for k in range(19))])
    last = applied(6.0, from_scale_out=4, scale_out=2)
    found = look(None, Normal(), Downtimes(), one, last=last, objective_s=600.0)
    assert found.outcome == {
        "recovered": True,
        "downtime_at_most_s": 1.5,
        "recovery_s": pytest.approx(16.5),
        "predicted_s": 30.0,
        "prediction_error": pytest.approx(30.0 / 16.5 - 1.0),
        "why": "no metric showed a stop",
    }
    assert found.downtimes == Downtimes().observed(4, 2, 1.5), "what it lost is learnt with the capacity"
    assert found.ended is not None
    assert found.ended.recovered is not None
    assert found.ended.recovered.recovery_s == pytest.approx(16.5)
    again = 5.0 * (2.0 + 2.0 + 1.0) - 2.0 * (10.0 - 6.0)
    assert found.ended.recovered.again_records == pytest.approx(again), "more was done by so much than arrived"


@pytest.mark.parametrize("interval_s", [5.0, 15.0, 30.0])
def test_a_stop_of_two_seconds_is_learnt_however_rarely_metrics_are_read(store: StateStore, interval_s: float) -> None:
    """Zoo 64001-20 believed in 15 and 30 s all day, at 2 s: scraped every 15 s, no sample lay in any of its stops."""
    rig = Rig.of(
        store,
        LOW,
        scale_out=6,
        interval_s=interval_s,
        policy=PolicySettings(name="static", options={"scale_out": 4}),
        restart=Restart(**{"out": RandomTime(median_s=2.0), "in": RandomTime(median_s=2.0)}),
    )
    rig.minutes(6)
    (entry,) = [decision for decision in store.ledger.decisions("orders") if decision.outcome]
    assert entry.outcome is not None
    assert entry.outcome.get("downtime_s", entry.outcome.get("downtime_at_most_s")) <= 4.0
    learnt = recall(store, "orders").memory.downtimes
    assert learnt.in_s < 8.0
    assert learnt.out_s < 16.0, "the other direction follows"


def test_a_crash_soon_after_a_rescale_that_was_over_teaches_nothing_of_rescales() -> None:
    """Asked at 6 s, up again at 9.5 s with two workers; it crashes at 42 s and is up again at 70 s."""
    course = [*([[5.0, 5.0]] * 8), *([[0.0, 0.0]] * 6), *([[9.0, 9.0]] * 10), *([[5.0, 5.0]] * 20)]
    uptime = [100.0, 0.5, *(5.0 * k + 0.5 for k in range(1, 7)), *([NONE] * 6), *(5.0 * k for k in range(30))]
    last = applied(6.0, from_scale_out=4, scale_out=2)
    found = end_of(window(course, uptime), last)
    assert found.outcome == {
        "recovered": True,
        "downtime_at_most_s": 3.5,
        "why": "no metric showed a stop; another one came after it was over",
    }
    assert found.downtimes == Downtimes().observed(4, 2, 3.5)


@pytest.mark.parametrize("in_one_look", [True, False])
def test_a_crash_while_a_rescale_is_caught_up_with_is_no_part_of_its_downtime(*, in_one_look: bool) -> None:
    """Of a rescale of 35 s two minutes were learnt, and idle workers were kept for them.

    Asked at 6 s, it stands still until 40 s; it is not calm yet as it crashes at 120 s, up again at 200 s.
    """
    course = [[5.0, 5.0], *([[0.0, 0.0]] * 7), *([[9.0, 9.0]] * 16), *([[0.0, 0.0]] * 16), *([[9.0, 9.0]] * 20)]
    course += [[5.0, 5.0]] * 40
    uptime = [100.0, *([NONE] * 7), *(5.0 * k for k in range(16)), *([NONE] * 16), *(5.0 * k for k in range(60))]
    last, whole = applied(6.0, from_scale_out=4, scale_out=2), window(course, uptime)
    whole.job_metrics["consumer_lag_records"] = np.where(whole.times_s < 300.0, 1_000.0, 0.0)
    at_once = look(None, Normal(), Downtimes(), whole, last=last, objective_s=600.0)
    found = at_once if in_one_look else end_of(whole, last)
    assert found.outcome is not None
    assert found.outcome["downtime_s"] == pytest.approx(34.0, abs=5.0)
    assert found.outcome["recovery_s"] > 250.0, "it had caught up only then"
    assert found.downtimes == Downtimes().observed(4, 2, found.outcome["downtime_s"])


def test_a_scale_in_that_leaves_a_job_overloaded_has_failed_also_where_its_uptime_goes_on() -> None:
    """Instances that stay go on as they are, so that no uptime tells what was before the request and what after it."""
    course = [[5.0, 5.0], *([[3.5, 3.5]] * 300)]
    whole = window(course, [900.0 + 5.0 * k for k in range(301)])
    whole.job_metrics["consumer_lag_records"] = np.maximum(np.cumsum(50.0 - 5.0 * np.array(course).sum(axis=1)), 0.0)
    assert end_of(whole, applied(6.0, from_scale_out=4, scale_out=2)).failed_scale_in


def test_a_rescale_that_comes_in_two_steps_is_not_over_with_the_first() -> None:
    """Asked for six at 6 s: four come after 30 s and work for three minutes, then it stands still until six do."""
    course = [[5.0, 5.0], *([[0.0, 0.0]] * 6), *([[6.0, 6.0]] * 34), *([[0.0, 0.0]] * 14), *([[9.0, 9.0]] * 30)]
    course += [[5.0, 5.0]] * 40
    uptime = [100.0, *([NONE] * 6), *(5.0 * k for k in range(34)), *([NONE] * 14), *(5.0 * k for k in range(70))]
    whole = window(course, uptime)
    whole.job_metrics["scale_out"][:] = np.where(whole.times_s < 206.0, 4.0, 6.0)
    whole.job_metrics["consumer_lag_records"] = np.where(whole.times_s < 420.0, 1_000.0, 0.0)
    found = end_of(whole, applied(6.0, from_scale_out=2, scale_out=6, reason=Reason.SCALE_OUT))
    assert found.outcome is not None
    assert found.outcome["downtime_s"] == pytest.approx(99.0, abs=8.0)


def test_what_a_job_does_not_take_while_its_rescale_is_waited_for_is_no_downtime() -> None:
    """Asked at 6 s, restarted only at 305 s, for 35 s; meanwhile more than twice as much comes as it takes."""
    course = [*([[5.0, 5.0]] * 60), *([[0.0, 0.0]] * 8), *([[40.0, 40.0]] * 19), *([[12.5, 12.5]] * 40)]
    uptime = [*(900.0 + 5.0 * k for k in range(60)), *([NONE] * 8), *(5.0 * k for k in range(59))]
    whole = window(course, uptime, scale_out=4.0)
    whole.job_metrics["workload_per_s"] = np.where(whole.times_s < 30.0, 10.0, 25.0)
    waits = np.cumsum(5.0 * (whole.job_metrics["workload_per_s"] - np.array(course).sum(axis=1)))
    whole.job_metrics["consumer_lag_records"] = np.maximum(waits, 0.0)
    found = end_of(whole, applied(6.0, from_scale_out=2, scale_out=4, reason=Reason.SCALE_OUT))
    assert found.outcome is not None
    assert found.outcome["downtime_s"] == pytest.approx(38.0, abs=5.0)


@pytest.mark.parametrize(("stopped_s", "until_s"), [(2, 62), (2, 42), (20, 80)])
def test_a_stop_of_restoring_state_shows_in_rates_after_the_job_is_up(stopped_s: int, until_s: int) -> None:
    """Up 2 s after the request by its uptime; rates are taken over 20 s, so they fall below the half only later."""
    done = np.full(500, 10.0)
    done[100 + stopped_s : 100 + until_s] = 0.0
    done[100 + until_s : 100 + 3 * until_s] = 15.0
    over_20_s = np.convolve(done, np.full(20, 1.0 / 20.0))[:500]
    at = np.arange(4, 500, 5)
    one = window([[rate / 2, rate / 2] for rate in over_20_s[at]], [k - 101.0 if k > 101 else 900.0 + k for k in at])
    last = applied(100.0, from_scale_out=4, scale_out=2)
    found = end_of(one, last)
    assert found.outcome is not None
    assert found.outcome["downtime_s"] > 0.5 * (until_s - stopped_s)
    assert found.outcome["recovery_s"] > until_s


def end_of(whole: Window, last: Entry, downtimes: Downtimes | None = None) -> Watched:
    """Look at a window minute by minute, until the watch ends."""
    watching, learnt = None, downtimes or Downtimes()
    assert last.applied_s is not None
    for now_s in np.arange(last.applied_s, whole.times_s[-1] + 1.0, 60.0)[1:]:
        seen = rows(whole, (whole.times_s <= now_s) & (whole.times_s > now_s - 90.0))
        found = look(watching, Normal(), learnt, seen, last=last, objective_s=600.0)
        watching, learnt = found.watching, found.downtimes
        if found.ended is not None:
            return found
        assert watching is not None
        watching = Watching.from_state(json.loads(json.dumps(watching.to_state(), allow_nan=False)))
    raise AssertionError("the watch never ends")


@pytest.mark.parametrize(
    ("done", "scale_out"),
    [
        (5.0, 3.0),  # more or fewer run than were asked for, or they are counted in other units
        (5.8, 2.0),  # always more than is known to arrive
    ],
)
def test_a_watch_ends_also_where_the_job_is_never_as_it_should_be(done: float, scale_out: float) -> None:
    one = window([[done, done]] * 150, [100.0, *(5.0 * k + 0.5 for k in range(149))], scale_out=scale_out)
    found = end_of(one, applied(6.0, from_scale_out=4, scale_out=2))
    assert found.outcome == {"recovered": True, "downtime_at_most_s": 3.5, "why": "no metric showed a stop"}
    assert not found.failed


@pytest.mark.parametrize(
    ("up_after_s", "each", "learnt_s"),
    [
        (10.0, 5.0, None),  # 5 s at most, where 3 are believed: so it may have been
        (2.0, 5.0, 2.0),  # 2 s at most
        (10.0, 3.0, 4.0),  # of two steps 40 % were not processed
    ],
)
def test_a_stop_that_no_metric_shows_moves_what_is_believed_into_what_it_may_have_been(
    up_after_s: float, each: float, learnt_s: float | None
) -> None:
    """Zoo 100009-10, in place: scraped every 10 s, ten seconds were learnt of each stop of one."""
    since_asked_s = 5.0 * np.arange(1, 61) - 10.0
    uptime_s = np.where(since_asked_s <= up_after_s, 900.0 + since_asked_s, since_asked_s - up_after_s)
    one = window([[5.0, 5.0], [5.0, 5.0], *([[each, each]] * 2), *([[5.0, 5.0]] * 56)], uptime_s.tolist())
    found = end_of(one, applied(10.0, from_scale_out=4, scale_out=2), Downtimes().in_place())
    believed = Downtimes().in_place()
    assert found.downtimes == (believed if learnt_s is None else believed.observed(4, 2, learnt_s))


def test_a_gap_of_the_metrics_may_hide_a_stop_as_long_as_it_is() -> None:
    """Asked at 6 s; up again at 45 s; what is processed is not known from 15 to 70 s."""
    missing = [[5.0, 5.0], [5.0, 5.0], *([[NONE, NONE]] * 12), *([[5.0, 5.0]] * 35)]
    one = window(missing, [100.0, 105.0, *([NONE] * 7), *(5.0 * k + 5.0 for k in range(40))], scale_out=NONE)
    found = end_of(one, applied(6.0, from_scale_out=4, scale_out=2))
    assert found.outcome is not None
    assert found.outcome["downtime_at_most_s"] >= 30.0


def test_a_stop_while_fewer_run_than_were_asked_for_is_still_that_of_the_rescale() -> None:
    """Asked for four at 6 s; three came at 9.5 s, the fourth at 70 s."""
    course = [*([[5.0, 5.0]] * 8), *([[0.0, 0.0]] * 6), *([[9.0, 9.0]] * 10), *([[5.0, 5.0]] * 20)]
    uptime = [100.0, 0.5, *(5.0 * k + 0.5 for k in range(1, 7)), *([NONE] * 6), *(5.0 * k for k in range(30))]
    one = window(course, uptime)
    one.job_metrics["scale_out"][:] = np.where(one.times_s < 70.0, 3.0, 4.0)
    last = applied(6.0, from_scale_out=2, scale_out=4)
    found = look(None, Normal(), Downtimes(), one, last=last, objective_s=600.0)
    assert found.outcome is not None
    assert found.outcome["downtime_s"] > 25.0


def test_a_job_that_is_up_before_its_tasks_are_stood_still_as_long_as_samples_say() -> None:
    """Up again at 9.5 s by its uptime; state is restored until 60 s."""
    course = [[5.0, 5.0], *([[0.0, 0.0]] * 11), *([[9.0, 9.0]] * 11), *([[5.0, 5.0]] * 30)]
    one = window(course, [100.0, *(5.0 * k + 0.5 for k in range(52))])
    last = applied(6.0, from_scale_out=4, scale_out=2)
    found = look(None, Normal(), Downtimes(), one, last=last, objective_s=600.0)
    assert found.outcome is not None
    assert found.outcome["downtime_s"] > 45.0


def test_metrics_that_were_missing_for_long_do_not_make_a_restart_long() -> None:
    calm = [[5.0, 5.0], [5.0, 5.0], *([[NONE, NONE]] * 10), *([[5.0, 5.0]] * 20)]
    one = window(calm, [100.0, 105.0, *([NONE] * 10), *(5.0 * k + 15.0 for k in range(20))], scale_out=NONE)
    last = applied(6.0, from_scale_out=4, scale_out=2)
    found = look(None, Normal(), Downtimes(), one, last=last, objective_s=600.0)
    assert found.outcome is not None
    assert found.outcome["downtime_at_most_s"] > Downtimes().in_s
    assert found.downtimes == Downtimes()


def test_a_job_that_was_not_restarted_yet_is_waited_for() -> None:
    one = window([[5.0, 5.0]] * 20, [100.0 + 5.0 * k for k in range(20)])
    last = applied(6.0, from_scale_out=4, scale_out=2)
    found = look(None, Normal(), Downtimes(), one, last=last, objective_s=600.0)
    assert found.watching is not None
    assert found.outcome is None


@pytest.mark.parametrize(
    ("reason", "scale_out", "inward"),
    [
        (Reason.SCALE_IN, 2, True),
        (Reason.SCALE_IN, 4, True),  # onto smaller ones
        (Reason.SCALE_OUT, 6, False),
        (Reason.SCALE_MAXIMUM, 2, False),  # nothing holds, and two take more than four
    ],
)
def test_what_runs_out_of_time_counts_against_running_less_only(
    reason: Reason, scale_out: int, *, inward: bool
) -> None:
    stopped = window([[5.0, 5.0], [5.0, 5.0], *([[0.0, 0.0]] * 118)], [100.0, 105.0, *([0.0] * 118)])
    last = applied(11.0, from_scale_out=4, scale_out=scale_out, reason=reason)
    found = look(None, Normal(), Downtimes(), stopped, last=last, objective_s=200.0)
    assert found.ended is not None
    assert found.outcome == {**(found.outcome or {}), "recovered": False}
    assert found.failed_scale_in is inward


NONE = float("nan")


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (2.0, (1.0, 2.0), (2, 2)),
        (2.0, (2.0, 2.0), (2, 2)),
        (2.0, (3.0, 3.0), (2, 3)),
        (1.0, (2.0, 2.0), (2, 2)),
        (3.0, (3.0, 3.0), (2, 3)),
    ],
    ids=["replaced", "none", "added", "lost before it restarts", "added before it restarts"],
)
@pytest.mark.parametrize("rows_before", [0, 1, 3])
def test_only_workers_that_were_added_make_a_rescale_of_a_restart_that_nobody_asked_for(
    before: float, after: tuple[float, float], change: tuple[int, int], rows_before: int
) -> None:
    """A worker that is lost and replaced was not added, though it is lost well before its job restarts."""
    stopped = [[5.0, 5.0]] * 20 + [[NONE, NONE]] * 6 + [[5.0, 5.0]] * 20
    one = window(stopped, [*(100.0 + 5.0 * k for k in range(20)), *([0.0] * 6), *(5.0 * k + 0.5 for k in range(20))])
    scale_out = one.job_metrics["scale_out"]
    scale_out[20 - rows_before : 26], scale_out[26:29], scale_out[29:] = before, *after
    found = look(None, Normal(), Downtimes(), rows(one, slice(0, 29)), last=None, objective_s=60.0)
    assert found.watching is not None
    later = look(found.watching, Normal(), Downtimes(), one, last=None, objective_s=60.0)
    watched = later.watching or later.ended
    assert watched is not None
    assert watched.change == change


def test_a_missing_worker_is_no_outage_and_a_stopped_job_is() -> None:
    one = window([[5.0, 5.0], [5.0, NONE], [NONE, NONE], [NONE, NONE]], [100.0, 105.0, NONE, 115.0])
    assert total_throughput(one).tolist()[0] == 10.0
    assert np.isnan(total_throughput(one)[1:]).all()
    assert standing_still(one).tolist() == [False, False, True, False]
    assert stopping_throughput(one).tolist()[2] == 0.0
    assert np.isnan(stopping_throughput(one)[3])


def test_a_job_whose_engine_says_that_it_is_not_up_stands_still_though_nobody_tells_its_scale_out() -> None:
    silent = window([[5.0, 5.0], [NONE, NONE], [NONE, NONE]], [100.0, 0.0, NONE], scale_out=NONE)
    assert standing_still(silent).tolist() == [False, True, False], "without any word of the engine it is a lost scrape"


def test_a_spare_worker_that_never_reports_is_not_waited_for() -> None:
    one = window([[5.0, 5.0], [5.0, 6.0], [5.0, NONE]], [100.0, 105.0, 110.0], scale_out=3.0)
    assert total_throughput(one).tolist()[:2] == [10.0, 11.0]
    assert np.isnan(total_throughput(one)[2])


def test_without_an_uptime_metric_silence_is_not_taken_for_a_stop() -> None:
    one = window([[NONE, NONE]] * 3, [NONE] * 3)
    assert not standing_still(one).any()


def test_rows_are_cut_from_every_metric() -> None:
    one = window([[1.0, 1.0]] * 4, [1.0, 2.0, 3.0, 4.0])
    assert newest(one, 10.0).times_s.tolist() == [15.0, 20.0]
    assert newest(one, 10.0).worker_metrics["throughput_per_s"].shape == (2, 2)
    none = rows(one, np.zeros(4, dtype=bool))
    assert len(none) == 0
    assert len(newest(none, 10.0)) == 0
