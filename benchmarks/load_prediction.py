"""The published load-prediction protocol on measured traces, and our ensemble beside the published methods.

    python benchmarks/load_prediction.py                                # six sets, three granularities (about 6 min)
    python benchmarks/load_prediction.py --granularities 1h --json      # one granularity, as JSON lines

Protocol (Gontarska et al. 2021, evaluation code): the first 80 % of a trace train, the rest tests; origins at every
test step; the prediction of a step is the mean of the last 12 / 4 / 1 forecasts for it at 1h / 15min / 5min; WAPE over
all test steps. Ours: one configuration for all; members fitted to the first half, weighed by their errors from there
on, and fitted anew once a day, always from the past only. The trees that jobs share are grown twice, on the first
halves of the traces together and on their training parts.

"best" is the best of nine published methods for that row, an oracle; "naive" the best of last value, day and week,
averaged alike. "lead-wise" is the WAPE of all leads together without averaging; no published number exists for it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.harness import Columns, Row, geometric_mean, grouped, options, show
from benchmarks.measured import DATA, there
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.errors import wape
from perdix.models.forecasting.forecaster import Forecaster
from perdix.models.forecasting.gaussian_process import LogGaussianProcess, PlainGaussianProcess
from perdix.models.forecasting.lagged_trees import LaggedTrees
from perdix.models.forecasting.member import Member
from perdix.models.forecasting.pooled_trees import PooledTrees
from perdix.models.forecasting.seasonal_naive import LastValue
from perdix.models.forecasting.seasonal_trend import SeasonalTrend
from perdix.telemetry.window import Values

FOLDER = DATA / "load-prediction"
GRANULARITIES = {"1h": (3600.0, 12), "15min": (900.0, 4), "5min": (300.0, 1)}
TRAIN_SHARE, WARM_SHARE = 0.8, 0.5
MEMBERS: tuple[type[Member], ...] = (LastValue, SeasonalTrend, PlainGaussianProcess, LogGaussianProcess, LaggedTrees)
DAY_S, WEEK_DAYS = 86_400.0, 7
MEANT = ("ratio_to_best", "ratio_to_best_naive", "lead_wise")
# WAPE in %, lead-averaged, as published: best of nine methods, GRU, last value
PUBLISHED: dict[str, dict[str, tuple[float, float, float]]] = {
    "1h": {
        "avazu": (3.62, 3.62, 7.12),
        "wiki_de": (1.30, 2.29, 12.00),
        "horton": (6.02, 6.92, 6.66),
        "retailrocket": (3.20, 3.62, 11.46),
        "alibaba": (3.74, 6.10, 5.37),
        "google": (4.97, 4.97, 10.82),
    },
    "15min": {
        "avazu": (2.09, 2.29, 2.27),
        "wiki_de": (1.26, 1.26, 2.59),
        "horton": (2.25, 2.83, 2.25),
        "retailrocket": (2.27, 2.27, 2.84),
        "alibaba": (4.44, 5.50, 5.70),
        "google": (6.15, 6.15, 6.19),
    },
    "5min": {
        "avazu": (1.96, 2.00, 2.24),
        "wiki_de": (1.75, 1.78, 2.20),
        "horton": (1.68, 1.79, 1.91),
        "retailrocket": (2.84, 2.84, 3.40),
        "alibaba": (4.51, 4.51, 7.18),
        "google": (5.35, 5.35, 6.18),
    },
}


@dataclass(frozen=True)
class Trace:
    """A trace on its grid, and the steps of it that were measured: the protocol counts only those."""

    name: str
    workload: Workload
    steps: np.ndarray

    @property
    def rates(self) -> Values:
        """Measured rates, as the protocol truncates them."""
        return np.asarray(self.workload.per_s[self.steps])

    def until(self, measured: int) -> Workload:
        """Return the workload up to and with the given number of measured steps."""
        return self.workload.part(0, int(self.steps[measured - 1]) + 1)


@dataclass(frozen=True)
class SharedTrees:
    """Trees that the traces share, with the time from which one of them may use them."""

    name: str
    until_s: float
    state: Mapping[str, object]


def load(name: str, granularity: str) -> Trace:
    step_s, _ = GRANULARITIES[granularity]
    table = pd.read_csv(FOLDER / f"{name}_{granularity}.csv", float_precision="round_trip").dropna()
    times_s = table.iloc[:, 0].to_numpy(dtype="datetime64[s]").astype(np.float64)
    steps = np.round((times_s - times_s[0]) / step_s).astype(int)
    per_s = np.full(steps[-1] + 1, np.nan)
    per_s[steps] = np.trunc(table.iloc[:, 1])
    return Trace(name, Workload(float(times_s[0]), step_s, per_s), steps)


def families_for(trace: Trace, shared: Mapping[float, Mapping[str, object]]) -> dict[str, type[Member]]:
    """Return the members that know days, with the trees that are shared bound to a trace's own time."""
    count = len(trace.steps)
    models = [
        SharedTrees(f"*/{share}", trace.until(int(count * share)).end_s, state) for share, state in shared.items()
    ]
    return {family.family: family for family in (*MEMBERS, PooledTrees.sharing(models))}


