"""Bugs that are planted on purpose: a storm that does not find them is no storm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.storm import scrapes
from benchmarks.storm.climate import MAXIMUM, START_SCALE_OUT
from benchmarks.storm.drowsy import Drowsy, Sleepy
from benchmarks.storm.process import SOFT_DEADLINE_S, Process
from perdix.control import champions as control_champions
from perdix.control import decide, learn, lease, observe, serving, sources, tenure
from perdix.control import plan as control_plan
from perdix.control.adoption import adopt
from perdix.control.champions import Champions, ChampionSource
from perdix.control.decide import Circumstances, Verdict
from perdix.control.fleet_report import FleetReport
from perdix.control.job_memory import JobMemory
from perdix.control.operators import executor as operators_executor
from perdix.control.operators import loop as operators_loop
from perdix.control.operators.executor import Executor
from perdix.control.reconcile import Event
from perdix.control.sources import SourceError
from perdix.control.state import ledger as state_ledger
from perdix.control.tenure import Tenure
from perdix.control.watching import Watched
from perdix.models.registry import FLEET_MODELS
from perdix.policies.contract import Policy, Reason, Situation
from perdix.policies.dataflow.asking import decided
from perdix.policies.dataflow.contract import DataflowDecision, DataflowPolicy, DataflowSituation
from perdix.policies.dataflow.holding import hold
from perdix.settings.stream_job import Bounds, StreamJob
from perdix.targets.kubernetes.api import ScaleApi
from perdix.telemetry.alignment import align
from perdix.telemetry.prometheus import Asked
from perdix.telemetry.quality import Quality, assess
from perdix.telemetry.series import Series
from perdix.telemetry.window import Window

Plant = Callable[[], AbstractContextManager[object]]
_patched = mock.patch.object


def _in_place_of(owner: Any, name: str) -> Callable[[Callable[..., Any]], Plant]:
    """Make a plant of what then stands in place of a part of the product."""
    return lambda planted: lambda: _patched(owner, name, planted)


_scale = Drowsy.scale


def another_key() -> AbstractContextManager[object]:
    """Let each retry use another key."""
    number = itertools.count()

    def scale(target: Drowsy, scale_out: int, key: str, *more: Any) -> Any:
        return _scale(target, scale_out, f"{key}-{next(number)}", *more)

    return _patched(Drowsy, "scale", scale)


@_in_place_of(Drowsy, "scale")
def out_of_bounds(target: Drowsy, scale_out: int, *more: Any) -> Any:
    """Ask for more than the job may have."""
    return _scale(target, scale_out + MAXIMUM, *more)


@contextmanager
def lease_not_renewed() -> Iterator[None]:
    """Let nobody look at the lease, or prolong it, before the target is asked."""
    with _patched(tenure, "renew"), _patched(Tenure, "_grant"):
        yield


@_in_place_of(observe, "assess")
def any_window(*given: Any) -> Quality:
    """Let any window do to decide on that has a sample, however few or old they are."""
    found = assess(*given)
    return replace(found, ok=True, blind=False, problems=()) if found.age_s < float("inf") else found


@_in_place_of(observe, "assess")
def nothing_seen_raises(*given: Any) -> Quality:
    """Let a job's tick fail where its metrics show nothing."""
    found = assess(*given)
    if found.blind:
        raise ValueError("planted: there must be metrics")
    return found


@contextmanager
def _after_a_restart(bounds: Bounds, *, once: bool = False) -> Iterator[None]:
    """Let a process that is started again keep its jobs within bounds; ``once``: until it has served some."""
    begun, tick = Process.__init__, Process.tick
    again: set[Process] = set()

    def begins(process: Process, name: str, folder: Path, *more: Any, **others: Any) -> None:
        mark = folder / "begun"
        if mark.exists():
            again.add(process)
        mark.touch()
        begun(process, name, folder, *more, **others)

    def stuck(process: Process, jobs: Sequence[StreamJob], heartbeat: Path) -> FleetReport:
        report = tick(process, _within(jobs, bounds) if process in again else jobs, heartbeat)
        if once and report.reports:
            again.discard(process)
        return report

    with _patched(Process, "__init__", begins), _patched(Process, "tick", stuck):
        yield


