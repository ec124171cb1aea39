"""A Flink job whose operators are sized one by one: its twin, what surrounds it, and its REST API as a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.storm.climate import (
    EPISODE_MIN,
    IDLE,
    IDLE_MIN,
    MINUTE_S,
    PLATEAU_MIN,
    RAMP_MIN,
    START_S,
    STEP_S,
    STORM_MIN,
)
from benchmarks.storm.deployment import Change, Shown
from benchmarks.storm.faults import Fault
from benchmarks.storm.flink_face import JOB, Answer, cluster_or_checkpoint, missing, shown_job
from perdix.settings.stream_job import Bounds, Objectives, StreamJob
from perdix.settings.targets import FlinkSettings
from perdix.telemetry.window import Values
from perdix.twin.dataflow.job import DataflowTwin
from perdix.twin.dataflow.parameters import DataflowParameters

FLOW = "flow"
MOST = 12
WARM_S = 600
LOW_PER_S, HIGH_PER_S, WAVE_MIN = 8_000.0, 40_000.0, 10
IDS = {"lines": "l" * 32, "split": "s" * 32, "count": "c" * 32}
Mix = Mapping[str, int]


@dataclass(frozen=True)
class FlowState:
    """What the JobManager can tell."""

    running: Mix
    asked: Mix
    settled: bool
    slots: int


@dataclass(frozen=True)
class FlowPlace:
    """The job, and which kind of cluster it runs on: see :mod:`benchmarks.storm.flink_face`."""

    job: StreamJob
    seed: int


@dataclass
class Flow:
    """The job's world. ``active`` finds a fault of it that goes on now."""

    place: FlowPlace
    active: Callable[[str], Fault | None]
    twin: DataflowTwin = field(init=False)
    asked: dict[str, int] = field(init=False)
    version: int = 1
    changes: list[Change[Mix]] = field(default_factory=list)
    checkpoints: int = 0
    did: dict[str, list[Values]] = field(default_factory=dict)  # what the subtasks of each operator did so far
    _since: tuple[int, int] = (0, 0)  # of which deployment, and up to when
    _shown: Shown[FlowState] = field(default_factory=Shown)
    _done: set[Fault] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.twin = DataflowTwin(_parameters(), self.place.seed, start_s=START_S - WARM_S)
        self.twin.step(WARM_S)
        self.asked = dict(self.twin.requested)

    @property
    def total(self) -> int:
        """Instances that run."""
        return sum(self.twin.parallelism.values())

    @property
    def keeps_up(self) -> bool:
        """Whether no more waits than comes in two minutes, or it is being worked off."""
        lag, per_s = self.twin.lag_records["lines"], self.twin.target_per_s()["lines"]
        before = float(self.twin.ledger.between(self.twin.now_s - self.twin.start_s - 60).lag[0, 0])
        return lag <= 120.0 * per_s or lag < before

    def carries(self, wanted: Mix) -> float:
        """Return how many records/s of the source this many instances can process, those of other operators apart."""
        operators, reaches = self.twin.parameters.operators, {"lines": 1.0}
        for name in IDS:  # downstream
            for up, share in operators[name].inputs.items():
                reaches[name] = reaches.get(name, 0.0) + reaches[up] * operators[up].selectivity * share
        costs_us = {name: reaches[name] * (operators[name].cost_us or 0.0) for name in wanted}
        return min((1e6 * count / costs_us[name] for name, count in wanted.items()), default=float("inf"))

    def arrived_least(self, since_s: float) -> float:
        """Return the fewest records/s that arrived at any time since then."""
        begin_s = self.twin.start_s
        times = range(int(since_s) - begin_s, self.twin.now_s - begin_s + 1, STEP_S)
        return min(self.twin.parameters.target_per_s(max(second, 0))["lines"] for second in times)

    def runs_since(self, at_s: float) -> bool:
        """Whether it runs undisturbed since then."""
        return self.twin.settled and self.twin.started_s <= at_s

    def catch_up(self, now_s: float) -> None:
        self._once()
        self.twin.step(max(int(now_s) - self.twin.now_s, 0))
        self._count()
        self._deliver()
        self._shown.note(now_s, self._state())

    def _count(self) -> None:
        """Add what its subtasks did since the last look; those that are new begin at 0."""
        twin, (started_s, until_s) = self.twin, self._since
        if twin.settled and twin.started_s != started_s:
            self.did, until_s = {}, twin.started_s
        for name, window in twin.windows(until_s).items():
            idle_s = np.maximum(window.window_s - window.useful_s - window.back_pressured_s, 0.0)
            new = [window.useful_s, window.back_pressured_s, idle_s, window.processed, window.produced]
            self.did[name] = [before + more for before, more in zip(self.did.get(name, np.zeros(5)), new, strict=True)]
        self._since = twin.started_s, twin.now_s

    def reported(self, now_s: float) -> FlowState:
        """Return what the JobManager says, which may be old."""
        self.catch_up(now_s)
        return self._shown.read(now_s, self.active("stale read"))

    def ask(self, now_s: float, wanted: Mix, by: str, decision_id: str) -> None:
        self.catch_up(now_s)
        if self.active("forgotten write") is None:
            self._wanted(wanted, by, decision_id)

    def _wanted(self, wanted: Mix, by: str = "", decision_id: str = "") -> None:
        if wanted != self.asked:
            self.asked = dict(wanted)
            self.version += 1
            self.changes.append(Change(self.asked, by, decision_id))
            self._deliver()

    def _state(self) -> FlowState:
        settled = self.twin.settled and self.twin.requested == self._deliverable()
        return FlowState(dict(self.twin.parallelism), dict(self.asked), settled, self._slots())

    def _slots(self) -> int:
        short = self.active("short of slots")
        return MOST if short is None else int(short.amount)

    def _deliverable(self) -> dict[str, int]:
        return {name: min(count, self._slots()) for name, count in self.asked.items()}

    def _deliver(self) -> None:
        wanted = self._deliverable()
        if wanted != self.twin.requested and self.active("never settles") is None:
            self.twin.rescale(wanted, f"{self.version}:{self.twin.now_s}:{wanted}")

    def _once(self) -> None:
        by_hand = self.active("by hand")
        if by_hand is not None and by_hand not in self._done:
            self._done.add(by_hand)
            self._wanted({**self.asked, "count": int(by_hand.amount)})


