"""A job of Apache Flink (1.18 or newer, adaptive scheduler), scaled in place through the JobManager's REST API."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from perdix.settings.counting import named
from perdix.settings.targets import FlinkSettings
from perdix.targets.contract import Connected, Fault, Guard, Running, TargetError, unguarded
from perdix.targets.flink.answers import (
    OVER,
    Accepted,
    CheckpointConfig,
    CheckpointProgress,
    Configuration,
    Job,
    Overview,
    Requirements,
    Slots,
    Summary,
    Triggered,
    Version,
    gist,
)
from perdix.targets.flink.cluster import Advice, Rescaling, advice, read_rescaling, rescaling
from perdix.targets.flink.dataflow import DataflowReading, read_dataflow
from perdix.targets.flink.subtasks import Placement
from perdix.targets.http import TIMEOUT_S, HttpTarget, RefusedError
from perdix.targets.idempotency import Keys

ADAPTIVE = (
    "only the adaptive scheduler rescales in place; set 'jobmanager.scheduler: adaptive' (and not 'scheduler-mode: "
    "reactive': such a job follows its TaskManagers, so scale those)"
)

STILL_STORED = frozenset({409})  # an earlier update of the requirements is being stored: ask again
FRESH_S = 30.0  # for which what a read found holds for the rescale that follows it in a tick
SLOTS_S = 1.0  # in which free slots become the job's: a checkpoint that completes before that is of no use
FIRST_LOOK_S, LONGEST_LOOK_S = 0.25, 1.0  # until a checkpoint is looked at


@dataclass(frozen=True)
class Pace:
    """How time passes: seconds since some moment, and a pause of this many seconds."""

    elapsed_s: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class _Seen:
    """What a read found, and when."""

    job: Job
    requirements: Requirements
    at_s: float


class FlinkTarget(Connected):
    """Asks for parallelism, and reads back what is really running.

    A rescale takes three steps in Flink: the resource requirements are put, a checkpoint completes, and the job is
    redeployed from it. ``settled`` is False until the last one has ended. Where slots are missing, Flink runs what it
    can: that counts as settled, with less than was requested.

    So that little is read again, a checkpoint is made where Flink rescales at once: before the request; where it waits
    for one: after it, once the slots are there. Neither is waited for longer than ``settings.checkpoint_wait_s``.

    ``settings``: where the cluster is, and which of its jobs.
    ``job``: the stream job; its name is that of the Flink job where the settings name no other.
    ``timeout_s``: seconds that each of connecting, sending and reading may take.
    ``pace``: how time passes.
    """

    def __init__(
        self, settings: FlinkSettings, job: str, timeout_s: float = TIMEOUT_S, pace: Pace | None = None
    ) -> None:
        self._flink = HttpTarget(settings, "Flink", gist, timeout_s, STILL_STORED)
        self._name = settings.job_name or job
        self._checkpoint, self._wait_s = settings.checkpoint, settings.checkpoint_wait_s
        self._keys = Keys()
        self._pace = pace or Pace()
        self._seen: _Seen | None = None
        self._others: list[Summary] = []  # jobs of the cluster, as of the last look at it
        self._rescaling: tuple[str, Rescaling] | None = None  # of the job with that id
        self._placement = Placement(self._flink)

    def read(self) -> Running:
        """Return the largest parallelism that really runs, and the largest that was asked for."""
        self._seen = None
        seen = self._look()
        running = self._running(seen.job, seen.requirements)
        self._seen = seen
        return replace(running, subtasks=self._placement.of(seen.job)) if running.settled else running

    def operators(self) -> Mapping[str, int]:
        """Return vertex name -> subtasks that really run."""
        job = self._job()
        return {job.names[vertex.id]: vertex.parallelism for vertex in job.vertices}

    def requested_operators(self) -> Mapping[str, int]:
        """Return vertex name -> subtasks that were asked for."""
        seen = self._look()
        names = seen.job.names
        return {names[vertex]: count for vertex, count in seen.requirements.upper().items() if vertex in names}

    def read_dataflow(self) -> DataflowReading:
        """Return what feeds what, what every subtask has done so far, and how many slots the job may use."""
        seen = self._look()
        job, names, upper = seen.job, seen.job.names, seen.requirements.upper()
        if upper.keys() != names.keys():
            raise TargetError(f"{self._flink.address}: job '{self._name}' changed while it was read")
        running = replace(
            self._running(job, seen.requirements),
            mix={names[vertex.id]: vertex.parallelism for vertex in job.vertices if vertex.parallelism > 0},
            requested_mix={names[vertex]: count for vertex, count in upper.items()},
        )
        return read_dataflow(self._flink, job, slots=self._slots_for_it(), running=running)

    def scale(
        self, scale_out: int, idempotency_key: str, mix: Mapping[str, int] | None = None, guard: Guard = unguarded
    ) -> Running:
        """Ask for ``scale_out`` subtasks of every vertex, or as many as it can have at most."""
        if mix:
            message = "Flink's REST API knows no sizes of TaskManagers; leave out 'sizes'"
            raise TargetError(message, retriable=False, fault=Fault.LASTING)
        _refuse_below_one(scale_out)
        seen = self._known()
        job = seen.job
        if not self._keys.may_be_sent(idempotency_key, scale_out):
            return self._running(job, seen.requirements)
        most = max((vertex.max_parallelism for vertex in job.vertices), default=scale_out)
        if scale_out > most:
            raise TargetError(
                f"{self._flink.address}: job '{self._name}' has a maximum parallelism of {most}, asked was {scale_out};"
                " lower the bounds of the stream job",
                retriable=False,
                most=most,
            )
        wanted = {vertex.id: min(scale_out, vertex.max_parallelism) for vertex in job.vertices}
        return self._ask(seen, wanted, guard)

    def scale_operators(
        self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
    ) -> Running:
        """Ask for the parallelism of single operators, as DS2 decides it; the others stay as they are.

        ``parallelism``: vertex (as :meth:`operators` calls it) -> subtasks.
        """
        for wanted in parallelism.values():
            _refuse_below_one(wanted)
        seen = self._look()
        job = seen.job
        ids = {name: vertex for vertex, name in job.names.items()}
        if unknown := sorted(set(parallelism) - set(ids)):
            raise TargetError(
                f"{self._flink.address}: job '{self._name}' has no operator '{unknown[0]}'; it has {', '.join(ids)}",
                retriable=False,
                fault=Fault.LASTING,
            )
        if not self._keys.may_be_sent(idempotency_key, sum(parallelism.values()), parallelism):
            return self._running(job, seen.requirements)
        return self._ask(seen, {ids[name]: wanted for name, wanted in parallelism.items()}, guard)

    def looked_over(self, grace_s: float) -> tuple[Rescaling, tuple[Advice, ...]]:
        """Return when the cluster rescales this job, and what is better set otherwise.

        ``grace_s``: seconds after a rescale in which perdix asks for no other.
        """
        job = self._job()
        values = self._flink.asked("GET", "/jobmanager/config", Configuration).values()
        version = self._flink.asked("GET", "/config", Version).numbers
        checkpoints: CheckpointConfig | None = None
        try:
            checkpoints = self._flink.asked("GET", f"/jobs/{job.jid}/checkpoints/config", CheckpointConfig)
        except RefusedError as refused:
            if refused.status != 404:  # a job without checkpoints has no such page
                raise
        return rescaling(values, version), tuple(advice(values, checkpoints, grace_s))

    def close(self) -> None:
        """Close the connections."""
        self._flink.close()

    def _look(self) -> _Seen:
        job = self._job()
        return _Seen(job, self._requirements(job.jid), self._pace.elapsed_s())

    def _known(self) -> _Seen:
        """Return what the read of this tick found, once; else look."""
        seen, self._seen = self._seen, None
        if seen is None or self._pace.elapsed_s() - seen.at_s > FRESH_S:
            return self._look()
        return seen

    def _ask(self, seen: _Seen, wanted: Mapping[str, int], guard: Guard = unguarded) -> Running:
        job = seen.job
        if _asked_for(seen.requirements, wanted):
            return self._running(job, seen.requirements)
        changes = any(vertex.parallelism != wanted.get(vertex.id, vertex.parallelism) for vertex in job.vertices)
        notes: list[str] = []
        checkpoint_to_come = changes and job.deployed and self._checkpoint and self._prepared(seen, notes)
        before = self._requirements(job.jid)  # again: what others ask for meanwhile is theirs
        if _asked_for(before, wanted):
            return self._running(job, before)
        upper = {**before.upper(), **wanted}
        # Flink takes the requirements of all vertices or none. The lower bound stays what the operator set: with 1, the
        # job goes on with what is there while slots are missing (docs/decisions/0044-a-rescale-that-costs-little.md).
        body: dict[str, Any] = {
            vertex: {
                "parallelism": {"lowerBound": min(asked.parallelism.lower, upper[vertex]), "upperBound": upper[vertex]}
            }
            for vertex, asked in before.root.items()
        }
        guard()
        self._put(job.jid, body)
        requested = max(upper.values())
        if checkpoint_to_come:
            if requested > job.parallelism:
                self._pace.pause(SLOTS_S)
            self._trigger_checkpoint(job.jid)
        settled = not changes and job.deployed
        return Running(max(job.parallelism, 0) or requested, requested, settled=settled, note="; ".join(notes))

    def _put(self, jid: str, body: Mapping[str, Any]) -> None:
        with _explained():
            self._flink.asked("PUT", f"/jobs/{jid}/resource-requirements", Accepted, body)

    def _prepared(self, seen: _Seen, notes: list[str]) -> bool:
        """Wait, within bounds, for what makes the rescale cheap; return whether a checkpoint is to follow the request.

        ``notes`` gets in words what could not be waited for.
        """
        jid = seen.job.jid
        if self._rescaling is None or self._rescaling[0] != jid:
            self._rescaling = jid, read_rescaling(self._flink)
        known, until_s = self._rescaling[1], self._pace.elapsed_s() + self._wait_s
        runs_since_s = seen.job.runs_since_s + self._pace.elapsed_s() - seen.at_s
        cooling_s = max(known.cooldown_s - runs_since_s, 0.0)
        if cooling_s > self._wait_s:  # by its end, a checkpoint of now is of no use
            notes.append(f"Flink rescales once its cooldown is over, in {cooling_s:.0f} s")
            return False
        if cooling_s > 0.0:
            self._pace.pause(cooling_s)
        if known.at_once:
            notes.extend(self._checkpointed(jid, until_s))
        return not known.at_once

    def _checkpointed(self, jid: str, until_s: float) -> Iterator[str]:
        """Make a checkpoint and wait for it, but not beyond ``until_s``; yield in words why there is none."""
        place, pause_s = f"/jobs/{jid}/checkpoints", FIRST_LOOK_S
        try:
            number = self._flink.asked("POST", place, Triggered, {"checkpointType": "CONFIGURED"}).id
            while (left_s := until_s - self._pace.elapsed_s()) > 0.0:
                self._pace.pause(min(pause_s, left_s))
                pause_s = min(2.0 * pause_s, LONGEST_LOOK_S)
                progress = self._flink.asked("GET", f"{place}/{number}", CheckpointProgress)
                if progress.status.id == "COMPLETED":
                    if progress.operation is None or progress.operation.failure is not None:
                        yield "the checkpoint before it failed, so more is read again"
                    return
        except TargetError as error:
            yield f"no checkpoint was made before it, so more is read again ({error})"
            return
        yield f"its checkpoint was not complete within {self._wait_s:.0f} s, so more is read again"

    def _trigger_checkpoint(self, jid: str) -> None:
        """Ask for a checkpoint now: Flink rescales after the next one, and reads again what came after it began.

        Without one (checkpointing is off, one is under way) the rescale comes all the same, only later.
        """
        with suppress(TargetError):
            self._flink.asked("POST", f"/jobs/{jid}/checkpoints", Accepted, {"checkpointType": "CONFIGURED"})

    def _alive(self) -> list[Summary]:
        return [job for job in self._flink.asked("GET", "/jobs/overview", Overview).jobs if job.state not in OVER]

    def _job(self) -> Job:
        everyone = self._alive()
        alive = [job for job in everyone if job.name == self._name]
        if not alive:
            others = _nearest(self._name, everyone)
            raise TargetError(f"{self._flink.address}: no job named '{self._name}' runs; submit it{others}")
        if len(alive) > 1:
            raise TargetError(f"{self._flink.address}: {len(alive)} jobs are named '{self._name}'; end all but one")
        self._others = [job for job in everyone if job is not alive[0]]
        return self._flink.asked("GET", f"/jobs/{alive[0].jid}", Job)

    def _requirements(self, jid: str) -> Requirements:
        with _explained():
            return self._flink.asked("GET", f"/jobs/{jid}/resource-requirements", Requirements)

    def _running(self, job: Job, requirements: Requirements) -> Running:
        upper = requirements.upper()
        requested = max(upper.values(), default=1)
        if job.parallelism < 1:  # nothing is deployed yet
            return Running(requested, requested, settled=False)
        return Running(job.parallelism, requested, settled=job.deployed and not self._to_come(job, upper))

    def _to_come(self, job: Job, upper: Mapping[str, int]) -> bool:
        """Whether Flink is still going to change what runs: always downwards, upwards as far as slots reach.

        Slots that are free say nothing: Flink reserves them as soon as they are asked for.
        """
        running = {vertex.id: vertex.parallelism for vertex in job.vertices}
        if any(running.get(vertex, 0) > wanted for vertex, wanted in upper.items()):
            return True
        if all(running.get(vertex, 0) >= wanted for vertex, wanted in upper.items()):
            return False
        return self._slots_for_it() > job.slots

    def _slots_for_it(self) -> int:
        """Return the slots that other jobs leave."""
        taken = sum(self._flink.asked("GET", f"/jobs/{other.jid}", Job).slots for other in self._others)
        return self._flink.asked("GET", "/overview", Slots).total - taken


def _nearest(name: str, jobs: Sequence[Summary]) -> str:
    """Return in words which jobs run whose names are nearest to one that does not; nothing where none runs."""
    names = sorted({job.name for job in jobs})
    nearest = [f"'{near}'" for near in get_close_matches(name, names, n=max(len(names), 1), cutoff=0.0)]
    return f", or name it in 'job_name': there is {named(nearest)}" if nearest else ""


def _asked_for(requirements: Requirements, wanted: Mapping[str, int]) -> bool:
    upper = requirements.upper()
    return all(upper.get(vertex) == count for vertex, count in wanted.items())


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
            message = f"{refused}: the job has just ended, or Flink is older than 1.18"
            raise TargetError(message, fault=Fault.LASTING) from None
        raise


def _refuse_below_one(scale_out: int) -> None:
    if scale_out < 1:
        raise TargetError(f"scale-out {scale_out} is below 1", retriable=False)