def hurt_by_its_neighbour() -> AbstractContextManager[object]:
    """Let each job keep its size once the target of any cannot be reached."""
    tick, hurt = Process.tick, set[Process]()

    def hurts(process: Process, jobs: Sequence[StreamJob], heartbeat: Path) -> FleetReport:
        report = tick(process, _within(jobs, _KEPT) if process in hurt else jobs, heartbeat)
        if any(served.event is Event.UNREACHABLE for served in report.reports.values()):
            hurt.add(process)
        return report

    return _patched(Process, "tick", hurts)


def jobs_left_out() -> AbstractContextManager[object]:
    """Let a tick serve nobody."""
    tick = Process.tick
    return _patched(Process, "tick", lambda process, _, heartbeat: tick(process, (), heartbeat))


_refresh = Champions.refresh


@_in_place_of(Champions, "refresh")
def mlflow_asked_once(champions: Champions, now_s: float) -> tuple[str, ...]:
    """Let nobody ask MLflow again once it failed."""
    return tuple(champions._notes()) or _refresh(champions, now_s)


@contextmanager
def mlflow_waited_for() -> Iterator[None]:
    """Let each model be asked for, however long the server took for another; the jobs' time has begun meanwhile."""
    refresh = Champions.refresh

    def asked(champions: Champions, now_s: float) -> tuple[str, ...]:
        notes: tuple[str, ...] = ()
        for name in FLEET_MODELS:
            with _patched(control_champions, "FLEET_MODELS", (name,)):
                notes = refresh(champions, now_s)
        return notes

    serve_all = serving._Fleet.serve_all

    def in_time(fleet: Any, jobs: Sequence[StreamJob], _: float) -> Iterator[Any]:
        return serve_all(fleet, jobs, SOFT_DEADLINE_S)

    with _patched(Champions, "refresh", asked), _patched(serving._Fleet, "serve_all", in_time):
        yield


@_in_place_of(learn, "adopt")
def rows_trusted(memory: JobMemory, champions: ChampionSource, job: str) -> tuple[JobMemory, tuple[str, ...]]:
    """Let a champion's row that nobody can use fail its job's tick."""
    memory, notes = adopt(memory, champions, job)
    if notes:
        raise ValueError(notes[0])
    return memory, notes


@_in_place_of(learn, "adopt")
def first_champion_kept(memory: JobMemory, champions: ChampionSource, job: str) -> tuple[JobMemory, tuple[str, ...]]:
    """Let a job go by its first champion without end."""
    return adopt(memory, champions, job) if memory.champion is None else (memory, ())


@_in_place_of(scrapes, "align")
def samples_in_order(job: str, series: Sequence[Series], *span: float) -> Window:
    """Let samples that come again, or out of their order, be refused."""
    if any((np.diff(series_of.times_ms) <= 0).any() for series_of in series):
        raise SourceError("planted: times must grow")
    return align(job, series, *span)


def files_read_once() -> AbstractContextManager[object]:
    """Let a process keep the jobs' files as it first read them."""
    tick, first = Process.tick, dict[Process, Sequence[StreamJob]]()

    def as_before(process: Process, jobs: Sequence[StreamJob], heartbeat: Path) -> FleetReport:
        return tick(process, first.setdefault(process, jobs), heartbeat)

    return _patched(Process, "tick", as_before)


_asks = Sleepy.scale_operators


@_in_place_of(Sleepy, "scale_operators")
def operators_of_nobody(flink: Sleepy, parallelism: Mapping[str, int], *how: Any) -> Any:
    """Let a loop that sizes operators ask for another instance than was decided."""
    return _asks(flink, {name: count + 1 for name, count in parallelism.items()}, *how)


_outcome = learn._outcome


@_in_place_of(learn, "_outcome")
def outcomes_doubled(watched: Watched | None) -> tuple[str, Mapping[str, Any], float | None] | None:
    """Let the ledger have twice the time that a rescale took."""
    known = _outcome(watched)
    if known is None or "downtime_s" not in known[1]:
        return known
    decision_id, outcome, recovery_s = known
    twice = {name: 2.0 * outcome[name] for name in ("downtime_s", "recovery_s")}
    return decision_id, {**outcome, **twice}, recovery_s


def to_and_fro() -> AbstractContextManager[object]:
    """Let every tenth tick of a job that nothing is wanted of add a worker, or take one away."""
    number = itertools.count(1)

    def restless(policy: Policy, situation: Situation, circumstances: Circumstances) -> Verdict:
        found = decide.decide(policy, situation, circumstances)
        if next(number) % 10 or not found.decision.reason.finds_enough or not circumstances.running.settled:
            return found
        step = 1 if situation.scale_out < situation.bounds.maximum else -1
        wanted, reason = situation.scale_out + step, Reason.of_change(situation.scale_out, situation.scale_out + step)
        return replace(found, decision=replace(found.decision, scale_out=wanted, reason=reason))

    return _patched(control_plan, "decide", restless)