def measured(
    trace: Trace, granularity: str, shared: Mapping[float, Mapping[str, object]], seed: int
) -> dict[str, object]:
    """Walk over one trace; return its row."""
    step_s, leads = GRANULARITIES[granularity]
    rates, count, horizon_s = trace.rates, len(trace.steps), leads * step_s
    first, warm = int(count * TRAIN_SHARE), int(count * WARM_SHARE)
    families, day, begun = families_for(trace, shared), round(DAY_S / step_s), time.perf_counter()
    forecaster = Forecaster.unproven(trace.until(warm), families, horizon_s=horizon_s, seed=seed)
    said = np.full((count - first, leads), np.nan)
    alone = np.full((len(families), count - first, leads), np.nan)
    for origin in range(warm + 1, count):
        forecaster = forecaster.update(trace.workload.part(trace.steps[origin - 2] + 1, trace.steps[origin - 1] + 1))
        if (origin - first) % day == 0:
            forecaster = forecaster.refitted(trace.until(origin), families, seed=seed)
        if origin < first:
            continue
        said[origin - first] = forecaster.forecast(horizon_s, step_s).mean
        rows = forecaster.projections(step_s * np.arange(leads + 1.0))
        for name, row in zip(forecaster.names, rows, strict=True):
            alone[list(families).index(name), origin - first] = row
    best, gru, last = PUBLISHED[granularity][trace.name]
    ours = averaged(said, rates, first)
    naive = {name: averaged(forecast, rates, first) for name, forecast in naives(rates, first, leads, day).items()}
    return {
        "granularity": granularity,
        "set": trace.name,
        "ours": ours,
        "published_best": best,
        "published_gru": gru,
        "published_last": last,
        "ratio_to_best": ours / best,
        "best_naive": min(naive.values()),
        "ratio_to_best_naive": ours / min(naive.values()),
        "last": naive["last"],
        "lead_wise": leadwise(said, rates, first),
        "members": {name: averaged(row, rates, first) for name, row in zip(families, alone, strict=True)},
        "failures": dict(forecaster.failures),
        "seconds": time.perf_counter() - begun,
    }


def naives(rates: Values, first: int, leads: int, day: int) -> dict[str, Values]:
    """Return the forecasts of last value, day and week (where there was one), each of shape ``(origins, leads)``."""
    origins = np.arange(first, len(rates))[:, None]
    targets = origins + np.arange(leads)[None, :]
    made = {"last": np.repeat(rates[origins - 1], leads, axis=1), "day": rates[targets - day]}
    week = targets - WEEK_DAYS * day
    return {**made, "week": rates[week]} if (week >= 0).all() else made


def averaged(said: Values, rates: Values, first: int) -> float:
    """Return the WAPE in % of the mean over leads of what was said for each step."""
    count = len(rates)
    sums, counts = np.zeros(count), np.zeros(count)
    for lead in range(said.shape[1]):
        steps = first + np.arange(len(said)) + lead
        inside = (steps < count) & np.isfinite(said[:, lead])
        sums[steps[inside]] += said[inside, lead]
        counts[steps[inside]] += 1
    mean = np.divide(sums, counts, out=np.full(count, np.nan), where=counts > 0)
    return 100.0 * wape(rates[first:], mean[first:])


def leadwise(said: Values, rates: Values, first: int) -> float:
    """Return the WAPE in % of all leads of all origins together."""
    steps = first + np.arange(len(said))[:, None] + np.arange(said.shape[1])[None, :]
    truth = np.where(steps < len(rates), rates[np.minimum(steps, len(rates) - 1)], np.nan)
    return 100.0 * wape(truth, said)


def rows_of(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    for granularity in arguments.granularities:
        step_s, leads = GRANULARITIES[granularity]
        traces = [load(name, granularity) for name in PUBLISHED[granularity]]
        shared = {
            share: PooledTrees.fit_shared(
                [trace.until(int(len(trace.steps) * share)) for trace in traces],
                horizon_s=leads * step_s,
                seed=arguments.seed,
            )
            for share in (WARM_SHARE, TRAIN_SHARE)
        }
        for trace in traces:
            if trace.name in arguments.sets:
                yield measured(trace, granularity, shared, arguments.seed)


COLUMNS: Columns = {
    "granularity": "{granularity}",
    "set": "{set}",
    "ours": "{ours:.2f}",
    "best": "{published_best:.2f}",
    "ratio": "{ratio_to_best:.3f}",
    "GRU": "{published_gru:.2f}",
    "last": "{last:.2f}",
    "/naive": "{ratio_to_best_naive:.3f}",
    "lead-wise": "{lead_wise:.2f}",
    "s": "{seconds:.0f}",
}


def parsed() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--granularities", nargs="+", choices=GRANULARITIES, default=list(GRANULARITIES))
    parser.add_argument("--sets", nargs="+", choices=PUBLISHED["1h"], default=list(PUBLISHED["1h"]))
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> int:
    arguments = parsed()
    if not there(FOLDER):
        return 1
    made: list[Row] = []

    def noted() -> Iterator[Row]:
        for row in rows_of(arguments):
            made.append(row)
            yield row

    show(noted(), COLUMNS, as_lines=arguments.json)
    means = [
        {"granularity": granularity, "sets": len(rows)}
        | {f"geometric_mean_{key}": geometric_mean([row[key] for row in rows]) for key in MEANT}
        for granularity, rows in grouped(made, lambda row: row["granularity"]).items()
    ]
    show(means, as_lines=arguments.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
