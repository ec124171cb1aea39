"""One job under one policy: played, and said in a row of figures that JSON can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frontier_plan import played as play_plan
from benchmarks.measured import DATA
from benchmarks.zoo.contenders import BEST_STATIC
from benchmarks.zoo.coverage import Witness
from benchmarks.zoo.jobs import ZooJob, draw
from benchmarks.zoo.results import Key, Results, Row
from perdix.replay.best_static import best_static, of_contender
from perdix.replay.campaign import frontier_of
from perdix.replay.frontier import FRONTIER
from perdix.replay.frontier.curve import Frontier
from perdix.replay.frontier.programme import Plan
from perdix.replay.outcome import Played
from perdix.replay.run import fresh_twin, job_of, play
from perdix.replay.side_by_side import Tell


@dataclass(frozen=True)
class Asked:
    """One job under one policy, and where the result goes. Picklable: another process plays it."""

    key: Key
    results: Path
    data: Path = DATA


def play_one(asked: Asked, tell: Tell) -> Row:
    """Play, and append the row to the results; one that raises is a row with its reason."""
    key = asked.key
    row: Row = key.row()
    try:
        job = draw(key.seed, key.job, key.hours, data=asked.data, regime=key.regime)
        row |= {"kind": job.kind, "about": job.about, "maximum": job.maximum}
        played, beside = run(job, key.policy, lambda share: tell(share * 3600.0 * key.hours))
        row |= figures(job, played) | {"coverage": {}} | beside
    except Exception as error:  # whatever it is, it is this job's result, and the others go on
        row |= {"failed": f"{type(error).__name__}: {error}"}
    Results(asked.results).append(row)
    return row


def run(job: ZooJob, policy: str, on_progress: Callable[[float], None] = lambda _: None) -> tuple[Played, Row]:
    """Return the replay of one job, and what is kept of it besides.

    That is how the capacity intervals fared (``coverage``) of a policy that learns, and of the frontier its ``corners``
    and what is said of the cheapest plan within the error budget, which is played: keys and restarts fall otherwise.
    """
    case = job.case(policy)
    if policy == BEST_STATIC:
        return best_static(case, on_progress).played, {}
    if policy == FRONTIER:
        found = frontier_of(case)
        plan = found.within(job.objectives.error_budget)
        return play_plan(case, plan), _figures(found, plan, job.objectives.error_budget)
    if case.contender.settings.name == "static":
        return of_contender(case), {}
    if not case.beliefs:
        return play(case, on_tick=lambda number: on_progress(number / case.ticks)), {}
    twin = fresh_twin(case, job_of(case).bounds)
    witness = Witness(twin)

    def on_tick(number: int) -> None:
        witness.look(number)
        on_progress(number / case.ticks)

    played = play(case, twin=twin, on_tick=on_tick)
    return played, {"coverage": witness.counts(played.reports)}


def _figures(found: Frontier, plan: Plan, error_budget: float) -> Row:
    """Return what is said of a plan of the frontier, and the frontier's corners."""
    late_share = plan.late_s / found.seconds
    return {
        "corners": [{"late_s": each.late_s, "worker_s": each.worker_s} for each in found.plans],
        "held": late_share <= error_budget,
        "late_share": late_share,
        "worker_s": plan.worker_s,
        "average_workers": plan.worker_s / found.seconds,
    }


def figures(job: ZooJob, played: Played) -> Row:
    """Return what is kept of a replay. ``asked_workers`` are the most that the policy asked for, its start left out."""
    outcome, course = played.outcome, played.course
    first_s = course.times_s[0]
    asked = [deployment.scale_out for deployment in played.deployments if deployment.since_s > first_s]
    return {
        "held": outcome.held,
        "late_share": outcome.share_above_objective,
        "unprocessed": outcome.unprocessed,
        "worker_s": outcome.worker_s,
        "average_workers": outcome.average_workers,
        "peak_workers": int(course.workers.max()),
        "asked_workers": max(asked, default=None),
        "start_workers": int(course.workers[0]),
        "size": outcome.scale_out,
        "rescales": outcome.rescales,
        "rescales_per_day": outcome.rescales * 24.0 / job.hours,
        "latency_p95_ms": outcome.latency_ms.p95,
        "objective_ms": job.objectives.latency_p95_ms,
        "capacity_error": outcome.capacity_error,
        "wall_s": outcome.wall_s,
    }
