"""What a Spark task does for one stream job in training: fit and judge every family, and challenge the champion.

Knows no Dagster and no MLflow, because Spark's workers import it. Answers are JSON, so what
JSON cannot hold becomes null on the way (:func:`figures`).
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from assets.history import capacity_history, workload_history
from models.capacity.scale_outs import ScaleOuts
from models.capacity.selection import CapacityCandidate, TrainedCapacity, select_capacity
from models.capacity.selection import challenge as challenge_capacity
from models.forecasting.backtest import Backtest, backtest_fitted
from models.forecasting.families import FAMILIES, NAIVE, forecaster_from_state
from models.forecasting.selection import Candidate, TrainedForecast, challenge, train_forecasters
from telemetry.lake import Lake


def train_forecast(key: Mapping[str, Any]) -> dict[str, Any]:
    """Train one job's forecasters and challenge its champion on the same windows.

    Parameters
    ----------
    key
        ``lake`` (folder), ``job``, ``families``, ``history_days``, ``seed``, ``champion`` (state or null), and whether
        ``pictures`` are wanted.

    Returns
    -------
    dict
        Candidates with their figures, the winner with its state, and the verdict.
    """
    history = workload_history(Lake(key["lake"]), key["job"], key["history_days"])
    families = {name: FAMILIES[name] for name in key["families"]}
    trained = train_forecasters(history, families, seed=key["seed"])
    naive = trained.candidates.get(NAIVE)
    naive_wape = naive.backtest.wape() if naive and naive.backtest else math.nan
    promote, sentence = _forecast_verdict(trained, key["champion"], history)
    winner = trained.candidates[trained.winner] if trained.winner else None
    return {
        "candidates": [_forecast_candidate(candidate, naive_wape) for candidate in trained.candidates.values()],
        "winner": trained.winner,
        "why": trained.sentence,
        "promote": promote,
        "verdict": sentence,
        "state": winner.forecaster.to_state() if winner and winner.forecaster else None,
        "rows": int(np.isfinite(history.per_s).sum()),
        "origin_s": history.end_s,
        "pictures": _pictures(key, lambda: _forecast_pictures(key["job"], winner.backtest))
        if winner and winner.backtest
        else {},
    }


def _forecast_verdict(trained: TrainedForecast, champion: Mapping[str, Any] | None, history: Any) -> tuple[bool, str]:
    if trained.winner is None:
        return False, trained.sentence
    challenger = trained.candidates[trained.winner].backtest
    if challenger is None:
        return False, trained.candidates[trained.winner].reason
    current = None
    if champion is not None:
        current = backtest_fitted(forecaster_from_state(champion), history, origins_s=challenger.origins_s)
    verdict = challenge(current, challenger)
    return verdict.promote, verdict.sentence


def _forecast_candidate(candidate: Candidate, naive_wape: float) -> dict[str, Any]:
    row = candidate.backtest.to_row() if candidate.backtest else {}
    wape = row.get("wape_900s", math.nan)
    return {
        "family": candidate.family,
        "error": candidate.reason,
        "metrics": figures({**row, "wape_naive": naive_wape, "beats_naive": float(wape) < naive_wape}),
    }


def _pictures(key: Mapping[str, Any], draw: Callable[[], Mapping[str, bytes]]) -> dict[str, str]:
    """Return pictures as base64 text where they are wanted; a picture that fails must not cost the model."""
    if not key["pictures"]:
        return {}
    try:
        return {name: base64.b64encode(png).decode() for name, png in draw().items()}
    except (ValueError, ArithmeticError) as error:
        return {"error.txt": base64.b64encode(f"could not be drawn: {error}".encode()).decode()}


def _forecast_pictures(job: str, judged: Backtest) -> dict[str, bytes]:
    from assets import pictures

    return {
        "forecast_against_truth.png": pictures.forecast_against_truth(job, judged),
        "residuals.png": pictures.residuals(job, judged),
    }


def train_capacity(key: Mapping[str, Any]) -> dict[str, Any]:
    """Train one job's capacity regressors; as :func:`train_forecast`, with ``maximum`` (workers) for ``families``."""
    rows = capacity_history(Lake(key["lake"]), key["job"], key["history_days"])
    trained = select_capacity(rows, key["maximum"], key["seed"])
    champion = ScaleOuts.from_state(key["champion"]) if key["champion"] is not None else None
    verdict = challenge_capacity(champion, trained, rows, key["seed"])
    return {
        "candidates": [_capacity_candidate(candidate) for candidate in trained.candidates],
        "winner": trained.winner,
        "why": trained.best.notes,
        "promote": verdict.promoted,
        "verdict": verdict.sentence,
        "state": trained.to_state(),
        "rows": len(rows),
        "warnings": list(trained.model.warnings),
        "pictures": _pictures(key, lambda: _capacity_pictures(key["job"], rows, trained)),
    }


def _capacity_pictures(job: str, rows: pd.DataFrame, trained: TrainedCapacity) -> dict[str, bytes]:
    from assets import pictures

    model = trained.model
    here = rows[rows["scale_out"].round() == model.scale_out]
    lines = {name: worker.line.fit() for name, worker in model.workers.workers.items()}
    return {
        "capacity_over_scale_outs.png": pictures.capacity_over_scale_outs(
            job, list(model.table(trained.maximum).values())
        ),
        "cpu_throughput_lines.png": pictures.cpu_throughput_lines(job, here, lines, 1.0),
    }


def _capacity_candidate(candidate: CapacityCandidate) -> dict[str, Any]:
    row = asdict(candidate)
    kept = ("mae_per_s", "rmse_per_s", "mape", "capacity_mape", "unseen_mape", "score", "fit_s")
    return {
        "family": candidate.family,
        "error": candidate.error,
        "notes": candidate.notes,
        "table": {str(n): value for n, value in candidate.table.items()},
        "metrics": figures({name: row[name] for name in kept}),
    }


def figures(row: Mapping[str, Any]) -> dict[str, float | bool | None]:
    """Return the numbers and booleans of ``row``; what JSON cannot hold becomes null."""
    kept = {name: value for name, value in row.items() if isinstance(value, bool | int | float | np.number)}
    return {
        name: value if isinstance(value, bool) else (float(value) if math.isfinite(value) else None)
        for name, value in kept.items()
    }


def to_state_text(state: Mapping[str, Any]) -> str:
    """Return a state as the JSON text that a fleet table holds."""
    return json.dumps(state, separators=(",", ":"))
