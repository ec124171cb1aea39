"""What must hold of each request of a controller, when it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.storm.faults import DOUBTFUL, Fault
from benchmarks.storm.oracles.judge import AGO_MIN, Judge
from perdix.control.state.ledger import Entry, State
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.stream_job import StreamJob
from perdix.telemetry import metrics

if TYPE_CHECKING:
    from benchmarks.storm.deployment import Deployment

BLIND_MIN = 2  # for so long metrics may be missing before a decision must know
OLD_MIN = 1.0  # what is older, or further ahead, is nothing to decide on: four scrapes


class Requests(Judge):
    """The oracles of requests."""

    def asked(
        self, deployment: Deployment, job: StreamJob, request: tuple[int, str], by: str, auditor: StateStore
    ) -> str:
        """Judge a request (workers and key) when it arrives; return the decision that it carries out.

        ``job``: as the tick that asks was given it.
        """
        scale_out, key = request
        if job.mode != "act":
            self._tell("bounds", f"{job.name} was asked for {scale_out}, and its file only wants advice")
        if job.paused_until is not None:
            self._tell("bounds", f"{job.name} was asked for {scale_out} while its file pauses it")
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

    def _harmful(self, deployment: Deployment, entry: Entry, known_s: Sequence[float], how: str, on: str) -> None:
        twin, to = deployment.twin, entry.intent.scale_out
        # A request may leave minutes after its decision, when more arrives: what metrics said then is judged.
        arrives = min(float(twin.arrivals(int(at_s), 1)[0]) for at_s in (*known_s, twin.now_s))
        if twin.true_capacity(to) < 0.9 * arrives:
            scaled = f"{entry.intent.job}: {entry.intent.from_scale_out} -> {to} while {arrives:.0f}/s arrive"
            self._tell(f"no scale-in {how}", f"{scaled}, on {on}")


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
