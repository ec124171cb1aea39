"""A Flink job that does what its load and its parallelism make of it, and loops that size its operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from perdix.control.operators.executor import Executor
from perdix.control.operators.look import Look
from perdix.control.operators.loop import looks
from perdix.control.state.store import StateStore
from perdix.models.dataflow.flink_rates import SubtaskCounters
from perdix.policies.contract import Reason
from perdix.policies.dataflow.build import build_dataflow_policy
from perdix.policies.dataflow.contract import DataflowDecision, DataflowPolicy, DataflowSituation
from perdix.policies.dataflow.holding import hold
from perdix.settings.stream_job import Bounds, Objectives, StreamJob
from perdix.targets.contract import Guard, Running, TargetError, unguarded
from perdix.targets.flink.dataflow import DataflowReading, OperatorReading

BOUNDS = Bounds(minimum=1, maximum=12)
WORDS_PER_LINE = 3.0
COUNTS_PER_S = 100.0  # a subtask's capacity, words/s


@dataclass
class Job:
    """Lines arrive at a source, which splits them into words; a second vertex counts these, and holds it back."""

    lines_per_s: float
    parallelism: dict[str, int] = field(default_factory=lambda: {"source": 2, "count": 1})
    now_s: float = 1_000.0
    started_s: float = 0.0
    pending: float = 0.0
    tells_pending: bool = True
    slots: int = 12
    groups: tuple[str | None, str | None] = (None, None)  # slot sharing groups of the source, and of what counts
    broken: str | None = None
    asked: list[Mapping[str, int]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    requested: dict[str, int] = field(default_factory=dict)  # Flink's requirements, where they are not what runs
    settled: bool = True
    obeys: bool = True  # else what it accepts does not come to run
    lines: float = 0.0
    busy_s: float = 0.0  # of all counting subtasks
    waited_s: float = 0.0  # of all sources

    def sleep(self, seconds: float) -> None:
        most_lines = COUNTS_PER_S * self.parallelism["count"] * seconds / WORDS_PER_LINE
        there = self.pending + self.lines_per_s * seconds
        done = min(there, most_lines)
        self.pending, self.lines, self.now_s = there - done, self.lines + done, self.now_s + seconds
        self.busy_s += done * WORDS_PER_LINE / COUNTS_PER_S
        if self.pending > 0:
            self.waited_s += 0.9 * seconds * self.parallelism["source"]

    def read_dataflow(self) -> DataflowReading:
        if self.broken is not None:
            raise TargetError(self.broken)
        age_ms, words = 1_000.0 * (self.now_s - self.started_s), self.lines * WORDS_PER_LINE
        return DataflowReading(
            self.now_s,
            {
                "source": self._reading((), "source", 0.0, self.waited_s, self.lines, words, age_ms),
                "count": self._reading(("source",), "count", self.busy_s, 0.0, words, 0.0, age_ms),
            },
            self.slots,
            self.running,
        )

    @property
    def running(self) -> Running:
        wanted = {**self.parallelism, **self.requested}
        most = max(self.parallelism.values())
        return Running(most, max(wanted.values()), self.settled, mix=dict(self.parallelism), requested_mix=wanted)

    def _reading(
        self, inputs: tuple[str, ...], name: str, busy_s: float, waited_s: float, *amounts: float
    ) -> OperatorReading:
        n = self.parallelism[name]
        read, written, age_ms = amounts
        busy_ms, waited_ms = 1_000.0 * busy_s / n, 1_000.0 * waited_s / n
        rows = (busy_ms, age_ms - busy_ms - waited_ms, waited_ms, read / n, written / n)
        counters = SubtaskCounters(*(np.full(n, row) for row in rows))
        pending = self.pending if self.tells_pending and not inputs else None
        started_ms, group = round(1_000.0 * self.started_s), self.groups[bool(inputs)]
        return OperatorReading(inputs, 128, counters, (started_ms,) * n, pending, bool(inputs), group)

    def scale_operators(
        self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
    ) -> Running:
        guard()
        self.asked.append(dict(parallelism))
        self.keys.append(idempotency_key)
        if self.obeys:
            self.parallelism |= parallelism
            self.requested.clear()
            self.restart()
        return self.running

    def restart(self) -> None:
        self.started_s, self.lines, self.busy_s, self.waited_s = self.now_s, 0.0, 0.0, 0.0


@dataclass(frozen=True)
class JobsClock:
    """The job's time is everybody's."""

    job: Job
    boot: str = "kernel:test"

    def now_s(self) -> float:
        return self.job.now_s

    def elapsed_s(self) -> float:
        return self.job.now_s


def acting(job: Job, store: StateStore | None = None, holder: str = "one", **settings: Any) -> Executor:
    orders = StreamJob(name="orders", bounds=BOUNDS, **{"objectives": Objectives(rescales_per_day=1_000), **settings})
    return Executor(job, orders, store or StateStore("sqlite://"), JobsClock(job), holder, 30.0)


def looked(job: Job, count: int, policy: str = "ds2", bounds: Bounds = BOUNDS, *, act: bool = True) -> list[Look]:
    options = {"warm_up_s": 0.0} if policy == "ds2" else {}
    return list(islice(looking(job, build_dataflow_policy(policy, options), bounds, act=act), count))


def looking(
    job: Job, policy: DataflowPolicy, bounds: Bounds = BOUNDS, *, act: bool = True, **more: Any
) -> Iterator[Look]:
    if act:
        more.setdefault("carry_out", acting(job).carry_out)
    return looks(job, policy, lambda: bounds, sleep=job.sleep, **{"interval_s": 30.0, **more})


def ds2() -> DataflowPolicy:
    return build_dataflow_policy("ds2", {"warm_up_s": 0.0})


class Wishes:
    """A policy that wants one change after the other, and remembers how many looks there were."""

    name = "wishes"

    def __init__(self, *wishes: Mapping[str, int]) -> None:
        self.wishes, self.looks, self.remembered = wishes, 0, list[Mapping[str, Any]]()

    def decide(self, situation: DataflowSituation) -> DataflowDecision:
        self.remembered.append(situation.memory)
        wish = self.wishes[min(self.looks, len(self.wishes) - 1)]
        self.looks += 1
        memory = {"looks": self.looks}
        if not wish:
            return hold(self.name, situation, Reason.HOLD_GOOD, "Enough.", memory=memory)
        wanted = {**situation.parallelism, **wish}
        return DataflowDecision(self.name, wanted, Reason.SCALE_OUT, f"wants {wish}", memory=memory)


@dataclass
class Refusing(Job):
    """Refuses this many requests first."""

    refuses: int = 1

    def scale_operators(
        self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
    ) -> Running:
        if self.refuses > 0:
            self.refuses -= 1
            raise TargetError("503: busy")
        return super().scale_operators(parallelism, idempotency_key, guard)
