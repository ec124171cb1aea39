"""What the loop remembers of a job from tick to tick: rebuilt from the state store's documents, and written back.

A document that cannot be used is reported and started afresh; it never stops the tick.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from control.decide import Avoided
from control.state import StateStore
from control.state_learned import Kind, Learned
from control.watching import Watching
from models.capacity.scale_outs import ScaleOuts
from models.drift import DriftState
from models.forecasting.contract import Workload
from models.forecasting.forecaster import Forecaster, forecaster_from_state
from models.forecasting.tail import Tail
from models.recovery.downtime import Downtimes
from models.recovery.normal import Normal

WORKLOAD = Kind("workload")
CHAMPION = Kind("forecaster")
FALLBACK = Kind("fallback")
CAPACITY = Kind("capacity")
DOWNTIMES = Kind("downtimes")
DRIFT = Kind("drift")
NORMAL = Kind("normal")
WATCHING = Kind("watching")
POLICY = Kind("policy")
AVOIDED = Kind("avoided")
KINDS = (WORKLOAD, CHAMPION, FALLBACK, CAPACITY, DOWNTIMES, DRIFT, NORMAL, WATCHING, POLICY, AVOIDED)

UNSTORED_S = 1_200.0  # the newest part of a forecaster's tail that is rebuilt from the workload instead

Part = TypeVar("Part")
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Adopted:
    """A champion forecaster as it stands after its updates, and the version it came from."""

    forecaster: Forecaster
    version: int


def history_of(tail: Tail, seconds: float = math.inf) -> Workload:
    """Return the newest ``seconds`` of a tail as a history, in whole cells."""
    recent = tail.cut(seconds)
    whole = int(np.floor((recent.end_s - recent.start_s) / recent.cell_s + 1e-6))
    return Workload(recent.start_s, recent.cell_s, recent.per_s[:whole])


@dataclass(frozen=True)
class JobMemory:
    """Immutable; each step of the tick returns another one.

    Attributes
    ----------
    workload
        The truth that forecasts are judged by, and the history that a new forecaster starts from.
    fallback
        The linear fallback, and when its spread was last measured (epoch seconds).
    capacity_version
        The champion that the capacity model has taken in; 0 when none.
    drift, wape, scored_until_s
        Whether the champion is trusted; the WAPE that last said so (1.0 = 100 %); and the origin (epoch seconds) of the
        newest forecast that was scored.
    policy
        Name of the policy that asked for :attr:`policy_memory`.
    """

    workload: Tail | None = None
    champion: Adopted | None = None
    fallback: tuple[Forecaster, float] | None = None
    capacity: ScaleOuts = field(default_factory=ScaleOuts)
    capacity_version: int = 0
    downtimes: Downtimes = field(default_factory=Downtimes)
    drift: DriftState = field(default_factory=DriftState.untried)
    wape: float | None = None
    scored_until_s: float = 0.0
    normal: Normal = field(default_factory=Normal)
    watching: Watching | None = None
    policy: str = ""
    policy_memory: Mapping[str, Any] = field(default_factory=dict)
    avoided: tuple[Avoided, ...] = ()

    @property
    def newest_s(self) -> float | None:
        """End of what earlier ticks have seen, epoch seconds."""
        return None if self.workload is None else self.workload.end_s


def recall(store: StateStore, job: str) -> tuple[JobMemory, tuple[str, ...], Mapping[str, Document]]:
    """Return what is remembered, what could not be used (in words), and the documents as they are stored."""
    found = store.learned.recall(job, *KINDS)
    notes: list[str] = [item.note for item in found.values() if item.note]
    read = _Reader(found, notes)
    capacity = read.part(CAPACITY, lambda document: (ScaleOuts.from_state(document["state"]), document["version"]))
    drift = read.part(DRIFT, _drift) or (DriftState.untried(), None, 0.0)
    policy = found[POLICY.name].document or {}
    workload = read.part(WORKLOAD, Tail.from_state)

    def forecaster(document: Document) -> Forecaster:
        stored = forecaster_from_state(document["state"])
        return stored if workload is None else stored.update(history_of(workload))

    memory = JobMemory(
        workload=workload,
        champion=read.part(CHAMPION, lambda item: Adopted(forecaster(item), int(item["version"]))),
        fallback=read.part(FALLBACK, lambda item: (forecaster(item), float(item["measured_s"]))),
        capacity=capacity[0] if capacity else ScaleOuts(),
        capacity_version=int(capacity[1]) if capacity else 0,
        downtimes=read.part(DOWNTIMES, Downtimes.from_state) or Downtimes(),
        drift=drift[0],
        wape=drift[1],
        scored_until_s=drift[2],
        normal=read.part(NORMAL, Normal.from_state) or Normal(),
        watching=read.part(WATCHING, Watching.from_state),
        policy=str(policy.get("name", "")),
        policy_memory=policy.get("memory", {}),
        avoided=read.part(AVOIDED, _avoided) or (),
    )
    documents = {name: item.document for name, item in found.items() if item.document is not None}
    return memory, tuple(notes), documents


def changed(memory: JobMemory, before: Mapping[str, Document]) -> dict[Kind, Document]:
    """Return the documents of ``memory`` that differ from those stored.

    Forecasters are large, and their newest part is the workload's: they are stored anew every 20 minutes only.
    """
    documents: dict[Kind, Document] = {
        CAPACITY: {"version": memory.capacity_version, "state": memory.capacity.to_state()},
        DOWNTIMES: memory.downtimes.to_state(),
        DRIFT: {"state": memory.drift.to_state(), "wape": memory.wape, "scored_until_s": memory.scored_until_s},
        NORMAL: memory.normal.to_state(),
        WATCHING: {} if memory.watching is None else memory.watching.to_state(),
        POLICY: {"name": memory.policy, "memory": dict(memory.policy_memory)},
        AVOIDED: {"sizes": [item.to_state() for item in memory.avoided]},
    }
    if memory.workload is not None:
        documents[WORKLOAD] = memory.workload.to_state()
    now_s = memory.newest_s or 0.0
    champion, fallback = memory.champion, memory.fallback
    if champion is not None and _due(before.get(CHAMPION.name), "version", champion.version, now_s):
        state = champion.forecaster.to_state()
        documents[CHAMPION] = {"version": champion.version, "stored_s": now_s, "state": state}
    elif champion is None:
        documents[CHAMPION] = {}
    if fallback is not None and _due(before.get(FALLBACK.name), "measured_s", fallback[1], now_s):
        documents[FALLBACK] = {"measured_s": fallback[1], "stored_s": now_s, "state": fallback[0].to_state()}
    return {kind: document for kind, document in documents.items() if before.get(kind.name, {}) != document}


def _due(stored: Document | None, key: str, value: float, now_s: float) -> bool:
    return not stored or stored.get(key) != value or now_s - stored.get("stored_s", 0.0) > UNSTORED_S


@dataclass(frozen=True)
class _Reader:
    found: Mapping[str, Learned]
    notes: list[str]

    def part(self, kind: Kind, build: Callable[[Document], Part]) -> Part | None:
        document = self.found[kind.name].document
        if not document:
            return None
        try:
            return build(document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.notes.append(f"'{kind.name}' is stored but cannot be used ({error}); starting afresh")
            return None


def _drift(document: Document) -> tuple[DriftState, float | None, float]:
    return DriftState.from_state(document["state"]), document["wape"], float(document["scored_until_s"])


def _avoided(document: Document) -> tuple[Avoided, ...]:
    sizes: Sequence[Document] = document["sizes"]
    return tuple(Avoided.from_state(item) for item in sizes)
