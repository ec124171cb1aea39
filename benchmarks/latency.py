"""Latency models and T_max regressions on Phoebe's measured profile: what each makes of what it had not seen.

Run ``python -m benchmarks.latency [--seeds 3] [--json]`` from the project's folder, with the data pack beside it. What
was offered is not recorded in that profile, so the measured throughput stands for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks import measured
from perdix.models.latency.boosting import PublishedLatency
from perdix.models.latency.contract import LatencyPredictions
from perdix.models.latency.overload import overloaded_points
from perdix.models.latency.selection import Family, Judgement, held_out_predictions
from perdix.models.latency.state import latency_from_state
from perdix.models.latency.utilisation import MISSED_COSTS, UtilisationLatency, UtilisationLimit
from perdix.models.profiling import tmax
from perdix.models.profiling.profile import ProfilePoint

OVERLOADED_MS = 2_000.0  # of this job: normal latencies end at 1.66 s, the others begin at 3.5 s
STATIC = (12, 24)  # workers of the static runs that mostly keep up
COSTS = (1.0, 2.0, MISSED_COSTS, 10.0)
REPEATS = 200
MINUTE_S, AFTER_FAILURE_S = 60, 900


@dataclass(frozen=True)
class Row:
    """A family on the whole profile, on points left out one by one, and on scale-outs left out whole."""

    family: str
    seed: int
    fitted: Judgement
    one_out: Judgement
    scale_out_out: Judgement


@dataclass(frozen=True)
class Times:
    """Milliseconds: to fit to the whole profile, to predict 24 scale-outs, to learn and predict again, to load."""

    family: str
    fit_ms: float
    predict_ms: float
    learn_ms: float
    load_ms: float
    state_bytes: int


@dataclass(frozen=True)
class Walk:
    """A family on the minutes of another day, each predicted before it is learned from.

    Minutes after the injected failures, and such as follow an overloaded one, are left out: a backlog, not the rate,
    makes their latency.
    """

    family: str
    learning: bool
    workers: int
    minutes: Judgement


def profile() -> tuple[list[ProfilePoint], dict[int, float]]:
    """Return the 79 points and T_max of the 8 scale-outs."""
    rows = measured.profiles().query("isBckPres == 0")
    columns = rows[["scaleOut", "avgThr", "avgLat"]].itertuples(index=False)
    points = [ProfilePoint(int(n), float(rate), float(rate), float(ms), valid=True) for n, rate, ms in columns]
    return points, {int(n): float(value) for n, value in measured.most_per_s().items()}


class Priced:
    """The limit of utilisation where a missed overload costs this many false alarms."""

    def __init__(self, costs: float) -> None:
        self.family = f"utilisation-limit, a miss costs {costs:g}"
        self._costs = costs

    def fit(self, points: Sequence[ProfilePoint], maximum_per_s: Mapping[int, float], seed: int = 0) -> Any:
        """Fit, and learn the limit anew."""
        model = UtilisationLatency.fit(points, maximum_per_s, seed)
        overloaded, curve = overloaded_points(points, model.rates)
        used = model.utilisations([p.scale_out for p in points], [p.rate_per_s for p in points])
        return UtilisationLatency(model.rates, UtilisationLimit.fit(used, overloaded, self._costs), curve)


class OfScikit:
    """A classifier and a regressor on logarithms of scale-out and rate: what one would try first. Not for the loop."""

    def __init__(self, family: str, build: Callable[[int], tuple[Any, Any]]) -> None:
        self.family = family
        self._build = build

    def fit(self, points: Sequence[ProfilePoint], maximum_per_s: Mapping[int, float], seed: int = 0) -> Any:  # noqa: ARG002
        """Fit both; they know what is overloaded."""
        asked = _features([p.scale_out for p in points], [p.rate_per_s for p in points])
        latency = np.array([p.latency_ms for p in points])
        over = latency > OVERLOADED_MS
        classifier, regressor = self._build(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # kernels at the ends of their ranges
            return FittedScikit(classifier.fit(asked, over), regressor.fit(asked[~over], np.log(latency[~over])))


@dataclass(frozen=True)
class FittedScikit:
    """What :class:`OfScikit` fitted."""

    classifier: Any
    regressor: Any

    def predict(self, scale_outs: Any, rates_per_s: Any) -> LatencyPredictions:
        """Predict as a latency model does."""
        asked = _features(scale_outs, rates_per_s)
        return LatencyPredictions(np.exp(self.regressor.predict(asked)), ~self.classifier.predict(asked))


def _features(scale_outs: Any, rates_per_s: Any) -> Any:
    return np.column_stack([np.log(np.asarray(scale_outs, float)), np.log(np.asarray(rates_per_s, float))])


def scikit_families() -> Iterator[Family]:
    """Yield logistic regression, and a quadratic discriminant with a Gaussian process."""
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis  # noqa: PLC0415
    from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel  # noqa: PLC0415
    from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler  # noqa: PLC0415

    def logistic(seed: int) -> tuple[Any, Any]:
        classifier = LogisticRegression(C=100.0, class_weight="balanced", max_iter=1_000, random_state=seed)
        squares = make_pipeline(StandardScaler(), PolynomialFeatures(2), LinearRegression())
        return make_pipeline(StandardScaler(), classifier), squares

    def gaussian(seed: int) -> tuple[Any, Any]:
        classifier = QuadraticDiscriminantAnalysis(reg_param=0.01)
        regressor = GaussianProcessRegressor(RBF([1.0, 1.0]) + WhiteKernel(0.1), normalize_y=True, random_state=seed)
        return make_pipeline(StandardScaler(), classifier), make_pipeline(StandardScaler(), regressor)

    yield OfScikit("logistic regression, quadratic", logistic)
    yield OfScikit("discriminant, gaussian process", gaussian)


def rows(seeds: int) -> Iterator[Row]:
    """Yield every family; those in which something is random with each seed."""
    points, most = profile()
    tried: list[tuple[Family, int]] = [(PublishedLatency, seed) for seed in range(seeds)]
    tried += [(UtilisationLatency, 0)]
    tried += [(Priced(costs), 0) for costs in COSTS if costs != MISSED_COSTS]
    tried += [(family, 0) for family in scikit_families()]
    latency = np.array([point.latency_ms for point in points])
    over, sizes = latency > OVERLOADED_MS, [point.scale_out for point in points]
    rates = [point.rate_per_s for point in points]
    for family, seed in tried:
        found = (
            family.fit(points, most, seed).predict(sizes, rates),
            held_out_predictions(family, points, most, range(len(points)), seed=seed),
            held_out_predictions(family, points, most, sizes, seed=seed, without_their_maximum=True),
        )
        yield Row(family.family, seed, *(Judgement.of(part, latency, over) for part in found))


def regressions() -> dict[str, dict[str, float]]:
    """Return each regression's errors on left-out scale-outs, and what it says of 1 and 24 workers, records/s."""
    _, most = profile()
    named: dict[str, str | None] = {"as published (ridge)": tmax.RIDGE, "line": tmax.LINE, "scalability law": tmax.USL}
    found = {}
    for name, family in {**named, "chosen": None}.items():
        errors, ends = tmax.leave_one_out(most, family), tmax.HighestRates.fit(most, family).per_s([1, 24])
        found[name] = {**asdict(errors), "of_1_per_s": float(ends[0]), "of_24_per_s": float(ends[1])}
    return found


