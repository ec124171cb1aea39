"""Families of performance models on samples of four operators' twins: which is off least (QEScalor, 3.1, table 3).

Run ``python -m benchmarks.performance [--seeds 5] [--from-seed 1] [--method dsa] [--repeats 10] [--json]`` from the
project's folder; a seed takes a minute of one core with ten repeats. ``--repeats 0`` judges by the truth alone,
with published parameters (those of the smooth families searched), in seconds.

``left out`` is what training goes by: ten folds, RMSE and MAE over the repeats with their spread, parameters by grid
search. The other columns judge the fitted model by the twin's true performance: at the points of a fixed step of 1, as
the paper does; over the plane of cores and memory, inside of what was sampled (its convex hull); and in the corner that
lies in the box of the samples but outside of their hull. All are shares of the mean performance at the points of step
1.
``as published`` has the paper's parameters, without a search.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.sampling import sampled
from perdix.models.performance.cross_validation import REPEATS, Errors, best_parameters, held_out_rates
from perdix.models.performance.families import FAMILIES, SUPPORT_VECTORS, Family, Parameters, family_of
from perdix.models.performance.fitted import FittedPerformance, outside
from perdix.models.performance.samples import Sample, checked, rates_of, sizes_of
from perdix.models.performance.selection import select_performance
from perdix.telemetry.window import Values
from perdix.twin.operators.parameters import OperatorTwinParameters, load_operator, operator_names
from perdix.twin.operators.physics import true_performance

FIGURES = ("rmse", "rmse_spread", "mae", "mae_spread", "step_1", "inside", "corner")


@dataclass(frozen=True)
class Result:
    """One family on one sampling of an operator; errors are shares of the mean performance at the points of step 1.

    ``rmse``, ``rmse_spread``, ``mae``, ``mae_spread``: on samples left out: means over the repeats, and their standard
    deviations.
    ``step_1``, ``inside``, ``corner``: RMSE against the true performance.
    ``promised_corner``: mean of predicted minus true performance in the corner: how much too much is promised there.
    """

    operator: str
    seed: int
    family: str
    samples: int
    rmse: float
    rmse_spread: float
    mae: float
    mae_spread: float
    step_1: float
    inside: float
    corner: float
    promised_corner: float
    chosen: bool
    parameters: dict[str, object]
    fit_s: float


@dataclass(frozen=True)
class Truth:
    """True performance of an operator at the points of step 1, and over the plane; sizes where it works at all."""

    step_1: Values
    plane: Values
    at_step_1: Values
    at_plane: Values

    @classmethod
    def of(cls, operator: OperatorTwinParameters) -> Truth:
        """Return the truth of a twin."""
        cores, memory = operator.sizes.cpu.values(), operator.sizes.memory.values()
        edges = [(c, memory[-1]) for c in cores] + [(cores[-1], m) for m in memory[:-1]]
        plane = [(c, m) for c in cores for m in memory]
        found = []
        for sizes in (np.array(edges), np.array(plane)):
            rates = true_performance(operator, sizes[:, 0], sizes[:, 1])
            found.append((sizes[rates > 0.0], rates[rates > 0.0]))
        (step_1, at_step_1), (every, at_plane) = found
        return cls(step_1, every, at_step_1, at_plane)


@dataclass(frozen=True)
class Told:
    """What is known of one family before it is judged by the truth."""

    family: str
    model: FittedPerformance
    errors: Errors
    fit_s: float
    chosen: bool = False


def results(name: str, seed: int, method: str, repeats: int) -> list[Result]:
    """Return every family on one sampling of an operator, and the support vectors as published."""
    operator = load_operator(name)
    samples = checked(sampled(operator, method, seed).samples)
    every = list(_trained(samples, seed, repeats) if repeats else _as_published(FAMILIES, samples, seed, 0))
    every += [replace(candidate, family=f"{candidate.family}, as published") for candidate in
             _as_published([SUPPORT_VECTORS], samples, seed, repeats)]  # fmt: skip
    truth = Truth.of(operator)
    return [_row(name, seed, samples, candidate, truth) for candidate in every]


def _trained(samples: Sequence[Sample], seed: int, repeats: int) -> Iterator[Told]:
    found = select_performance(samples, seed, repeats=repeats)
    for candidate in found.candidates:
        assert candidate.errors is not None, candidate.error
        yield Told(
            candidate.family,
            found.fitted[candidate.family],
            candidate.errors,
            candidate.fit_s,
            candidate.family == found.winner,
        )


def _as_published(families: Sequence[Family], samples: Sequence[Sample], seed: int, repeats: int) -> Iterator[Told]:
    sizes, rates = sizes_of(samples), rates_of(samples)
    for family in families:
        began = time.perf_counter()
        searched = len(families) > 1 and not family.bounded
        parameters = best_parameters(family, sizes, rates, seed) if searched else family.published
        model = FittedPerformance.fit(family, parameters, samples, seed)
        errors = Errors(*[math.nan] * 5)
        if repeats:
            held_out = held_out_rates(family, parameters, sizes, rates, repeats=range(seed, seed + repeats))
            errors = Errors.of(held_out, rates)
        yield Told(family.family, model, errors, time.perf_counter() - began)


def _row(name: str, seed: int, samples: Sequence[Sample], learned: Told, truth: Truth) -> Result:
    scale, errors = float(truth.at_step_1.mean()), learned.errors
    off_1 = _off(learned.model, truth.step_1, truth.at_step_1) / scale
    off = _off(learned.model, truth.plane, truth.at_plane) / scale
    beyond = outside(sizes_of(samples), truth.plane)
    return Result(
        name,
        seed,
        learned.family,
        len(samples),
        errors.rmse_per_s / scale,
        errors.rmse_spread_per_s / scale,
        errors.mae_per_s / scale,
        errors.mae_spread_per_s / scale,
        _rms(off_1),
        _rms(off[~beyond]),
        _rms(off[beyond]),
        float(off[beyond].mean()),
        learned.chosen,
        _differs(learned.model.parameters, family_of(learned.model.family)),
        learned.fit_s,
    )


def _off(model: FittedPerformance, sizes: Values, truth: Values) -> Values:
    return model.predict(sizes[:, 0], sizes[:, 1]).per_s - truth


def _rms(off: Values) -> float:
    return float(np.sqrt((off**2).mean())) if len(off) else float("nan")


def _differs(parameters: Parameters, family: Family) -> dict[str, object]:
    return {name: value for name, value in parameters.items() if value != family.published[name]}


def _print_operator(rows: Sequence[Result]) -> None:
    counts = sorted({row.samples for row in rows})
    print(f"\n{rows[0].operator}: {counts[0]}{f' to {counts[-1]}' if len(counts) > 1 else ''} samples")
    print(
        f"{'family':30} {'left out: RMSE':>17} {'MAE':>17} {'step 1':>8} {'inside':>8} {'corner':>8}  chosen  s  search"
    )
    for family in dict.fromkeys(row.family for row in rows):
        these = [row for row in rows if row.family == family]
        mean = {name: float(np.mean([getattr(row, name) for row in these])) for name in FIGURES}
        searched = "; ".join(sorted({str(row.parameters) for row in these if row.parameters}))
        rmse, mae = (_with_spread(mean[name], mean[f"{name}_spread"]) for name in ("rmse", "mae"))
        print(f"{family:30} {rmse} {mae} "
              f"{mean['step_1']:8.2%} {mean['inside']:8.2%} {mean['corner']:8.2%}  {sum(r.chosen for r in these):6} "
              f"{np.mean([r.fit_s for r in these]):4.1f} {searched}", flush=True)  # fmt: skip


def _with_spread(error: float, spread: float) -> str:
    return f"{error:8.2%} ± {spread:6.2%}" if math.isfinite(error) else f"{'-':>17}"


def _print_all(rows: Sequence[Result]) -> None:
    print("\ngeometric means over operators and seeds, and how often a family was the best")
    print(f"{'family':30} {'left out':>14} {'step 1':>14} {'inside':>14} {'corner':>14} {'promised there':>15}")
    runs = sorted({(row.operator, row.seed) for row in rows})
    for family in dict.fromkeys(row.family for row in rows):
        these = [row for row in rows if row.family == family]
        said = []
        for name in ("rmse", "step_1", "inside", "corner"):
            if not all(math.isfinite(getattr(row, name)) for row in rows):
                said.append(f"{'-':>14} ")
                continue
            mean = float(np.exp(np.mean([np.log(getattr(row, name)) for row in these])))
            best = sum(
                min((row for row in rows if (row.operator, row.seed) == run), key=lambda row: getattr(row, name)).family
                == family
                for run in runs
            )
            said.append(f"{mean:8.2%}, {best:2}x ")
        print(f"{family:30} {' '.join(said)} {np.mean([row.promised_corner for row in these]):+14.1%}")


def _known(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _each(seeds: Sequence[int], method: str, repeats: int) -> Iterator[list[Result]]:
    for name in operator_names():
        yield [row for seed in seeds for row in results(name, seed, method, repeats)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--from-seed", type=int, default=1, help="the first")
    parser.add_argument("--method", default="dsa", help="how sizes are sampled: dsa, or fssa-2 to fssa-5")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of the cross-validation")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    wanted = parser.parse_args(arguments)
    seeds = range(wanted.from_seed, wanted.from_seed + wanted.seeds)
    rows: list[Result] = []
    for of_operator in _each(seeds, wanted.method, wanted.repeats):
        rows += of_operator
        if not wanted.json:
            _print_operator(of_operator)
    if wanted.json:
        print(json.dumps([{name: _known(value) for name, value in asdict(row).items()} for row in rows]))
    else:
        _print_all(rows)
        print(f"\n{len(FAMILIES)} families; {wanted.method}, seeds {seeds[0]} to {seeds[-1]}, {wanted.repeats} repeats")
    return 0


if __name__ == "__main__":
    sys.exit(main())
