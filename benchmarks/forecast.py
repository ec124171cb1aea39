"""Forecast errors over 900 s on measured second-level traces, by rolling origins.

    python benchmarks/forecast.py                      # every family, refitted once an hour
    python benchmarks/forecast.py --refit-every 1      # refitted at every origin (minutes)
    python benchmarks/forecast.py --noise 0.03 --json  # with 3 % autocorrelated noise, as JSON lines

Protocol: 64 origins, every 300 s from 1800 s; an origin sees only what came before it; WAPE of all steps together.
Times are medians per call on one machine under whatever load it has: compare them with each other only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from models.forecasting.backtest import Backtest, backtest
from models.forecasting.contract import Workload
from models.forecasting.families import FAMILIES

TRACES = {
    "advertising": "advertising_6h_550K_max.csv",
    "sine": "sine_60000_6h.csv",
    "traffic": "tm_6h_100K_max.csv",
}
FOLDER = Path(__file__).resolve().parents[1] / "../shared/data/workloads"
FIRST_S, EVERY_S, NOISE_TAU_S = 1800.0, 300.0, 5.0


def load(file: Path, noise: float, seed: int) -> Workload:
    rates = np.loadtxt(file, delimiter=",", skiprows=1)[:, 1]
    if noise:
        fade = np.exp(-1.0 / NOISE_TAU_S)
        shocks = np.random.default_rng(seed).normal(0.0, noise * np.sqrt(1.0 - fade**2), len(rates))
        rates = np.maximum(rates * (1.0 + lfilter([1.0], [1.0, -fade], shocks)), 0.0)
    return Workload(0.0, 1.0, rates)


def measured(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    for trace in arguments.traces:
        history = load(FOLDER / TRACES[trace], arguments.noise, arguments.seed)
        origins_s = FIRST_S + EVERY_S * np.arange(arguments.origins)
        for name in arguments.families:
            try:
                made = backtest(
                    FAMILIES[name],
                    history,
                    origins_s=origins_s,
                    refit_every=arguments.refit_every,
                    seed=arguments.seed,
                )
            except ValueError as error:
                yield {"trace": trace, "family": name, "reason": str(error)}
            else:
                yield {"trace": trace, "noise": arguments.noise, **made.to_row(), "wape_below_5_percent": shares(made)}


def shares(made: Backtest) -> float:
    errors = made.wape_by_origin()
    return float((errors[np.isfinite(errors)] < 0.05).mean())


def line(row: dict[str, object]) -> str:
    if "reason" in row:
        return f"{row['trace']:<12} {row['family']:<15} {row['reason']}"
    return (
        f"{row['trace']:<12} {row['family']:<15} {row['wape_60s']:>7.2%} {row['wape_300s']:>7.2%} "
        f"{row['wape_900s']:>7.2%} {row['wape_below_5_percent']:>6.0%} {row['coverage_p90']:>6.0%} "
        f"{row['maximum_bias']:>+7.1%} {row['maximum_under_forecast_rate']:>6.0%} {1e3 * row['update_s']:>7.2f} "
        f"{1e3 * row['forecast_s']:>7.2f} {row['fit_s']:>6.2f} {row['state_bytes']:>7}"
    )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", nargs="+", choices=TRACES, default=list(TRACES))
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--origins", type=int, default=64)
    parser.add_argument("--refit-every", type=int, default=12, help="origins between two fits; 0: fit once")
    parser.add_argument("--noise", type=float, default=0.0, help="share of noise to multiply in, for example 0.03")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")
    return parser.parse_args()


def main() -> int:
    arguments = parsed()
    if not FOLDER.is_dir():
        print("the measured traces are not beside this project (../shared/data/workloads)", file=sys.stderr)
        return 1
    if not arguments.json:
        print(
            f"{'trace':<12} {'family':<15} {'0-60':>7} {'0-300':>7} {'0-900':>7} {'<5%':>6} {'p90':>6} {'max':>7} "
            f"{'under':>6} {'upd ms':>7} {'fc ms':>7} {'fit s':>6} {'bytes':>7}"
        )
    for row in measured(arguments):
        print(json.dumps(row) if arguments.json else line(row), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
