"""Faults on a real Flink, Kafka and Prometheus, under perdix' own controller. Run by ``make e2e``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from perdix.settings.home import PROJECT
from perdix.settings.stream_job import Bounds
from testbed import prerequisites
from testbed.cluster import PROMETHEUS, Cluster
from testbed.layout import Layout
from testbed.settings import Ports, Testbed
from tests.e2e.testbed_rig import Door, Rig, fresh_home, steady_load

MISSING = prerequisites.missing()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(MISSING), reason=f"THE FAULT TESTS DID NOT RUN: {'; '.join(MISSING)}"),
]

WORKERS = 4
CRASHES = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("testbed")
    testbed = Testbed(workers=WORKERS, cores=0.25, burn_ms=1.0, ports=Ports().shifted(2_000))
    cluster = Cluster(Layout(folder / "state"), testbed)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="module", autouse=True)
def load(cluster: Cluster) -> Iterator[None]:
    """Records arrive all the time, few enough for one worker."""
    with steady_load(cluster, 60):
        yield


@pytest.fixture
def rig(cluster: Cluster, tmp_path) -> Iterator[Rig]:
    with Door(cluster.testbed.ports.flink_rest) as door:
        yield Rig(cluster, fresh_home(tmp_path / "home"), door, Bounds(minimum=1, maximum=WORKERS))


def test_perdix_rescales_a_real_job_and_sees_it_run(rig: Rig) -> None:
    rig.begin_at(2)
    with rig.controller("static-3"):
        rig.until(rig.runs(3), 240, "the rescale to 3")
        rig.until(lambda: rig.ask("select state from decisions where applied_s is not null") == [("confirmed",)], 60)
    assert rig.applied() == [(2, 3)]


def test_dagsters_sensor_rescales_a_real_job_too(rig: Rig, tmp_path) -> None:
    rig.begin_at(2)
    with rig.sensor("static-3", tmp_path):
        rig.until(rig.runs(3), 300, "the rescale to 3")
        rig.until(lambda: rig.ask("select state from decisions where applied_s is not null") == [("confirmed",)], 60)
    assert rig.ask("select distinct holder like 'sensor@%' from ticks") == [(1,)]


def test_a_worker_that_is_killed_is_replaced_and_no_rescale_is_asked_for_twice(rig: Rig) -> None:
    """Four workers, three of them in use: Flink goes on with the spare one, and perdix leaves it alone."""
    rig.begin_at(3)
    with rig.controller("static-3"):
        rig.until(lambda: rig.status()[0] == "acting", 180, "a first decision")
        used = rig.workers()
        os.kill(rig.cluster.known_running(used[0]), signal.SIGKILL)
        took_s = rig.until(lambda: used[0] not in rig.workers() and rig.running().settled, 120, "the recovery")
        time.sleep(4 * rig.interval_s)
    assert rig.running().is_at(3, {})
    assert rig.applied() == []
    assert took_s < 60
    rig.cluster.start([used[0]])


def test_while_prometheus_is_gone_nothing_is_scaled_and_the_loop_comes_back_by_itself(rig: Rig) -> None:
    rig.begin_at(3)
    with rig.controller("static-3"):
        rig.until(lambda: rig.status()[0] == "acting", 180, "a first decision")
        rig.cluster.files.stop([PROMETHEUS])
        rig.policy("static-1")  # what it would do if it could see
        rig.until(lambda: rig.status()[0] == "blind", 60, "blindness")
        until = time.monotonic() + 120.0
        while time.monotonic() < until:
            assert rig.running().is_at(3, {}), "scaled in on missing data"
            time.sleep(5)
        assert rig.status()[0] == "blind"
        assert rig.applied() == []
        rig.cluster.start([PROMETHEUS])
        rig.until(lambda: rig.running().is_at(1, {}), 300, "the scale-in that waited for metrics")
    assert rig.applied() == [(3, 1)]


def test_while_flink_refuses_connections_the_decision_waits_and_is_carried_out_once(rig: Rig) -> None:
    rig.begin_at(2)
    with rig.controller("static-2"):
        rig.until(lambda: rig.status()[0] == "acting", 180, "a first decision")
        rig.door.shut()
        rig.policy("static-4")
        rig.until(lambda: rig.status()[0] == "unreachable", 60, "that Flink cannot be reached")
        time.sleep(30)
        assert rig.running().is_at(2, {})
        rig.door.open()
        rig.until(lambda: rig.running().is_at(4, {}), 240, "the rescale")
    assert rig.applied() == [(2, 4)]


def test_a_controller_killed_between_storing_and_applying_never_rescales_twice(rig: Rig) -> None:
    """Twenty times, at both edges of the call; the next controller finds the decision, Flink sees one rescale each."""
    rig.begin_at(1)
    with rig.controller("static-1"):
        rig.until(lambda: rig.status()[0] == "acting", 180, "a first decision")
    restarts = rig.redeployments()
    wanted = 1
    for crash in range(CRASHES):
        before, wanted = wanted, 3 - wanted  # 1 and 2 in turn
        rig.policy(f"static-{wanted}:job_grace_s=0")
        moment = ("before", "after")[crash % 2]
        died = subprocess.run(
            [sys.executable, "-m", "tests.e2e.crash_once", str(rig.home.root), moment],
            cwd=PROJECT, env={**os.environ, "PERDIX_CONF": str(PROJECT / "conf")}, timeout=300, check=False,
            capture_output=True,
        )  # fmt: skip
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-2_000:]
        assert rig.ask("select state from decisions where state in ('intent')"), "what was decided is stored"
        if moment == "before":
            assert rig.running().requested == before
        with rig.controller(f"static-{wanted}:job_grace_s=0"):
            rig.until(rig.runs(wanted), 120, f"the rescale after crash {crash}")
            rig.until(lambda: not rig.ask("select 1 from decisions where state in ('intent', 'applied')"), 60)
    made = rig.ask("select count(*) from decisions where applied_s is not null")
    assert made == [(CRASHES,)], "each decision was carried out once"
    assert rig.redeployments() - restarts == CRASHES, "and the job was redeployed once for each"