def operators_halved() -> AbstractContextManager[object]:
    """Let a policy that sizes operators halve all of them once, at its tenth look."""
    number = itertools.count(1)

    def halved(policy: DataflowPolicy, situation: DataflowSituation) -> DataflowDecision:
        found = decided(policy, situation)
        if next(number) != 10:
            return found
        fewer = {name: max(count // 2, 1) for name, count in situation.parallelism.items()}
        return replace(found, parallelism=fewer, reason=Reason.SCALE_IN)

    return _patched(operators_loop, "decided", halved)


def operators_sized_by_nobody() -> AbstractContextManager[object]:
    """Let a policy that sizes operators fail at every eighth look."""
    number = itertools.count()

    def failing(policy: DataflowPolicy, situation: DataflowSituation) -> DataflowDecision:
        found = decided(policy, situation)
        return found if next(number) % 8 else hold(policy.name, situation, Reason.HOLD_INVALID, "planted")

    return _patched(operators_loop, "decided", failing)


def pods_that_exist() -> AbstractContextManager[object]:
    """Let pods count that exist, ready or not, where only those that are ready should."""
    reads = ScaleApi.workload
    return _patched(ScaleApi, "workload", lambda api: replace(reads(api), ready=api.scale().running))


_KEPT = Bounds(minimum=START_SCALE_OUT, maximum=START_SCALE_OUT)


def _within(jobs: Sequence[StreamJob], bounds: Bounds) -> list[StreamJob]:
    return [job.model_copy(update={"bounds": bounds}) for job in jobs]


PLANTS: Mapping[str, Plant] = {
    "lease": lease_not_renewed,
    # what became of a decision is not stored
    "outcome": lambda: _patched(state_ledger, "_moved", return_value=True),
    "key": another_key,
    "window": any_window,
    # a process that is started again keeps each job at the size that it begins with
    "stuck": lambda: _after_a_restart(_KEPT),
    "bounds": out_of_bounds,
    "neighbour": hurt_by_its_neighbour,
    "left out": jobs_left_out,
    # each tick raises
    "raises": lambda: _patched(Process, "tick", side_effect=RuntimeError("planted")),
    "nothing seen": nothing_seen_raises,
    # the first jobs that a process serves after it was started again do with one worker
    "least": lambda: _after_a_restart(Bounds(minimum=1, maximum=1), once=True),
    "first champion": first_champion_kept,
    "to and fro": to_and_fro,
    "halved": operators_halved,
    "invalid": operators_sized_by_nobody,
    "pods": pods_that_exist,
    # each boot of a machine has the name of the one before
    "boots": lambda: _patched(Process, "boot", "kernel:1"),
    # nobody takes a lease of another boot, however long it is watched
    "other boots": lambda: _patched(lease, "_watched_long_enough", return_value=False),
    "asked once": mlflow_asked_once,
    "waited for": mlflow_waited_for,
    "rows": rows_trusted,
    "order": samples_in_order,
    "old files": files_read_once,
    # a server of metrics that failed once counts as down without end
    "down": lambda: _patched(sources, "DOWN_S", float("inf")),
    # a question that is refused for several jobs is asked for none of them
    "together": lambda: _patched(Asked, "alone", return_value=[]),
    "another instance": operators_of_nobody,
    # a loop sees a rescale without end
    "redeployed": lambda: _patched(operators_loop, "redeployed", return_value=True),
    # a loop that sizes operators takes back what the job's bounds no longer allow
    "bounds of before": lambda: _patched(Executor, "_allowed", lambda _, mix: dict(mix)),
    # a loop that sizes operators overlooks that the job's file pauses it
    "while paused": lambda: _patched(operators_executor, "why_paused", lambda *_: None),
    # a job is rescaled however often it was that day
    "budget": lambda: _patched(decide, "_budget", lambda decision, *_: decision),
    "doubled": outcomes_doubled,
    # a process that is started again scales no job in below what it begins with
    "never fewer": lambda: _after_a_restart(Bounds(minimum=START_SCALE_OUT, maximum=MAXIMUM - 1)),
}
