"""Flink's own autoscaler asks perdix: the real one, on a real job, with the plugin beside it. Run by ``make e2e``.

The plugins' interfaces came with version 1.16 of Flink's operator, whose autoscaler is in no repository of jars yet. So
it must be built from its sources (``mvn -DskipTests package -pl flink-autoscaler-standalone -am``) and named in
``FLINK_AUTOSCALER_JAR``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from perdix.settings.home import PROJECT
from perdix.settings.stream_job import Bounds
from testbed import prerequisites
from testbed.cluster import Cluster
from testbed.contenders import command, job_file, live
from testbed.layout import Layout
from testbed.settings import Ports, Testbed
from tests.e2e.testbed_rig import OBJECTIVES, Door, Rig, fresh_home, steady_load

JAR = os.environ.get("FLINK_AUTOSCALER_JAR", "")
PLUGIN = PROJECT / "deploy" / "flink-autoscaler"
MISSING = prerequisites.missing() + (
    [] if Path(JAR).is_file() else ["FLINK_AUTOSCALER_JAR names no jar of Flink's autoscaler of 1.16 or newer"]
)
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(MISSING), reason=f"FLINK'S AUTOSCALER DID NOT ASK PERDIX: {'; '.join(MISSING)}"),
]

WORKERS, PER_S, METRICS_PORT = 4, 100, 29_464
MAIN = "org.apache.flink.autoscaler.standalone.StandaloneAutoscalerEntrypoint"
OPTIONS = {
    "enabled": "true",
    "stabilization.interval": "5s",
    "metrics.window": "15s",
    "scale-down.interval": "0s",
    "scaling.parallelism-alignment.mode": "OFF",
    "metrics.custom-evaluators": "perdix",
    "metrics.custom-evaluator.perdix.class": "perdix.flink.PerdixEvaluator",
    "scaling.custom-executors": "perdix",
    "scaling.custom-executor.perdix.class": "perdix.flink.PerdixExecutor",
    "perdix.url": f"http://127.0.0.1:{METRICS_PORT}/metrics",
}


@pytest.fixture(scope="module")
def plugin() -> Path:
    """The jar, built and tested."""
    words = ["mvn", "-q", "-B", "-f", str(PLUGIN / "pom.xml"), "package"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    return PLUGIN / "target" / "perdix-flink-autoscaler.jar"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("asking")
    testbed = Testbed(workers=WORKERS, cores=0.3, burn_ms=2.0, ports=Ports().shifted(5_000))
    cluster = Cluster(Layout(folder / "state"), testbed)
    try:
        cluster.up()
        with steady_load(cluster, PER_S):
            yield Rig(cluster, fresh_home(folder / "home"), Door(testbed.ports.flink_rest), Bounds(maximum=WORKERS))
    finally:
        cluster.down()


@pytest.fixture
def autoscaler(rig: Rig, plugin: Path) -> Iterator[None]:
    """Let Flink's autoscaler look at the job every three seconds."""
    testbed = rig.cluster.testbed
    where = {"host": "127.0.0.1", "port": str(testbed.ports.flink_rest)}
    options = {f"autoscaler.standalone.fetcher.flink-cluster.{name}": value for name, value in where.items()}
    options |= {"autoscaler.standalone.control-loop.interval": "3s"}
    options |= {f"job.autoscaler.{name}": value for name, value in OPTIONS.items()}
    options |= {"job.autoscaler.perdix.stream-job": testbed.job}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    rig.cluster.files.start("autoscaler", ["java", "-Xmx256m", "-cp", f"{plugin}:{JAR}", MAIN, *words])
    yield
    rig.cluster.files.stop(["autoscaler"])


@pytest.fixture
def controller(rig: Rig) -> Iterator[None]:
    """Let perdix decide, and publish what it wants; it may not scale anything itself."""
    wants(rig, 3)
    one = live("static-3:tick_s=5", rig.bounds)
    words = [*command(one, rig.cluster.testbed, rig.home), "--metrics-port", str(METRICS_PORT)]
    rig.cluster.files.start("controller", words)
    yield
    rig.cluster.files.stop(["controller"])


def wants(rig: Rig, scale_out: int, mode: str = "act") -> None:
    """Let perdix want a scale-out."""
    path = job_file(live(f"static-{scale_out}", rig.bounds), rig.cluster.testbed, rig.bounds, OBJECTIVES, rig.home)
    document = YAML(typ="safe").load(path)
    document |= {"target": {"kind": "advisory"}, "mode": mode, "grace_s": 10.0}
    with path.open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(document, file)


def test_the_job_gets_what_perdix_wants_unless_it_is_paused(rig: Rig, controller: None, autoscaler: None) -> None:
    rig.begin_at(1)
    rig.until(rig.runs(3), 240.0, "three workers")
    wants(rig, 2)
    rig.until(rig.runs(2), 180.0, "two workers")
    perdix(rig, "pause", "--for", "1h", "--why", "load test")
    wants(rig, 4)
    time.sleep(30.0)
    assert rig.runs(2)(), "paused"
    perdix(rig, "resume")
    rig.until(rig.runs(4), 180.0, "four workers")
    asked = rig.cluster.layout.logs / "autoscaler.log"
    assert "perdix wants a scale-out of 4" in asked.read_text(), "by Flink's autoscaler"
    assert rig.applied() == [], "and not by perdix"


def perdix(rig: Rig, verb: str, *words: str) -> None:
    """Say something to perdix as its operator does."""
    program = [str(Path(sys.executable).parent / "perdix"), verb, rig.cluster.testbed.job, *words]
    done = subprocess.run(
        program, env={**os.environ, "PERDIX_HOME": str(rig.home.root)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
