"""Faults of what perdix stores in, under its own controller: a real PostgreSQL, MLflow and a real full disk.

Run by ``make e2e``. The job is a twin behind real HTTP, in the machine's own time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.storm.episodes import Player, episode
from benchmarks.storm.faults import KINDS
from perdix.cli.processes import free_port
from perdix.control.state.ledger import State
from perdix.control.state.schema import StateError
from perdix.control.state.store import StateStore
from perdix.twin.prometheus_face import PrometheusFace
from tests.e2e.twin_in_real_time import controller, twin_face, until

pytestmark = pytest.mark.e2e
JOB = """\
name: orders
engine: flink
mode: act
bounds: {{minimum: 1, maximum: 8}}
policy: {{name: static, options: {{scale_out: {workers}}}}}
prometheus: {{url: "{url}", selector: {{namespace: orders, job_name: orders, topic: orders}}, scrape_interval_s: 5}}
target: {{kind: twin, url: "{url}"}}
"""
OF_THE_STORE = [kind for kind, about in KINDS.items() if about.scope == "store"]
SERVED = ("acting", "blind")  # blind while a rescale has just ended; never broken


@dataclass
class Rig:
    """A twin that lives in real time, and a controller in a process of its own."""

    home: Path
    face: PrometheusFace
    where: Mapping[str, str] = field(default_factory=dict)

    def wants(self, workers: int) -> None:
        """Write the job file."""
        path = self.home / "jobs" / "orders.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(JOB.format(workers=workers, url=self.face.url), encoding="utf-8")

    def controller(self) -> AbstractContextManager[Callable[[], list[dict[str, Any]]]]:
        """Let ``perdix controller`` run meanwhile; yields what returns the documents of its ticks so far."""
        return controller(self.home, self.where)

    def running(self) -> int:
        """Return how many workers the twin runs."""
        return self.face.living.job("orders").scale_out


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with twin_face() as face:
        rig = Rig(tmp_path / "home", face)
        rig.wants(2)
        yield rig


def served(ticks: list[dict[str, Any]]) -> bool:
    """Whether the newest tick served the job and lacked nothing."""
    return bool(ticks) and set(ticks[-1]["statuses"]) <= set(SERVED) and not ticks[-1]["faults"]


@dataclass
class Server:
    """A program and its children, which can be killed, frozen and started again."""

    command: list[str]
    user: str | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, user=self.user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def signal(self, number: int) -> None:
        assert self.process is not None
        pid = self.process.pid  # PostgreSQL's children have process groups of their own
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        for process in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, number)

    def kill(self) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A server of PostgreSQL of the test's own."""
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    programs = {name: shutil.which(name) for name in ("initdb", "postgres")}
    if None in programs.values():
        pytest.skip("THE TESTS OF POSTGRESQL DID NOT RUN: initdb and postgres are not on the PATH")
    user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
    folder = Path("/tmp") / f"perdix-postgres-{os.getpid()}"  # where another user may reach it
    folder.mkdir(mode=0o700)
    if user:
        shutil.chown(folder, user)
    try:
        init = [str(programs["initdb"]), "-D", str(folder / "data"), "-U", "perdix", "-A", "trust"]
        subprocess.run(init, user=user, check=True, stdout=subprocess.DEVNULL)
        port = free_port(24_000)
        listen = ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", str(folder)]
        server = Server([str(programs["postgres"]), "-D", str(folder / "data"), *listen], user)
        url = f"postgresql+psycopg://perdix@127.0.0.1:{port}/postgres"
        server.start()
        until(lambda: _opens(url), 30, "PostgreSQL")
        yield server, url
        server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _opens(url: str) -> bool:
    try:
        StateStore(url).close()
    except StateError:
        return False
    return True


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_while_postgresql_is_gone_nothing_is_scaled_and_the_loop_comes_back(
    rig: Rig, postgres: tuple[Server, str], fault: str
) -> None:
    server, url = postgres
    rig.where = {"PERDIX_STATE_URL": url}
    with rig.controller() as ticks:
        until(lambda: served(ticks()), 90, "a first decision")
        server.kill() if fault == "killed" else server.signal(signal.SIGSTOP)
        rig.wants(4)
        so_far = len(ticks())
        until(lambda: len(ticks()) > so_far and "broken" in ticks()[-1]["statuses"], 60, "that the store is gone")
        broken = len(ticks())
        until(lambda: len(ticks()) > broken + 1, 60, "further ticks")
        assert rig.running() == 2, "what cannot be stored is not done"
        server.start() if fault == "killed" else server.signal(signal.SIGCONT)
        until(lambda: rig.running() == 4, 90, "the rescale, once the store is back")
        until(lambda: served(ticks()), 60, "a tick without faults")
    _applied_once(url)


def test_a_disk_that_is_full_is_told_and_nothing_is_scaled_until_there_is_room(rig: Rig) -> None:
    shutil.rmtree(rig.home)
    rig.home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(rig.home)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("THE TEST OF A FULL DISK DID NOT RUN: a small disk cannot be mounted here")
    try:
        rig.wants(2)
        with rig.controller() as ticks:
            until(lambda: served(ticks()), 90, "a first decision")
            filler = rig.home / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4_096))
            so_far = len(ticks())
            until(lambda: len(ticks()) > so_far + 2 and bool(ticks()[-1]["faults"]), 60, "a fault")
            assert rig.running() == 2
            filler.unlink()
            rig.wants(4)
            until(lambda: rig.running() == 4, 60, "the rescale, once there is room")
            until(lambda: served(ticks()), 60, "a tick without faults")
            _applied_once(f"sqlite:///{rig.home / 'state.db'}")
    finally:
        subprocess.run(["umount", "-l", str(rig.home)], check=False)


def test_without_mlflow_jobs_are_served_as_before_and_it_is_told(rig: Rig, tmp_path: Path) -> None:
    port = free_port(24_000)
    store = [f"sqlite:///{tmp_path / 'mlflow.db'}", "--artifacts-destination", str(tmp_path / "artifacts")]
    listen = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    mlflow = Server([sys.executable, "-m", "mlflow", "server", "--backend-store-uri", *store, *listen])
    rig.where = {"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}"}
    mlflow.start()
    try:
        until(lambda: _healthy(port), 90, "MLflow")
        with rig.controller() as ticks:
            until(lambda: served(ticks()), 90, "a first decision")
            mlflow.kill()
            rig.wants(4)
            until(lambda: rig.running() == 4, 90, "a rescale without MLflow")
            until(lambda: any(tick["notes"] for tick in ticks()), 120, "that MLflow cannot be asked")
            mlflow.start()
            until(lambda: _healthy(port), 90, "MLflow, again")
            until(lambda: served(ticks()) and not ticks()[-1]["notes"], 120, "a tick without a note")
        _applied_once(f"sqlite:///{rig.home / 'state.db'}")
    finally:
        mlflow.kill()


def _healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False, timeout=2.0).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_storm_finds_nothing_where_postgresql_holds_the_state(postgres: tuple[Server, str]) -> None:
    _, url = postgres
    player = Player(url)
    for number in range(2):
        assert player.play(episode(7, number, OF_THE_STORE)).violations == ()


def _applied_once(url: str) -> None:
    with contextlib.closing(StateStore(url)) as store:
        applied = [decision for decision in store.ledger.decisions("orders") if decision.applied_s is not None]
    assert [(entry.intent.from_scale_out, entry.intent.scale_out) for entry in applied] == [(2, 4)]
    assert applied[0].state in (State.APPLIED, State.CONFIRMED)
