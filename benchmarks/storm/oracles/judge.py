"""What all oracles share: what they found, and what could mislead a controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.storm.faults import KINDS
from benchmarks.storm.flow import Flow
from benchmarks.storm.weather import LYING, quiet_since
from perdix.control.state.ledger import Entry

if TYPE_CHECKING:
    from benchmarks.storm.deployment import Deployment
    from benchmarks.storm.world import World

SERVED_MIN = 3
AGO_MIN = 5  # what arrived in them may still be what a decision goes by
SLEPT_S = 45.0  # a little less than a lease lasts


@dataclass(frozen=True)
class Violation:
    """An oracle that did not hold."""

    oracle: str
    minute: float
    sentence: str


class Judge:
    """The judge of one episode; ``found`` has what did not hold. ``remembers``: every decision, to compare them."""

    def __init__(self, world: World) -> None:
        self._world, self._weather = world, world.weather
        self.found: list[Violation] = []
        self.remembers = True
        self.decisions: dict[str, list[tuple[int, int, str]]] = {}
        self._ran: dict[str, list[int]] = {}  # workers after each tick of a day's quiet hours
        self._served_min: dict[str, float] = {}
        self._made_s: dict[str, float] = {}  # of decisions that were asked for: when they were made, whatever its clock

    def _misled(self, job: str, at_s: float) -> bool:
        """Whether something that a controller knew of a job at that time may have been false."""
        weather = self._weather
        minute = weather.minute_of(at_s)
        return any(
            fault.kind == "clock step"
            or (
                fault.where == job
                and (fault.kind in LYING or KINDS[fault.kind].scope == "metrics")
                and fault.between(minute - AGO_MIN, weather.minute)
            )
            for fault in weather.faults
        )

    def _served_again(self, name: str, last: str) -> None:
        """Find a job that was not served for long although nothing has gone wrong since; ``last``: what was said."""
        minute = self._weather.minute
        quiet_min = quiet_since(self._weather.faults, name, minute)
        unserved_min = minute - max(self._served_min.get(name, 0.0), quiet_min)
        if unserved_min > SERVED_MIN:
            self._tell("served again", f"{name} was not served for {unserved_min:.0f} quiet minutes ({last})")

    def _once_each(self, deployment: Deployment | Flow) -> None:
        seen: set[str] = set()
        for change in deployment.changes:
            if not change.by:
                seen.clear()  # the world undid it: it may be asked for again
                continue
            if change.decision_id in seen:
                name = deployment.place.job.name
                self._tell("one rescale per decision", f"{name}: decision {change.decision_id} rescaled twice")
            seen.add(change.decision_id)

    def _noted(self, deployment: Deployment | Flow, entries: Sequence[Entry]) -> None:
        """Whatever a controller asked for is in the ledger, as applied."""
        by_id = {entry.decision_id: entry for entry in entries}
        name = deployment.place.job.name
        for change in deployment.changes:
            entry = by_id.get(change.decision_id)
            if change.by and (entry is None or entry.applied_s is None) and not self._weather.lying(name, ever=True):
                state = "unknown" if entry is None else entry.state.value
                self._tell("ledger", f"{name} was scaled to {change.to}; its decision is {state}, never applied")

    def _tell(self, oracle: str, sentence: str) -> None:
        self.found.append(Violation(oracle, round(self._weather.minute, 2), sentence))
