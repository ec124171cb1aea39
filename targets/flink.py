"""A job of Apache Flink (1.18 or newer, adaptive scheduler), scaled in place through the JobManager's REST API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from settings.targets import FlinkSettings
from targets.contract import Connected, Fault, Guard, Running, TargetError, unguarded
from targets.flink_answers import OVER, Accepted, Job, Overview, Requirements, Slots, Summary, gist
from targets.flink_dataflow import DataflowReading, read_dataflow
from targets.http import TIMEOUT_S, HttpTarget, RefusedError
from targets.idempotency import Keys

ADAPTIVE = (
    "only the adaptive scheduler rescales in place; set 'jobmanager.scheduler: adaptive' (and not 'scheduler-mode: "
    "reactive': such a job follows its TaskManagers, so scale those)"
)


class FlinkTarget(Connected):
    """Asks for parallelism, and reads back what is really running.

    A rescale takes three steps in Flink: the resource requirements are put, the next checkpoint completes, and the job
    is redeployed. ``settled`` is False until the last one has ended. Where slots are missing, Flink runs what it can:
    that counts as settled, with less than was requested.

    Parameters
    ----------
    settings
        Where the cluster is, and which of its jobs.
    job
        The stream job; its name is that of the Flink job where the settings name no other.
    timeout_s
        Seconds that each of connecting, sending and reading may take.
    """

    def __init__(self, settings: FlinkSettings, job: str, timeout_s: float = TIMEOUT_S) -> None:
        self._flink = HttpTarget(settings, "Flink", gist, timeout_s)
        self._name = settings.job_name or job
        self._checkpoint = settings.checkpoint
        self._keys = Keys()

    def read(self) -> Running:
        """Return the largest parallelism that really runs, and the largest that was asked for."""
        job = self._job()
        return self._running(job, self._requirements(job.jid))

    def operators(self) -> Mapping[str, int]:
        """Return vertex name -> subtasks that really run."""
        job = self._job()
        return {job.names[vertex.id]: vertex.parallelism for vertex in job.vertices}

    def read_dataflow(self) -> DataflowReading:
        """Return what feeds what, what every subtask has done so far, and how many slots the job may use."""
        job = self._job()
        settled = self._running(job, self._requirements(job.jid)).settled
        return read_dataflow(self._flink, job, slots=self._slots_for(job), settled=settled)

    def scale(
        self,
        scale_out: int,
        idempotency_key: str,
        mix: Mapping[str, int] | None = None,
        guard: Guard = unguarded,
    ) -> Running:
        """Ask for ``scale_out`` subtasks of every vertex, or as many as it can have at most."""
        if mix:
            told = "Flink's REST API knows no sizes of TaskManagers; leave out 'sizes'"
            raise TargetError(told, retriable=False, fault=Fault.LASTING)
        _refuse_below_one(scale_out)
        job = self._job()
        if not self._keys.may_be_sent(idempotency_key, scale_out):
            return self._running(job, self._requirements(job.jid))
        most = max((vertex.max_parallelism for vertex in job.vertices), default=scale_out)
        if scale_out > most:
            raise TargetError(
                f"{self._flink.address}: job '{self._name}' has a maximum parallelism of {most}, asked was {scale_out};"
                " lower the bounds of the stream job",
                retriable=False,
            )
        wanted = {vertex.id: min(scale_out, vertex.max_parallelism) for vertex in job.vertices}
        return self._ask(job, wanted, guard)

    def scale_operators(self, parallelism: Mapping[str, int], idempotency_key: str) -> Running:
        """Ask for the parallelism of single operators, as DS2 decides it; the others stay as they are.

        Parameters
        ----------
        parallelism
            Vertex (as :meth:`operators` calls it) -> subtasks.
        """
        for wanted in parallelism.values():
            _refuse_below_one(wanted)
        job = self._job()
        ids = {name: vertex for vertex, name in job.names.items()}
        if unknown := sorted(set(parallelism) - set(ids)):
            raise TargetError(
                f"{self._flink.address}: job '{self._name}' has no operator '{unknown[0]}'; it has {', '.join(ids)}",
                retriable=False,
                fault=Fault.LASTING,
            )
        if not self._keys.may_be_sent(idempotency_key, sum(parallelism.values()), parallelism):
            return self._running(job, self._requirements(job.jid))
        return self._ask(job, {ids[name]: wanted for name, wanted in parallelism.items()})

    def close(self) -> None:
        """Close the connections."""
        self._flink.close()

    def _ask(self, job: Job, wanted: Mapping[str, int], guard: Guard = unguarded) -> Running:
        before = self._requirements(job.jid)
        upper = {**before.upper(), **wanted}
        if upper == before.upper():
            return self._running(job, before)
        # Flink takes the requirements of all vertices or none. The lower bound stays what the operator set: with 1, the
        # job goes on with what is there while slots are missing.
        body: dict[str, Any] = {
            vertex: {
                "parallelism": {"lowerBound": min(asked.parallelism.lower, upper[vertex]), "upperBound": upper[vertex]}
            }
            for vertex, asked in before.root.items()
        }
        guard()
        self._put(job.jid, body)
        if self._checkpoint:
            self._trigger_checkpoint(job.jid)
        return self._running(self._job(), self._requirements(job.jid))

    def _put(self, jid: str, body: Mapping[str, Any]) -> None:
        with _explained():
            self._flink.asked("PUT", f"/jobs/{jid}/resource-requirements", Accepted, body)

    def _trigger_checkpoint(self, jid: str) -> None:
        """Ask for a checkpoint now: Flink rescales after the next one, and reads again what came after it.

        Without one (checkpointing is off, one is under way) the rescale comes all the same, only later.
        """
        with suppress(TargetError):
            self._flink.asked("POST", f"/jobs/{jid}/checkpoints", Accepted, {"checkpointType": "CONFIGURED"})

    def _alive(self) -> list[Summary]:
        return [job for job in self._flink.asked("GET", "/jobs/overview", Overview).jobs if job.state not in OVER]

    def _job(self) -> Job:
        alive = [job for job in self._alive() if job.name == self._name]
        if not alive:
            raise TargetError(f"{self._flink.address}: no job named '{self._name}' runs; submit it")
        if len(alive) > 1:
            raise TargetError(f"{self._flink.address}: {len(alive)} jobs are named '{self._name}'; end all but one")
        return self._flink.asked("GET", f"/jobs/{alive[0].jid}", Job)

    def _requirements(self, jid: str) -> Requirements:
        with _explained():
            return self._flink.asked("GET", f"/jobs/{jid}/resource-requirements", Requirements)

    def _running(self, job: Job, requirements: Requirements) -> Running:
        upper = requirements.upper()
        requested = max(upper.values(), default=1)
        if job.parallelism < 1:  # nothing is deployed yet
            return Running(requested, requested, settled=False)
        deployed = job.state == "RUNNING" and all(vertex.runs for vertex in job.vertices)
        return Running(job.parallelism, requested, settled=deployed and not self._to_come(job, upper))

    def _to_come(self, job: Job, upper: Mapping[str, int]) -> bool:
        """Whether Flink is still going to change what runs: always downwards, upwards as far as slots reach.

        Slots that are free tell nothing: Flink reserves them as soon as they are asked for.
        """
        running = {vertex.id: vertex.parallelism for vertex in job.vertices}
        if any(running.get(vertex, 0) > wanted for vertex, wanted in upper.items()):
            return True
        if all(running.get(vertex, 0) >= wanted for vertex, wanted in upper.items()):
            return False
        return self._slots_for(job) > job.parallelism

    def _slots_for(self, job: Job) -> int:
        """Return the slots that other jobs leave."""
        others = [one for one in self._alive() if one.jid != job.jid]
        taken = sum(self._flink.asked("GET", f"/jobs/{other.jid}", Job).parallelism for other in others)
        return self._flink.asked("GET", "/overview", Slots).total - taken


@contextmanager
def _explained() -> Iterator[None]:
    """Say what Flink's refusals mean where its own words do not."""
    try:
        yield
    except RefusedError as refused:
        said = str(refused).lower()
        if "reactive mode" in said or "does not support" in said:
            raise TargetError(f"{refused}; {ADAPTIVE}", retriable=False, fault=Fault.LASTING) from None
        if refused.status == 404:
            told = f"{refused}: the job has just ended, or Flink is older than 1.18"
            raise TargetError(told, fault=Fault.LASTING) from None
        raise


def _refuse_below_one(scale_out: int) -> None:
    if scale_out < 1:
        raise TargetError(f"scale-out {scale_out} is below 1", retriable=False)
