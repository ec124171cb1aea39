"""What forecasting costs: choosing a job's champion, its tick, its state.

    python -m benchmarks.forecast_cost                       # everything, minutes
    python -m benchmarks.forecast_cost --parts tick state    # without pmdarima
    python -m benchmarks.forecast_cost --json                # JSON lines

* selection: one call of pmdarima's auto_arima as Daedalus trains (its program: d by KPSS and ADF, p and q up to 5,
  stepwise) on an hour of a second-level trace, against :func:`~perdix.models.forecasting.selection.train_forecasters`
  with all families on the same hour: fits, backtest of every candidate, final fits. CPU seconds of one thread, imports
  left out.
* tick: update by 60 s and forecast of 900 s by the ensemble, after histories of 1 h to 7 d of seconds.
* state: length as JSON, and the time that a new process takes to read it and to forecast, its imports apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.forecast import load
from benchmarks.harness import options
from benchmarks.measured import TRACES, there
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import ENSEMBLE
from perdix.models.forecasting.forecaster import Forecaster, fitted
from perdix.models.forecasting.selection import train_forecasters

HOUR = 3600
BEGIN_S = 2 * HOUR
HISTORIES_H = (1, 6, 24, 168)
TICK_S, TICKS = 60, 60
COLD = """
import json, sys, time
began = time.perf_counter()
from perdix.models.forecasting.forecaster import forecaster_from_state
imported = time.perf_counter()
with open(sys.argv[1]) as file:
    made = forecaster_from_state(json.load(file))
loaded = time.perf_counter()
made.forecast(900)
done = time.perf_counter()
print(json.dumps({"import_s": imported - began, "load_s": loaded - imported, "first_forecast_s": done - loaded}))
"""


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, CPU seconds and wall seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    made = call()
    return made, time.process_time() - cpu, time.perf_counter() - wall


def daedalus(rates: np.ndarray) -> Any:
    """Daedalus's training of its forecaster, argument for argument (daedalus/forecasting.py: train_arima)."""
    import pmdarima  # noqa: PLC0415 -- seconds that only this part pays

    differences = max(pmdarima.arima.ndiffs(rates, alpha=0.05, test=test, max_d=6) for test in ("kpss", "adf"))
    return pmdarima.auto_arima(
        rates,
        start_p=0,
        d=differences,
        start_q=0,
        max_p=5,
        max_q=5,
        start_P=0,
        D=0,
        start_Q=0,
        max_P=0,
        max_D=0,
        max_Q=0,
        seasonal=False,
        error_action="warn",
        trace=False,
        stepwise=True,
        random_state=20,
        n_fits=50,
    )


def selection(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    for trace in arguments.traces:
        whole = load(trace, arguments.noise, 1)
        hour = whole.part(BEGIN_S, BEGIN_S + HOUR)
        train_forecasters(hour.part(0, HOUR // 2))  # imports
        trained, ours_s, ours_wall_s = timed(partial(train_forecasters, hour))
        row = {"part": "selection", "trace": trace, "noise": arguments.noise, "cpu_s": ours_s, "wall_s": ours_wall_s}
        row |= {"winner": trained.winner, "candidates": len(trained.candidates)}
        row["fits_s"] = sum(
            candidate.backtest.fit_s
            for name, candidate in trained.candidates.items()
            if candidate.backtest and name != ENSEMBLE
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            daedalus(hour.per_s[:60])
            model, theirs_s, theirs_wall_s = timed(partial(daedalus, hour.per_s))
        row |= {"auto_arima_cpu_s": theirs_s, "auto_arima_wall_s": theirs_wall_s, "order": str(model.order)}
        yield row | {"times_faster": theirs_s / ours_s}


def long_history(hours: float) -> Workload:
    """Second-level days: a measured trace again and again, higher by day than by night, with noise."""
    trace = load("advertising", 0.0, 0).per_s
    at_s = np.arange(int(hours * HOUR) + TICKS * TICK_S)
    day = 1.0 + 0.3 * np.sin(2 * np.pi * at_s / 86_400)
    noise = np.random.default_rng(0).normal(1.0, 0.03, len(at_s))
    return Workload(0.0, 1.0, np.resize(trace, len(at_s)) * day * noise)


def ticks(made: Forecaster, history: Workload, seen: int) -> tuple[np.ndarray, Forecaster]:
    took = []
    for begin in range(seen, len(history) - TICK_S + 1, TICK_S):
        newly = history.part(begin, begin + TICK_S)
        began = time.perf_counter()
        made = made.update(newly)
        made.forecast()
        took.append(time.perf_counter() - began)
    return np.array(took), made


def tick(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    for hours in arguments.hours:
        history = long_history(hours)
        seen = hours * HOUR
        made, fit_cpu_s, _ = timed(partial(fitted, ENSEMBLE, history.part(0, seen)))
        took, made = ticks(made, history, seen)
        yield {
            "part": "tick",
            "history_h": hours,
            "members": list(made.names),
            "fit_cpu_s": fit_cpu_s,
            "tick_ms_median": 1e3 * float(np.median(took)),
            "tick_ms_p95": 1e3 * float(np.quantile(took, 0.95)),
            "state_bytes": len(json.dumps(made.to_state())),
        }


def state(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    hours = max(arguments.hours)
    history = long_history(hours)
    made = ticks(fitted(ENSEMBLE, history.part(0, hours * HOUR)), history, hours * HOUR)[1]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.json"
        file.write_text(json.dumps(made.to_state()))
        runs = [
            json.loads(subprocess.run([sys.executable, "-c", COLD, file], check=True, capture_output=True).stdout)
            for _ in range(5)
        ]
        medians = {name: float(np.median([run[name] for run in runs])) for name in runs[0]}
        yield {"part": "state", "history_h": hours, "state_bytes": file.stat().st_size, **medians}


PARTS = {"selection": selection, "tick": tick, "state": state}
LINES = {
    "selection": (
        "{trace:<12} champion among {candidates} in {cpu_s:.2f} s ({winner}; one fit of each member {fits_s:.2f} s), "
        "one auto_arima {auto_arima_cpu_s:.1f} s ({order}): {times_faster:.1f} times faster"
    ),
    "tick": (
        "{history_h:>4} h of seconds: fit {fit_cpu_s:.1f} s, tick {tick_ms_median:.1f} ms in the median, "
        "{tick_ms_p95:.1f} ms at p95, state {state_bytes:,} bytes"
    ),
    "state": (
        "state of {history_h} h: {state_bytes:,} bytes, read in {load_s:.4f} s by a new process "
        "(imports {import_s:.2f} s), first forecast {first_forecast_s:.4f} s"
    ),
}


def parsed() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--traces", nargs="+", choices=TRACES, default=sorted(TRACES))
    parser.add_argument("--noise", type=float, default=0.0, help="share of noise to multiply in, for example 0.03")
    parser.add_argument("--hours", nargs="+", type=int, default=list(HISTORIES_H))
    return parser.parse_args()


def main() -> int:
    arguments = parsed()
    if not there():
        return 1
    with threadpool_limits(1):
        for part in arguments.parts:
            for row in PARTS[part](arguments):
                print(json.dumps(row) if arguments.json else LINES[part].format(**row), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
