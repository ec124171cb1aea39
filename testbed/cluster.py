"""The whole testbed: brought up in order, taken down, and looked at."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import httpx

from perdix.cli.output import UserError
from testbed import build, configuration, kafka, prerequisites, prometheus, quota
from testbed.flink import JobManager, job_arguments, jobmanager_command, taskmanager_command
from testbed.layout import Layout
from testbed.processes import PidFiles, interruptible, uninterrupted
from testbed.settings import HOST, Testbed, Throttle

KAFKA, JOBMANAGER, PROMETHEUS = "kafka", "jobmanager", "prometheus"
FLINK_ERRORS = (httpx.HTTPError, KeyError)
SEEN_S = 2.0  # a failed scrape ends a series; else its last value is what a query of the next five minutes finds
Say = Callable[[str], None]


def _silent(_: str) -> None:
    pass


@dataclass
class Cluster:
    """One testbed."""

    # layout, testbed: where it lives, and what it is
    layout: Layout
    testbed: Testbed
    say: Say = _silent  # gets a line for each thing that goes on
    files: PidFiles = field(init=False)

    def __post_init__(self) -> None:
        self.files = PidFiles(self.layout.pids, self.layout.logs)

    def up(self, *, submit: bool = True, parallelism: int | None = None) -> None:
        """Start what does not run, wait until it is healthy, and submit the job.

        Whatever goes wrong, a Ctrl-C too, nothing that this call started is left behind.

        Raises ``UserError``, naming what is missing, occupied or ill, with the end of its log.
        """
        prerequisites.require()
        self.layout.prepare()
        with self._lock(), interruptible():
            running = self.files.running()
            absent = [name for name in self.processes() if name not in running]
            require_free_ports(self.testbed, absent)
            self._build()
            try:
                self._start(absent, fresh=not running)
                if submit:
                    self._submit(parallelism)
                self.limit(self._workers(absent))
            except BaseException:
                with uninterrupted():
                    self._stop(absent)
                raise

    def submit(self, parallelism: int | None = None) -> str:
        """Submit the job unless it runs; return its id."""
        with self._lock():
            return self._submit(parallelism)

    def down(self) -> list[str]:
        """End everything that was started; return the names of what still ran."""
        self.layout.prepare()
        with self._lock(), uninterrupted():
            return self._stop(list(self.files.recorded()), SEEN_S)

    def start(self, names: Sequence[str], *, anew: bool = False) -> None:
        """Start single processes again after a fault, and wait until they are healthy; ``anew``: end them first.

        Raises ``UserError`` when one is not part of the testbed, already runs, or does not become healthy.
        """
        self._known(names)
        with self._lock(), interruptible():
            running = self.files.running()
            for name in names:
                if name in running and not anew:
                    raise UserError(f"{name} already runs (pid {running[name].pid})")
            workers = self._workers(names)
            if workers and JOBMANAGER not in running:
                raise UserError("a TaskManager needs the JobManager, which does not run; `python -m testbed up`")
            if anew:
                self.files.stop(names)
            require_free_ports(self.testbed, names)
            try:
                self._start(names, fresh=False)
                self.limit(workers)
            except BaseException:
                with uninterrupted():
                    self._stop(names)
                raise

    def resize(self, worker: str, cores: float, heap_mb: int) -> None:
        """Start a worker again with another size, which others get when they are started again; as :meth:`start`."""
        self._known([worker])
        self.testbed = Testbed.model_validate({**self.testbed.model_dump(), "cores": cores, "heap_mb": heap_mb})
        self.start([worker], anew=True)

    def limit(self, workers: Sequence[str], cores: float | None = None) -> None:
        """Give workers a CPU quota, where one can be set: ``cores``, else the one that they work with."""
        quotas, _ = self._quotas()
        if quotas is not None:
            for worker in workers:
                quotas.set(worker, self.testbed.cores if cores is None else cores)

    def known_running(self, name: str) -> int:
        """Return the pid of a part of the testbed that runs.

        Raises ``UserError`` when there is no such part, or it does not run.
        """
        self._known([name])
        running = self.files.running()
        if name not in running:
            raise UserError(f"{name} does not run; `python -m testbed status` shows what does")
        return running[name].pid

    def processes(self) -> list[str]:
        """Return the names of all processes, in the order of their start."""
        return [KAFKA, JOBMANAGER, PROMETHEUS, *self.testbed.worker_names()]

    def throttle(self) -> Throttle:
        """Return how the job spends its service time on this machine."""
        if self.testbed.throttle != "auto":
            return self.testbed.throttle
        return "sleep" if self._quotas()[0] is None else "burn"

    def _workers(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.testbed.worker_names()]

    def _known(self, names: Sequence[str]) -> None:
        unknown = [name for name in names if name not in self.processes()]
        if unknown:
            raise UserError(f"no {', '.join(unknown)} here; there are {', '.join(self.processes())}")

    def _quotas(self) -> tuple[quota.Quotas | None, str]:
        if self.testbed.throttle == "sleep":
            return None, "throttle is 'sleep'"
        return quota.usable(self.layout.tag)

    def _build(self) -> None:
        for module in build.stale([build.DISTRIBUTION, build.WORDCOUNT]):
            self.say(f"building {module.folder.name} with Maven (minutes the first time: it downloads) ...")
            build.build(module, self.layout.logs / f"maven-{module.folder.name}.log")

    def _start(self, names: Sequence[str], *, fresh: bool) -> None:
        quotas, why_none = self._quotas()
        if quotas is None and self.testbed.throttle == "burn":
            raise UserError(f"no CPU quota can be set: {why_none}; run as root, or with --throttle sleep")
        if fresh:
            self.layout.forget_data()
        self.layout.prepare()
        configuration.write(self.layout, self.testbed)
        self.layout.remember(self.testbed)
        if names:
            self.say(f"starting {_listed(names)} ...")
        if quotas is not None:
            quotas.prepare()
        elif self._workers(names):
            self.say(
                f"no CPU quota per TaskManager: {why_none}. The job sleeps instead of burning CPU: "
                "its CPU load means nothing, and CPU-based policies cannot be measured here"
            )
        known = self._known_workers()
        for name in sorted(names, key=KAFKA.__eq__):  # Kafka last: its storage is formatted while the others start
            self._launch(name, quotas)
        self._wait_healthy(names, known)

    def _launch(self, name: str, quotas: quota.Quotas | None) -> None:
        if name == KAFKA:
            kafka.format_storage(self.layout)
            self.files.start(name, kafka.command(self.layout, self.testbed))
        elif name == JOBMANAGER:
            self.files.start(name, jobmanager_command(self.layout, self.testbed))
        elif name == PROMETHEUS:
            self.files.start(name, prometheus.command(self.layout, self.testbed))
        else:
            command = taskmanager_command(self.layout, self.testbed, name)
            if quotas is None:
                self.files.start(name, command)
                return
            quotas.set(name, self.testbed.boot_cores)
            limits = quotas
            self.files.start(name, command, joins=lambda pid: limits.add(name, pid))

    def _known_workers(self) -> dict[str, str]:
        """Return the workers that the JobManager believes in; none when it does not answer."""
        if not self.files.is_running(JOBMANAGER):
            return {}
        with contextlib.closing(JobManager(self.testbed)) as jobmanager, contextlib.suppress(*FLINK_ERRORS):
            return jobmanager.workers()
        return {}

    def _wait_healthy(self, names: Sequence[str], before: dict[str, str]) -> None:
        if KAFKA in names:
            self._wait(KAFKA, lambda: kafka.answers(self.testbed), 60.0)
            kafka.create_topic(self.testbed)
            self.say(f"Kafka at {self.testbed.bootstrap}")
        if PROMETHEUS in names:
            self._wait(PROMETHEUS, lambda: prometheus.ready(self.testbed), 60.0)
            self.say(f"Prometheus at {self.testbed.prometheus_url}")
        with contextlib.closing(JobManager(self.testbed)) as jobmanager:
            if JOBMANAGER in names:
                self._wait(JOBMANAGER, lambda: jobmanager.workers() is not None, 90.0)
                self.say(f"JobManager at {self.testbed.flink_url}")
            workers = self._workers(names)
            for worker in workers:
                self._wait(
                    worker, partial(_has_registered, jobmanager, worker, before.get(worker)), 60.0 + 10.0 * len(workers)
                )
            if workers:
                self.say(f"{_listed(workers)} registered")

    def _submit(self, parallelism: int | None) -> str:
        if not build.WORDCOUNT_JAR.exists():
            raise UserError(f"{build.WORDCOUNT_JAR} is missing; `python -m testbed up` builds it")
        chosen = parallelism or self.testbed.workers
        with contextlib.closing(JobManager(self.testbed)) as jobmanager:
            try:
                job = jobmanager.job()
                if job is None:
                    self.say(f"submitting the job '{self.testbed.job}' at parallelism {chosen} ...")
                    arguments = job_arguments(self.testbed, self.throttle(), chosen)
                    job = jobmanager.submit(build.WORDCOUNT_JAR, arguments)
            except httpx.HTTPError as error:
                raise UserError(
                    f"the JobManager does not answer at {self.testbed.flink_url} ({error}); `python -m testbed up`"
                ) from None
            found = job
            self._wait(JOBMANAGER, lambda: jobmanager.all_run(found), 120.0)
        self.say(f"job {job} runs")
        return job

    def _stop(self, names: Sequence[str], seen_s: float = 0.0) -> list[str]:
        """End processes: the broker after those that talk to it, Prometheus ``seen_s`` seconds after all others."""
        workers = [name for name in names if name.startswith("tm-")]
        ended = self.files.stop([name for name in names if name not in {KAFKA, PROMETHEUS}])
        ended += self.files.stop([name for name in names if name == KAFKA])
        if ended and PROMETHEUS in names:
            time.sleep(seen_s)
        ended += self.files.stop([name for name in names if name == PROMETHEUS])
        quotas = quota.find(self.layout.tag)
        if quotas is not None and quotas.parent.is_dir():
            quotas.remove(None if not self.files.running() else workers)
        return ended

    def _wait(self, name: str, healthy: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not self.files.is_running(name):
                raise UserError(f"{name} ended:\n{self.files.end_of_log(name)}")
            with contextlib.suppress(*FLINK_ERRORS):
                if healthy():
                    return
            time.sleep(0.2)
        raise UserError(f"{name} was not healthy within {timeout_s:.0f} s:\n{self.files.end_of_log(name)}")

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        self.layout.root.mkdir(parents=True, exist_ok=True)
        with self.layout.lock.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(f"another command is busy with {self.layout.root}; wait for it, or end it") from None
            yield


def require_free_ports(testbed: Testbed, names: Sequence[str]) -> None:
    """Raise ``UserError``, naming all that are occupied, when a port of these processes cannot be listened on."""
    taken = []
    for port, use in testbed.listening().items():
        if use in names and not _is_free(port):
            taken.append(f"{HOST}:{port} ({use})")
    if taken:
        raise UserError(
            f"in use by something that this testbed did not start: {', '.join(taken)}; "
            "end it, or move the testbed with --port-offset"
        )


def _has_registered(jobmanager: JobManager, worker: str, before: str | None) -> bool:
    """Say whether a worker has; one that was killed a moment ago may still be known, under its old address."""
    return jobmanager.workers().get(worker, before) != before


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server((HOST, port)):
        return True
    return False


def _listed(names: Sequence[str]) -> str:
    workers = [name for name in names if name.startswith("tm-")]
    others = [name for name in names if name not in workers]
    return ", ".join([*others, *(workers if len(workers) < 4 else [f"{len(workers)} TaskManagers"])])