def walked(family: type[PublishedLatency] | type[UtilisationLatency], workers: int, *, learning: bool) -> Walk:
    """Walk through the six hours of the cars job on a fixed number of workers."""
    model: Any = family.fit(*profile())
    run = measured.phoebe("cars", f"baseline_{workers}")
    whole = len(run.arrived) // MINUTE_S * MINUTE_S
    rates, latency = (values[:whole].reshape(-1, MINUTE_S).mean(axis=1) for values in (run.arrived, run.latency_ms))
    seconds = MINUTE_S * np.arange(len(rates))
    steady = np.append(False, latency[:-1] <= OVERLOADED_MS)
    for failed_s in measured.FAILURES_S:
        steady &= (seconds < failed_s - MINUTE_S) | (seconds >= failed_s + AFTER_FAILURE_S)
    found, truth = [], latency[steady]
    for rate, latency_ms in zip(rates[steady], truth, strict=True):
        found.append(model.predict(workers, rate))
        if learning:
            model = model.learned(workers, float(rate), float(latency_ms))
    together = LatencyPredictions(
        np.concatenate([part.latency_ms for part in found]), np.concatenate([part.normal for part in found])
    )
    return Walk(family.family, learning, workers, Judgement.of(together, truth, truth > OVERLOADED_MS))


