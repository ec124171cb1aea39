"""A job whose workers differ, in the loop: sizes are known, mixes asked for, seen, told, learned on and rolled back."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import orjson
import pytest

from perdix.control.champions import ChampionRow, FleetChampions, GivenChampions
from perdix.control.explain import explain
from perdix.control.explain_text import render
from perdix.control.job_memory import recall
from perdix.control.memories import Memories
from perdix.control.reconcile import Event
from perdix.control.state.ledger import State
from perdix.control.state.store import StateStore
from perdix.models.performance.families import FOREST
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.performance.samples import Sample
from perdix.models.registry import PERFORMANCE
from perdix.policies.contract import Reason
from perdix.settings.stream_job import PolicySettings, WorkerSize
from perdix.targets.contract import TargetError
from perdix.twin.parameters import Restart, TwinSize
from tests.control.rig import Rig, constant, restarts_of, took

CORES = {"small": 0.6, "medium": 1.2, "large": 2.4}
PER_S = {"small": 4_000.0, "medium": 9_000.0, "large": 16_000.0}
PRICES = {"small": 0.030, "medium": 0.054, "large": 0.102}
JOB_SIZES = {name: WorkerSize(cpu_cores=CORES[name], memory_mb=128, price_per_h=PRICES[name]) for name in CORES}
TWIN_SIZES = {name: TwinSize(**size.model_dump(), per_s=PER_S[name]) for name, size in JOB_SIZES.items()}


def performance(version: int = 2) -> GivenChampions:
    """A forest that was grown from samples of exactly these sizes, many times over."""
    samples = [Sample(CORES[name], 128.0 + k, PER_S[name]) for name in CORES for k in range(4)]
    text = orjson.dumps(FittedPerformance.fit(FOREST, FOREST.published, samples).to_state()).decode()
    row = ChampionRow("forest", text, version)
    return GivenChampions({PERFORMANCE: FleetChampions(PERFORMANCE, version, {"orders": row})})


def rig(
    store: StateStore,
    per_s: float | np.ndarray = 24_000.0,
    policy: str = "qescalor",
    restart: Restart | None = None,
    **options: object,
) -> Rig:
    made = Rig.of(
        store,
        per_s,
        scale_out=4,
        champions=performance(),
        sizes=TWIN_SIZES,
        mix={"medium": 4},
        policy=PolicySettings(name=policy, options=options),
        restart=restart,
    )
    made.job = made.job.model_copy(update={"sizes": JOB_SIZES})
    return made


def test_a_mix_is_decided_asked_for_seen_and_told(store: StateStore) -> None:
    one = rig(store, 60_000.0)
    reports = one.minutes(6)
    mixes = [dict(report.decision.mix) for report in reports if report.decision is not None]
    assert mixes[0] != {"medium": 4}, "36,000/s do not carry 60,000/s"
    assert sum(PER_S[size] * count for size, count in mixes[0].items()) > 60_000
    assert dict(one.twin.mix) == mixes[0]
    entry = store.ledger.decisions("orders", states=(State.CONFIRMED,))[-1]
    assert (dict(entry.intent.from_mix), dict(entry.intent.mix)) == ({"medium": 4}, mixes[0])
    assert entry.intent.versions[PERFORMANCE] == 2
    assert Event.CONFIRMED in {report.event for report in reports}
    assert reports[-1].to_dict()["running_mix"] == mixes[0]
    told = render(explain(store, "orders", entry.intent.made_s), verbose=True)
    assert "4 workers (4 medium) to " in told
    accepted = r"\n  \d workers \(.*\) +[\d,]+/s  accepted"
    assert re.search(accepted, told)
    short = render(explain(store, "orders", entry.intent.made_s))
    assert re.search(accepted, short)
    assert short.startswith("orders: 4 workers (4 medium) to ")
    assert len(short.splitlines()) <= 16
    assert re.search(r"medium \(1\.2 cores, 128 MB, 0\.054/h\): [89],\d{3}/s each", told)
    assert entry.observed_recovery_s is None or entry.observed_recovery_s > 0


def test_without_a_performance_model_nothing_is_decided_and_the_reason_is_told(store: StateStore) -> None:
    one = rig(store, 60_000.0)
    one.champions = GivenChampions()
    report = one.minutes(3)[-1]
    assert report.decision is not None
    assert report.decision.reason is Reason.HOLD_UNKNOWN
    assert dict(one.twin.mix) == {"medium": 4}


def test_what_workers_reach_together_is_learned_and_kept(store: StateStore) -> None:
    """The rig's workers are a little skewed, so together they do less than the sum of what they did alone."""
    one = rig(store, 25_000.0)
    one.minutes(20)
    share = recall(store, "orders").memory.mix_share
    known = {name: TWIN_SIZES[name] for name in one.twin.mix}
    alone = sum(count * PER_S[name] for name, count in one.twin.mix.items())
    assert set(known) == set(one.twin.mix)
    assert share == pytest.approx(one.twin.current_capacity() / alone, abs=0.08)
    assert share < 1.0


