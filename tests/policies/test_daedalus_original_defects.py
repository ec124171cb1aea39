"""What the published program of Daedalus gets wrong, one test each, and the paper's method without it.

The defects were found by reading; nothing of the program is used here. Most are shown on the whole loop (the real tick,
a real twin, a real state store), the rules of the search on the policy alone. Where a module has tests that go deeper,
the docstring names them.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perdix.control.job_memory import CHAMPION, JobMemory, changed, recall
from perdix.control.reconcile import ATTEMPTS, Event
from perdix.control.sources import LONGEST_READ_S
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickReport
from perdix.models.capacity.evidence import Evidence
from perdix.models.capacity.line import IdleShare
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.capacity.workers import Workers
from perdix.models.drift import POOR_TICKS
from perdix.models.forecasting.auto_arima import AutoArima
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.forecaster import fallback, fitted
from perdix.models.forecasting.track_record import ORIGINS_KEPT, TrackRecord
from perdix.models.recovery.downtime import CEILING_S, FLOOR_S, MOST_LOST_S, Downtimes
from perdix.policies.contract import Decision, Reason, Situation
from perdix.replay.case import Case, Contender
from perdix.replay.run import play
from perdix.replay.training import FIRST_S
from perdix.settings.stream_job import PolicySettings
from perdix.telemetry.window import Window
from perdix.twin.parameters import RandomTime, Restart
from tests.control.rig import HIGH, LOW, Rig, applied, champion, constant, masked, parameters
from tests.policies.as_printed import decide

Situate = Callable[..., Situation]
STATIC = "static"


@pytest.fixture
def store() -> Iterator[StateStore]:
    opened = StateStore("sqlite://")
    yield opened
    opened.close()


def static(workers: int) -> PolicySettings:
    return PolicySettings(name=STATIC, options={"scale_out": workers})


def ramp(hours: float = 3.0) -> np.ndarray:
    """From a tenth of what four workers can take to three quarters of it, and down again."""
    up = np.linspace(0.1, 0.75, round(900 * hours))
    return 40_000.0 * np.tile(np.concatenate([up, up[::-1]]), 2)


def with_cpu(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Window], Window]:
    def changed_window(window: Window) -> Window:
        cpu = change(window.worker_metric("cpu_load"))
        return replace(window, worker_metrics={**window.worker_metrics, "cpu_load": cpu})

    return changed_window


def memory_of(store: StateStore) -> JobMemory:
    return recall(store, "orders").memory


def believed(report: TickReport, scale_out: int) -> float:
    return report.capacities[scale_out].per_s


def candidates(decision: Decision) -> dict[int, float | None]:
    return {candidate.scale_out: candidate.recovery_s for candidate in decision.candidates}


# ---- capacity: the regression -------------------------------------------------------------------------------------


def test_the_first_batch_gives_no_line_through_the_origin(store: StateStore) -> None:
    """Throughput over CPU, which the first batch of the program amounts to, is far off where workers idle at 8 %.

    Deeper: ``tests/models/test_capacity_line.py`` (any split of the data gives the same line as all of it).
    """
    rig = Rig.of(store, ramp(), scale_out=4, warm_s=300, policy=static(4))
    first = rig.minutes(1)[-1].capacities[4]
    true = rig.twin.current_capacity()
    assert first.low_per_s < true < first.high_per_s, "a tenth of the load tells little, and the interval says so"
    work, cpu = (rig.twin.history.column(name) for name in ("worker_processed", "worker_cpu"))
    ratio = 4 * np.nansum(work) / np.nansum(cpu)
    assert ratio < 0.8 * true, "the plain ratio would be wrong here"
    report = rig.minutes(30)[-1]
    assert believed(report, 4) == pytest.approx(true, rel=0.08)


def test_a_job_that_changed_moves_the_line(store: StateStore) -> None:
    """There is forgetting: a release that needs half as much CPU again is believed within minutes, not after hours.

    Deeper: ``tests/models/test_capacity_scale_outs.py::test_a_new_release_moves_the_estimate_within_minutes``.
    """
    rig = Rig.of(store, ramp(6.0), scale_out=4, warm_s=3_600, policy=static(4))
    before = believed(rig.minutes(3)[-1], 4)
    rig.source.change = with_cpu(lambda cpu: 1.5 * cpu)
    after = believed(rig.minutes(12)[-1], 4)
    # CPU 1 is now what was CPU 2/3, of which 0.08 is idle.
    assert after == pytest.approx(before * (2 / 3 - 0.08) / (1.0 - 0.08), rel=0.05)


@pytest.mark.parametrize(
    "cpu",
    [
        pytest.param(lambda cpu: np.full_like(cpu, 0.45), id="does not vary at all"),
        pytest.param(lambda cpu: 0.9 - cpu, id="falls as throughput rises"),
        pytest.param(lambda cpu: np.where(np.arange(cpu.size).reshape(cpu.shape) % 5 == 0, np.nan, cpu), id="has NaN"),
        pytest.param(np.zeros_like, id="is zero"),
        pytest.param(lambda cpu: np.full_like(cpu, 1.5), id="is as high as can be"),
    ],
)
def test_cpu_that_defines_no_line_neither_stops_the_loop_nor_gives_nonsense(
    store: StateStore, cpu: Callable[[np.ndarray], np.ndarray]
) -> None:
    """No variance, a negative slope, NaN: the estimate is a number above 0, or there is none.

    Deeper: ``tests/models/test_capacity_line.py::test_is_usable_whatever_was_measured``.
    """
    rig = Rig.of(store, ramp(), scale_out=4, warm_s=900, policy=static(4))
    rig.source.change = with_cpu(cpu)
    for report in rig.minutes(4):
        assert report.decision is not None
        for estimate in report.capacities.values():
            assert 0.0 < estimate.low_per_s <= estimate.per_s <= estimate.high_per_s < math.inf


def test_a_pod_that_does_not_report_lowers_no_estimate(store: StateStore) -> None:
    """The sum over those that report is not divided by a count of more.

    Deeper: ``tests/models/test_capacity_workers.py::test_a_missing_pod_counts_as_the_mean_worker_and_is_named``.
    """

    def without_one(window: Window) -> Window:
        gone = {name: np.where(np.arange(values.shape[1]) == 1, np.nan, values)
                for name, values in window.worker_metrics.items()}  # fmt: skip
        return replace(window, worker_metrics=gone)

    rig = Rig.of(store, ramp(), scale_out=4, warm_s=900, policy=static(4))
    rig.source.change = without_one
    report = rig.minutes(3)[-1]
    assert believed(report, 4) == pytest.approx(rig.twin.current_capacity(), rel=0.08)
    assert "1 of 4 workers not reporting" in report.capacities[4].basis


@pytest.mark.parametrize("hottest", [0.3, 0.6, 0.9])
def test_skew_is_proportional_at_every_load(hottest: float) -> None:
    """A worker with two thirds of the hottest one's CPU will have two thirds of it at capacity, not 0.9 at low load.

    Deeper: ``tests/models/test_capacity_workers.py::test_expected_cpu_is_proportional_at_every_load``.
    """
    load = np.linspace(0.8, 1.0, 60)[:, None] * hottest
    cpu = load * np.array([1.0, 2 / 3])
    total = Workers.of(("a", "b"), cpu, 50_000.0 * cpu).total(2, IdleShare(0.0, 0.01))
    assert total.per_s == pytest.approx(50_000.0 * (1.0 + 2 / 3), rel=0.03)


# ---- capacity: other scale-outs -----------------------------------------------------------------------------------


def test_what_was_observed_long_ago_loses_to_what_is_seen_now() -> None:
    """An observation ages: after a month it hardly counts, where the program prefers it for ever.

    Deeper: ``tests/models/test_capacity_scale_outs.py::test_a_stale_memory_loses_to_fresh_evidence``.
    """
    now_s = 100 * 86_400.0
    fresh = Evidence(4, 40_000.0, 0.02, now_s, 0.9)
    wrong = 20_000.0  # of 8 workers, which now take 80,000
    by_age = {
        days: ScaleOuts(memory={4: fresh, 8: Evidence(8, wrong, 0.02, now_s - days * 86_400.0, 0.9)}).capacity(8).per_s
        for days in (0.01, 1, 7, 30, 90)
    }
    values = list(by_age.values())
    assert values == sorted(values), "the older, the less it counts"
    assert by_age[90] > 1.5 * by_age[0.01]


def test_expected_capacity_never_falls_with_more_workers(store: StateStore) -> None:
    """Deeper: ``tests/models/test_capacity_scale_outs.py``. What runs is told as its keys fell."""
    rig = Rig.of(store, np.tile(np.repeat([LOW, HIGH], 1_800), 4), scale_out=2)
    reports = rig.minutes(60)
    assert len(applied(rig)) >= 2, "several scale-outs were observed"
    for report in reports:
        runs = report.running
        values = [report.capacities[n].per_s for n in sorted(report.capacities) if n != runs]
        assert all(less <= more * (1 + 1e-9) for less, more in itertools.pairwise(values))


# ---- recovery: the prediction -------------------------------------------------------------------------------------


@pytest.fixture
def anywhere() -> Iterator[Callable[[str], None]]:
    """A switch of the process's time zone, put back at the end."""
    patch = pytest.MonkeyPatch()

    def go(zone: str) -> None:
        patch.setenv("TZ", zone)
        time.tzset()

    yield go
    patch.undo()
    time.tzset()


