"""Settings of a testbed: sizes and ports. What ``up`` was given is kept, so that the other verbs know it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from perdix.settings.strict import Strict

HOST = "127.0.0.1"
LARGEST_PORT = 65_535
Port = Annotated[int, Field(ge=1, le=LARGEST_PORT)]
Throttle = Literal["auto", "burn", "sleep"]


class Ports(Strict):
    """Ports on loopback. TaskManager i shows its metrics on ``taskmanager_metrics + i``, i from 1."""

    flink_rest: Port = 18_081
    flink_rpc: Port = 18_123
    flink_blob: Port = 18_124
    jobmanager_metrics: Port = 19_249
    taskmanager_metrics: Port = 19_250
    kafka: Port = 19_092
    kafka_controller: Port = 19_093
    kafka_metrics: Port = 19_404
    prometheus: Port = 19_090

    def shifted(self, offset: int) -> Ports:
        """Return every port plus ``offset``. Raises ``ValidationError`` when a port would be none."""
        return Ports(**{name: port + offset for name, port in self.model_dump().items()})


class Testbed(Strict):
    """A testbed."""

    __test__: ClassVar[bool] = False  # to pytest, the name looks like a test

    workers: Annotated[int, Field(ge=1, le=32)] = 8  # taskManagers, one slot each
    # Of the topic; the largest scale-out that makes sense. 0 stands for as many as workers
    partitions: Annotated[int, Field(ge=0, le=1_000)] = 0
    cores: Annotated[float, Field(ge=0.02, le=64)] = 0.12  # CPU quota of a TaskManager once the job runs
    # CPU quota of a TaskManager until then: a JVM needs about 4 CPU seconds to start
    boot_cores: Annotated[float, Field(ge=0.02, le=64)] = 1.0
    # How the job spends its service time: ``burn`` CPU (means something under a quota per TaskManager only), ``sleep``,
    # or ``auto``: burn where a quota can be set
    throttle: Throttle = "auto"
    burn_ms: Annotated[float, Field(ge=0, le=60_000)] = 0.4  # service time per word in ms
    open_delay_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 0
    state_bytes: Annotated[int, Field(ge=0, le=1 << 26)] = 0
    checkpoint_interval_s: Annotated[int, Field(ge=1, le=3_600)] = 10  # between two checkpoints
    # In which Flink does not rescale a job again (its own default: 30)
    cooldown_s: Annotated[int, Field(ge=0, le=3_600)] = 2
    # After which Flink rescales without a checkpoint; ``None``: three intervals, Flink's own default
    trigger_delay_s: Annotated[int, Field(ge=0, le=3_600)] | None = None
    heap_mb: Annotated[int, Field(ge=64, le=1 << 16)] = 128  # of a TaskManager's tasks: room for the job's state
    topic: str = "words"
    job: str = "wordcount"
    ports: Ports = Ports()

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        seen: dict[int, str] = {}
        for port, use in self.listening().items():
            if not port <= LARGEST_PORT:
                raise ValueError(f"port {port} ({use}) is above {LARGEST_PORT}")
            seen[port] = use
        if len(seen) != len(Ports.model_fields) - 1 + self.workers:
            raise ValueError("two parts of the testbed share a port; leave room for a port per worker")
        return self

    @property
    def topic_partitions(self) -> int:
        """Partitions of the topic."""
        return self.partitions or self.workers

    @property
    def flink_url(self) -> str:
        """Where the JobManager's REST API answers."""
        return f"http://{HOST}:{self.ports.flink_rest}"

    @property
    def prometheus_url(self) -> str:
        """Where Prometheus answers."""
        return f"http://{HOST}:{self.ports.prometheus}"

    @property
    def bootstrap(self) -> str:
        """Address of the Kafka broker."""
        return f"{HOST}:{self.ports.kafka}"

    def worker_names(self) -> list[str]:
        """Return ``tm-1`` ... ``tm-N``."""
        return [f"tm-{index}" for index in range(1, self.workers + 1)]

    def metrics_port(self, worker: str) -> int:
        """Return the port on which the TaskManager ``tm-i`` shows its metrics."""
        return self.ports.taskmanager_metrics + int(worker.removeprefix("tm-"))

    def listening(self) -> dict[int, str]:
        """Return every port that is listened on, and by what part (the name of its pid file)."""
        ports = self.ports
        return {
            ports.kafka: "kafka",
            ports.kafka_controller: "kafka",
            ports.kafka_metrics: "kafka",
            ports.flink_rest: "jobmanager",
            ports.flink_rpc: "jobmanager",
            ports.flink_blob: "jobmanager",
            ports.jobmanager_metrics: "jobmanager",
            ports.prometheus: "prometheus",
            **{self.metrics_port(name): name for name in self.worker_names()},
        }
