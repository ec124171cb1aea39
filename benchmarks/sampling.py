"""DSA against FSSA 1 to 5: samples of four operators' twins, and what a random forest learns from them (QEScalor, 3).

Run ``python -m benchmarks.sampling [--seeds 5] [--from-seed 1] [--varied] [--json]`` from the project's folder.

As in the paper, a forest of its parameters is trained on what each method sampled and predicts the performance at the
points of step 1. Every method samples on its own, with luck of its own; so the points of step 1 carry noise that no
method has seen but step 1 itself. ``fssa-1 again`` is a second sampling with step 1: what is left when every point is
sampled. ``truth`` judges by the twin's true performance instead, ``plane`` so on the whole grid of cores and memory, of
which the sweeps show only two edges. Errors are shares of the mean performance of step 1.

Where a cliff lies between the points of a fixed step is luck that one operator has with every seed. ``--varied`` makes
each seed another operator of the same kind: cost, threads, live memory and working set are drawn anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler

from perdix.models.sampling.course import rule_called
from perdix.models.sampling.rows import OperatorSamples
from perdix.profiling.sampling import sample_operator
from perdix.profiling.twin_sampling import TwinSamplingInstances
from perdix.telemetry.window import Values
from perdix.twin.operators.parameters import OperatorTwinParameters, load_operator, operator_names
from perdix.twin.operators.physics import true_performance

FIXED = ("fssa-2", "fssa-3", "fssa-4", "fssa-5")
METHODS = ("fssa-1", *FIXED, "dsa", "fssa-1 again")
WITHIN, AT_MOST = 1.05, 0.60  # the figure: at most these multiples of the best step's error and samples
VARIED = 0.15  # standard deviation of the log
LUCK = 100  # seeds of methods lie so far apart


@dataclass(frozen=True)
class Result:
    """One method on one operator with one seed.

    ``samples``, ``failed``: sizes that became samples, and those that died.
    ``rmse``, ``mae``, ``rmse_truth``, ``rmse_plane``: shares of the mean performance at the points of step 1.
    ``core_h``: core-hours of sampling instances.
    """

    operator: str
    method: str
    seed: int
    samples: int
    failed: int
    rmse: float
    mae: float
    rmse_truth: float
    rmse_plane: float
    core_h: float


def sampled(operator: OperatorTwinParameters, method: str, seed: int) -> OperatorSamples:
    """Return what a method finds of an operator, with luck of its own."""
    instances = TwinSamplingInstances(operator, LUCK * seed + METHODS.index(method))
    return sample_operator(operator.name, rule_called(method.removesuffix(" again")), operator.sizes, instances)


def forest(found: OperatorSamples, seed: int) -> Pipeline:
    """Return the paper's forest, trained on samples."""
    x, y = arrays(found)
    trees = RandomForestRegressor(
        n_estimators=100,
        bootstrap=True,
        criterion="squared_error",
        max_features=1.0,
        min_samples_leaf=1,
        min_samples_split=2,
        random_state=seed,
    )
    return make_pipeline(MinMaxScaler(), trees).fit(x, y)


def arrays(found: OperatorSamples) -> tuple[Values, Values]:
    """Return sizes (cores, MB), shape ``(n, 2)``, and records/s, shape ``(n,)``."""
    sizes = np.array([(sample.cpu_cores, sample.memory_mb) for sample in found.samples])
    return sizes, np.array([sample.per_s for sample in found.samples])


def varied(operator: OperatorTwinParameters, seed: int) -> OperatorTwinParameters:
    """Return another operator of the same kind: four of its numbers are some 15 % off."""
    cost, threads, live, working = np.exp(VARIED * np.random.default_rng([seed, 31]).standard_normal(4))
    compute, memory = operator.compute, operator.memory
    document = operator.model_dump()
    document["compute"] |= {"cost_us": compute.cost_us * cost, "threads": max(compute.threads * threads, 1.0)}
    document["memory"] |= {"live_mb": memory.live_mb * live, "working_set_mb": memory.working_set_mb * working}
    return OperatorTwinParameters.model_validate(document)


def results(name: str, seed: int, *, vary: bool = False) -> list[Result]:
    """Return every method's result on one operator, or on one of its kind."""
    operator = varied(load_operator(name), seed) if vary else load_operator(name)
    found = {method: sampled(operator, method, seed) for method in METHODS}
    x, reference = arrays(found["fssa-1"])
    truth = true_performance(operator, x[:, 0], x[:, 1])
    memory = operator.sizes.memory.values()
    plane = np.array([(c, m) for c in operator.sizes.cpu.values() for m in memory if m > operator.memory.live_mb])
    plane_truth = true_performance(operator, plane[:, 0], plane[:, 1])
    scale, rows = float(reference.mean()), []
    for method, result in found.items():
        model = forest(result, seed)
        predicted = model.predict(x)
        rows.append(
            Result(
                name,
                method,
                seed,
                len(result.samples),
                len(result.failed),
                _rmse(predicted - reference) / scale,
                float(np.abs(predicted - reference).mean()) / scale,
                _rmse(predicted - truth) / scale,
                _rmse(model.predict(plane) - plane_truth) / scale,
                result.core_s / 3600.0,
            )
        )
    return rows