def test_the_time_zone_of_the_host_changes_nothing(anywhere: Callable[[str], None]) -> None:
    """The program is right in UTC+2 only; elsewhere every recovery is hours too long and the maximum is taken."""
    load = np.concatenate([constant(LOW, 0.2), constant(4 * LOW, 0.5)])
    asked = Case(Contender("daedalus", PolicySettings(name="daedalus")), "step", parameters(), 5, 0.5, arrivals=load)
    outcomes = []
    for zone in ("UTC", "America/New_York", "Pacific/Chatham"):
        anywhere(zone)
        played = play(asked)
        told = [
            (report.sentence, None if report.decision is None else report.decision.recovery_s)
            for report in played.reports
        ]
        outcomes.append((replace(played.outcome, wall_s=0, twin_s=0), told))
    assert outcomes[0][0].rescales >= 1
    assert all(outcome == outcomes[0] for outcome in outcomes[1:])


def flat(situate: Situate, rates: float | np.ndarray = 100_000.0, **changes: Any) -> Situation:
    """100,000/s on one worker of 150,000/s that runs, checkpoints every 10 s, 30 s of downtime."""
    known = {1: 150_000.0, 2: 150_000.1}
    return situate(load=100_000.0, forecast=rates, capacities=known, scale_out=1, bounds=(1, 2), **changes)


