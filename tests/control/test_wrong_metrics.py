"""Metrics that are wrong: what cannot be is rejected and never learned, and on contradictions nothing is scaled in."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from perdix.control.explain import explain
from perdix.control.explain_text import render
from perdix.control.job_memory import CAPACITY, MINUTES, WORKLOAD, recall
from perdix.control.reconcile import Event
from perdix.control.state.journal import Status
from perdix.control.state.store import StateStore
from perdix.models.forecasting.tail import Tail
from perdix.policies.contract import Reason
from perdix.settings.stream_job import Bounds, PolicySettings
from perdix.targets.advisory import AdvisoryTarget
from perdix.targets.contract import Running, TargetError
from perdix.telemetry.window import Window
from tests.control.rig import LOW, Rig, applied, constant

BUSY = 42_000.0  # records/s: six workers
Change = Callable[[Window], Window]


@pytest.fixture
def store() -> Iterator[StateStore]:
    opened = StateStore("sqlite://")
    yield opened
    opened.close()


def of_job(name: str, change: Callable[[np.ndarray], np.ndarray | float]) -> Change:
    return lambda window: replace(
        window, job_metrics={**window.job_metrics, name: np.broadcast_to(change(window.job_metrics[name]), len(window))}
    )


def of_workers(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda window: replace(
        window, worker_metrics={**window.worker_metrics, name: change(window.worker_metrics[name])}
    )


def both(*changes: Change) -> Change:
    def change(window: Window) -> Window:
        for change in changes:
            window = change(window)
        return window

    return change


def twice(window: Window) -> Window:
    """Every worker is scraped a second time, under another name."""
    workers = (*window.workers, *(f"again-{name}" for name in window.workers))
    return replace(
        window,
        workers=workers,
        worker_metrics={name: np.hstack([values, values]) for name, values in window.worker_metrics.items()},
    )


def without(count: int) -> Change:
    """Some workers no longer report."""

    def change(window: Window) -> Window:
        gone = np.arange(len(window.workers)) < count
        return replace(
            window,
            worker_metrics={name: np.where(gone, np.nan, values) for name, values in window.worker_metrics.items()},
        )

    return change


def since(at_s: float, change: Change) -> Change:
    """Only what was measured later is changed."""

    def later(window: Window) -> Window:
        wrong = change(window)
        late = window.times_s > at_s
        missing = {name: np.full((len(window), len(wrong.workers)), np.nan) for name in wrong.worker_metrics}
        for name, values in window.worker_metrics.items():
            missing[name][:, : values.shape[1]] = values
        return replace(
            wrong,
            job_metrics={
                name: np.where(late, values, window.job_metrics[name]) for name, values in wrong.job_metrics.items()
            },
            worker_metrics={
                name: np.where(late[:, None], values, missing[name]) for name, values in wrong.worker_metrics.items()
            },
        )

    return later


def busy(store: StateStore, **options: object) -> Rig:
    """A job whose six workers are busy, and that perdix has known for a while."""
    rig = Rig.of(store, BUSY, scale_out=6, **options)
    rig.minutes(2)
    assert (rig.twin.scale_out, rig.reports[-1].status) == (6, Status.ACTING)
    return rig


# ---- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1e6, 1e15])
def test_an_absurd_scale_out_is_rejected_counted_and_told_and_the_tick_goes_on(
    store: StateStore, workers: float
) -> None:
    rig = busy(store)
    before = recall(store, "orders").memory.capacity
    rig.source.change = since(rig.now_s, of_job("scale_out", lambda _: workers))
    reports = rig.minutes(3)
    assert reports[-1].status is Status.ACTING, "the target still tells what runs"
    assert reports[-1].rejected == {"scale_out": 36}
    capacity = recall(store, "orders").memory.capacity
    assert (capacity.scale_out, set(capacity.memory)) == (6, set(before.memory))
    told = render(explain(store, "orders"))
    assert (
        f"Rejected so far: 36 values, the newest at 2025-10-09 09:28:20 UTC: scale_out {workers:g} is outside" in told
    )


def test_of_a_job_that_is_only_advised_an_absurd_scale_out_is_no_news(store: StateStore) -> None:
    rig = Rig.of(store, BUSY, scale_out=6, mode="advise")
    rig.target = AdvisoryTarget()  # type: ignore[assignment]
    rig.minutes(2)
    rig.source.change = since(rig.now_s, of_job("scale_out", lambda _: 1e15))
    report = rig.minutes(1)[-1]
    assert (report.running, report.status) == (6, Status.ADVISE)
    assert recall(store, "orders").memory.followed.scale_out == 6


@pytest.mark.parametrize("shown", [np.nan, 0.0], ids=["missing", "zero"])
@pytest.mark.parametrize("restarting", [False, True], ids=["lasts", "restarts"])
def test_of_a_job_that_is_only_advised_nobody_knows_what_runs_without_its_scale_out(
    store: StateStore, shown: float, restarting: bool
) -> None:
    rig = Rig.of(store, BUSY, scale_out=6, mode="advise")
    rig.target = AdvisoryTarget()  # type: ignore[assignment]
    rig.minutes(2)
    rig.source.change = since(rig.now_s, of_job("scale_out", lambda _: shown))
    rig.minutes(5)
    if restarting:
        rig.target = AdvisoryTarget()  # type: ignore[assignment]
    report = rig.minutes(1)[-1]
    assert (report.running, report.decision, report.status) == (None, None, Status.BLIND)
    assert report.sentence == ("Blind: the metrics do not show how many workers run; wait for the metric scale_out.")


@pytest.mark.parametrize("metric", ["throughput_per_s", "workload_per_s"])
def test_a_rate_that_no_worker_reaches_is_blindness_and_leaves_nothing_behind(store: StateStore, metric: str) -> None:
    rig = busy(store)
    learned = recall(store, "orders").memory.capacity.capacity(6)
    absurd = (
        of_job(metric, lambda _: 1e15) if metric == "workload_per_s" else of_workers(metric, lambda v: 0 * v + 1e15)
    )
    rig.source.change = since(rig.now_s, absurd)
    report = rig.minutes(3)[-1]
    assert report.status is Status.BLIND
    assert f"{metric} has no usable sample: {metric} 1e+15 is outside 0 to" in report.sentence
    rig.source.change = None
    assert rig.minutes(1)[-1].status is Status.ACTING
    rig.minutes(3)
    assert recall(store, "orders").memory.capacity.capacity(6).per_s == pytest.approx(learned.per_s, rel=0.02)
    assert applied(rig) == []


@pytest.mark.parametrize("workers", [10**5, 10**30, 10**400, -1])
def test_a_target_that_tells_of_impossibly_many_workers_is_as_good_as_unreachable(workers: int) -> None:
    with pytest.raises(TargetError, match="outside 0 to 10,000"):
        Running(workers, None, settled=True)


@pytest.mark.parametrize("kind", [WORKLOAD, MINUTES, CAPACITY])
def test_what_absurd_metrics_taught_before_is_dropped_with_a_word(store: StateStore, kind) -> None:
    rig = busy(store)
    document = dict(store.learned.recall("orders", kind)[kind.name].document)
    if kind is CAPACITY:
        evidence = {"per_s": 1e9, "relative_sd": 0.1, "at_s": rig.now_s, "cpu_reach": 0.7, "source": "observed"}
        document["state"] = {**document["state"], "memory": [{"scale_out": 10**15, **evidence}]}
    else:
        state = document["state"] if kind is MINUTES else document
        poisoned = {**state, "per_s": [1e15] * len(Tail.from_state(state).per_s)}
        document = {**document, "state": poisoned} if kind is MINUTES else poisoned
    store.learned.learn("orders", rig.now_s, {kind: document})
    report = rig.minutes(1)[-1]
    assert any(f"'{kind.name}' is stored but cannot be used (it was learned at" in note for note in report.notes)
    assert report.status is Status.ACTING
    assert not any("cannot be used" in note for note in rig.minutes(1)[-1].notes)


# ---- what contradicts itself ---------------------------------------------------------------------

WRONG: dict[str, Change] = {
    "throughput is told twice": of_workers("throughput_per_s", lambda values: 2 * values),
    "throughput is told ten times": of_workers("throughput_per_s", lambda values: 10 * values),
    "every series is there twice": twice,
    "the workload drops to nothing": of_job("workload_per_s", lambda values: 0 * values),
    "the workload drops to a tenth": of_job("workload_per_s", lambda values: 0.1 * values),
    "the workload drops to half": of_job("workload_per_s", lambda values: 0.5 * values),
    "the workload doubles": of_job("workload_per_s", lambda values: 2 * values),
    "the CPU drops to a tenth": of_workers("cpu_load", lambda values: 0.1 * values),
    "the CPU drops to half": of_workers("cpu_load", lambda values: 0.5 * values),
    "half of the workers are missing": without(3),
    "half of them, and nobody counts them": both(without(3), of_job("scale_out", lambda _: 3.0)),
}


@pytest.mark.parametrize("late_s", [0, 35])
@pytest.mark.parametrize("wrong", WRONG)
def test_where_metrics_contradict_each_other_the_job_is_blind_and_keeps_its_workers(
    store: StateStore, wrong: str, late_s: int
) -> None:
    """As soon as at the next tick, however late before it that begins; and after it nothing is left of it."""
    rig = busy(store)
    rig.source.change = since(rig.now_s + late_s, WRONG[wrong])
    reports = rig.minutes(4)
    assert [report.status for report in reports[1:]] == [Status.BLIND] * 3
    rig.source.change = None
    assert rig.minutes(3)[-1].status is Status.ACTING
    assert applied(rig) == []


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_load_and_a_throughput_that_fall_while_the_cpu_does_not_are_no_ground_to_scale_in(
    store: StateStore, share: float
) -> None:
    rig = busy(store)
    less = of_job("workload_per_s", lambda values: share * values)
    rig.source.change = since(rig.now_s, both(less, of_workers("throughput_per_s", lambda values: share * values)))
    reports = rig.minutes(5)
    assert "and CPU load 80% contradict each other: at that load the workers were found to take" in reports[1].sentence
    rig.source.change = None
    rig.minutes(6)
    assert all(after >= before for before, after in applied(rig))
    assert recall(store, "orders").memory.capacity.capacity(6).per_s == pytest.approx(51_700.0, rel=0.05), "as before"


def test_a_load_and_a_throughput_that_are_halved_soon_after_a_rescale_do_not_make_fewer_workers_enough(
    store: StateStore,
) -> None:
    """What the workers of a size that has hardly run do at their CPU is not known yet; what they use now is."""
    rig = Rig.of(store, BUSY, scale_out=5, grace_s=0.0)
    rig.minutes(14)
    assert (rig.twin.scale_out, rig.twin.totals.lag) == (6, 0)
    half_workload = since(rig.now_s, of_job("workload_per_s", lambda values: 0.5 * values))
    rig.source.change = half_workload
    rig.minutes(5)
    half_throughput = since(rig.now_s, of_workers("throughput_per_s", lambda values: 0.5 * values))
    rig.source.change = both(half_workload, half_throughput)
    reports = rig.minutes(6)
    assert rig.twin.scale_out >= 6, "42,000/s arrive"
    assert any("CPU load" in report.sentence and "contradict each other: on" in report.sentence for report in reports)


def test_both_numbers_are_told_by_status_and_ledger(store: StateStore) -> None:
    rig = busy(store)
    rig.source.change = since(rig.now_s, WRONG["the workload drops to a tenth"])
    report = rig.minutes(2)[-1]
    said = "workload 4,200/s and throughput 42,000/s contradict each other: the consumer lag moved by 0 records"
    assert report.sentence.startswith(f"Blind: {said}.")
    assert store.ledger.decisions("orders")[0].intent.reason == Reason.HOLD_BLIND
    assert said in render(explain(store, "orders"))


@pytest.mark.parametrize("policy", ["hpa", "ds2-global"])
def test_policies_that_only_measure_do_not_scale_in_on_contradictions_either(store: StateStore, policy: str) -> None:
    rig = Rig.of(store, BUSY, scale_out=6, policy=PolicySettings(name=policy))
    rig.minutes(4)
    before = rig.twin.scale_out
    rig.source.change = since(
        rig.now_s, both(WRONG["the workload drops to a tenth"], WRONG["the CPU drops to a tenth"])
    )
    rig.minutes(8)
    assert rig.twin.scale_out >= before


@pytest.mark.parametrize("policy", ["ds2-global", "hpa", "daedalus", "perdix"])
def test_right_after_a_restart_nothing_is_scaled_in_as_nothing_can_tell_whether_metrics_agree(
    store: StateStore, policy: str
) -> None:
    """A job that catches up works more than arrives: so a throughput that is told twice contradicts nothing yet."""
    rig = busy(store, policy=PolicySettings(name=policy), grace_s=0.0, interval_s=15.0)
    rig.minutes(10)
    rig.twin.rescale(5, "by hand")
    rig.source.change = of_workers("throughput_per_s", lambda values: 2 * values)
    rig.minutes(4)
    assert rig.twin.scale_out >= 5, "42,000/s arrive"


def test_where_the_lag_is_lost_and_throughput_is_not_the_workload_nothing_is_scaled_in(store: StateStore) -> None:
    """Only the lag could say why; ``ds2-global`` takes what is done per second of useful time for the capacity."""
    ds2 = PolicySettings(name="ds2-global")
    falling = np.concatenate([constant(BUSY, 0.35), np.linspace(BUSY, 0.75 * BUSY, 900), constant(0.75 * BUSY, 1.0)])
    rig = Rig.of(store, falling, scale_out=6, policy=ds2, grace_s=0.0)
    rig.minutes(10)
    without_lag = of_job("consumer_lag_records", lambda values: np.full_like(values, np.nan))
    rig.source.change = both(without_lag, since(rig.now_s + 120.0, WRONG["throughput is told twice"]))
    reports = rig.minutes(20)
    assert rig.twin.scale_out >= 4, "31,500/s arrive, of 9,000/s each takes"
    assert any("and the consumer lag does not say why" in report.sentence for report in reports)


def test_a_scale_in_waits_until_what_is_measured_after_a_restart_can_be_checked(store: StateStore) -> None:
    four = PolicySettings(name="static", options={"scale_out": 4})
    rig = Rig.of(store, LOW, scale_out=6, policy=four, grace_s=0.0, interval_s=15.0)
    rig.twin.fail()
    report = rig.minutes(1)[-1]
    assert report.decision is not None
    assert report.decision.reason is Reason.HOLD_GRACE
    assert "whether what is measured since then is true is not known yet. Without that, 4 workers" in report.sentence
    assert rig.minutes(2)[-1].event is Event.CONFIRMED
    assert rig.twin.scale_out == 4


def test_a_job_that_falls_behind_is_scaled_out_whatever_its_workload_is_said_to_be(store: StateStore) -> None:
    rising = np.concatenate([constant(LOW, 0.6), constant(60_000.0, 1.0)])
    rig = Rig.of(store, rising, scale_out=2)
    rig.minutes(5)
    rig.source.change = since(rig.now_s + 60, of_job("workload_per_s", lambda values: 3 * values))
    reports = rig.minutes(6)
    assert Status.BLIND in {report.status for report in reports}
    assert rig.twin.scale_out > 2


def test_a_load_that_really_falls_is_still_followed_when_throughput_and_cpu_come_a_minute_later(
    store: StateStore,
) -> None:
    falling = np.concatenate([constant(BUSY, 0.55), constant(0.1 * BUSY, 2.0)])
    rig = Rig.of(store, falling, scale_out=6)

    def late(window: Window) -> Window:
        steps = round(60.0 / window.step_s)
        return replace(
            window,
            worker_metrics={
                name: np.vstack([np.repeat(values[:1], steps, axis=0), values])[: len(window)]
                for name, values in window.worker_metrics.items()
            },
        )

    rig.source.change = late
    reports = rig.minutes(18)
    assert rig.twin.scale_out < 3
    blind = [report.status is Status.BLIND for report in reports]
    assert sum(blind) <= 8, "two or three minutes of the fall itself"


def test_metrics_that_lag_by_one_scrape_make_nobody_blind(store: StateStore) -> None:
    waves = 25_000.0 * (1.0 + 0.5 * np.sin(np.arange(4 * 3600) / 300.0))
    rig = Rig.of(store, waves, scale_out=6, bounds=Bounds(minimum=1, maximum=8))
    rig.source.change = lambda window: replace(
        window,
        worker_metrics={name: np.vstack([values[:1], values[:-1]]) for name, values in window.worker_metrics.items()},
    )
    reports = rig.minutes(15)
    blind = [report.sentence for report in reports if report.status is Status.BLIND]
    assert blind == []


def test_a_blind_tick_learns_nothing(store: StateStore) -> None:
    rig = busy(store)
    before = recall(store, "orders").memory
    rig.source.change = since(rig.now_s, without(3))
    rig.minutes(3)
    after = recall(store, "orders").memory
    assert after.newest_s == before.newest_s
    assert (after.capacity, after.normal) == (before.capacity, before.normal)
