"""``perdix scan`` of a real Prometheus that scrapes a real Flink. Run by ``make e2e``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from perdix.scan.judging import Wanted, connected
from perdix.scan.scanning import found_in
from perdix.settings.access import HttpAccess
from perdix.settings.home import PROJECT
from perdix.telemetry.queries import load_queries
from testbed import prerequisites
from testbed.cluster import Cluster
from testbed.layout import Layout
from testbed.run import begin
from testbed.settings import Ports, Testbed
from tests.e2e.testbed_rig import steady_load

MISSING = prerequisites.missing()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(MISSING), reason=f"NO REAL PROMETHEUS WAS SCANNED: {'; '.join(MISSING)}"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    testbed = Testbed(workers=3, cores=0.25, burn_ms=1.0, ports=Ports().shifted(6_000))
    cluster = Cluster(Layout(tmp_path_factory.mktemp("scanned") / "state"), testbed)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


def test_the_job_is_found_by_flinks_own_metrics_and_says_what_its_advice_lacks(cluster: Cluster) -> None:
    words = ["scan", cluster.testbed.prometheus_url, "--json"]
    with steady_load(cluster, 60):
        begin(cluster, 2)
        time.sleep(240)
        told = subprocess.run(
            [sys.executable, "-m", "perdix.cli.main", *words],
            cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert told.returncode == 0, told.stderr
    (job,) = json.loads(told.stdout)["jobs"]
    assert (job["job"], job["engine"], job["selector"]) == (
        cluster.testbed.job,
        "flink",
        {"job_name": cluster.testbed.job},
    )
    assert job["advice"] is None
    (found,) = found_in(Wanted(HttpAccess(url=cluster.testbed.prometheus_url), time.time(), 1.0)).jobs
    assert found.partitions == cluster.testbed.topic_partitions, "by the series of Flink's own Kafka source"
    naming = load_queries("flink").jobs
    assert naming is not None
    assert naming.partitions_of_topics is not None
    with connected(HttpAccess(url=cluster.testbed.prometheus_url)) as client:
        topics = client.query_range(naming.partitions_of_topics, time.time(), time.time(), 60.0)
    counts = {series.labels["topic"]: float(series.values[-1]) for series in topics}
    assert counts[cluster.testbed.topic] == cluster.testbed.topic_partitions, "by the brokers' logs"
    assert job["why"].startswith("it has had metrics for less than ")
    assert job["why"].endswith("; at least 6 h of its load are needed")