def test_downtime_counts_once(situate: Situate) -> None:
    """4.0 million to catch up at 50,000/s after 30 s are 110 s; the program says 140 s.

    Deeper: ``tests/models/test_recovery_prediction.py``.
    """
    assert candidates(decide(flat(situate)))[1] == pytest.approx(110.0)


def test_a_forecast_above_capacity_adds_backlog(situate: Situate) -> None:
    """A minute at 200,000/s leaves 3 million more behind, not nothing: 6 million more arrive, at 50,000/s to spare."""
    rates = np.full(900, 100_000.0)
    rates[40:100] = 200_000.0
    decision = decide(flat(situate, rates))
    assert candidates(decision)[1] == pytest.approx(230.0)


def test_a_capacity_that_is_not_known_is_compared_with_nothing(situate: Situate) -> None:
    """Deeper: ``tests/policies/test_daedalus.py::TestBlindness``."""
    for unknown in (math.nan, 0.0, -1.0):
        decision = decide(situate(load=5_500.0, scale_out=5, capacities={5: 5_000.0, 6: unknown, 8: 8_000.0}))
        assert decision.scale_out == 8
        why = {candidate.scale_out: candidate.rejected_by for candidate in decision.candidates}
        assert why[6] == why[7] == "its capacity is not known"


# ---- recovery: what is normal, and what was observed --------------------------------------------------------------


