"""A real query of Spark Structured Streaming, its JMX exporter and a real Prometheus. Run by ``make e2e``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdix.cli.processes import free_port
from perdix.control.checkup.facts import JobCheckup
from perdix.control.checkup.job import check_job
from perdix.settings.home import PROJECT, Home
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.telemetry.java import find_java
from testbed import build

pytestmark = pytest.mark.e2e
PER_S = 2_000
WHOLE = [pytest.approx(PER_S, rel=0.2)] * 2
RULES = r"""
lowercaseOutputName: true
rules:
  - pattern: metrics<name=(\w+\.\w+)\.(\d+)\.executor\.(\w+, type=counters)><>Count
    name: spark_executor_$3_count
    type: COUNTER
    labels: {executor_id: "$2"}
"""
SCRAPED = """
global: {{scrape_interval: 2s}}
scrape_configs:
  - job_name: driver
    metrics_path: /metrics/prometheus/
    static_configs: [{{targets: ["127.0.0.1:{ui}"], labels: {{app: orders}}}}]
  - job_name: executors
    metrics_path: /metrics/executors/prometheus/
    static_configs: [{{targets: ["127.0.0.1:{ui}"], labels: {{app: orders}}}}]
  - job_name: jmx
    static_configs: [{{targets: ["127.0.0.1:{jmx}"], labels: {{app: orders}}}}]
"""


@contextlib.contextmanager
def running(command: list[str], log: Path, **environment: str) -> Iterator[None]:
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, start_new_session=True, env={**os.environ, **environment}
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_each_query_of_a_real_spark_query_is_answered(tmp_path: Path) -> None:
    if build.stale([build.DISTRIBUTION]):
        build.build(build.DISTRIBUTION, tmp_path / "build.log")
    exporter = next(iter(build.JMX.glob("*.jar")))
    ui, jmx, prometheus = free_port(25_000), free_port(25_100), free_port(25_200)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "prometheus.yml").write_text(SCRAPED.format(ui=ui, jmx=jmx))
    agent = f"-javaagent:{exporter}=127.0.0.1:{jmx}:{tmp_path / 'rules.yaml'}"
    query = [sys.executable, str(PROJECT / "tests/e2e/streaming_query.py"), str(PER_S), str(ui), agent]
    url = f"http://127.0.0.1:{prometheus}"
    server = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    java = str(find_java(Home(tmp_path / "home").make().java).home)
    source = PrometheusSource(url=url, selector={"app": "orders"}, scrape_interval_s=2.0)
    job = StreamJob(name="orders", engine="spark-structured-streaming", prometheus=source)
    with (
        running(query, tmp_path / "query.log", JAVA_HOME=java, PYSPARK_PYTHON=sys.executable),
        running([*server, f"--web.listen-address=127.0.0.1:{prometheus}"], tmp_path / "prometheus.log"),
    ):
        until_s = time.monotonic() + 240.0
        found = check_job(job, time.time())
        while not (found.ok and rates(found) == WHOLE) and time.monotonic() < until_s:
            time.sleep(5.0)
            found = check_job(job, time.time())
    assert found.ok, (found, (tmp_path / "query.log").read_text()[-2_000:])
    assert rates(found) == WHOLE
    assert next(fact.newest for fact in found.queries if fact.metric == "scale_out") == 1


def rates(found: JobCheckup) -> list[float | None]:
    """Return what arrives and what is processed, records/s; at first, less of a window is seen than it is long."""
    return [fact.newest for fact in found.queries if fact.metric in ("throughput_per_s", "workload_per_s")]
