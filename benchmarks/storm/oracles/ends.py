"""What must hold at the end of an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.storm.climate import EXACT, LEARNED, MANY, MAXIMUM
from benchmarks.storm.oracles.operators import Operators
from benchmarks.storm.oracles.rest import Rest
from perdix.control.job_memory import recall
from perdix.control.reconcile import AVOID_S
from perdix.control.state.ledger import Entry, State
from perdix.control.state.store import StateStore
from perdix.models.recovery.observation import TIMEOUT_S
from perdix.policies.contract import Reason
from perdix.policies.planning.budget import Spent

if TYPE_CHECKING:
    from benchmarks.storm.deployment import Deployment
    from benchmarks.storm.world import Run


SLOTLESS_MIN = 10  # without slots, of which an error budget is overspent


class Ends(Operators, Rest):
    """The oracles of ends."""

    def ended(self, auditor: StateStore, calm: Run | None, alone: Mapping[str, Sequence[object]]) -> None:
        """Judge the whole episode.

        ``calm``: the run without faults.
        ``alone``: job -> decisions of that run, for the jobs that no fault concerned.
        """
        if self._world.flow is not None:
            self._flow_ended(self._world.flow, auditor, calm)
        for name, deployment in self._world.deployments.items():
            entries = auditor.ledger.decisions(name, limit=100_000)
            self._once_each(deployment)
            self._reported_truly(deployment, entries)
            self._turned_out(name, entries)
            self._rests(deployment, entries, calm)
            if calm is not None:
                self._ends_well(deployment, calm.ends[name])
                idle, least = self._world.idle.get(name, 0), calm.idle.get(name, MAXIMUM)
                limited = deployment.place.job.objectives.rescales_per_day < MANY
                waits = (
                    self._taught_to_wait(deployment)
                    or self.barred_below(entries)
                    or self._overspent_without_slots(deployment, auditor)
                )
                if idle > least + 1 and not limited and not waits:
                    self._tell("end state", f"{name}: {idle} workers run idle at last, {least} do without faults")
            for mine, theirs in zip(self.decisions.get(name, []), alone.get(name, ()), strict=False):
                if mine != theirs:
                    self._tell("isolation", f"{name}: {mine} where the run without faults has {theirs}")
                    break

    def _ends_well(self, deployment: Deployment, calm: int) -> None:
        """The size carries the load, and a policy without memory is within a worker of its run without faults."""
        twin, job = deployment.twin, deployment.place.job
        arrives = float(twin.arrivals(twin.now_s, 1)[0])
        enough = twin.true_capacity(twin.scale_out) >= arrives
        limited = job.objectives.rescales_per_day < MANY
        near = job.policy.name != EXACT or limited or abs(twin.scale_out - calm) <= 1  # noise decides between two
        if not (near and enough):  # a rescale may just be under way
            ended = f"{twin.scale_out} run of {deployment.asked} at the end, {calm} do without faults"
            self._tell("end state", f"{job.name} ({job.policy.name}): {ended}; {arrives:.0f}/s arrive")

    def _taught_to_wait(self, deployment: Deployment) -> bool:
        """Whether it learnt of an outage of minutes that a rescale brings, which dwarfs what fewer workers save."""
        job = deployment.place.job
        down = {fault.where for fault in self._weather.faults if fault.kind == "down after a rescale"}
        return job.policy.name in LEARNED and job.name in down

    def _overspent_without_slots(self, deployment: Deployment, auditor: StateStore) -> bool:
        """Whether slots were missing for so long that the error budget is overspent: then each late second is dear."""
        job, missed_min = deployment.place.job, 0
        for fault in self._weather.faults:
            missed_min += fault.minutes if (fault.kind, fault.where) == ("short of slots", job.name) else 0
        spent = Spent.of_memory(recall(auditor, job.name).memory.policy_memory)
        return missed_min >= SLOTLESS_MIN and spent.left(job.objectives.error_budget) < 0.0

    def barred_below(self, entries: Sequence[Entry]) -> bool:
        """Whether it went back from fewer workers, which are barred since: what faults left waiting took too long."""
        until_min, made = self._world.idle_until_min, [entry.intent for entry in entries]
        back = [
            intent for intent in made if intent.reason == Reason.ROLLBACK and intent.scale_out > intent.from_scale_out
        ]
        return any(0.0 <= until_min - self._weather.minute_of(intent.made_s) < AVOID_S / 60.0 for intent in back)

    def _reported_truly(self, deployment: Deployment, entries: Sequence[Entry]) -> None:
        self._noted(deployment, entries)
        name = deployment.place.job.name
        asked = {change.decision_id for change in deployment.changes}
        for entry in entries:
            if entry.state is State.CONFIRMED and entry.decision_id not in asked and not self._excused(deployment):
                self._tell("ledger", f"{name}: decision for {entry.intent.scale_out} is confirmed, nobody asked")

    def _excused(self, deployment: Deployment) -> bool:
        """Whether the world did itself what was decided, so that nobody had to ask."""
        name = deployment.place.job.name
        short = any(fault.kind == "short of slots" and fault.where == name for fault in self._weather.faults)
        return short or self._weather.lying(name, ever=True) or any(not change.by for change in deployment.changes)

    def _turned_out(self, name: str, entries: Sequence[Entry]) -> None:
        """A rescale that nothing followed must have an outcome: recovered, or given up."""
        rescales = [entry for entry in entries if entry.applied_s is not None]
        if not self._weather.faults:
            for entry in rescales:
                self._as_it_was(name, entry)
        if not rescales or self._weather.lying(name, ever=True):
            return
        latest = max(rescales, key=lambda entry: entry.applied_s or 0.0)
        age_s = self._weather.now_s - (latest.applied_s or 0.0)
        if latest.state is State.CONFIRMED and latest.outcome is None and age_s > TIMEOUT_S + 300.0:
            self._tell("ledger", f"{name}: {latest.intent.scale_out} confirmed {age_s:.0f} s ago, and no outcome")

    def _as_it_was(self, name: str, entry: Entry) -> None:
        """What a job's metrics showed of a restart is what it was, where nothing goes wrong: within a few scrapes.

        It may count as recovered while a little waits: where hardly more is carried than arrives, that may last.
        """
        twin, outcome = self._world.deployments[name].twin, entry.outcome or {}
        outages = [outage for outage in twin.outages if abs(outage.start_s - (entry.applied_s or 0.0)) < 60.0]
        true_s = twin.recovery_time_s(outages[0]) if len(outages) == 1 else None
        if true_s is None or not outcome.get("recovered"):
            return
        down_s = outages[0].end_s - outages[0].start_s
        off_s = abs(outcome.get("downtime_s", down_s) - down_s)
        if off_s > 30.0 or outcome.get("recovery_s", true_s) - true_s > max(60.0, 0.2 * true_s):
            self._tell("ledger", f"{name}: {dict(outcome)} of a restart of {down_s} s, recovered after {true_s} s")