@dataclass(frozen=True)
class Verdict:
    """DSA beside the best of the fixed steps on one operator, means over seeds."""

    operator: str
    best: str  # the fixed step of 2 to 5 with the least RMSE
    # error, samples, tried: DSA's RMSE, number of samples, and number of sizes tried (samples and failures), in
    # multiples of that step's
    error: float
    samples: float
    tried: float
    reached: bool  # whether both are within the figure
    seeds_reached: int  # on how many seeds they are, each against the best step of that seed
    error_of_reference: float
    samples_of_reference: float


def verdict(rows: Sequence[Result]) -> Verdict:
    """Judge DSA on one operator's results."""
    mean = {
        m: np.mean([(row.rmse, row.samples, row.samples + row.failed) for row in rows if row.method == m], axis=0)
        for m in METHODS
    }
    best = min(FIXED, key=lambda method: mean[method][0])
    error, samples, tried = map(float, mean["dsa"] / mean[best])
    seeds = sorted({row.seed for row in rows})
    per_seed = [{row.method: row for row in rows if row.seed == seed} for seed in seeds]
    reached = 0
    for row in per_seed:
        step = min((row[method] for method in FIXED), key=lambda result: result.rmse)
        reached += _within(row["dsa"].rmse / step.rmse, row["dsa"].samples / step.samples)
    every = mean["dsa"] / mean["fssa-1 again"]
    within = _within(error, samples)
    return Verdict(rows[0].operator, best, error, samples, tried, within, reached, float(every[0]), float(every[1]))


def _within(error: float, samples: float) -> bool:
    return bool(error <= WITHIN and samples <= AT_MOST)


def _rmse(errors: Values) -> float:
    return float(np.sqrt((errors**2).mean()))


def _print(rows: Sequence[Result], verdicts: Sequence[Verdict], seeds: Sequence[int]) -> None:
    print(
        f"seeds {seeds[0]} to {seeds[-1]}; mean +/- standard deviation over seeds; errors in % of the mean performance"
    )
    heads = f"{'operator':9} {'method':13} {'samples':>11} {'failed':>6} {'RMSE':>13} {'MAE':>13}"
    print(f"{heads} {'truth':>6} {'plane':>6} core-h")
    for judgement in verdicts:
        for method in METHODS:
            these = [row for row in rows if (row.operator, row.method) == (judgement.operator, method)]
            figures = np.array([[getattr(row, name) for name in _FIGURES] for row in these])
            (samples, failed, rmse, mae, truth, plane, core_h), spread = figures.mean(axis=0), figures.std(axis=0)
            print(f"{judgement.operator:9} {method:13} {samples:5.1f} +/-{spread[0]:3.1f} {failed:6.1f} "
                  f"{rmse:6.2%} +/-{100 * spread[2]:4.2f} {mae:6.2%} +/-{100 * spread[3]:4.2f} "
                  f"{truth:6.2%} {plane:6.2%} {core_h:6.1f}")  # fmt: skip
    print(f"\nDSA against the best fixed step of 2 to 5 (figure: error <= {WITHIN}, samples <= {AT_MOST}), "
          "and against sampling every point again")  # fmt: skip
    for judgement in verdicts:
        said = "reached" if judgement.reached else "MISSED"
        print(f"{judgement.operator:9} {judgement.best}: error x{judgement.error:.2f}, "
              f"samples x{judgement.samples:.2f}, sizes tried x{judgement.tried:.2f}: {said}, "
              f"on {judgement.seeds_reached} of {len(seeds)} seeds; "
              f"every point: error x{judgement.error_of_reference:.2f}, "
              f"samples x{judgement.samples_of_reference:.2f}")  # fmt: skip
    error, samples = (float(np.exp(np.mean(np.log([getattr(o, n) for o in verdicts])))) for n in ("error", "samples"))
    print(f"geometric mean over operators: error x{error:.2f}, samples x{samples:.2f}")


_FIGURES = ("samples", "failed", "rmse", "mae", "rmse_truth", "rmse_plane", "core_h")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--from-seed", type=int, default=1, help="the first; rules were chosen on 1 to 5")
    parser.add_argument("--varied", action="store_true", help="each seed another operator of the same kind")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    wanted = parser.parse_args(arguments)
    seeds = list(range(wanted.from_seed, wanted.from_seed + wanted.seeds))
    rows = [row for name in operator_names() for seed in seeds for row in results(name, seed, vary=wanted.varied)]
    verdicts = [verdict([row for row in rows if row.operator == name]) for name in operator_names()]
    if wanted.json:
        print(
            json.dumps(
                {"results": [asdict(row) for row in rows], "verdicts": [asdict(judgement) for judgement in verdicts]}
            )
        )
    else:
        _print(rows, verdicts, seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