def timed(family: type[PublishedLatency] | type[UtilisationLatency], repeats: int) -> Times:
    """Return what a family costs; the mean of ``repeats``."""
    points, most = profile()
    sizes, rate = np.arange(1, 25), 100_000.0

    def mean_ms(work: Callable[[], object]) -> float:
        began = time.perf_counter()
        for _ in range(repeats):
            work()
        return 1_000.0 * (time.perf_counter() - began) / repeats

    model = family.fit(points, most)
    model.predict(sizes, rate)
    state = json.loads(json.dumps(model.to_state()))
    return Times(
        family.family,
        mean_ms(lambda: family.fit(points, most).predict(sizes, rate)),
        mean_ms(lambda: model.predict(sizes, rate)),
        mean_ms(lambda: model.learned(12, rate, 1_000.0).predict(sizes, rate)),
        mean_ms(lambda: latency_from_state(state).predict(sizes, rate)),
        len(json.dumps(state)),
    )


def _in_words(judged: Judgement) -> str:
    return (
        f"{judged.missed} of {judged.overloads}, {judged.false_alarms:2} of {judged.normals}, {judged.mae_ms:5.0f} ms"
    )


def _print(
    found: Sequence[Row], tmax_rows: Mapping[str, Mapping[str, float]], walks: Sequence[Walk], times: Sequence[Times]
) -> None:
    print("Overloads missed, false alarms, mean error of the latency of normal points called normal.\n")
    print(f"{'family':36} {'seed':>4}  {'fitted':25}  {'one point left out':25}  {'scale-out left out':25}")
    for row in found:
        said = "  ".join(f"{_in_words(judgement):25}" for judgement in (row.fitted, row.one_out, row.scale_out_out))
        print(f"{row.family:36} {row.seed:4}  {said}")
    print(f"\n{'T_max':36} {'mean off':>9} {'most off':>9} {'1 worker':>10} {'24 workers':>11}")
    for name, of in tmax_rows.items():
        per_s = f"{of['of_1_per_s']:10,.0f} {of['of_24_per_s']:11,.0f}"
        print(f"{name:36} {of['mape']:9.1%} {of['worst']:9.1%} {per_s}")
    print(f"\n{'next day, steady minutes':36} {'workers':>9} {'learns':>9}  missed, false alarms, error of latency")
    for walk in walks:
        print(f"{walk.family:36} {walk.workers:9} {'yes' if walk.learning else 'no':>9}  {_in_words(walk.minutes)}")
    print(f"\n{'milliseconds':36} {'fit':>9} {'predict':>9} {'learn':>9} {'load':>9} {'bytes':>9}")
    for cost in times:
        print(
            f"{cost.family:36} {cost.fit_ms:9.2f} {cost.predict_ms:9.2f} {cost.learn_ms:9.2f} {cost.load_ms:9.2f} "
            f"{cost.state_bytes:9,}"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="of the trees")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    wanted = parser.parse_args(arguments)
    if not measured.DATA.is_dir():
        print(f"{measured.DATA}: no measured data; put the data pack beside the project", file=sys.stderr)
        return 2
    found, tmax_rows = list(rows(wanted.seeds)), regressions()
    walks = [walked(PublishedLatency, n, learning=False) for n in STATIC]
    walks += [walked(UtilisationLatency, n, learning=learning) for n in STATIC for learning in (False, True)]
    times = [timed(PublishedLatency, 5), timed(UtilisationLatency, REPEATS)]
    if wanted.json:
        families = [asdict(row) for row in found]
        print(
            json.dumps(
                {
                    "families": families,
                    "tmax": tmax_rows,
                    "walks": [asdict(walk) for walk in walks],
                    "times": [asdict(timing) for timing in times],
                }
            )
        )
    else:
        _print(found, tmax_rows, walks, times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
