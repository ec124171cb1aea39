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
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from benchmarks.harness import Columns, options, show
from benchmarks.measured import TRACES, published, there
from perdix.models.forecasting.backtest import Backtest, backtest
from perdix.models.forecasting.contract import PROBABILITIES, Workload
from perdix.models.forecasting.errors import wape
from perdix.models.forecasting.families import ENSEMBLE, FAMILIES, NAIVE, families_named
from perdix.models.forecasting.origins import Stops
from perdix.telemetry.window import Values

BEGIN_S, FIRST_S, LAST_S, EVERY_S, TICK_S, NOISE_TAU_S = 600.0, 1800.0, 20_700.0, 300.0, 60.0, 5.0


def load(trace: str, noise: float, seed: int) -> Workload:
    rates = published(trace)
    if noise:
        fade = np.exp(-1.0 / NOISE_TAU_S)
        shocks = np.random.default_rng(seed).normal(0.0, noise * np.sqrt(1.0 - fade**2), len(rates))
        rates = np.maximum(rates * (1.0 + lfilter([1.0], [1.0, -fade], shocks)), 0.0)
    return Workload(0.0, 1.0, rates)


def rows_of(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    families = {name: FAMILIES[name] for given in arguments.families for name in families_named(given)}
    families.setdefault(NAIVE, FAMILIES[NAIVE])
    for trace in arguments.traces:
        for seed in arguments.seeds if arguments.noise else arguments.seeds[:1]:
            history = load(trace, arguments.noise, seed)
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


COLUMNS: Columns = {
    "trace": "{trace}",
    "family": "{family}",
    "seed": "{seed}",
    "0-60": "{wape_60s:.2%}",
    "0-300": "{wape_300s:.2%}",
    "0-900": "{wape:.2%}",
    "<5%": "{wape_below_5_percent:.0%}",
    "p90": "{coverage_p90:.0%}",
    "p95": "{coverage_p95:.0%}",
    "max": "{maximum_under_by_10_percent:.0%}",
    "marg.": "{margin_under_by_10_percent:.0%}",
    "over": "{maximum_p90_over_provision:+.0%}",
    "upd s": "{update_s:.5f}",
    "fc s": "{forecast_s:.5f}",
    "fit s": "{fit_s:.2f}",
    "bytes": "{state_bytes}",
    "failed": "{reason}",
}


def parsed() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--traces", nargs="+", choices=TRACES, default=sorted(TRACES))
    parser.add_argument("--families", nargs="+", choices=[*FAMILIES, ENSEMBLE], default=[ENSEMBLE])
    parser.add_argument("--every-s", type=float, default=EVERY_S, help="seconds between origins; 60: every tick is one")
    parser.add_argument("--shift-s", type=float, default=0.0, help="seconds by which all origins lie later")
    parser.add_argument("--refit-every", type=int, default=20, help="minutes between two fits; 0: fit once")
    parser.add_argument("--noise", type=float, default=0.0, help="share of noise to multiply in, for example 0.03")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--margin", type=float, choices=PROBABILITIES, default=0.8, help="probability of the maximum")
    return parser.parse_args()


def main() -> int:
    arguments = parsed()
    if not there():
        return 1
    show(rows_of(arguments), COLUMNS, as_lines=arguments.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
