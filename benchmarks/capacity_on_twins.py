"""How far off a capacity is that is learnt from workers which are not full, on twins whose truth is known.

Run ``python -m benchmarks.capacity_on_twins [--seeds 8] [--json]``: each twin runs for 20 minutes at a load that ranges
by 10 % around a share of what it takes; the lines through CPU load are then asked for the capacity of what runs.

With ``--never-ran``: jobs as the zoo draws them run at one scale-out for half an hour, and at another; after each they
are asked for every scale-out from half to twice of what runs that never did.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from benchmarks.harness import Row, markdown, options, write_json
from benchmarks.twin_jobs import job_of
from benchmarks.zoo.jobs import twin_seed
from benchmarks.zoo.properties import drawn_parameters
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.replay.run import TwinSource
from perdix.replay.side_by_side import Raised, Task, Tell, side_by_side
from perdix.telemetry.window import Values
from perdix.twin.exposition import subtasks_of
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters, load_twin

START_S = 1_760_000_000
RUNS = (("wordcount", 4), ("wordcount", 12), ("ysb", 4), ("ysb", 12), ("ysb", 24), ("tsw", 12))
LOADS = (0.2, 0.5, 0.8)
WARM_S, MINUTES, WINDOW_S = 300, 20, 180.0
SWING, SWING_S = 0.1, 300.0
STAY_MINUTES = 30
_JOB, _STAYS, _TRUTH = range(3)  # random streams


def error(name: str, scale_out: int, load: float, seed: int) -> float:
    """Return the estimate's relative error for the deployment that runs."""
    parameters = load_twin(name)
    per_s = load * JobTwin(parameters, seed).true_capacity(scale_out)
    twin = JobTwin(parameters, seed, start_s=START_S, scale_out=scale_out, arrivals=_swinging(per_s, SWING, SWING_S))
    model = learnt(ScaleOuts(), twin, MINUTES)
    return model.capacity(scale_out).per_s / twin.current_capacity() - 1.0


def _swinging(per_s: float, swing: float, swing_s: float) -> Callable[[int, int], Values]:
    return lambda second, count: np.asarray(per_s * (1.0 + swing * np.sin(np.arange(second, second + count) / swing_s)))


def learnt(model: ScaleOuts, twin: JobTwin, minutes: int) -> ScaleOuts:
    """Return what a model has learnt when the twin has run for this many minutes after its start."""
    parameters = twin.parameters
    job, source, partitions = job_of(twin, parameters.name), TwinSource(twin), parameters.source.partitions
    twin.step(WARM_S)
    for _ in range(minutes):
        twin.step(60)
        window = source.read(job, twin.now_s, twin.now_s - WINDOW_S).window
        model = model.update(window, twin.scale_out, subtasks_of(twin), partitions=partitions)
    return model


def rows(seeds: int) -> Iterator[Row]:
    """Yield a row per twin and scale-out: mean and standard deviation over seeds at each load, in percent."""
    for name, scale_out in RUNS:
        row: Row = {"twin": name, "scale_out": scale_out}
        for load in LOADS:
            found = 100.0 * np.array([error(name, scale_out, load, seed) for seed in range(1, seeds + 1)])
            row |= {f"error_at_{load:.0%}_pct": float(found.mean()), f"error_at_{load:.0%}_sd": float(found.std())}
        yield row


@dataclass(frozen=True)
class Foreseen:
    """An estimate of a scale-out that never ran: its log over the truth, and whether its interval holds that."""

    side: str
    partitions: bool
    off: float
    held: bool


def foreseen(asked: tuple[int, int], tell: Tell = lambda _: None) -> list[Foreseen]:
    """Return the estimates for a job, number ``asked[1]`` of a seed."""
    seed, number = asked

    def stream(which: int) -> np.random.Generator:
        return np.random.default_rng([seed, which, number])

    parameters, rng, truths = drawn_parameters(f"drawn-{seed}-{number}", stream(_JOB)), stream(_STAYS), stream(_TRUTH)
    truth, most = JobTwin(parameters, twin_seed(seed, number)), parameters.workers.maximum
    sizes = _stays(rng, most)
    load = float(rng.uniform(0.3, 0.75)) * min(truth.true_capacity(n) for n in sizes)
    arrivals = _swinging(load, 0.15, float(rng.uniform(300.0, 3_000.0)))
    twin = JobTwin(parameters, truth.seed, start_s=START_S, scale_out=sizes[0], arrivals=arrivals)
    model, found = ScaleOuts(), list[Foreseen]()
    for k, n in enumerate(sizes):
        if k > 0:
            twin.rescale(n, f"stay-{k}")
        model = learnt(model, twin, STAY_MINUTES)
        found += _held_against(model, parameters, sizes[: k + 1], lambda m: truth.possible_capacities(m, 1, truths)[0])
        tell((k + 1) * 60.0 * STAY_MINUTES)
    return found


def _stays(rng: np.random.Generator, most: int) -> tuple[int, int]:
    first = int(rng.integers(2, most + 1))
    then = int(np.clip(round(first * math.exp(rng.uniform(-0.7, 0.7))), 1, most))
    return first, then if then != first else first - 1


def _held_against(
    model: ScaleOuts, parameters: TwinParameters, ran: Sequence[int], takes_per_s: Callable[[int], float]
) -> Iterator[Foreseen]:
    most, partitions = parameters.workers.maximum, parameters.source.partitions
    table = model.table(most, partitions=partitions)
    for n in range(max(1, math.ceil(ran[-1] / 2)), min(2 * ran[-1], most) + 1):
        if n not in ran:
            side = "fewer" if n < min(ran) else "more" if n > max(ran) else "between"
            true = float(takes_per_s(n))
            held = table[n].low_per_s <= true <= table[n].high_per_s
            yield Foreseen(side, partitions is not None, math.log(table[n].per_s / true), held)


def never_ran(seed: int, jobs: int, processes: int) -> Iterator[Row]:
    """Yield a row for fewer and more workers than ran, and those between, with and without known partitions."""
    tasks = [Task(foreseen, (seed, number)) for number in range(jobs)]
    found: list[Foreseen] = []
    for of_job in side_by_side(tasks, processes=min(processes, jobs)):
        if isinstance(of_job, Raised):
            raise RuntimeError(of_job.reason)
        found += cast("list[Foreseen]", of_job)
    for side in ("fewer", "between", "more", "all"):
        for partitions in (False, True):
            chosen = [case for case in found if case.partitions is partitions and side in (case.side, "all")]
            if chosen:
                yield {"workers": side, "partitions": partitions, **_summary(chosen)}


def _summary(found: Iterable[Foreseen]) -> dict[str, float]:
    off = np.array([case.off for case in found])
    return {
        "estimates": len(off),
        "mean_pct": 100.0 * float(off.mean()),
        "rms_pct": 100.0 * math.sqrt(float((off**2).mean())),
        "within_8_pct": 100.0 * float((np.abs(off) <= 0.08).mean()),
        "held_pct": 100.0 * float(np.mean([case.held for case in found])),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="twins of each run")
    parser.add_argument("--never-ran", action="store_true", help="ask drawn jobs for scale-outs that never ran")
    parser.add_argument("--seed", type=int, default=1, help="of drawn jobs")
    parser.add_argument("--jobs", type=int, default=100, help="that are drawn")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args(arguments)
    found = list(never_ran(asked.seed, asked.jobs, asked.processes) if asked.never_ran else rows(asked.seeds))
    if asked.json:
        write_json(found)
    else:
        markdown(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
