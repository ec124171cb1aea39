"""What must hold after each tick of a controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.storm.faults import KINDS
from benchmarks.storm.oracles.judge import SLEPT_S
from benchmarks.storm.oracles.rest import Rest
from benchmarks.storm.registry import BROKEN, champion_at
from perdix.control.fleet_report import FleetReport
from perdix.control.reconcile import Event
from perdix.control.state.journal import Status
from perdix.control.state.ledger import State
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.targets import KubernetesSettings

if TYPE_CHECKING:
    from perdix.control.champions import FleetChampions

FOUND_MIN = 18.0  # MLflow is asked again after a quarter of an hour at most
WELL = frozenset({Status.ACTING})
NOTED = {Event.APPLIED: State.APPLIED, Event.CONFIRMED: State.CONFIRMED}


class Ticks(Rest):
    """The oracles of ticks."""

    def ticked(self, report: FleetReport, auditor: StateStore, lasted_s: float) -> None:
        """Judge what a tick of one controller reported that ``lasted_s``.

        One that slept longer than leases last reports what was: others have decided and asked since.
        """
        weather, deployments = self._weather, self._world.deployments
        minute, slept = weather.minute, lasted_s >= SLEPT_S
        for name, tick in report.reports.items():
            if tick.decision is not None and self.remembers:
                made = (round(minute), tick.decision.scale_out, tick.decision.reason.value)
                self.decisions.setdefault(name, []).append(made)
            if tick.status in WELL:
                self._served_min[name] = minute
            runs = deployments[name].twin.scale_out
            self._kept(name, runs)
            pretended = weather.lying(name) or self._counts_unready(name, minute)
            if tick.event is Event.CONFIRMED and tick.running != runs and not slept and not pretended:
                self._tell("ledger", f"{name}: confirmed at {tick.running}, {runs} run")
            if tick.event in NOTED and not slept:
                desired = auditor.ledger.desired(name)
                state = None if desired is None else desired.decision.state
                if state is not NOTED[tick.event]:
                    self._tell("ledger", f"{name}: {tick.event.value} is reported, the ledger has {state}")
        standing = report.standing
        for name in deployments:
            status = standing.get(name)
            last = "no status" if status is None else f"{status.status.value}: {status.sentence}"
            self._served_again(name, last)

    def _counts_unready(self, name: str, minute: float) -> bool:
        """Whether a job's target may count pods that are not ready, in this tick or right before."""
        target = self._world.deployments[name].place.job.target
        return (isinstance(target, KubernetesSettings) and not target.ready) and any(
            fault.kind == "pods unready" and fault.where == name and fault.between(minute - 1.0, minute)
            for fault in self._weather.faults
        )

    def swallowed(self, report: FleetReport) -> None:
        """Find what a tick survived that should not have happened, while no store and no disk failed it."""
        for name, status in report.others.items():
            if status.status is Status.BROKEN:
                self._tell("no job breaks", f"{name}: {status.sentence}")
        for name, tick in report.reports.items():
            if tick.decision is not None and tick.decision.reason is Reason.HOLD_INVALID:
                self._tell("no job breaks", f"{name}: {tick.decision.sentence}")
        if report.faults:
            self._tell("no job breaks", f"{', '.join(report.faults)}: {'; '.join(report.notes)}")

    def believes(self, fleet: FleetChampions, report: FleetReport, began_s: float) -> None:
        """Judge what a controller believes after a tick that looked for the newest champion when it began."""
        began_min, minute = self._weather.minute_of(began_s), self._weather.minute
        ends = [
            min(fault.end_min, minute)
            for fault in self._weather.faults
            if KINDS[fault.kind].scope == "registry" and fault.from_min <= minute
        ]
        well_min = began_min - max(ends, default=0.0)
        newest = {champion_at(began_min), champion_at(minute)}
        if well_min > FOUND_MIN and fleet.version not in newest:
            found = f"version {fleet.version} is believed {well_min:.0f} minutes after MLflow was well"
            self._tell("the newest champion", f"{found}, {max(newest)} is champion")
        for name, tick in report.reports.items():
            row, made = fleet.rows.get(name), tick.forecast
            if row is not None and made is not None and made.version not in {0, row.version} and row.version < BROKEN:
                self._tell("the newest champion", f"{name} goes by version {made.version}, {row.version} is known")

    def raised(self, who: str, error: Exception) -> None:
        """Note that a tick of the whole fleet raised."""
        self._tell("the loop goes on", f"the tick of {who} raised {type(error).__name__}: {error}")

    def hung(self, who: str, seconds: float) -> None:
        """Note that a tick did not come to an end."""
        self._tell("the loop goes on", f"the tick of {who} took over {seconds:g} s of processor time")
