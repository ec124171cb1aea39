"""What runs of a testbed, as a table and as a document."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from testbed import kafka, prometheus, quota
from testbed.cluster import JOBMANAGER, KAFKA, PROMETHEUS, Cluster
from testbed.flink import JobManager
from testbed.settings import HOST


@dataclass(frozen=True)
class Part:
    """One process."""

    name: str
    pid: int | None
    state: str  # ``ok``, ``ill`` (runs and does not answer), or ``ended``
    address: str  # what a person opens or a client connects to
    about: str  # what it does at the moment


@dataclass(frozen=True)
class Report:
    """Every process of a testbed, and the job."""

    folder: str
    parts: tuple[Part, ...]
    job: str | None  # its id; None when it does not run
    parallelism: dict[str, int]  # running subtasks of each vertex
    cores: float | None

    @property
    def title(self) -> str:
        """One line about the job."""
        if self.job is None:
            return f"testbed in {self.folder}: no job runs"
        running = ", ".join(f"{vertex} x{count}" for vertex, count in self.parallelism.items())
        return f"testbed in {self.folder}: job {self.job}: {running}"

    def rows(self) -> tuple[list[str], list[list[object]]]:
        """Return the columns and rows of a table."""
        columns = ["process", "pid", "state", "address", ""]
        return columns, [[part.name, str(part.pid or "-"), part.state, part.address, part.about] for part in self.parts]

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        return asdict(self)


def report(cluster: Cluster) -> Report:
    """Look at every process; what does not answer is said to be ill."""
    testbed, running = cluster.testbed, cluster.files.running()
    quotas = quota.find(cluster.layout.tag)
    job, parallelism, registered = None, {}, None
    with contextlib.closing(JobManager(testbed)) as jobmanager, contextlib.suppress(httpx.HTTPError, KeyError):
        if JOBMANAGER in running:
            registered = jobmanager.workers()
            job = jobmanager.job()
            parallelism = jobmanager.parallelism(job) if job else {}
    up: dict[str, int] | None = None
    with contextlib.suppress(httpx.HTTPError, KeyError):
        up = prometheus.targets_up(testbed) if PROMETHEUS in running else None
    answers = {
        KAFKA: KAFKA in running and kafka.answers(testbed),
        JOBMANAGER: registered is not None,
        PROMETHEUS: up is not None,
        **{worker: worker in (registered or ()) for worker in testbed.worker_names()},
    }
    addresses = {KAFKA: testbed.bootstrap, JOBMANAGER: testbed.flink_url, PROMETHEUS: testbed.prometheus_url}
    abouts = {
        KAFKA: f"topic {testbed.topic}, {testbed.topic_partitions} partitions",
        JOBMANAGER: f"{len(registered or ())} TaskManagers registered",
        PROMETHEUS: ", ".join(f"{scraped} {count} up" for scraped, count in sorted((up or {}).items())),
    }
    parts = []
    for name in cluster.processes():
        pid = running[name].pid if name in running else None
        state = "ended" if pid is None else "ok" if answers[name] else "ill"
        cores = quotas.cores(name) if quotas else None
        about = abouts.get(name, f"{cores:g} cores" if cores else "no quota")
        address = addresses.get(name) or f"http://{HOST}:{testbed.metrics_port(name)}"
        parts.append(Part(name, pid, state, address, about if pid else ""))
    return Report(str(cluster.layout.root), tuple(parts), job, parallelism, testbed.cores if quotas else None)