def test_what_is_normal_is_learnt_from_this_job(store: StateStore) -> None:
    """Not from a file of another run: a job whose workload metric reads a tenth too high is normal at that."""
    rig = Rig.of(store, 2 * LOW, policy=static(4))

    def too_high(window: Window) -> Window:
        higher = {**window.job_metrics, "workload_per_s": 1.1 * window.job_metric("workload_per_s")}
        return replace(window, job_metrics=higher)

    rig.minutes(3)
    assert memory_of(store).normal.difference.mean == pytest.approx(0.0, abs=0.01 * 2 * LOW)
    rig.source.change = too_high
    rig.minutes(30)
    assert memory_of(store).normal.difference.mean == pytest.approx(0.1 * 2 * LOW, rel=0.15)
    rig.job = rig.job.model_copy(update={"policy": static(5)})
    rig.minutes(6)
    observed = [decision.observed_recovery_s for decision in store.ledger.decisions("orders") if decision.outcome]
    true_s = rig.twin.recovery_time_s(rig.twin.outages[-1])
    assert observed == [pytest.approx(true_s, abs=15.0)], "and is caught up when it is back at that"


def test_missing_samples_are_no_outage(store: StateStore) -> None:
    """Deeper: ``tests/models/test_recovery_observation.py::test_missing_samples_are_not_an_outage``."""
    rig = Rig.of(store, 2 * LOW, policy=static(4))
    rig.minutes(2)
    rig.source.change = lambda window: masked(window, 0.6, 7, ["throughput_per_s", "workload_per_s"])
    rig.minutes(10)
    memory = memory_of(store)
    assert memory.watching is None
    assert memory.downtimes == Downtimes()


def test_samples_that_are_missing_in_a_recovery_do_not_prolong_it(store: StateStore) -> None:
    """A quarter of them is: taken for zeros they would look like stop after stop."""
    rig = Rig.of(store, 2 * LOW, policy=static(4))
    rig.minutes(3)
    rig.source.change = lambda window: masked(window, 0.06, 7, ["throughput_per_s"])  # of five workers, each
    rig.job = rig.job.model_copy(update={"policy": static(5)})
    rig.minutes(8)
    stop = rig.twin.outages[-1]
    entry = next(decision for decision in store.ledger.decisions("orders") if decision.outcome)
    assert entry.outcome is not None
    assert entry.outcome["downtime_s"] == pytest.approx(stop.end_s - stop.start_s, abs=15.0)
    assert entry.observed_recovery_s == pytest.approx(rig.twin.recovery_time_s(stop), abs=20.0)


def test_a_recovery_does_not_become_normal(store: StateStore) -> None:
    """The baseline stands still while a recovery is watched.

    Deeper: ``tests/models/test_recovery_observation.py::test_outages_and_blanks_do_not_become_normal``.
    """
    rig = Rig.of(store, 30_000.0, scale_out=6, policy=static(6))
    rig.minutes(3)
    before = memory_of(store).normal.difference
    rig.job = rig.job.model_copy(update={"policy": static(4)})
    watched = 0
    for _ in range(15):
        rig.minutes(1)
        memory = memory_of(store)
        if memory.watching is not None:
            watched += 1
            assert memory.normal.difference == before or watched == 1
            before = memory.normal.difference
    assert watched >= 2, "the recovery took several ticks"
    after = memory_of(store).normal.difference
    assert abs(after.mean) < 0.02 * 30_000
    assert after.sd < 0.05 * 30_000


def test_an_overload_does_not_become_normal_either(store: StateStore) -> None:
    """A job that is overloaded from its first second, and is rescaled for it, is seen to recover."""
    rig = Rig.of(store, 22_000.0, scale_out=2, warm_s=600, policy=static(2))
    rig.minutes(4)
    assert abs(memory_of(store).normal.difference.mean) < 0.1 * 22_000
    rig.job = rig.job.model_copy(update={"policy": static(5)})
    rig.minutes(20)
    true_s = rig.twin.recovery_time_s(rig.twin.outages[-1])
    entry = next(decision for decision in store.ledger.decisions("orders") if decision.outcome)
    assert entry.observed_recovery_s == pytest.approx(true_s, abs=15.0)


