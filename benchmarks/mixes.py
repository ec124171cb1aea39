"""What mixes of sizes save: QCESA against CBA with each of four fixed sizes, on every trace.

    python -m benchmarks.mixes                           # the workload known beforehand: 22 traces, 4 operators (2 min)
    python -m benchmarks.mixes --forecast --operators cmo1   # planned anew each epoch, on forecasts (about 20 min)
    python -m benchmarks.mixes --forecast --operators co2 --traces avazu_1h sine   # some of it
    python -m benchmarks.mixes --large                   # 1,000 epochs, 8 sizes, 200 workers: time, memory, gap
    python -m benchmarks.mixes --near                    # the plan that is not exact, where the cheapest is known
    python -m benchmarks.mixes --tick                    # four sizes, 12 workers, 15 epochs: time

Sizes: 0.6, 1.2, 1.8 and 2.4 cores with 256 MB (QEScalor, 3.1), with what the twin of an operator (conf/operators)
processes with them. Prices: cores and memory as the instance types of conf/prices/aws-ec2-us-east-1.yaml price them,
per epoch, in what one core costs; 0.5 to start and 0.2 to stop a worker of whatever size, as the paper has one price of
each. Traces are scaled so that their peak takes --workers of the smallest size; an epoch is a step of the trace (60 s
for traces by second), 1,000 epochs at most. Without the data pack beside the project: traces of perdix.twin.workloads.

With --forecast, every algorithm sees the same forecasts: at each epoch it plans 12 epochs ahead for the mean
forecast, raised by as much as its 0.8 quantile is above it in the first epoch, and its first mix runs; over the last
300 epochs at most. The forecaster is updated at each epoch, and fitted anew once a day. "unmet" is the share of the
records that a mix is too weak for when they arrive. As who covers more closely leaves less free, every algorithm is
also run with 0.9 to 1.2 times that: "equal" is what each costs where two per mille are unmet, or fewer.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.harness import options, show
from benchmarks.measured import DATA
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.damped_trend import DampedTrend
from perdix.models.forecasting.forecaster import Forecaster
from perdix.models.forecasting.member import Member
from perdix.models.forecasting.seasonal_naive import LastValue
from perdix.models.forecasting.seasonal_trend import SeasonalTrend
from perdix.models.mixes.problem import Problem, Sizes
from perdix.models.mixes.qcesa import plan, single, steadied
from perdix.settings.prices import load_prices
from perdix.telemetry.window import Values
from perdix.twin.operators.parameters import load_operator, operator_names
from perdix.twin.operators.physics import true_performance
from perdix.twin.workloads import Shape, WorkloadSpec, read_trace, workload

CORES, MEMORY_MB = (0.6, 1.2, 1.8, 2.4), 256.0
START, STOP = 0.5, 0.2
HORIZON, QUANTILE, DAY_S, LONGEST = 12, 0.8, 86_400.0, 1_000
MARGINS, UNMET, TESTED = (-0.1, -0.05, 0.0, 0.05, 0.1, 0.2), 2e-3, 300
PRICES = "aws-ec2-us-east-1"
FORECASTERS: dict[str, tuple[type[Member], ...]] = {
    "perdix": (LastValue, DampedTrend, SeasonalTrend),
    "last-value": (LastValue,),
}
MADE: tuple[Shape, ...] = ("daily", "sine", "step", "spikes")


@dataclass(frozen=True)
class Trace:
    """A workload by epochs, and from which epoch on forecasts of it are made."""

    name: str
    workload: Workload
    first: int


@cache
def traces() -> tuple[Trace, ...]:
    found = [_by_second(path) for path in sorted((DATA / "workloads").glob("*.csv"))]
    for step, step_s in (("1h", 3_600.0), ("15min", 900.0), ("5min", 300.0)):
        found += [_by_step(path, step_s) for path in sorted((DATA / "load-prediction").glob(f"*_{step}.csv"))]
    return tuple(found) or tuple(map(_made, MADE))


def _by_second(path: Path) -> Trace:
    per_s = read_trace(path)
    return _trace(path.stem.split("_")[0], per_s[: len(per_s) // 60 * 60].reshape(-1, 60).mean(axis=1), 60.0, 0.25)


def _by_step(path: Path, step_s: float) -> Trace:
    per_s = pd.read_csv(path, float_precision="round_trip").iloc[:, 1].interpolate(limit_direction="both")
    return _trace(path.stem, per_s.to_numpy(dtype=np.float64), step_s, 0.5)


def _made(shape: Shape) -> Trace:
    spec = WorkloadSpec(shape=shape, peak_per_s=100_000.0, period_s=21_600)
    return _trace(f"twin-{shape}", workload(spec, 86_400, seed=1).reshape(-1, 60).mean(axis=1), 60.0, 0.25)


def _trace(name: str, per_s: Values, step_s: float, known: float) -> Trace:
    return Trace(name, Workload(0.0, step_s, per_s), max(int(len(per_s) * known), len(per_s) - TESTED))


@cache
def gb_in_cores() -> float:
    """Return what a GB of memory costs in a list of prices, in what a core costs there: 0.07."""
    types = list(load_prices(PRICES).instance_types.values())
    given = np.array([[size.cores, size.memory_mb / 1_024.0] for size in types])
    core, gb = np.linalg.lstsq(given, np.array([size.price_per_h for size in types]))[0]
    return float(gb / core)


def four_sizes(operator: str) -> Sizes:
    per_s = true_performance(load_operator(operator), np.array(CORES), MEMORY_MB)
    prices = np.array(CORES) + gb_in_cores() * MEMORY_MB / 1_024.0
    return Sizes.of(tuple(f"{cores:g}" for cores in CORES), per_s, prices, start=START, stop=STOP)


def scaled(per_s: Values, sizes: Sizes, workers: int) -> Values:
    return per_s * (0.999 * workers * float(sizes.per_s[0]) / float(per_s.max()))


# ---- the workload is known


def problems(wanted: argparse.Namespace) -> Iterator[tuple[dict[str, object], Problem]]:
    """Yield each operator on each trace, named, and what is to be planned of it."""
    for operator, trace in product(wanted.operators, chosen(wanted)):
        sizes = four_sizes(operator)
        levels = scaled(trace.workload.per_s, sizes, wanted.workers)[:LONGEST]
        yield {"operator": operator, "trace": trace.name}, Problem.of(sizes, levels, 0, 1)


def known_rows(wanted: argparse.Namespace) -> Iterator[dict[str, object]]:
    for named, problem in problems(wanted):
        begun = time.process_time()
        best = plan(problem)
        took_s = time.process_time() - begun
        alone = [single(problem, index) for index in range(len(problem.sizes))]
        yield {
            **named,
            "epochs": len(problem.levels_per_s),
            "qcesa": best.costs.total,
            "exact": best.exact,
            "gap": best.gap,
            "candidates": best.candidates,
            "cpu_s": took_s,
            "changes_share": (best.costs.starts + best.costs.stops) / best.costs.total,
            **{f"cba_{name}": mix.costs.total for name, mix in zip(problem.sizes.names, alone, strict=True)},
            **against(best.costs.total, [mix.costs.total for mix in alone]),
        }


def against(cost: float, alone: list[float]) -> dict[str, float]:
    return {"saved_of_best_size": 1.0 - cost / min(alone), "saved_of_worst_size": 1.0 - cost / max(alone)}


# ---- the workload is forecast


def forecasts(trace: Trace, families: tuple[type[Member], ...], seed: int) -> Values:
    """Return what is planned for at each origin, shape ``(origins, HORIZON)``: the mean, raised as the policy does."""
    known, step_s = trace.workload, trace.workload.step_s
    horizon_s, named = HORIZON * step_s, {family.family: family for family in families}
    day = max(1, round(DAY_S / step_s))
    warm = trace.first // 2
    forecaster = Forecaster.unproven(known.part(0, warm), named, horizon_s=horizon_s, seed=seed)
    said = []
    for origin in range(warm + 1, len(known)):
        forecaster = forecaster.update(known.part(origin - 1, origin))
        if (origin - trace.first) % day == 0:
            forecaster = forecaster.refitted(known.part(0, origin), named, seed=seed)
        if origin >= trace.first:
            made = forecaster.forecast(horizon_s, step_s)
            said.append(made.mean * max(float(made.quantiles[QUANTILE][0] / max(made.mean[0], 1e-9)), 1.0))
    return np.stack(said)


@dataclass(frozen=True)
class Outcome:
    """What an algorithm came to on one trace."""

    cost: float
    unmet: float


def run(sizes: Sizes, truth: Values, said: Values, only: int | None) -> Outcome:
    """Plan anew at each epoch, run the first mix, and count what it costs and leaves unmet."""
    running, mixes = np.zeros(len(sizes), dtype=np.int64), []
    for ahead in said:
        problem = Problem.of(sizes, ahead, running, 1)
        found = steadied(plan(problem)) if only is None else single(problem, only)
        running = found.mixes[0]
        mixes.append(running)
    done = Problem.of(sizes, truth, 0, 1)
    ran = np.stack(mixes)
    return Outcome(done.costs(ran).total, float(done.shortfall_per_s(ran).sum() / truth.sum()))


def forecast_rows(wanted: argparse.Namespace) -> Iterator[dict[str, object]]:
    for operator, trace in product(wanted.operators, chosen(wanted)):
        sizes = four_sizes(operator)
        factor = float(scaled(trace.workload.per_s, sizes, wanted.workers).max() / trace.workload.per_s.max())
        truth = trace.workload.per_s[trace.first :] * factor
        for name in wanted.forecasters:
            said = forecasts(trace, FORECASTERS[name], wanted.seed) * factor
            ran = {
                margin: [run(sizes, truth, said * (1.0 + margin), only) for only in (None, *range(len(sizes)))]
                for margin in MARGINS
            }
            plain = ran[0.0]
            equal = [cost_where_unmet([ran[margin][who] for margin in MARGINS]) for who in range(len(sizes) + 1)]
            yield {
                "operator": operator,
                "trace": trace.name,
                "forecaster": name,
                "epochs": len(truth),
                "qcesa": plain[0].cost,
                "unmet_qcesa": plain[0].unmet,
                **{f"cba_{size}": mix.cost for size, mix in zip(sizes.names, plain[1:], strict=True)},
                **{f"unmet_{size}": mix.unmet for size, mix in zip(sizes.names, plain[1:], strict=True)},
                **against(plain[0].cost, [mix.cost for mix in plain[1:]]),
                "equal_qcesa": equal[0],
                **{f"equal_{size}": cost for size, cost in zip(sizes.names, equal[1:], strict=True)},
                "equal_saved_of_best_size": 1.0 - equal[0] / min(equal[1:]),
            }


def cost_where_unmet(outcomes: list[Outcome], unmet: float = UNMET) -> float:
    """Return the least cost at which no more than a share of the records is unmet, also between neighbouring runs."""
    costs = [outcome.cost for outcome in outcomes if outcome.unmet <= unmet]
    for less, more in pairwise(outcomes):
        if less.unmet > unmet > more.unmet:
            costs.append(float(np.interp(unmet, [more.unmet, less.unmet], [more.cost, less.cost])))
    return min(costs, default=float("nan"))


# ---- large, and small


def large_problem(seed: int, start: float) -> Problem:
    cores = 0.6 * np.arange(1, 9)
    random = np.random.default_rng(seed)
    per_s = 100.0 * (cores / 0.6) ** 0.85 * random.uniform(0.95, 1.05, 8)
    sizes = Sizes.of(tuple(f"{core:.1f}" for core in cores), per_s, cores, start=start, stop=start / 3.0)
    wave = 0.55 + 0.45 * np.sin(np.arange(1_000) / 40.0)
    return Problem.of(sizes, 19_600.0 * wave * np.clip(random.normal(1.0, 0.03, 1_000), 0.9, 1.0), 0, 1, 200)


def large_rows(wanted: argparse.Namespace) -> Iterator[dict[str, object]]:
    for start in (0.3, 3.0, 12.0):
        for seed in range(wanted.seed, wanted.seed + 3):
            problem = large_problem(seed, start)
            begun, clock = time.process_time(), time.perf_counter()
            found = plan(problem)
            cpu_s, wall_s = time.process_time() - begun, time.perf_counter() - clock
            alone = min(single(problem, index).costs.total for index in range(len(problem.sizes)))
            yield {
                "start_price": start,
                "seed": seed,
                "most_workers": int(found.mixes.sum(axis=1).max()),
                "exact": found.exact,
                "cost": found.costs.total,
                "above_bound": found.gap,
                "saved_of_best_size": 1.0 - found.costs.total / alone,
                "cpu_s": cpu_s,
                "wall_s": wall_s,
                "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
            }


def near_rows(wanted: argparse.Namespace) -> Iterator[dict[str, object]]:
    """How far the good plan is from the cheapest, where that is known."""
    for named, problem in problems(wanted):
        best, near = plan(problem), plan(problem, exact_candidates=0)
        yield {
            **named,
            "exact": best.exact,
            "near_above_best": near.costs.total / best.costs.total - 1.0,
            "near_above_bound": near.gap,
            "best_above_bound": best.costs.total / near.lower_bound - 1.0,
        }


def tick_rows(wanted: argparse.Namespace) -> Iterator[dict[str, object]]:
    random = np.random.default_rng(wanted.seed)
    for start in (0.05, 0.5, 5.0):
        names, per_s = tuple(f"{cores:g}" for cores in CORES), (1_000.0, 1_900.0, 2_700.0, 3_300.0)
        sizes = Sizes.of(names, per_s, CORES, start=start, stop=start / 2.5)
        took, candidates = [], []
        for _ in range(200):
            wave = 0.5 + 0.4 * np.sin(np.arange(15) / 4.0 + random.uniform(0, 6)) + random.normal(0, 0.02, 15)
            problem = Problem.of(sizes, 12_000.0 * np.clip(wave, 0.0, 1.0), random.integers(0, 3, 4), 1, 12)
            begun = time.process_time()
            found = plan(problem)
            took.append(1e3 * (time.process_time() - begun))
            candidates.append(found.candidates)
        yield {
            "start_price": start,
            "median_candidates": float(np.median(candidates)),
            "median_cpu_ms": float(np.median(took)),
            "p95_cpu_ms": float(np.quantile(took, 0.95)),
        }


# ---- asked and printed


def chosen(wanted: argparse.Namespace) -> list[Trace]:
    return [trace for trace in traces() if not wanted.traces or trace.name in wanted.traces]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = options(__doc__)
    what = parser.add_mutually_exclusive_group()
    for name in ("forecast", "large", "near", "tick"):
        what.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--traces", nargs="+", default=[])
    parser.add_argument("--forecasters", nargs="+", choices=FORECASTERS, default=list(FORECASTERS))
    parser.add_argument("--operators", nargs="+", choices=operator_names(), default=operator_names())
    parser.add_argument("--workers", type=int, default=16, help="smallest workers that the peak takes")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    wanted = parsed(arguments)
    named = {"forecast": forecast_rows, "large": large_rows, "near": near_rows, "tick": tick_rows}
    rows = next((rows for name, rows in named.items() if getattr(wanted, name)), known_rows)
    show(rows(wanted), as_lines=wanted.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
