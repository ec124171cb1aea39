"""The live client of ``telemetry`` against the twin's face: what it aligns is the twin's truth."""

import numpy as np
import pytest

from perdix.settings.access import HttpAccess
from perdix.telemetry.alignment import align
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.queries import load_queries
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.parameters import load_twin
from perdix.twin.prometheus_face import PrometheusFace

START_S = 1_700_000_100
SELECTOR = {"namespace": "wordcount", "topic": "wordcount", "job_name": "wordcount"}


@pytest.fixture
def twin():
    twin = JobTwin(load_twin("wordcount"), 3, start_s=START_S, scale_out=4)
    twin.step(1_200)
    twin.rescale(7, "a")
    twin.step(600)
    return twin


@pytest.fixture
def window(twin):
    living = LivingTwin({"wordcount": twin}, SimulatedClock(twin.now_s), scraping=Scraping(5.0, jitter_s=0.05))
    with PrometheusFace(living) as face, Prometheus(HttpAccess(url=face.url)) as client:
        series = client.pull(load_queries("flink"), SELECTOR, START_S + 60, twin.now_s, 5.0)
        assert client.drain_warnings() == ()
        return align("wordcount", series, START_S + 60, twin.now_s, 5.0)


def test_workload_and_throughput_are_the_twins(twin, window):
    ends = (window.times_s - twin.history.start_s).astype(int)
    arrived = twin.history.column("arrived_total")
    truth = (arrived[ends - 1] - arrived[np.maximum(ends - 21, 0)]) / 20.0
    seen = window.job_metric("workload_per_s")
    assert np.isfinite(seen).mean() > 0.98
    assert np.nanmax(np.abs(seen / truth - 1.0)) < 0.05
    total = np.nansum(window.worker_metric("throughput_per_s"), axis=1)
    steady = (ends > 100) & (ends < 1_200)
    processed = np.concatenate(([0.0], np.cumsum(twin.history.column("processed"))))
    done = (processed[ends] - processed[np.maximum(ends - 20, 0)]) / 20.0  # it saturates before the rescale
    assert total[steady] == pytest.approx(done[steady], rel=0.05)


def test_the_standstill_is_missing_and_never_zero(twin, window):
    outage = twin.outages[0]
    inside = (window.times_s > outage.start_s + 10) & (window.times_s <= outage.end_s)
    assert inside.any()
    assert np.isnan(window.job_metric("latency_p95_ms")[inside]).all()
    assert np.isnan(window.job_metric("consumer_lag_records")[inside]).all()


def test_scale_out_uptime_and_workers(twin, window):
    assert window.job_metric("scale_out")[5] == 4
    assert window.job_metric("scale_out")[-1] == 7
    assert window.workers == tuple(f"wordcount-taskmanager-{n:02d}" for n in range(7))
    assert window.job_metric("uptime_s")[-1] == pytest.approx(twin.now_s - twin.outages[0].end_s, abs=5)
    cpu = window.worker_metric("cpu_load")[-1]
    assert cpu == pytest.approx(twin.history.column("worker_cpu")[-60:, :7].mean(axis=0), abs=0.03)