def test_observed_is_from_the_first_stop_until_caught_up(store: StateStore) -> None:
    """Not the mean over stretches of anomalies: a worker that crashes during the recovery makes it longer, not shorter.

    Deeper: ``tests/models/test_recovery_observation.py::test_a_second_stop_during_recovery_prolongs_it``.
    """
    rig = Rig.of(store, 30_000.0, scale_out=4, policy=static(5))
    rig.minutes(1)
    first = rig.twin.outages[-1]
    while rig.now_s < first.end_s + 15:
        rig.twin.step(1)
    rig.twin.fail(0)
    rig.minutes(12)
    true_s = rig.twin.recovery_time_s(first)
    assert true_s is not None
    assert true_s > rig.twin.outages[-1].end_s - first.start_s, "the second stop is part of it"
    entry = next(decision for decision in store.ledger.decisions("orders") if decision.outcome)
    assert entry.observed_recovery_s == pytest.approx(true_s, abs=15.0)


def test_watching_ends_also_where_the_job_never_recovers(store: StateStore) -> None:
    """Deeper: ``tests/control/test_tick_target.py::test_a_scale_in_that_the_job_does_not_survive...``."""
    rig = Rig.of(store, 12_000.0, scale_out=4, policy=static(1))
    reports = rig.minutes(20)
    outcome = next(decision.outcome for decision in store.ledger.decisions("orders") if decision.outcome)
    assert outcome is not None
    assert outcome["recovered"] is False
    assert outcome["waited_s"] < 1_200.0
    assert any(report.decision is not None and report.decision.reason is Reason.ROLLBACK for report in reports)


def test_a_prediction_stays_as_it_was_made(store: StateStore) -> None:
    """Ticks that plan while a recovery lasts predict anew, but for themselves."""
    load = np.concatenate([constant(2 * LOW, 0.5), np.linspace(2 * LOW, 36_000.0, 300), np.full(3_600, 36_000.0)])
    rig = Rig.of(store, load, scale_out=2)
    predicted: dict[str | None, float | None] = {}
    for _ in range(20):
        rig.minutes(1)
        for entry in store.ledger.decisions("orders"):
            if entry.applied_s is not None:
                first = predicted.setdefault(entry.decision_id, entry.intent.predicted_recovery_s)
                assert entry.intent.predicted_recovery_s == first
    entry = next(decision for decision in reversed(store.ledger.decisions("orders")) if decision.outcome)
    assert entry.observed_recovery_s is not None
    assert entry.outcome is not None
    assert entry.outcome["predicted_s"] == predicted[entry.decision_id]
    lasted = [report for report in rig.reports if report.decision and report.decision.reason is Reason.HOLD_GRACE]
    assert lasted, "there were ticks in between"


# ---- recovery: downtimes ------------------------------------------------------------------------------------------


def failing_for(rig: Rig, seconds: float) -> Rig:
    """Every failure of the twin lasts so long, half of it until it is detected."""
    half = RandomTime(median_s=seconds / 2, spread=0.0)
    rig.twin.parameters = rig.twin.parameters.model_copy(update={"restart": Restart(failure=half, detection=half)})
    return rig


def test_downtimes_settle_at_what_is_observed(store: StateStore) -> None:
    """They do not walk by a second per rescale for ever: they come near what failures last, and stay there.

    Deeper: ``tests/models/test_recovery_downtime.py``.
    """
    rig = failing_for(Rig.of(store, LOW, scale_out=4, policy=static(4)), 80.0)
    rig.minutes(2)
    off = [80.0 - Downtimes().failure_s]
    for _ in range(12):
        rig.twin.fail(0)
        rig.minutes(4)
        off.append(abs(80.0 - memory_of(store).downtimes.failure_s))
    assert off[6] < 0.5 * off[0]
    assert off[-1] < 8.0
    others = memory_of(store).downtimes
    assert (others.out_s, others.in_s) == (Downtimes().out_s, Downtimes().in_s), "failures teach nothing of rescales"


@pytest.mark.parametrize("seconds", [100.0, 150.0, 240.0])
def test_a_failure_is_learnt_from_however_long_it_lasts(store: StateStore, seconds: float) -> None:
    rig = failing_for(Rig.of(store, LOW, scale_out=4, policy=static(4)), seconds)
    rig.minutes(2)
    rig.twin.fail(0)
    rig.minutes(9)
    assert memory_of(store).downtimes.failure_s > Downtimes().failure_s + 5.0


