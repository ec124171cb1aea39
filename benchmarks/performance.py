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

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from benchmarks.harness import Row, markdown, options, records, seeds_of, write_json
from benchmarks.sampling import sampled
from perdix.models.performance.cross_validation import REPEATS, Errors, best_parameters, held_out_rates
from perdix.models.performance.families import FAMILIES, SUPPORT_VECTORS, Family, Parameters, family_of
from perdix.models.performance.fitted import FittedPerformance, outside
from perdix.models.performance.samples import Sample, checked, rates_of, sizes_of
from perdix.models.performance.selection import select_performance
from perdix.telemetry.window import Values
from perdix.twin.operators.parameters import OperatorTwinParameters, load_operator, operator_names
from perdix.twin.operators.physics import true_performance

FIGURES = [
    "rmse",
    "rmse_spread",
    "mae",
    "mae_spread",
    "step_1",
    "inside",
    "corner",
    "promised_corner",
    "chosen",
    "fit_s",
]


@dataclass(frozen=True)
class Truth:
    """True performance of an operator at the points of step 1, and over the plane; sizes where it works at all."""

    step_1: Values
    plane: Values
    at_step_1: Values
    at_plane: Values

    @classmethod
    def of(cls, operator: OperatorTwinParameters) -> Truth:
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


def results(name: str, seed: int, method: str, repeats: int) -> list[Row]:
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


def _row(name: str, seed: int, samples: Sequence[Sample], learned: Told, truth: Truth) -> Row:
    """Return one family on one sampling; errors are shares of the mean performance at the points of step 1.

    ``rmse``, ``rmse_spread``, ``mae``, ``mae_spread``: on samples left out: means over the repeats, and their standard
    deviations. ``step_1``, ``inside``, ``corner``: RMSE against the true performance.
    ``promised_corner``: mean of predicted minus true performance in the corner: how much too much is promised there.
    """
    scale, errors = float(truth.at_step_1.mean()), learned.errors
    off_1 = _off(learned.model, truth.step_1, truth.at_step_1) / scale
    off = _off(learned.model, truth.plane, truth.at_plane) / scale
    beyond = outside(sizes_of(samples), truth.plane)
    return {
        "operator": name,
        "seed": seed,
        "family": learned.family,
        "samples": len(samples),
        "rmse": errors.rmse_per_s / scale,
        "rmse_spread": errors.rmse_spread_per_s / scale,
        "mae": errors.mae_per_s / scale,
        "mae_spread": errors.mae_spread_per_s / scale,
        "step_1": _rms(off_1),
        "inside": _rms(off[~beyond]),
        "corner": _rms(off[beyond]),
        "promised_corner": float(off[beyond].mean()),
        "chosen": learned.chosen,
        "parameters": _differs(learned.model.parameters, family_of(learned.model.family)),
        "fit_s": learned.fit_s,
    }


def _off(model: FittedPerformance, sizes: Values, truth: Values) -> Values:
    return model.predict(sizes[:, 0], sizes[:, 1]).per_s - truth


def _rms(off: Values) -> float:
    return float(np.sqrt((off**2).mean())) if len(off) else float("nan")


def _differs(parameters: Parameters, family: Family) -> dict[str, object]:
    return {name: value for name, value in parameters.items() if value != family.published[name]}


def _by_family(rows: Sequence[Row]) -> list[Row]:
    """Return a row per family: means over seeds, how often it was chosen, and which parameters were found."""
    frame = pd.DataFrame(rows)
    by_family = frame.groupby("family", sort=False)
    searched = by_family["parameters"].agg(lambda found: "; ".join(sorted({str(each) for each in found if each})))
    means = by_family[FIGURES].mean().assign(chosen=by_family["chosen"].sum(), searched=searched)
    return records(means.reset_index())


def _over_all(rows: Sequence[Row]) -> list[Row]:
    """Return a row per family: geometric means over operators and seeds, and how often it was the best of a run."""
    frame = pd.DataFrame(rows)
    found = pd.DataFrame({"promised_corner": frame.groupby("family", sort=False)["promised_corner"].mean()})
    for figure in ("rmse", "step_1", "inside", "corner"):
        if np.isfinite(frame[figure]).all():
            best = frame.loc[frame.groupby(["operator", "seed"])[figure].idxmin(), "family"].value_counts()
            found[figure] = np.exp(np.log(frame[figure]).groupby(frame["family"]).mean())
            found[f"{figure}_best"] = best.reindex(found.index, fill_value=0)
    return records(found.reset_index())


def main(arguments: list[str] | None = None) -> int:
    parser = options(__doc__, seeds=5, first="--from-seed")
    parser.add_argument("--method", default="dsa", help="how sizes are sampled: dsa, or fssa-2 to fssa-5")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of the cross-validation")
    asked = parser.parse_args(arguments)
    seeds, rows = seeds_of(asked), list[Row]()
    for name in operator_names():
        of_operator = [row for seed in seeds for row in results(name, seed, asked.method, asked.repeats)]
        rows += of_operator
        if not asked.json:
            print(f"\n{name}: {' or '.join(sorted({str(row['samples']) for row in of_operator}))} samples\n")
            markdown(_by_family(of_operator))
    if asked.json:
        write_json(rows, indent=None)
        return 0
    print("\ngeometric means over operators and seeds, and how often a family was the best\n")
    markdown(_over_all(rows))
    print(f"\n{len(FAMILIES)} families; {asked.method}, seeds {seeds[0]} to {seeds[-1]}, {asked.repeats} repeats")
    return 0


if __name__ == "__main__":
    sys.exit(main())
