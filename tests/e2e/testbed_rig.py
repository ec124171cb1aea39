"""A real testbed under perdix' own controller, for the fault tests: what is started, broken, and looked at."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from perdix.settings.home import PROJECT, Home
from perdix.settings.stream_job import Bounds, Objectives
from perdix.settings.targets import FlinkSettings
from perdix.targets.contract import Running
from perdix.targets.flink.target import FlinkTarget
from testbed.cluster import Cluster
from testbed.contenders import command, job_file, live
from testbed.flink import JobManager
from testbed.run import begin
from testbed.settings import Testbed

OBJECTIVES = Objectives(
    memory_ratio=None, recovery_time_s=120.0, latency_p95_ms=2_000.0, checkpoint_interval_s=10.0, rescales_per_day=1_000
)


@dataclass
class Door:
    """A TCP forwarder to Flink's REST API. Shut, it refuses connections, as a machine does that is gone."""

    to_port: int
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    def __enter__(self) -> Door:
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def open(self) -> None:
        self._server = self._do(asyncio.start_server(self._forward, "127.0.0.1", self.port))
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        async def close() -> None:
            if self._server is not None:
                self._server.close()
            for writer in list(self._open):
                writer.transport.abort()

        self._do(close())
        self._server = None

    def _do(self, what):
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.to_port)
        self._open |= {writer, inner_writer}

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(1 << 16):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
        self._open -= {writer, inner_writer}


@contextlib.contextmanager
def steady_load(cluster: Cluster, per_s: int) -> Iterator[None]:
    """Let as many records/s arrive all the time."""
    words = ["load", "--state", str(cluster.layout.root), "--shape", "constant", "--peak-per-s", str(per_s)]
    command = [sys.executable, "-m", "testbed", *words, "--seconds", "3000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=PROJECT)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def working(testbed: Testbed) -> list[str]:
    """Return the TaskManagers that run the subtasks of a testbed's job."""
    with contextlib.closing(JobManager(testbed)) as flink:
        job = flink.job()
        vertices = [vertex["id"] for vertex in flink.get(f"/jobs/{job}")["vertices"]]
        subtasks = [
            subtask for vertex in vertices for subtask in flink.get(f"/jobs/{job}/vertices/{vertex}")["subtasks"]
        ]
    return sorted({subtask["taskmanager-id"] for subtask in subtasks})


@dataclass
class Rig:
    """A testbed, a home of perdix, and a controller in a process of its own."""

    cluster: Cluster
    home: Home
    door: Door
    bounds: Bounds
    interval_s: int = 5
    dagster_port: int = 23_000

    def policy(self, label: str) -> None:
        """Write the job file: which policy decides, through the door."""
        one = live(f"{label}:tick_s={self.interval_s}", self.bounds)
        path = job_file(one, self.cluster.testbed, self.bounds, OBJECTIVES, self.home)
        text = path.read_text()
        testbed = self.cluster.testbed
        path.write_text(text.replace(f"{testbed.flink_url}/", f"http://127.0.0.1:{self.door.port}/"))

    def begin_at(self, scale_out: int) -> None:
        """Put the job at a parallelism, by hand."""
        begin(self.cluster, scale_out)

    def redeployments(self) -> int:
        """Return how often Flink has redeployed the job, by its own count."""
        with contextlib.closing(JobManager(self.cluster.testbed)) as flink:
            return int(flink.get(f"/jobs/{flink.job()}/metrics?get=numRestarts")[0]["value"])

    def workers(self) -> list[str]:
        """Return the TaskManagers that run the job's subtasks."""
        return working(self.cluster.testbed)

    @contextlib.contextmanager
    def controller(self, label: str) -> Iterator[None]:
        """Let `perdix controller` run meanwhile."""
        self.policy(label)
        one = live(f"{label}:tick_s={self.interval_s}", self.bounds)
        self.cluster.files.start("controller", command(one, self.cluster.testbed, self.home))
        try:
            yield
        finally:
            self.cluster.files.stop(["controller"])

    @contextlib.contextmanager
    def sensor(self, label: str, folder: Path) -> Iterator[None]:
        """Let Dagster's sensor `control_loop` run meanwhile, as a daemon would, and no training location."""
        self.policy(label)
        shutil.copytree(PROJECT / "conf", folder / "conf")
        settings = folder / "conf" / "perdix.yaml"
        settings.write_text(
            re.sub(r"tick_interval_s: \d+", f"tick_interval_s: {self.interval_s}", settings.read_text())
        )
        workspace = folder / "workspace.yaml"
        workspace.write_text(
            "load_from:\n  - python_module: {module_name: perdix.pipelines.control_location, location_name: control}\n"
        )
        (self.home.dagster).mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / "conf" / "dagster.yaml", self.home.dagster / "dagster.yaml")
        where = {
            "PERDIX_HOME": self.home.root,
            "PERDIX_CONF": folder / "conf",
            "DAGSTER_HOME": self.home.dagster,
            "PERDIX_AUTOSTART": "1",
            "PYTHONPATH": PROJECT,
        }
        words = ["env", *(f"{name}={value}" for name, value in where.items()), sys.executable, "-m", "dagster", "dev"]
        self.cluster.files.start(
            "dagster", [*words, "-w", str(workspace), "-h", "127.0.0.1", "-p", str(self.dagster_port)]
        )
        try:
            yield
        finally:
            self.cluster.files.stop(["dagster"])

    @contextlib.contextmanager
    def target(self) -> Iterator[FlinkTarget]:
        """What perdix would see, without the door."""
        testbed = self.cluster.testbed
        with FlinkTarget(FlinkSettings.model_validate({"url": testbed.flink_url}), testbed.job) as target:
            yield target

    def running(self) -> Running:
        with self.target() as target:
            return target.read()

    def runs(self, scale_out: int) -> Callable[[], bool]:
        """Return what tells whether that scale-out runs and no rescale is under way."""
        return lambda: (now := self.running()).is_at(scale_out, {}) and now.settled

    def status(self) -> tuple[str, str]:
        """Return status and sentence of the job, as the newest tick left them."""
        rows = self.ask("select status, sentence from statuses")
        return rows[0] if rows else ("", "")

    def ask(self, query: str) -> list[tuple]:
        """Read perdix' state store."""
        with contextlib.closing(sqlite3.connect(f"file:{self.home.root / 'state.db'}?mode=ro", uri=True)) as state:
            return state.execute(query).fetchall()

    def applied(self) -> list[tuple[int, int]]:
        """Return from and to of every decision that the target was asked for, oldest first."""
        return self.ask(
            "select from_scale_out, scale_out from decisions where applied_s is not null order by applied_s"
        )

    def until(self, holds: Callable[[], bool], seconds: float, what: str = "") -> float:
        """Wait until something holds; return how long that took."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            with contextlib.suppress(httpx.HTTPError, sqlite3.OperationalError):
                if holds():
                    return time.monotonic() - began
            time.sleep(0.5)
        log = (
            self.cluster.files.end_of_log("controller")
            if (self.cluster.layout.logs / "controller.log").exists()
            else ""
        )
        raise AssertionError(f"{what or holds.__doc__ or 'it'} did not come within {seconds:.0f} s\n{log}")


def fresh_home(folder: Path) -> Home:
    """Return a home of perdix that has learned nothing."""
    return Home(folder).make()