def flow_job(number: int) -> FlowPlace:
    """Return the job of climate ``number``; the loop that sizes operators wants one that only advises."""
    job = StreamJob(
        name=FLOW,
        bounds=Bounds(minimum=1, maximum=MOST),
        objectives=Objectives(rescales_per_day=1_000),
        target=FlinkSettings.model_validate({"url": f"http://flink.{FLOW}"}),
    )
    return FlowPlace(job, number)


def of_flow(flow: Flow, state: FlowState, request: tuple[str, str, str, Any], ask: Callable[[Mix], None]) -> Answer:
    """Answer ``(method, path, query, body)``; ``ask`` hands on what is asked for."""
    method, path, query, given = request
    found = cluster_or_checkpoint(flow, state.slots, method, path)
    if found is not None:
        return found
    if path == f"{JOB}/resource-requirements":
        if method == "PUT":
            ask({name: given[vertex]["parallelism"]["upperBound"] for name, vertex in IDS.items()})
            return 200, {}
        return 200, {IDS[k]: {"parallelism": {"lowerBound": 1, "upperBound": n}} for k, n in state.asked.items()}
    if path == JOB:
        return 200, _job(flow, state)
    name = next((name for name, vertex in IDS.items() if f"/vertices/{vertex}" in path), None)
    if name is None:
        return missing(path)
    if path.endswith("/subtasks/metrics"):
        waits = f"0.Source__{name}.pendingRecords"
        return 200, [{"id": waits, "sum": flow.twin.lag_records[name]} if "get=" in query else {"id": waits}]
    return 200, {"subtasks": _subtasks(flow, name)}


def _job(flow: Flow, state: FlowState) -> dict[str, Any]:
    feeds = {name: [{"id": IDS[up], "ship_strategy": "HASH"}] for up, name in flow.twin.graph.edges}
    vertices = {IDS[name]: (name, count) for name, count in state.running.items()}
    nodes = [{"id": IDS[name], "inputs": feeds.get(name, [])} for name in IDS]
    return shown_job(flow, flow.twin.started_s, vertices, nodes)


def _subtasks(flow: Flow, name: str) -> list[dict[str, Any]]:
    """Return what the subtasks of an operator did since they began; nothing yet of those that only begin."""
    twin, did = flow.twin, flow.did.get(name)
    found = []
    for k in range(twin.parallelism[name]):
        busy_s, waited_s, idle_s, read, written = (0.0,) * 5 if did is None else (float(each[k]) for each in did)
        counted = {
            "read-records": int(read),
            "write-records": int(written),
            "write-records-complete": did is not None,
            "accumulated-busy-time": int(1_000.0 * busy_s),
            "accumulated-backpressured-time": int(1_000.0 * waited_s),
            "accumulated-idle-time": int(1_000.0 * idle_s),
        }
        found.append(
            {"subtask": k, "start-time": 1_000 * twin.started_s, "metrics": counted, "taskmanager-id": f"tm-{k}"}
        )
    return found


def _parameters() -> DataflowParameters:
    calm_min = IDLE_MIN + RAMP_MIN + PLATEAU_MIN
    rates = {
        minute: HIGH_PER_S if minute // WAVE_MIN % 2 else LOW_PER_S for minute in range(0, STORM_MIN, WAVE_MIN)
    } | {
        EPISODE_MIN - calm_min: IDLE * HIGH_PER_S,
        EPISODE_MIN - RAMP_MIN - PLATEAU_MIN: HIGH_PER_S / 2.0,
        EPISODE_MIN - PLATEAU_MIN - RAMP_MIN // 2: HIGH_PER_S,
    }
    phases = [{"from_s": 0, "per_s": LOW_PER_S}]
    phases += [{"from_s": WARM_S + MINUTE_S * minute, "per_s": per_s} for minute, per_s in sorted(rates.items())]
    worker = {"start": 4, "maximum": MOST, "buffer_records": 20_000}
    return DataflowParameters.model_validate(
        {
            "name": FLOW,
            "operators": {
                "lines": {"source": {"kind": "log", "phases": phases}, "cost_us": 5.0, "scalable": True, **worker},
                "split": {"inputs": ["lines"], "selectivity": 2.0, "cost_us": 110.0, **worker},
                "count": {"inputs": ["split"], "selectivity": 0.0, "cost_us": 70.0, "keyed": True, **worker},
            },
            "noise": {"speed": 0.01},
            "restart": {"standstill": {"median_s": 25, "spread": 0.2}},
        }
    )
