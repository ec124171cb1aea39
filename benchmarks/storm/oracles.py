"""What must hold whatever happens: checked after each step of an episode, and at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.storm.climate import EXACT, LEARNED, MANY, MAXIMUM
from benchmarks.storm.faults import DOUBTFUL, KINDS, Fault
from benchmarks.storm.flow import FLOW, Flow, Mix
from benchmarks.storm.registry import BROKEN, champion_at
from benchmarks.storm.weather import LYING
from perdix.control.fleet_report import FleetReport
from perdix.control.operators.at_a_look import agrees
from perdix.control.operators.look import Look
from perdix.control.operators.naming import on_record
from perdix.control.reconcile import Event
from perdix.control.state.journal import Status
from perdix.control.state.ledger import Entry, State
from perdix.control.state.store import StateStore
from perdix.models.recovery.observation import TIMEOUT_S
from perdix.policies.contract import Reason
from perdix.settings.stream_job import StreamJob
from perdix.settings.targets import KubernetesSettings
from perdix.telemetry import metrics

if TYPE_CHECKING:
    from benchmarks.storm.deployment import Deployment
    from benchmarks.storm.world import Run, World
    from perdix.control.champions import FleetChampions

SERVED_MIN = 3
BLIND_MIN = 2  # for so long metrics may be missing before a decision must know
AGO_MIN = 5  # what arrived in them may still be what a decision goes by
OLD_MIN = 1.0  # what is older, or further ahead, is nothing to decide on: four scrapes
FOUND_MIN = 18.0  # MLflow is asked again after a quarter of an hour at most
WARM_UP_S = 120.0  # after which a job that was redeployed is sized again
SLEPT_S = 45.0  # a little less than a lease lasts
WELL = frozenset({Status.ACTING})
NOTED = {Event.APPLIED: State.APPLIED, Event.CONFIRMED: State.CONFIRMED}


@dataclass(frozen=True)
class Violation:
    """An oracle that did not hold."""

    oracle: str
    minute: float
    sentence: str


class Watch:
    """The oracles of one episode; ``found`` has what did not hold. ``remembers``: every decision, to compare them."""

    def __init__(self, world: World) -> None:
        self._world, self._weather = world, world.weather
        self.found: list[Violation] = []
        self.remembers = True
        self.decisions: dict[str, list[tuple[int, int, str]]] = {}
        self._served_min: dict[str, float] = {}
        self._made_s: dict[str, float] = {}  # of decisions that were asked for: when they were made, whatever its clock

    # ---- at each request -------------------------------------------------------------------------------------------

    def asked(
        self, deployment: Deployment, job: StreamJob, request: tuple[int, str], by: str, auditor: StateStore
    ) -> str:
        """Judge a request (workers and key) when it arrives; return the decision that it carries out.

        ``job``: as the tick that asks was given it.
        """
        scale_out, key = request
        if job.mode != "act":
            self._tell("bounds", f"{job.name} was asked for {scale_out}, and its file only wants advice")
        if not job.bounds.minimum <= scale_out <= job.bounds.maximum:
            self._tell("bounds", f"{job.name} was asked for {scale_out}, outside {job.bounds}")
        desired = auditor.ledger.desired(job.name)
        if desired is None or desired.scale_out != scale_out:
            wanted = "nothing" if desired is None else str(desired.scale_out)
            self._tell("ledger", f"{by} asked {job.name} for {scale_out}, the ledger wants {wanted}")
            return ""
        entry = desired.decision
        if key and key != entry.decision_id:
            self._tell("one rescale per decision", f"{by} asked {job.name} with the key {key}, not the decision's")
        if entry.state is not State.INTENT:
            self._tell("ledger", f"{by} asked {job.name} for a decision that is {entry.state}")
        self._beyond_the_day(deployment, job, entry)
        self._blind_scale_in(deployment, entry)
        if job.bounds == deployment.place.job.bounds:
            self._below_the_load(deployment, entry)
        return entry.decision_id

    def _beyond_the_day(self, deployment: Deployment, job: StreamJob, entry: Entry) -> None:
        """Find a scale-in after as many rescales as a day has; with other clocks, it may be another day."""
        most, intent = job.objectives.rescales_per_day, entry.intent
        made = {change.decision_id for change in deployment.changes if change.by} - {entry.decision_id}
        stepped = any(fault.kind == "clock step" for fault in self._weather.faults)
        if (
            intent.scale_out < intent.from_scale_out
            and intent.reason != Reason.ROLLBACK
            and len(made) >= most
            and not stepped
        ):
            self._tell("rescales per day", f"{job.name} was asked for {intent.scale_out} after {len(made)} of {most}")

    def _blind_scale_in(self, deployment: Deployment, entry: Entry) -> None:
        intent = entry.intent
        if intent.scale_out >= intent.from_scale_out or intent.reason == Reason.ROLLBACK:
            return
        weather = self._weather
        true_s = self._made_s.setdefault(entry.decision_id, weather.true_s(intent.made_s))
        minute, clock_min = weather.minute_of(true_s), weather.minute_of(intent.made_s)
        for fault in weather.faults:
            if fault.where != intent.job or not fault.during(minute):
                continue
            if unseen(fault, minute, clock_min):
                scaled = f"{intent.job}: {intent.from_scale_out} -> {intent.scale_out}"
                self._tell("no scale-in on missing data", f"{scaled}, on {fault.kind} {fault.what} {fault.amount:g}")
            if fault.kind in DOUBTFUL and clock_min >= fault.from_min:
                what = f"{fault.kind} {fault.what} {fault.amount:g}"
                self._harmful(deployment, entry, (true_s, min(intent.made_s, true_s)), "on doubtful data", what)

    def _below_the_load(self, deployment: Deployment, entry: Entry) -> None:
        """Find a scale-in below what arrived recently, where all that a controller knows of the job is true."""
        intent = entry.intent
        if (
            intent.scale_out < intent.from_scale_out
            and intent.reason != Reason.ROLLBACK
            and not self._misled(intent.job, intent.made_s)
        ):
            ago_s = (intent.made_s - 60.0 * minutes for minutes in range(AGO_MIN + 1))
            self._harmful(deployment, entry, tuple(ago_s), "below the load", "nothing that is false")

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

    def _harmful(self, deployment: Deployment, entry: Entry, known_s: Sequence[float], how: str, on: str) -> None:
        twin, to = deployment.twin, entry.intent.scale_out
        # A request may leave minutes after its decision, when more arrives: what metrics said then is judged.
        arrives = min(float(twin.arrivals(int(at_s), 1)[0]) for at_s in (*known_s, twin.now_s))
        if twin.true_capacity(to) < 0.9 * arrives:
            scaled = f"{entry.intent.job}: {entry.intent.from_scale_out} -> {to} while {arrives:.0f}/s arrive"
            self._tell(f"no scale-in {how}", f"{scaled}, on {on}")

    # ---- after each tick -------------------------------------------------------------------------------------------

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
            pretended = weather.lying(name) or self._counts_unready(name, minute)
            if tick.event is Event.CONFIRMED and tick.running != runs and not slept and not pretended:
                self._tell("ledger", f"{name}: confirmed at {tick.running}, {runs} run")
            if tick.event in NOTED and not slept:
                desired = auditor.ledger.desired(name)
                state = None if desired is None else desired.decision.state
                if state is not NOTED[tick.event]:
                    self._tell("ledger", f"{name}: {tick.event.value} is reported, the ledger has {state}")
        for name in deployments:
            status = report.statuses.get(name)
            last = "no status" if status is None else f"{status.status.value}: {status.sentence}"
            self._served_again(name, last)

    def _served_again(self, name: str, last: str) -> None:
        """Find a job that was not served for long although nothing has gone wrong since; ``last``: what was said."""
        minute = self._weather.minute
        unserved_min = minute - max(self._served_min.get(name, 0.0), self._weather.quiet_since_min(name))
        if unserved_min > SERVED_MIN:
            self._tell("served again", f"{name} was not served for {unserved_min:.0f} quiet minutes ({last})")

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

    # ---- of loops that size operators ------------------------------------------------------------------------------

    def asked_operators(self, flow: Flow, job: StreamJob, wanted: Mix, by: str, auditor: StateStore) -> str:
        """Judge what a loop asks for (of every operator) when it arrives; return the decision that it carries out."""
        desired = auditor.ledger.desired(on_record(job.name))
        if desired is None or not agrees(wanted, desired.mix):
            self._tell("ledger", f"{by} asked for {wanted}, the ledger wants {desired and desired.mix}")
            return ""
        others = {name: count for name, count in flow.asked.items() if name not in desired.mix}
        if not agrees(wanted, others) and not self._weather.lying(job.name):
            self._tell("ledger", f"{by} asked for {wanted} where only {desired.mix} was decided")
        if any(not job.bounds.minimum <= count <= job.bounds.maximum for count in desired.mix.values()):
            self._tell("bounds", f"{by} asked for {dict(desired.mix)}, outside {job.bounds}")
        if desired.decision.state is not State.INTENT:
            self._tell("ledger", f"{by} asked for a decision that is {desired.decision.state}")
        intent, fewer = desired.decision.intent, {name: n for name, n in wanted.items() if n < flow.asked[name]}
        if (
            job.bounds == flow.place.job.bounds
            and intent.reason != Reason.ROLLBACK
            and not self._misled(job.name, intent.made_s)
        ):
            can_per_s, arrive_per_s = flow.carries(fewer), flow.arrived_least(intent.made_s - 60.0 * AGO_MIN)
            if can_per_s < 0.9 * arrive_per_s:
                scaled = f"{by} asked for {fewer} of {flow.asked}, which carry {can_per_s:.0f}/s"
                self._tell("no scale-in below the load", f"{scaled}, while {arrive_per_s:.0f}/s arrive")
        return desired.decision.decision_id

    def looked(self, flow: Flow, look: Look, auditor: StateStore, lasted_s: float) -> None:
        """Judge what a look of one loop reported that ``lasted_s``."""
        weather, minute = self._weather, self._weather.minute
        if look.decision is not None or (look.waits and not flow.runs_since(weather.now_s - WARM_UP_S)):
            self._served_min[FLOW] = minute
        if look.decision is not None and look.decision.reason is Reason.HOLD_INVALID:
            self._tell("no job breaks", f"{FLOW}: {look.decision.sentence}")
        if look.done and lasted_s < SLEPT_S:
            desired = auditor.ledger.desired(on_record(FLOW))
            if desired is None or desired.decision.applied_s is None:
                self._tell("ledger", f"Flink was asked for {look.changes}, the ledger has {desired}")
        self._served_again(FLOW, str(look.problem))

    def _flow_ended(self, flow: Flow, auditor: StateStore, calm: Run | None) -> None:
        """The operators carry the plateau, few enough of them were idle, and the ledger has it all."""
        if calm is not None and not flow.keeps_up:
            ended = f"{dict(flow.twin.parallelism)} run of {flow.asked}, {calm.ends[FLOW]} in all without faults"
            self._tell("end state", f"{FLOW}: {ended}; {dict(flow.twin.lag_records)} wait")
        if calm is not None and self._world.idle.get(FLOW, 0) > calm.idle.get(FLOW, 3 * MAXIMUM) + 2:
            self._tell("end state", f"{FLOW}: {self._world.idle[FLOW]} run idle, {calm.idle[FLOW]} without faults")
        self._once_each(flow)
        self._noted(flow, auditor.ledger.decisions(on_record(FLOW), limit=100_000))

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

    # ---- at the end ------------------------------------------------------------------------------------------------

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
            if calm is not None:
                self._ends_well(deployment, calm.ends[name])
                idle, least = self._world.idle.get(name, 0), calm.idle.get(name, MAXIMUM)
                limited = deployment.place.job.objectives.rescales_per_day < MANY
                if idle > least + 1 and not limited and not self._taught_to_wait(deployment):
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

    def _tell(self, oracle: str, sentence: str) -> None:
        self.found.append(Violation(oracle, round(self._weather.minute, 2), sentence))


def unseen(fault: Fault, minute: float, clock_min: float) -> bool:
    """Whether too little is seen to decide on at a minute; ``clock_min`` is what the reader's clock says.

    A clock that is behind takes old samples for new ones, and one that is ahead those of the future for present ones.
    """
    behind_min, since_min = minute - clock_min, minute - fault.from_min
    if since_min < BLIND_MIN:
        return False
    match fault.kind:
        case "no metrics":
            return True
        case "prometheus status" | "prometheus garbage":
            return True
        case "query refused":
            return fault.what == metrics.WORKLOAD.name
        case "stale metrics":
            return since_min - max(behind_min, 0.0) >= BLIND_MIN
        case "late metrics":
            return fault.amount / 60.0 - max(behind_min, 0.0) >= OLD_MIN
        case "metrics ahead":
            return fault.amount / 60.0 + min(behind_min, 0.0) >= OLD_MIN
    return False
