"""Forecast errors over 900 s on measured second-level traces, by rolling origins.

    python benchmarks/forecast.py                                # the ensemble and each of its members
    python benchmarks/forecast.py --noise 0.03 --seeds 1 2 3     # with 3 % autocorrelated noise
    python benchmarks/forecast.py --families auto-arima --json   # one family, as JSON lines

Protocol: 64 origins, every 300 s from 1800 s; an origin sees only what came before it; WAPE of all steps together. A
forecaster is updated every 60 s from 600 s on, as in the control loop, and fitted anew every ``--refit-every`` minutes.
The maximum is the highest rate of 900 s beside what it should stay below with ``--margin`` (a calibrated probability).
Times are medians per call on one machine under whatever load it has: compare them with each other only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from perdix.models.forecasting.backtest import Backtest, backtest
from perdix.models.forecasting.contract import PROBABILITIES, Workload
from perdix.models.forecasting.errors import wape
from perdix.models.forecasting.families import ENSEMBLE, FAMILIES, NAIVE, families_named
from perdix.models.forecasting.origins import Stops
from perdix.telemetry.window import Values

TRACES = {
    "advertising": "advertising_6h_550K_max.csv",
    "sine": "sine_60000_6h.csv",
    "traffic": "tm_6h_100K_max.csv",
}
FOLDER = Path(__file__).resolve().parents[1] / "../shared/data/workloads"
BEGIN_S, FIRST_S, LAST_S, EVERY_S, TICK_S, NOISE_TAU_S = 600.0, 1800.0, 20_700.0, 300.0, 60.0, 5.0


def load(file: Path, noise: float, seed: int) -> Workload:
    rates = np.loadtxt(file, delimiter=",", skiprows=1)[:, 1]
    if noise:
        fade = np.exp(-1.0 / NOISE_TAU_S)
        shocks = np.random.default_rng(seed).normal(0.0, noise * np.sqrt(1.0 - fade**2), len(rates))
        rates = np.maximum(rates * (1.0 + lfilter([1.0], [1.0, -fade], shocks)), 0.0)
    return Workload(0.0, 1.0, rates)


def measured(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    families = {name: FAMILIES[name] for given in arguments.families for name in families_named(given)}
    families.setdefault(NAIVE, FAMILIES[NAIVE])
    for trace in arguments.traces:
        for seed in arguments.seeds if arguments.noise else arguments.seeds[:1]:
            history = load(FOLDER / TRACES[trace], arguments.noise, seed)
            stops_s = np.arange(BEGIN_S, LAST_S + 1.0, TICK_S)
            since_s = stops_s - FIRST_S - arguments.shift_s
            walk = backtest(
                families,
                history,
                stops=Stops.at(stops_s, (since_s >= 0.0) & (since_s % arguments.every_s < 1.0)),
                refit_every=arguments.refit_every,
                seed=seed,
                maximum=arguments.margin,
            )
            for made in walk.backtests.values():
                yield {"trace": trace, "noise": arguments.noise, "seed": seed, **made.to_row(), **more(made)}
            for name, reason in walk.failures.items():
                yield {"trace": trace, "family": name, "reason": reason}


def more(made: Backtest) -> dict[str, float]:
    errors = np.array([wape(actual, forecast) for actual, forecast in zip(made.actual, made.forecast, strict=True)])
    return {
        "wape_below_5_percent": share(errors < 0.05, errors),
        "maximum_under_by_10_percent": by_tenth(made.errors_of_maximum()),
        "margin_under_by_10_percent": by_tenth(made.errors_of_maximum(calibrated=True)),
    }


def by_tenth(errors: Values) -> float:
    return share(errors < -0.1, errors)


def share(hits: NDArray[np.bool_], values: Values) -> float:
    return float(hits[np.isfinite(values)].mean())


def line(row: dict[str, Any]) -> str:
    if "reason" in row:
        return f"{row['trace']:<12} {row['family']:<15} {row['reason']}"
    return (
        f"{row['trace']:<12} {row['family']:<15} {row['seed']:>4} {row['wape_60s']:>7.2%} {row['wape_300s']:>7.2%} "
        f"{row['wape']:>7.2%} {row['wape_below_5_percent']:>5.0%} {row['coverage_p90']:>5.0%} "
        f"{row['coverage_p95']:>5.0%} {row['maximum_under_by_10_percent']:>6.0%} "
        f"{row['margin_under_by_10_percent']:>6.0%} {row['maximum_p90_over_provision']:>+6.0%} "
        f"{1e3 * row['update_s']:>7.2f} {1e3 * row['forecast_s']:>7.2f} {row['fit_s']:>6.2f} {row['state_bytes']:>7}"
    )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", nargs="+", choices=TRACES, default=list(TRACES))
    parser.add_argument("--families", nargs="+", choices=[*FAMILIES, ENSEMBLE], default=[ENSEMBLE])
    parser.add_argument("--every-s", type=float, default=EVERY_S, help="seconds between origins; 60: every tick is one")
    parser.add_argument("--shift-s", type=float, default=0.0, help="seconds by which all origins lie later")
    parser.add_argument("--refit-every", type=int, default=20, help="minutes between two fits; 0: fit once")
    parser.add_argument("--noise", type=float, default=0.0, help="share of noise to multiply in, for example 0.03")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--margin", type=float, choices=PROBABILITIES, default=0.8, help="probability of the maximum")
    parser.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")
    return parser.parse_args()


def main() -> int:
    arguments = parsed()
    if not FOLDER.is_dir():
        print("the measured traces are not beside this project (../shared/data/workloads)", file=sys.stderr)
        return 1
    if not arguments.json:
        print(
            f"{'trace':<12} {'family':<15} {'seed':>4} {'0-60':>7} {'0-300':>7} {'0-900':>7} {'<5%':>5} {'p90':>5} "
            f"{'p95':>5} {'max':>6} {'marg.':>6} {'over':>6} {'upd ms':>7} {'fc ms':>7} {'fit s':>6} {'bytes':>7}"
        )
    for row in measured(arguments):
        print(json.dumps(row) if arguments.json else line(row), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