@pytest.mark.parametrize("seen_s", [0.0, 5.0, 40.0, 10_000.0])
def test_downtimes_stay_within_bounds_however_often_they_are_observed(seen_s: float) -> None:
    """Never negative, and never without end."""
    downtimes = Downtimes()
    for _ in range(1_000):
        downtimes = downtimes.observed(4, 5, seen_s).observed(5, 4, seen_s).observed(4, 4, seen_s)
    expected = min(max(seen_s, FLOOR_S), CEILING_S)
    assert [downtimes.out_s, downtimes.in_s, downtimes.failure_s] == [pytest.approx(expected, abs=0.1)] * 3


def test_what_a_restart_loses_is_learnt_within_bounds() -> None:
    downtimes = Downtimes()
    for recovery_s in (0.0, 31.0, 1e6, math.inf, math.nan):
        for utilisation in (0.0, 0.5, 0.99, 3.0, math.nan):
            downtimes = downtimes.caught_up(2, 3, 30.0, recovery_s, utilisation)
            assert 0.0 <= downtimes.lost_s <= MOST_LOST_S
    for _ in range(50):  # 5 s of full capacity lost: 35 s, and all that arrives until then, at half the capacity
        downtimes = downtimes.caught_up(2, 3, 30.0, 70.0, 0.5)
    assert downtimes.lost_s == pytest.approx(5.0, abs=0.1)


def test_a_lag_from_before_the_stop_is_not_taken_for_what_the_restart_lost(store: StateStore) -> None:
    """Five minutes of backlog take long to catch up, but a restart costs no more for it."""
    rig = Rig.of(store, 30_000.0, scale_out=2, warm_s=600, policy=static(2))
    rig.minutes(4)
    before = memory_of(store).downtimes.lost_s
    rig.job = rig.job.model_copy(update={"policy": static(6)})
    rig.minutes(14)
    assert any(decision.observed_recovery_s for decision in store.ledger.decisions("orders"))
    assert memory_of(store).downtimes.lost_s == pytest.approx(before, abs=3.0)


# ---- forecasts ----------------------------------------------------------------------------------------------------


def test_a_drift_asks_for_one_training_and_the_loop_goes_on(store: StateStore) -> None:
    """The first retraining kills the program's loop; a counter that is not reset would ask at every tick after it.

    Deeper: ``tests/models/test_drift.py``, ``tests/control/test_tick_failures.py``.
    """
    jumping = np.repeat(np.tile([LOW, 4 * LOW], 400), 97)[: 3 * 3_600]
    rig = Rig.of(store, jumping, scale_out=8, policy=static(8))
    rig.champions = champion(constant(100.0, 0.5), rig.now_s)
    reports = rig.minutes(3 * POOR_TICKS)
    asked = [number for number, report in enumerate(reports) if report.retrain is not None]
    assert len(asked) == 1
    assert asked[0] >= POOR_TICKS - 1
    assert all(report.decision is not None for report in reports[asked[0] :])


def test_a_training_that_fails_does_not_stop_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(history: Workload, **_: object) -> AutoArima:
        raise ValueError("no order could be fitted")

    monkeypatch.setattr(AutoArima, "fit", refuse)
    hours = (FIRST_S + 600.0) / 3_600.0
    one = Contender("daedalus", PolicySettings(name="daedalus"))
    load = constant(2 * LOW, hours + 0.1)
    played = play(Case(one, "flat", parameters(), 5, hours, arrivals=load, forecaster=AutoArima.family))
    assert played.outcome.retrains == 0
    assert {report.forecast.version for report in played.reports if report.forecast is not None} == {0}
    assert played.reports[-1].decision is not None


def test_orders_are_not_chosen_from_a_minute() -> None:
    """A minute, or three, is refused; the loop waits for most of an hour before it trains at all."""
    rates = LOW + 10.0 * np.sin(np.arange(190.0))
    for seconds in (62, 180):
        with pytest.raises(ValueError, match="needs 20 bins"):
            AutoArima.fit(Workload(0.0, 1.0, rates[:seconds]))
    assert FIRST_S >= 1_200.0


