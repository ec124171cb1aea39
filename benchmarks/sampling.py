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

import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler

from benchmarks.harness import Row, geometric_mean, grouped, markdown, options, records, seeds_of, write_json
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


def results(name: str, seed: int, *, vary: bool = False) -> list[Row]:
    """Return every method's result on one operator, or on one of its kind.

    ``samples``, ``failed``: sizes that became samples, and those that died.
    ``rmse``, ``mae``, ``rmse_truth``, ``rmse_plane``: shares of the mean performance at the points of step 1.
    ``core_h``: core-hours of sampling instances.
    """
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
        row = {
            "operator": name,
            "method": method,
            "seed": seed,
            "samples": len(result.samples),
            "failed": len(result.failed),
            "rmse": _rmse(predicted - reference) / scale,
            "mae": float(np.abs(predicted - reference).mean()) / scale,
            "rmse_truth": _rmse(predicted - truth) / scale,
            "rmse_plane": _rmse(model.predict(plane) - plane_truth) / scale,
            "core_h": result.core_s / 3600.0,
        }
        rows.append(row)
    return rows


def verdict(rows: Sequence[Row]) -> Row:
    """Judge DSA on one operator's results beside the best of the fixed steps (2 to 5), means over seeds.

    ``error``, ``samples``, ``tried``: DSA's RMSE, number of samples, and number of sizes tried (samples and failures),
    in multiples of that step's; ``reached``: whether both are within the figure; ``seeds_reached``: on how many seeds
    they are, each against the best step of that seed.
    """
    frame = pd.DataFrame(rows).assign(tried=lambda found: found["samples"] + found["failed"])
    mean = frame.groupby("method")[["rmse", "samples", "tried"]].mean()
    best = mean.loc[list(FIXED), "rmse"].idxmin()
    error, samples, tried = map(float, mean.loc["dsa"] / mean.loc[best])
    reached = 0
    for of_seed in grouped(rows, lambda row: row["seed"]).values():
        row = {result["method"]: result for result in of_seed}
        step = min((row[method] for method in FIXED), key=lambda result: result["rmse"])
        reached += _within(row["dsa"]["rmse"] / step["rmse"], row["dsa"]["samples"] / step["samples"])
    every = mean.loc["dsa"] / mean.loc["fssa-1 again"]
    return {
        "operator": rows[0]["operator"],
        "best": best,
        "error": error,
        "samples": samples,
        "tried": tried,
        "reached": _within(error, samples),
        "seeds_reached": reached,
        "error_of_reference": every["rmse"],
        "samples_of_reference": every["samples"],
    }


def _within(error: float, samples: float) -> bool:
    return bool(error <= WITHIN and samples <= AT_MOST)


def _rmse(errors: Values) -> float:
    return float(np.sqrt((errors**2).mean()))


def main(arguments: list[str] | None = None) -> int:
    parser = options(__doc__, seeds=5, first="--from-seed")  # rules were chosen on 1 to 5
    parser.add_argument("--varied", action="store_true", help="each seed another operator of the same kind")
    asked = parser.parse_args(arguments)
    seeds = seeds_of(asked)
    rows = [row for name in operator_names() for seed in seeds for row in results(name, seed, vary=asked.varied)]
    verdicts = [verdict(mine) for mine in grouped(rows, lambda row: row["operator"]).values()]
    if asked.json:
        write_json({"results": rows, "verdicts": verdicts}, indent=None)
        return 0
    print(f"seeds {seeds[0]} to {seeds[-1]}; means, and standard deviations over seeds; errors: shares of the mean\n")
    by_method = pd.DataFrame(rows).drop(columns="seed").groupby(["operator", "method"], sort=False)
    markdown(records(by_method.mean().join(by_method.std(ddof=0), rsuffix="_sd").reset_index()))
    print(
        f"\nDSA against the best fixed step (figure: error <= {WITHIN}, samples <= {AT_MOST}), and every point again\n"
    )
    markdown(verdicts)
    error, samples = (geometric_mean([each[name] for each in verdicts]) for name in ("error", "samples"))
    print(f"\ngeometric mean over operators: error x{error:.2f}, samples x{samples:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
