"""The same hours of the same twin under several policies, through the real tick, and with the best fixed size."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from perdix.control.champions import Champions
from perdix.replay.best_static import best_static
from perdix.replay.case import BEST_STATIC, Case, Contender
from perdix.replay.contenders import contender
from perdix.replay.outcome import Outcome
from perdix.replay.pricing import Pricing
from perdix.replay.run import play
from perdix.replay.side_by_side import Raised, Task, Tell, side_by_side
from perdix.scan.saving import WorkerPrice, price_of_list
from perdix.settings.home import Home
from perdix.settings.prices import load_prices
from perdix.settings.stream_job import PolicySettings
from perdix.telemetry.window import Values
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin
from perdix.twin.parameters import TwinParameters
from perdix.twin.tending import tend

HOURS = 6.0
PERDIX, BEST_FIXED, HPA, TODAY = PolicySettings().name, "best_static", "hpa", "static"
POLICIES = (PERDIX, BEST_FIXED, HPA, TODAY)
PRICES = "aws-ec2-us-east-1"
SETTLE_S = 600  # before the first tick, so that the static deployment has its workers


@dataclass(frozen=True)
class Course:
    """How one replay went, for the picture: one value a minute."""

    policy: str
    workload_per_s: list[float]
    workers: list[float]
    latency_p95_ms: list[float]


@dataclass(frozen=True)
class _Demo:
    """A job's twin as it was trained on, and who is to look after it for the next hours."""

    parameters: TwinParameters
    seed: int
    policy: str
    start_s: int
    past_s: int
    champions: Path

    def contender(self) -> Contender:
        if self.policy == BEST_FIXED:
            return Contender(BEST_STATIC, PolicySettings(name="static"))
        label = {HPA: "hpa-80", TODAY: f"static-{self.parameters.workers.maximum}"}
        return contender(label.get(self.policy, self.policy))

    def case(self) -> Case:
        """Return the hours that follow the past."""
        return Case(self.contender(), self.parameters.name, self.parameters, self.seed, HOURS)


def compare(
    place: Home, trained: dict[str, Any], living: LivingTwin, *, seed: int, hours: float
) -> tuple[list[dict[str, Any]], dict[str, list[Course]]]:
    """Replay every job under each of :data:`POLICIES`; a row and as many courses per job.

    The twins are those whose exports were trained on (same seed, same past), :data:`HOURS` on. ``static`` is what many
    run today: the largest size. The best fixed size is known only afterwards.
    """
    past_s = round(3_600 * hours)
    demos = [
        _Demo(
            living.job(name).parameters, seed + index, policy, living.job(name).history.start_s, past_s, place.champions
        )
        for index, name in enumerate(living.names())
        for policy in POLICIES
    ]
    results: dict[str, dict[str, Outcome]] = {name: {} for name in living.names()}
    courses: dict[str, list[Course]] = {name: [] for name in living.names()}
    for demo, ended in zip(demos, side_by_side([Task(_play, demo) for demo in demos], processes=2), strict=True):
        match ended:
            case (Outcome() as outcome, Course() as course):
                results[demo.parameters.name][demo.policy] = outcome
                courses[demo.parameters.name].append(course)
            case Raised(reason):
                raise RuntimeError(f"{demo.parameters.name} under {demo.policy}: {reason}")
    return [_row(name, trained, results[name]) for name in living.names()], courses


def price_of_a_worker(workers: int) -> WorkerPrice:
    """Return what a worker of the demo costs by a price list that comes with perdix, as one of this many."""
    return price_of_list(Pricing(load_prices(PRICES)), workers)


def _play(demo: _Demo, _tell: Tell) -> tuple[Outcome, Course]:
    twin = JobTwin(demo.parameters, demo.seed, start_s=demo.start_s)
    tend(twin, demo.past_s - SETTLE_S)
    if demo.policy == TODAY:
        twin.rescale(demo.parameters.workers.maximum, demo.policy)
    twin.step(SETTLE_S)
    case = demo.case()
    if demo.policy == BEST_FIXED:
        seconds = round(3_600 * HOURS + case.objectives.recovery_time_s)
        played = best_static(replace(case, arrivals=twin.arrivals(twin.now_s, seconds))).played
    else:
        played = play(case, twin=twin, champions=Champions(demo.champions, None))
    course = played.course
    columns = (course.workload_per_s, course.workers, course.latency_p95_ms)
    return played.outcome, Course(demo.policy, *(_minutes(column) for column in columns))


def _minutes(values: Values) -> list[float]:
    whole = values[: len(values) // 60 * 60].reshape(-1, 60)
    return [float(value) for value in pd.DataFrame(whole).mean(axis=1)]


def _row(name: str, trained: dict[str, Any], results: dict[str, Outcome]) -> dict[str, Any]:
    forecast: dict[str, Any] = next((row for row in trained["models"]["forecast"]["jobs"] if row["job"] == name), {})
    found: dict[str, Any] = {
        "job": name,
        "family": forecast.get("winner"),
        "wape": forecast.get("wape"),
        "capacity_error": results[POLICIES[0]].capacity_error,
    }
    for policy, outcome in results.items():
        found |= {
            f"{policy}_workers": outcome.average_workers,
            f"{policy}_rescales": outcome.rescales,
            f"{policy}_p50_ms": outcome.latency_ms.p50,
            f"{policy}_p95_ms": outcome.latency_ms.p95,
            f"{policy}_above_objective": outcome.share_above_objective,
            f"{policy}_unprocessed": outcome.unprocessed,
        }
    return found
