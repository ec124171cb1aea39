"""``perdix profile --live`` and ``perdix sample --live`` of a job on a real Flink. Run by ``make e2e``."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from perdix.models.latency.selection import FAMILIES
from perdix.settings.home import HOME_VARIABLE, PROJECT
from testbed import prerequisites
from testbed.cluster import Cluster
from testbed.exported import STEP_S, selector
from testbed.layout import Layout
from testbed.run import begin
from testbed.settings import Ports, Testbed
from tests.e2e.testbed_rig import fresh_home, working

MISSING = prerequisites.missing()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(MISSING), reason=f"NO RUNNING JOB WAS PROFILED OR SAMPLED: {'; '.join(MISSING)}"),
]
PYTHON = sys.executable


@contextlib.contextmanager
def running(folder: Path, testbed: Testbed) -> Iterator[Cluster]:
    cluster = Cluster(Layout(folder / "state"), testbed)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


def job_file(cluster: Cluster, folder: Path, profiling: dict[str, Any], policy: str = "perdix") -> dict[str, str]:
    """Write the file of the testbed's job into a home; return the environment that leads there."""
    testbed, home = cluster.testbed, fresh_home(folder / "home")
    home.jobs.mkdir(parents=True, exist_ok=True)
    state = str(cluster.layout.root)
    load = f"{PYTHON} -m testbed load --state {state} --shape constant --noise 0 --seconds 3000 --peak-per-s {{per_s}}"
    document = {
        "prometheus": {
            "url": testbed.prometheus_url,
            "selector": selector(testbed),
            "scrape_interval_s": STEP_S,
        },
        "bounds": {"minimum": 1, "maximum": testbed.workers},
        "target": {"kind": "flink", "url": testbed.flink_url},
        "policy": {"name": policy},
        "mode": "advise",
        "profiling": {"load": load, **profiling},
    }
    with (home.jobs / f"{testbed.job}.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(document, file)
    return {**os.environ, HOME_VARIABLE: str(home.root)}


def perdix(where: dict[str, str], *words: str) -> dict[str, Any]:
    command = [PYTHON, "-m", "perdix.cli.main", *words, "--json"]
    done = subprocess.run(command, cwd=PROJECT, env=where, capture_output=True, text=True, timeout=3_000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def test_a_running_job_is_profiled_and_gets_its_workers_back(tmp_path: Path) -> None:
    testbed = Testbed(workers=3, cores=0.25, burn_ms=1.0, ports=Ports().shifted(8_000))
    with running(tmp_path, testbed) as cluster:
        begin(cluster, 2)
        fail = f"{PYTHON} -m tests.e2e.fail_worker {cluster.layout.root}"
        where = job_file(cluster, tmp_path, {"fail": fail})
        rates = ("--min", "1", "--deployments", "2", "--step", "120", "--settle", "30", "--measure", "20")
        found = perdix(where, "profile", testbed.job, "--live", *rates)
        assert len(working(testbed)) == 2, "as before"
        where = job_file(cluster, tmp_path, {}, policy="phoebe")
        (report,) = perdix(where, "tick")["reports"]
    (tmp_path / "found.json").write_text(json.dumps(found, indent=1))
    highest = {row["scale_out"]: row["highest_per_s"] for row in found["deployments"]}
    assert set(highest) == {1, 3}
    assert 100 < highest[1] < 300
    assert 1.8 < highest[3] / highest[1] < 4.0
    assert 1.0 < found["downtime_s"] < 120.0
    assert found["latency_model"] in {family.family for family in FAMILIES}
    assert (found["promoted"], found["error"]) == (True, None)
    assert "not profiled" not in report["sentence"], "phoebe decides by what was measured of the running job"


def test_the_worker_of_a_running_job_is_sampled_and_gets_its_size_back(tmp_path: Path) -> None:
    testbed = Testbed(workers=1, cores=0.25, burn_ms=1.0, ports=Ports().shifted(9_000))
    with running(tmp_path, testbed) as cluster:
        resize = f"{PYTHON} -m testbed resize-worker tm-1 --state {cluster.layout.root}"
        where = job_file(
            cluster,
            tmp_path,
            {
                "resize": f"{resize} --cores {{cpu_cores}} --heap-mb {{memory_mb}}",
                "restore": f"{resize} --cores 0.25 --heap-mb 128",
                "sizes": {
                    "cpu": {"least": 0.15, "most": 0.35, "unit": 0.1},
                    "memory": {"least": 128, "most": 128, "unit": 1},
                },
                "most_per_s": 600,
            },
        )
        how = ("--method", "fssa-1", "--window", "15", "--first-share", "0.2")
        found = perdix(where, "sample", testbed.job, "--live", *how)
        recalled = cluster.layout.recall()
        assert recalled is not None
        assert (recalled.cores, recalled.heap_mb) == (0.25, 128), "as before"
    (tmp_path / "found.json").write_text(json.dumps(found, indent=1))
    assert (found["failed"], found["notes"]) == ([], [])
    per_s = {sample["cpu_cores"]: sample["per_s"] for sample in found["samples"]}
    assert set(per_s) == {0.15, 0.25, 0.35}
    assert 50 < per_s[0.15] < per_s[0.25] < per_s[0.35] < 500
