"""A twin and what surrounds it: who asked for how much, how much of that its cluster delivers, and what is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from benchmarks.storm.climate import START_S, STEP_S, WARM_S, Place
from benchmarks.storm.faults import Fault
from benchmarks.storm.pods import Pods
from perdix.twin.job import JobTwin

KEPT = 40
S = TypeVar("S")
BURST_S = 15  # a job that is held down crashes so often


@dataclass(frozen=True)
class Change(Generic[S]):
    """Other workers were asked for, or instances: by a controller, or (``by`` is empty) by the world."""

    to: S
    by: str = ""
    decision_id: str = ""


@dataclass(frozen=True)
class State:
    """What a target can tell of itself."""

    running: int
    asked: int
    settled: bool
    slots: int
    version: int
    made: int  # pods that exist


@dataclass
class Shown(Generic[S]):
    """What a target's server showed, so that a stale read can show it again."""

    _states: list[tuple[float, S]] = field(default_factory=list)

    def note(self, now_s: float, state: S) -> None:
        """Keep a state where it differs from the one before."""
        if not self._states or self._states[-1][1] != state:
            self._states = [*self._states[-KEPT:], (now_s, state)]

    def at(self, until_s: float) -> S | None:
        """Return the state of then; ``None`` where that is not known any more."""
        return next((state for at_s, state in reversed(self._states) if at_s <= until_s), None)

    def read(self, now_s: float, stale: Fault | None) -> S:
        """Return the newest state, or the one of this many minutes ago as the fault has."""
        then = self.at(now_s if stale is None else now_s - 60.0 * stale.amount)
        return self._states[0][1] if then is None else then


@dataclass
class Deployment:
    """One job's world. ``active`` finds a fault of this job that goes on now."""

    place: Place
    active: Callable[[str], Fault | None]
    twin: JobTwin = field(init=False)
    asked: int = field(init=False)
    pods: Pods = field(init=False)
    version: int = 1
    changes: list[Change[int]] = field(default_factory=list)
    _shown: Shown[State] = field(default_factory=Shown)
    _cursed: int | None = None
    _done: set[Fault] = field(default_factory=set)
    keys: dict[str, int] = field(default_factory=dict)
    checkpoints: int = 0  # that were asked for
    _late: list[tuple[float, Change[int]]] = field(default_factory=list)  # accepted, and when it is carried out

    def __post_init__(self) -> None:
        parameters = self.place.parameters()
        arrivals = self.place.load.arrivals()
        self.twin = JobTwin(parameters, self.place.seed, start_s=START_S - WARM_S, arrivals=arrivals, step_s=STEP_S)
        self.twin.step(WARM_S)
        self.asked = self.twin.scale_out
        self.pods = Pods(self.place.job.target, self.active, self.asked)

    @property
    def maximum(self) -> int:
        """Workers that its cluster has at most."""
        return self.twin.parameters.workers.maximum

    def catch_up(self, now_s: float) -> None:
        """Let the twin live up to now, and let the cluster deliver what it can."""
        while self.twin.now_s + STEP_S <= now_s:
            self._once(now_s)
            self._carry_out_until(self.twin.now_s)
            self._deliver()
            self._curse()
            whole_s = int(now_s - self.twin.now_s) // STEP_S * STEP_S
            self.twin.step(min(whole_s, BURST_S if self._cursed is not None else whole_s))
        self._once(now_s)
        self._carry_out_until(now_s)
        self._deliver()
        if len(self.twin.history) > 4 * 720:
            self.twin.history.discard_before(self.twin.now_s - 7_200)
        self._shown.note(now_s, self._state())

    def reported(self, now_s: float) -> State:
        """Return what the target says, which may be old."""
        self.catch_up(now_s)
        return self._shown.read(now_s, self.active("stale read"))

    def ask(self, now_s: float, scale_out: int, by: str, decision_id: str) -> None:
        self.catch_up(now_s)
        if self.active("forgotten write") is not None:
            return
        late = self.active("late write")
        self._late.append((now_s + (0.0 if late is None else 60.0 * late.amount), Change(scale_out, by, decision_id)))
        self._carry_out_until(now_s)

    def _carry_out_until(self, now_s: float) -> None:
        """Carry out what was accepted, in its order, up to the last that is due."""
        due = max((at for at, (due_s, _) in enumerate(self._late, 1) if due_s <= now_s), default=0)
        for _, change in self._late[:due]:
            self._wanted(change.to, change.by, change.decision_id)
        del self._late[:due]

    def _wanted(self, scale_out: int, by: str = "", decision_id: str = "") -> None:
        if scale_out != self.asked:
            self.asked = scale_out
            self.version += 1
            self.changes.append(Change(scale_out, by, decision_id))
            self._deliver()

    def _state(self) -> State:
        settled = self.twin.settled and self.twin.requested == self._deliverable()
        runs = self.twin.scale_out
        return State(runs, self.asked, settled, self._slots(), self.version, self.pods.made(self.asked, runs))

    def _slots(self) -> int:
        short = self.active("short of slots")
        return self.maximum if short is None else int(short.amount)

    def _deliverable(self) -> int:
        return min(self.asked, self._slots(), self.pods.ready(self.asked, self.twin.now_s))

    def _deliver(self) -> None:
        wanted = self._deliverable()
        if wanted == self.twin.requested or self.active("never settles") is not None:
            return
        self.twin.rescale(wanted, f"{self.version}:{self.twin.now_s}:{wanted}")
        if self.active("down after a rescale") is not None and self._cursed is None:
            self._cursed = self.asked

    def _curse(self) -> None:
        if self._cursed is None:
            return
        if self._cursed != self.asked or self.active("down after a rescale") is None:
            self._cursed = None
            return
        self.twin.fail()

    def _once(self, now_s: float) -> None:
        """Do what happens once: a worker is lost, somebody scales by hand, the target forgets."""
        for kind in ("worker lost", "by hand", "forgets"):
            fault = self.active(kind)
            if fault is None or fault in self._done:
                continue
            self._done.add(fault)
            if kind == "worker lost" and self.twin.settled:
                self.twin.fail()
            elif kind == "by hand":
                self._wanted(min(int(fault.amount), self.place.job.bounds.maximum))
            elif kind == "forgets":
                before = self._shown.at(now_s - 60.0 * fault.amount)
                if before is not None:
                    self._wanted(before.asked)
