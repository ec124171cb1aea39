"""Latency models and T_max regressions on Phoebe's measured profile: what each makes of what it had not seen.

Run ``python -m benchmarks.latency [--seeds 3] [--json]`` from the project's folder, with the data pack beside it. What
was offered is not recorded in that profile, so the measured throughput stands for it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks import measured
from benchmarks.harness import Row, markdown, options, seconds, write_json
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
        asked = _features(scale_outs, rates_per_s)
        return LatencyPredictions(np.exp(self.regressor.predict(asked)), ~self.classifier.predict(asked))


def _features(scale_outs: Any, rates_per_s: Any) -> Any:
    return np.column_stack([np.log(np.asarray(scale_outs, float)), np.log(np.asarray(rates_per_s, float))])


def scikit_families() -> Iterator[Family]:
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
    """Yield every family on the whole profile, on points left out one by one, and on scale-outs left out whole.

    Those in which something is random, with each seed.
    """
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
        judged = (asdict(Judgement.of(part, latency, over)) for part in found)
        names = ("fitted", "one_out", "scale_out_out")
        yield {"family": family.family, "seed": seed, **dict(zip(names, judged, strict=True))}


def regressions() -> dict[str, dict[str, float]]:
    """Return each regression's errors on left-out scale-outs, and what it says of 1 and 24 workers, records/s."""
    _, most = profile()
    named: dict[str, str | None] = {"as published (ridge)": tmax.RIDGE, "line": tmax.LINE, "scalability law": tmax.USL}
    found = {}
    for name, family in {**named, "chosen": None}.items():
        errors, ends = tmax.leave_one_out(most, family), tmax.HighestRates.fit(most, family).per_s([1, 24])
        found[name] = {**asdict(errors), "of_1_per_s": float(ends[0]), "of_24_per_s": float(ends[1])}
    return found


def walked(family: type[PublishedLatency] | type[UtilisationLatency], workers: int, *, learning: bool) -> Row:
    """Walk through the six hours of the cars job on a fixed number of workers, each minute predicted before it is seen.

    Minutes after the injected failures, and such as follow an overloaded one, are left out: a backlog, not the rate,
    makes their latency.
    """
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
    minutes = asdict(Judgement.of(together, truth, truth > OVERLOADED_MS))
    return {"family": family.family, "learning": learning, "workers": workers, "minutes": minutes}


def timed(family: type[PublishedLatency] | type[UtilisationLatency], repeats: int) -> Row:
    """Return the mean milliseconds to fit the profile, predict 24 scale-outs, learn and predict again, and load."""
    points, most = profile()
    sizes, rate = np.arange(1, 25), 100_000.0
    model = family.fit(points, most)
    model.predict(sizes, rate)
    state = json.loads(json.dumps(model.to_state()))
    works: dict[str, Callable[[], object]] = {
        "fit_ms": lambda: family.fit(points, most).predict(sizes, rate),
        "predict_ms": lambda: model.predict(sizes, rate),
        "learn_ms": lambda: model.learned(12, rate, 1_000.0).predict(sizes, rate),
        "load_ms": lambda: latency_from_state(state).predict(sizes, rate),
    }
    means = {name: 1e3 * sum(seconds(work) for _ in range(repeats)) / repeats for name, work in works.items()}
    return {"family": family.family, **means, "state_bytes": len(json.dumps(state))}


def _in_words(judged: Row) -> str:
    return "{missed} of {overloads}, {false_alarms} of {normals}, {mae_ms:.0f} ms".format(**judged)


def main(arguments: list[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="of the trees")
    asked = parser.parse_args(arguments)
    if not measured.there():
        return 2
    found, tmax_rows = list(rows(asked.seeds)), regressions()
    walks = [walked(PublishedLatency, n, learning=False) for n in STATIC]
    walks += [walked(UtilisationLatency, n, learning=learning) for n in STATIC for learning in (False, True)]
    times = [timed(PublishedLatency, 5), timed(UtilisationLatency, REPEATS)]
    if asked.json:
        write_json({"families": found, "tmax": tmax_rows, "walks": walks, "times": times})
        return 0
    print("Overloads missed, false alarms, mean error of the latency of normal points called normal.\n")
    for judged in (found, walks):
        markdown({name: _in_words(of) if isinstance(of, dict) else of for name, of in row.items()} for row in judged)
        print()
    markdown({"T_max": name, **of} for name, of in tmax_rows.items())
    print()
    markdown(times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