def test_history_does_not_grow_with_time() -> None:
    """A forecaster that has seen two days is as large, and works as much, as one that has seen three hours."""
    forecaster = fitted("damped-trend", Workload(0.0, 10.0, np.full(100, LOW)))
    sizes = []
    for minute in range(48 * 60):
        observed = Workload(1_000.0 + 60.0 * minute, 5.0, LOW + np.arange(12) % 7.0)
        forecaster = forecaster.update(observed)
        if minute % (5 * 60) == 0:
            sizes.append((len(forecaster.finest.per_s), len(json.dumps(forecaster.to_state()))))
    assert sizes[-1][0] == sizes[1][0]
    assert sizes[-1][1] == pytest.approx(sizes[1][1], rel=0.02)


def test_what_the_loop_keeps_and_reads_does_not_grow_with_time(store: StateStore) -> None:
    """At no tick is the whole history read, which exceeds what Prometheus gives in one answer after three hours."""
    rig = Rig.of(store, 0.4 * ramp(6.0), scale_out=4, warm_s=3_600, policy=static(4))
    rig.champions = champion(constant(LOW, 0.5), rig.now_s)
    spans: list[float] = []

    def noting(window: Window) -> Window:
        spans.append(float(window.times_s[-1] - window.times_s[0]))
        return window

    rig.source.change = noting
    sizes = []
    for _ in range(2):
        rig.minutes(45)
        stored = changed("orders", memory_of(store), {})
        forecaster = stored[CHAMPION]["state"]
        record = TrackRecord.from_state(forecaster.pop("record"))
        assert len(record) <= ORIGINS_KEPT
        sizes.append({kind.name: len(json.dumps(document)) for kind, document in stored.items()})
    assert spans[0] <= LONGEST_READ_S
    assert max(spans[1:]) <= 300.0
    assert sizes[1].pop("minutes") < 12_000  # of the last twelve hours, and never more
    for name, size in sizes[1].items():
        assert size <= 1.1 * sizes[0][name] + 100, name


def test_the_fallback_covers_the_whole_horizon_and_is_never_negative() -> None:
    """The program's line ends after 600 s of 900 and runs below zero on a falling load."""
    falling = fallback(Workload(0.0, 1.0, np.linspace(5_000.0, 100.0, 600))).forecast(900.0)
    assert falling.horizon_s == 900.0
    assert falling.mean.min() >= 0.0
    assert falling.mean[-1] < falling.mean[0]


# ---- acting -------------------------------------------------------------------------------------------------------


def test_a_rescale_that_does_not_end_is_waited_for_from_tick_to_tick_and_given_up(store: StateStore) -> None:
    """No tick spins until replicas are ready.

    Deeper: ``tests/control/test_tick_target.py::test_a_rescale_that_never_ends_is_rolled_back``.
    """
    rig = Rig.of(store, 2 * LOW, scale_out=4, policy=static(6))
    rig.minutes(1)
    rig.target.never_settling = True
    began_s = time.process_time()
    reports = rig.minutes(15)
    assert time.process_time() - began_s < 10.0
    events = [report.event for report in reports]
    assert Event.WAITING in events
    back = [report for report in reports if report.decision is not None and report.decision.reason is Reason.ROLLBACK]
    assert back
    assert "did not end within" in back[0].sentence
    assert len(rig.target.asked) <= ATTEMPTS


def test_where_none_holds_the_greatest_capacity_is_taken_and_not_the_most_workers(situate: Situate) -> None:
    """Deeper: ``tests/policies/test_daedalus.py::TestWhenNothingHolds``."""
    retrograde = {n: 1_000.0 * n if n <= 8 else 8_000.0 - 400.0 * (n - 8) for n in range(1, 13)}
    decision = decide(situate(load=9_000.0, scale_out=5, capacities=retrograde))
    assert (decision.scale_out, decision.reason) == (8, Reason.SCALE_MAXIMUM)


def test_scaling_in_is_held_back_by_a_lag_above_what_the_candidate_can_take(situate: Situate) -> None:
    """Not by one above what runs now: 3,500 records are too many for three workers and few for eight.

    Deeper: ``tests/policies/test_daedalus.py::TestTheLag``.
    """
    decision = decide(situate(load=1_500.0, lag_records=3_500.0, scale_out=8, bounds=(3, 12)))
    assert decision.scale_out == 4
    assert "below the consumer lag" in str(decision.candidates[0].rejected_by)
