"""DS2 on a real Flink job: every operator sized by what its subtasks do. Run by ``make e2e``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perdix.settings.home import PROJECT, Home
from perdix.settings.targets import FlinkSettings
from perdix.targets.flink.target import FlinkTarget
from testbed import prerequisites
from testbed.cluster import Cluster
from testbed.layout import Layout
from testbed.run import begin
from testbed.settings import Ports, Testbed
from tests.e2e.testbed_rig import steady_load

MISSING = prerequisites.missing()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(MISSING), reason=f"DS2 DID NOT RUN ON A REAL FLINK: {'; '.join(MISSING)}"),
]

WORKERS, PER_S = 6, 240
COUNT = "count -> sink"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    testbed = Testbed(workers=WORKERS, cores=0.2, burn_ms=2.0, ports=Ports().shifted(4_000))
    cluster = Cluster(Layout(tmp_path_factory.mktemp("operators") / "state"), testbed)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="module", autouse=True)
def load(cluster: Cluster) -> Iterator[None]:
    with steady_load(cluster, PER_S):
        yield


@pytest.fixture
def home(cluster: Cluster, tmp_path: Path) -> Home:
    home = Home(tmp_path / "home").make()
    job = f"target: {{kind: flink, url: '{cluster.testbed.flink_url}'}}\nbounds: {{maximum: {WORKERS}}}\n"
    home.jobs.mkdir()
    (home.jobs / f"{cluster.testbed.job}.yaml").write_text(job)
    return home


@pytest.mark.parametrize("start", [1, WORKERS])
def test_ds2_converges_in_at_most_three_steps(cluster: Cluster, home: Home, start: int) -> None:
    testbed = cluster.testbed
    begin(cluster, start)
    words = ["operators", testbed.job, "--interval", "20", "--decisions", "5", "--apply", "--json"]
    told = subprocess.run(
        [sys.executable, "-m", "perdix.cli.main", *words],
        cwd=PROJECT, env={**os.environ, "PERDIX_HOME": str(home.root), "PERDIX_CONF": str(PROJECT / "conf")},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    looks = [json.loads(line) for line in told.stdout.splitlines()]
    steps = [look["changes"] for look in looks if look["done"]]
    assert 1 <= len(steps) <= 3, [look["sentence"] for look in looks]
    directions = {change[COUNT] > start for change in steps[:1]}
    assert directions == {start == 1}
    with closing(FlinkTarget(FlinkSettings.model_validate({"url": testbed.flink_url}), testbed.job)) as target:
        runs = target.operators()
    assert 2 <= runs[COUNT] < WORKERS, runs
    assert runs["Source: words -> split"] == start, "a source keeps what it runs"
    last = looks[-1]["operators"]
    assert last[1]["observed_processing_per_s"] > 0.9 * PER_S, "it keeps up, or catches up"
