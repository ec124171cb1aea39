"""What must hold of loops that size operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.storm.climate import MAXIMUM
from benchmarks.storm.flow import FLOW, Flow, Mix
from benchmarks.storm.oracles.judge import AGO_MIN, SLEPT_S, Judge
from perdix.control.operators.at_a_look import agrees
from perdix.control.operators.look import Look
from perdix.control.operators.naming import on_record
from perdix.control.state.ledger import State
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.stream_job import StreamJob

if TYPE_CHECKING:
    from benchmarks.storm.world import Run

WARM_UP_S = 120.0  # after which a job that was redeployed is sized again


class Operators(Judge):
    """The oracles of operators."""

    def asked_operators(self, flow: Flow, job: StreamJob, wanted: Mix, by: str, auditor: StateStore) -> str:
        """Judge what a loop asks for (of every operator) when it arrives; return the decision that it carries out."""
        if job.paused_until is not None:
            self._tell("bounds", f"{by} asked for {wanted} while the job's file pauses it")
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
