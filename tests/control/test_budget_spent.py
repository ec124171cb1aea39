"""What is said to be spent of an error budget is what was late."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.control.job_memory import recall
from perdix.control.memories import Memories
from perdix.control.state.store import StateStore
from perdix.policies.planning.budget import Spent
from perdix.settings.stream_job import Objectives, PolicySettings, PrometheusSource
from tests.control.rig import HIGH, LOW, Rig

BURSTS = np.tile(np.repeat([LOW, HIGH], [540, 60]), 20)  # a minute of every ten
OBJECTIVE_MS = 4_000.0


@pytest.mark.parametrize("interval_s", [5.0, 15.0])
def test_what_is_spent_is_what_was_late(store: StateStore, interval_s: float) -> None:
    rig = Rig.of(
        store,
        BURSTS,
        scale_out=4,
        interval_s=interval_s,
        policy=PolicySettings(name="perdix"),
        objectives=Objectives(latency_p95_ms=OBJECTIVE_MS),
        mode="advise",
    )
    rig.memories = Memories()
    began_s = int(rig.now_s)
    rig.minutes(90)
    latency_ms = rig.twin.history.column("latency_p95_ms", began_s)
    late_s = float((np.isnan(latency_ms) | (latency_ms > OBJECTIVE_MS)).sum())
    counted_s = Spent.of_memory(recall(store, "orders").memory.policy_memory).late_s
    assert late_s > 300.0
    assert counted_s == pytest.approx(late_s, rel=0.2)


@pytest.mark.parametrize("interval_s", [15.0, 120.0])
def test_who_is_always_late_is_so_however_seldom_it_is_scraped(store: StateStore, interval_s: float) -> None:
    prometheus = PrometheusSource(url="http://in.process", scrape_interval_s=interval_s)
    policy = PolicySettings(name="perdix")
    rig = Rig.of(store, LOW, interval_s=interval_s, policy=policy, prometheus=prometheus, mode="advise")
    rig.job = rig.job.model_copy(update={"objectives": Objectives(latency_p95_ms=1.0)})
    rig.memories = Memories()
    rig.minutes(30)
    spent = Spent.of_memory(recall(store, "orders").memory.policy_memory)
    assert spent.late_s > 0.9 * spent.seen_s > 900.0


def test_a_latency_near_its_objective_spends_nothing(store: StateStore) -> None:
    """From the mean latency of a minute a third was counted: seconds were supposed to scatter about it."""
    rig = Rig.of(store, LOW, scale_out=4, policy=PolicySettings(name="perdix"), mode="advise")
    highest_ms = float(np.nanmax(rig.twin.history.column("latency_p95_ms", int(rig.now_s) - 1_200)))
    rig.job = rig.job.model_copy(update={"objectives": Objectives(latency_p95_ms=1.1 * highest_ms)})
    rig.memories = Memories()
    rig.minutes(20)
    assert Spent.of_memory(recall(store, "orders").memory.policy_memory).late_s < 15.0


def test_what_a_job_stood_still_while_nobody_was_asked_is_counted(store: StateStore) -> None:
    """The minute of a rescale has no decision: the job is not settled."""
    rig = Rig.of(store, LOW, scale_out=4, policy=PolicySettings(name="perdix"))
    rig.memories = Memories()
    rig.minutes(3)
    before_s = Spent.of_memory(recall(store, "orders").memory.policy_memory).late_s
    rig.target.never_settling = True
    rig.twin.rescale(3, "by hand")
    rig.minutes(1)
    rig.target.never_settling = False
    rig.minutes(2)
    spent = Spent.of_memory(recall(store, "orders").memory.policy_memory)
    stood = rig.twin.outages[-1]
    assert spent.late_s - before_s >= 0.7 * (stood.end_s - stood.start_s)