def test_a_mix_that_the_target_refuses_is_given_up_and_not_asked_for_again(store: StateStore) -> None:
    one = rig(store, 60_000.0)
    one.target.refusing = TargetError("no such machine", retriable=False)
    first, *later = one.minutes(4)
    assert first.event is Event.GIVEN_UP
    assert "no such machine" in first.sentence
    assert all(report.decision is not None and report.decision.reason is Reason.HOLD_AVOIDED for report in later[:1])
    barred = recall(store, "orders").memory.avoided
    assert [dict(item.mix) for item in barred] == [dict(store.ledger.decisions("orders")[-1].intent.mix)]


def test_a_rescale_that_never_ends_is_rolled_back_to_the_mix_before(store: StateStore) -> None:
    one = rig(store, 60_000.0)
    one.minutes(1)
    one.target.never_settling = True
    one.minutes(12)
    one.target.never_settling = False
    one.minutes(2)
    back = [entry for entry in store.ledger.decisions("orders") if entry.intent.reason == Reason.ROLLBACK]
    assert [dict(entry.intent.mix) for entry in back][:1] == [{"medium": 4}]


def test_advice_of_as_many_workers_in_other_sizes_is_advice(store: StateStore) -> None:
    """Their number alone would hide it."""
    one = rig(store, 33_000.0)
    one.job = one.job.model_copy(update={"mode": "advise"})
    report = one.minutes(1)[-1]
    assert report.decision is not None
    assert (report.running_mix, report.decision.mix) == ({"medium": 4}, {"medium": 3, "large": 1})
    assert report.advised == report.job_status(one.now_s).details["advised"] == 4
    assert replace(report, running_mix=report.decision.mix).advised is None


def test_other_sizes_of_as_many_workers_that_come_slowly_are_no_failure(store: StateStore) -> None:
    one = rig(store, 33_000.0, restart=restarts_of(700.0))
    took(store, one.now_s - 40_000.0, 900.0)
    one.memories = Memories()
    one.minutes(13)
    confirmed = store.ledger.decisions("orders", states=(State.CONFIRMED,))[0]
    assert (confirmed.intent.from_mix, confirmed.intent.mix) == ({"medium": 4}, {"medium": 3, "large": 1})
    downtimes = recall(store, "orders").memory.downtimes
    assert (downtimes.failure.seen, downtimes.out.seen) == (0.0, 1.0)
    assert downtimes.out_s > 250.0


def test_someone_elses_mix_is_respected(store: StateStore) -> None:
    one = rig(store, 24_000.0)
    one.minutes(4)
    one.twin.rescale(4, "by hand", {"large": 4})
    one.twin.step(120)
    report = one.tick()
    assert dict(report.running_mix) == {"large": 4}
    assert dict(one.twin.requested_mix) != {"medium": 4}, "nobody's wish is fought"


def test_blind_ticks_leave_the_mix_alone(store: StateStore) -> None:
    one = rig(store, constant(24_000.0))
    one.minutes(3)
    before = dict(one.twin.mix)
    one.source.change = lambda window: replace(
        window, job_metrics={name: np.full_like(values, np.nan) for name, values in window.job_metrics.items()}
    )
    reports = one.minutes(5)
    assert dict(one.twin.mix) == before
    assert {report.decision.reason for report in reports if report.decision} <= {
        Reason.HOLD_BLIND,
        Reason.HOLD_UNSETTLED,
    }
