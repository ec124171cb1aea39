"""A wheel in an empty environment and folder: doctor, demo, controller, ``perdix dev``, and plain ``dagster dev``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e.dev_servers import dev_servers
from tests.installed_wheel import InstalledWheel, install_wheel

pytestmark = pytest.mark.e2e

JOB = """
engine: flink
prometheus: {url: 'http://127.0.0.1:9', selector: {job_name: orders}}
bounds: {minimum: 1, maximum: 12}
"""
LOCATIONS = ("perdix.pipelines.control_location", "perdix.pipelines.training_location")
ENTRIES = """{ workspaceOrError { ... on Workspace { locationEntries {
    name loadStatus locationOrLoadError { __typename } } } } }"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledWheel:
    return install_wheel(tmp_path_factory.mktemp("wheel"))


def test_doctor_finds_nothing_broken(installed: InstalledWheel, tmp_path: Path) -> None:
    said = installed.perdix("doctor", "--json", folder=tmp_path, timeout_s=300.0)
    assert said.returncode == 0, said.stdout + said.stderr


def test_the_demo_ends_with_a_comparison(installed: InstalledWheel, tmp_path: Path) -> None:
    said = installed.perdix("demo", "--json", folder=tmp_path, timeout_s=1_200.0)
    assert said.returncode == 0, said.stderr[-3000:]
    assert json.loads(said.stdout)


def test_the_controller_ticks_over_a_job_of_the_working_folder(installed: InstalledWheel, tmp_path: Path) -> None:
    (tmp_path / "conf" / "jobs").mkdir(parents=True)
    (tmp_path / "conf" / "jobs" / "orders.yaml").write_text(JOB)
    said = installed.perdix("controller", "--interval", "1", "--ticks", "2", "--json", folder=tmp_path)
    assert said.returncode == 0, said.stderr[-3000:]
    ticks = [json.loads(line) for line in said.stdout.splitlines()]
    assert [(tick["jobs"], tick["statuses"]) for tick in ticks] == [(1, {"blind": 1})] * 2  # nothing listens at port 9


def test_perdix_dev_serves_from_any_folder(installed: InstalledWheel, tmp_path: Path) -> None:
    folder = tmp_path / "anywhere"
    folder.mkdir()
    with dev_servers(tmp_path / "home", 0.5, program=installed.program, folder=folder) as servers:
        assert loaded(servers.dagster, 120.0) == {"control", "training"}


def test_dagster_dev_loads_the_locations_by_their_modules(installed: InstalledWheel, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "dagster").mkdir()
    modules = [word for location in LOCATIONS for word in ("-m", location)]
    command = [str(installed.python), "-m", "dagster", "dev", *modules, "-h", "127.0.0.1", "-p", str(port)]
    environment = {**installed.variables(), "DAGSTER_HOME": str(tmp_path / "dagster"), "DAGSTER_DISABLE_TELEMETRY": "1"}
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        assert loaded(f"http://127.0.0.1:{port}", 300.0) == set(LOCATIONS), (tmp_path / "log").read_text()[-3000:]
    finally:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def loaded(url: str, within_s: float) -> set[str]:
    """Return the names of the code locations that loaded, once all have."""
    deadline = time.monotonic() + within_s
    found: list[dict[str, dict[str, str]]] = []
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            answer = httpx.post(f"{url}/graphql", json={"query": ENTRIES}, timeout=30.0).json()
            found = answer["data"]["workspaceOrError"]["locationEntries"]
            if found and all(entry["loadStatus"] == "LOADED" for entry in found):
                break
        time.sleep(1.0)
    kinds = {entry["name"]: (entry["locationOrLoadError"] or {}).get("__typename") for entry in found}
    return {name for name, kind in kinds.items() if kind == "RepositoryLocation"}
