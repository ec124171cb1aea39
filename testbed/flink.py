"""Flink: how its processes are started, and what the testbed asks the JobManager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from perdix.cli.output import UserError
from perdix.targets.flink.answers import OVER, gist
from testbed import build
from testbed.layout import Layout
from testbed.settings import Testbed, Throttle

JOBMANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASKMANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
# What Flink's own scripts open to reflection on Java 17.
OPENED = (
    "java.lang java.lang.reflect java.io java.net java.nio java.text java.time java.util java.util.concurrent "
    "java.util.concurrent.atomic java.util.concurrent.locks sun.nio.ch"
)
# The memory of a TaskManager beside the heap of its tasks.
BESIDE_MB = 72  # of the JVM's heap
WORKER_MEMORY = {
    "taskmanager.cpu.cores": "1.0",
    "taskmanager.memory.task.off-heap.size": "0b",
    "taskmanager.memory.framework.heap.size": "64m",
    "taskmanager.memory.framework.off-heap.size": "48m",
    "taskmanager.memory.network.min": "32m",
    "taskmanager.memory.network.max": "32m",
    "taskmanager.memory.managed.size": "16m",
    "taskmanager.memory.jvm-metaspace.size": "128m",
    "taskmanager.memory.jvm-overhead.min": "64m",
    "taskmanager.memory.jvm-overhead.max": "64m",
    "external-resources": "none",
}
TIMEOUT_S = 10.0


def jobmanager_command(layout: Layout, testbed: Testbed) -> list[str]:
    """Return the command of the JobManager. Its ``-D`` come last: it stops reading at what it does not know."""
    memory = ["-Xms64m", "-Xmx384m", "-XX:MaxMetaspaceSize=256m"]
    options = {"metrics.reporter.prom.port": str(testbed.ports.jobmanager_metrics)}
    return _java(layout, [*memory], JOBMANAGER, options)


def taskmanager_command(layout: Layout, testbed: Testbed, worker: str) -> list[str]:
    """Return the command of the TaskManager ``tm-i``; its name and its metrics' port never change."""
    jvm = ["-XX:TieredStopAtLevel=1", "-Xss512k", "-Xms64m", f"-Xmx{testbed.heap_mb + BESIDE_MB}m"]
    jvm += ["-XX:MaxDirectMemorySize=96m", "-XX:MaxMetaspaceSize=128m"]
    options = {
        "taskmanager.resource-id": worker,
        "metrics.reporter.prom.port": str(testbed.metrics_port(worker)),
        "taskmanager.memory.task.heap.size": f"{testbed.heap_mb}m",
        **WORKER_MEMORY,
    }
    return _java(layout, jvm, TASKMANAGER, options)


class JobManager:
    """The JobManager's REST API, as far as the testbed needs it."""

    def __init__(self, testbed: Testbed) -> None:
        self._http = httpx.Client(base_url=testbed.flink_url, timeout=TIMEOUT_S, trust_env=False)
        self._testbed = testbed

    def get(self, path: str) -> Any:
        """Return what the API answers. Raises ``HTTPError`` when it does not."""
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, and return what the API answers. Raises ``HTTPError`` when it does not accept."""
        answer = self._http.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json()

    def workers(self) -> dict[str, str]:
        """Return the TaskManagers that have registered, each with its address, which a restart changes."""
        return {str(worker["id"]): str(worker["path"]) for worker in self.get("/taskmanagers")["taskmanagers"]}

    def job(self) -> str | None:
        """Return the id of the running job of the testbed's name; None when there is none."""
        for job in self.get("/jobs/overview")["jobs"]:
            if job["name"] == self._testbed.job and job["state"] not in OVER:
                return str(job["jid"])
        return None

    def parallelism(self, job: str) -> dict[str, int]:
        """Return how many subtasks of each vertex are RUNNING, by the vertex's name."""
        vertices = self.get(f"/jobs/{job}")["vertices"]
        return {str(vertex["name"]): int(vertex["tasks"]["RUNNING"]) for vertex in vertices}

    def all_run(self, job: str) -> bool:
        """Say whether the job runs, and every subtask of it."""
        document = self.get(f"/jobs/{job}")
        tasks = [vertex["tasks"] for vertex in document["vertices"]]
        running = (counts["RUNNING"] == sum(counts.values()) > 0 for counts in tasks)
        return document["state"] == "RUNNING" and bool(tasks) and all(running)

    def submit(self, jar: Path, arguments: dict[str, str]) -> str:
        """Upload a jar and run it; return the job's id.

        Raises ``UserError``, with Flink's words when it refuses the jar or the arguments.
        """
        with jar.open("rb") as content:
            files = {"jarfile": (jar.name, content, "application/x-java-archive")}
            uploaded = self._http.post("/jars/upload", files=files, timeout=60.0)
        name = Path(_accepted(uploaded, "upload")["filename"]).name
        words = [word for key, value in arguments.items() for word in (f"--{key}", value)]
        run = self._http.post(f"/jars/{name}/run", json={"programArgsList": words}, timeout=60.0)
        return str(_accepted(run, "run")["jobid"])

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def job_arguments(testbed: Testbed, throttle: Throttle, parallelism: int) -> dict[str, str]:
    """Return the arguments of the word count job."""
    return {
        "bootstrap": testbed.bootstrap,
        "topic": testbed.topic,
        "name": testbed.job,
        "group": testbed.job,
        "throttle": throttle,
        "burn-ms": f"{testbed.burn_ms:g}",
        "open-delay-ms": str(testbed.open_delay_ms),
        "state-bytes": str(testbed.state_bytes),
        "parallelism": str(parallelism),
    }


def _java(layout: Layout, jvm: list[str], main: str, options: dict[str, str]) -> list[str]:
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED.split()]
    opens.append("--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED")
    log = f"-Dlog4j.configurationFile={(layout.conf / 'log4j.properties').as_uri()}"
    command = ["java", "-XX:+UseSerialGC", *jvm, log, *opens, "-cp", f"{build.FLINK}/*", main]
    command += ["--configDir", str(layout.conf / "flink")]
    return [*command, *(word for key, value in options.items() for word in ("-D", f"{key}={value}"))]


def _accepted(answer: httpx.Response, act: str) -> Any:
    if answer.is_success:
        return answer.json()
    try:
        words = gist(answer.json())
    except (ValueError, KeyError, TypeError, IndexError):
        words = answer.text[:600]
    raise UserError(f"Flink does not {act} the job (HTTP {answer.status_code}): {words}")
