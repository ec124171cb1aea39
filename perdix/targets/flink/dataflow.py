"""A running Flink job as a dataflow: what feeds what, and what every subtask has done so far."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np

from perdix.models.dataflow.flink_rates import SubtaskCounters
from perdix.targets.contract import Running
from perdix.targets.flink.answers import Job, MetricIds, MetricSums, Subtask, Subtasks
from perdix.targets.http import HttpTarget

PENDING = ".pendingRecords"
HASH = "HASH"  # of Flink's ship strategies: by the key groups of a key


@dataclass(frozen=True)
class OperatorReading:
    """One vertex of a job (Flink chains operators into vertices, and scales these)."""

    inputs: tuple[str, ...]  # vertices that feed it; empty: a source
    maximum: int  # its maximum parallelism: its key groups
    counters: SubtaskCounters
    started_ms: tuple[int, ...]  # epoch milliseconds at which each subtask began, shape ``(subtasks,)``
    # Of a source: records that wait before it; ``None`` where it does not report them
    pending_records: float | None = None
    keyed: bool = False  # whether the hash of a key decides which subtask gets a record
    group: str | None = None  # its slot sharing group; operators of ``None`` are of one


@dataclass(frozen=True)
class DataflowReading:
    """A job at one moment."""

    at_s: float  # epoch seconds, by the JobManager's clock
    operators: Mapping[str, OperatorReading]  # vertex -> its reading, in the job's order
    slots: int  # slots that the job may use
    running: Running  # what runs and what was asked for; its mixes say of each vertex how many subtasks

    @property
    def settled(self) -> bool:
        """Whether no rescale is under way."""
        return self.running.settled


def read_dataflow(flink: HttpTarget, job: Job, *, slots: int, running: Running) -> DataflowReading:
    """Read every vertex of a job. Raises ``TargetError`` when Flink cannot be asked, or answers something else."""
    inputs = {node.id: node.inputs for node in job.plan.nodes}
    operators = {}
    for vertex in job.vertices:
        place = f"/jobs/{job.jid}/vertices/{vertex.id}"
        subtasks = flink.asked("GET", place, Subtasks).subtasks
        feeding = tuple(dict.fromkeys(job.names[edge.id] for edge in inputs.get(vertex.id, ())))
        operators[job.names[vertex.id]] = OperatorReading(
            feeding,
            vertex.max_parallelism,
            _counters(subtasks),
            tuple(subtask.start_ms for subtask in subtasks),
            None if feeding else _pending_records(flink, place),
            any(edge.ship_strategy == HASH for edge in inputs.get(vertex.id, ())),
            vertex.group,
        )
    return DataflowReading(job.now / 1_000.0, operators, slots, running)


def _counters(subtasks: list[Subtask]) -> SubtaskCounters:
    rows = [
        (metrics.busy_ms, metrics.idle_ms, metrics.back_pressured_ms, metrics.read, metrics.written)
        if metrics.complete
        else (np.nan,) * 5
        for metrics in (subtask.metrics for subtask in subtasks)
    ]
    return SubtaskCounters(*np.array(rows, dtype=np.float64).reshape(len(rows), 5).T)


def _pending_records(flink: HttpTarget, place: str) -> float | None:
    ids = [metric.id for metric in flink.asked("GET", f"{place}/subtasks/metrics", MetricIds).root]
    names = [name for name in ids if name.endswith(PENDING)]
    if not names:
        return None
    asked = ",".join(quote(name, safe="") for name in names)
    sums = flink.asked("GET", f"{place}/subtasks/metrics?get={asked}&agg=sum", MetricSums).root
    return sum(total.sum for total in sums) if sums else None
