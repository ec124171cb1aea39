"""What a Spark task does for one stream job in training: fit and judge every family, and challenge the champion.

Knows no Dagster and no MLflow, because Spark's workers import it. Answers are JSON, so what
JSON cannot hold becomes null on the way (:func:`figures`).
"""

import base64
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import pandas as pd

from perdix.assets.history import capacity_history, digest_of_days, workload_history
from perdix.assets.shared_training import bound_families
from perdix.control.clock import WallClock
from perdix.models.capacity.pairing import scale_out_of
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.capacity.selection import CapacityCandidate, TrainedCapacity, select_capacity
from perdix.models.capacity.selection import challenge as challenge_capacity
from perdix.models.forecasting.backtest import Backtest
from perdix.models.forecasting.families import NAIVE
from perdix.models.forecasting.retraining import retrain_forecasters
from perdix.models.forecasting.selection import Candidate, challenge_champion
from perdix.models.registry.errors import FleetCorrupt
from perdix.models.registry.fleet_table import name_of, read_row, to_text
from perdix.models.verdict import Verdict
from perdix.telemetry.lake import Lake


@dataclass
class Stopwatch:
    """Sums the seconds that each stage took by the clock."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the block to a stage."""
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began_s


FEWEST_SHOWN = 12  # workers of a job without a file

T = TypeVar("T")
State = Mapping[str, Any]


@dataclass(frozen=True)
class Challenged:
    """Which champion a challenger was held against."""

    name: str | None = None  # of its state, by content; ``None`` where the job has none
    lost: str = ""  # what is to be said when it cannot be read: then there is none to beat


def train_forecast(key: Mapping[str, Any]) -> dict[str, Any]:
    """Train one job's forecasters and challenge its champion on the same windows.

    ``key``: ``lake`` (folder), ``job``, ``families``, ``history_days``, ``horizon_s``, ``seed``, ``champions`` (fleet
    table, or null), ``shared`` (folder of models that jobs share, or null), whether ``pictures`` are wanted, and, where
    there was a drift, ``drift_since_s`` (when the newest began, epoch seconds).
    Returns candidates with their figures, the winner with its state (JSON text), the verdict, and ``stages_s``.
    """
    watch, lake, now_s = Stopwatch(), Lake(key["lake"]), WallClock().now_s()
    with watch.stage("read"):
        history = workload_history(lake, key["job"], key["history_days"], now_s)
        families, missing = bound_families(key["families"], key["shared"])
    champion, challenged = champion_of(key, lambda state, shared: (state, shared))
    state, shared = champion or (None, {})
    # Without a champion nothing can have drifted from it.
    since_s = None if champion is None else key.get("drift_since_s")
    with watch.stage("fit and walk"):
        trained = retrain_forecasters(history, since_s, families, horizon_s=key["horizon_s"], seed=key["seed"])
    with watch.stage("challenge"):
        verdict = challenge_champion(trained, state, history, shared)
    with watch.stage("state"):
        kept = to_text(trained.champion.to_state()) if trained.champion else None
    naive = trained.candidates.get(NAIVE)
    naive_wape = naive.backtest.wape() if naive and naive.backtest else math.nan
    judged = trained.judged
    return {
        "candidates": [
            *(_forecast_candidate(candidate, naive_wape) for candidate in trained.candidates.values()),
            *({"family": family, "error": why, "metrics": {}} for family, why in missing.items()),
        ],
        "winner": trained.winner,
        "why": trained.sentence,
        **gated(verdict, challenged),
        "state": kept,
        "rows": int(np.isfinite(history.per_s).sum()),
        "step_s": history.step_s,
        "origin_s": history.end_s,
        "data_digest": digest_of_days(lake, "workload_features", key["job"], key["history_days"], now_s),
        "stages_s": watch.seconds,
        "pictures": drawn(key, lambda: _forecast_pictures(key["job"], judged)) if judged else {},
    }


def champion_of(key: Mapping[str, Any], read: Callable[[State, Mapping[str, State]], T]) -> tuple[T | None, Challenged]:
    """Return the job's champion, ``None`` where there is none or it cannot be read, and which one that is."""
    if key["champions"] is None:
        return None, Challenged()
    name = None
    try:
        row = read_row(Path(key["champions"]), key["job"])
        if row is None:
            return None, Challenged()
        name = name_of(row.state)
        champion = read(orjson.loads(row.state), {name: orjson.loads(text) for name, text in row.shared.items()})
    except (FleetCorrupt, ValueError, KeyError, TypeError, AttributeError) as error:
        return None, Challenged(name, f"; its champion could not be read: {error}")
    return champion, Challenged(name)


def gated(verdict: Verdict, challenged: Challenged) -> dict[str, Any]:
    """Return what the gate says, as an answer holds it."""
    errors = figures({"gate_error": verdict.challenger_error, "gate_champion_error": verdict.champion_error})
    sentence = f"{verdict.sentence}{challenged.lost}"
    return {"promote": verdict.promoted, "verdict": sentence, "gate": errors, "challenged": challenged.name}


def _forecast_candidate(candidate: Candidate, naive_wape: float) -> dict[str, Any]:
    judged = candidate.backtest
    row = judged.to_row() if judged else {}
    wape = judged.wape() if judged else math.nan
    return {
        "family": candidate.family,
        "error": candidate.reason,
        "metrics": figures({**row, "wape_naive": naive_wape, "beats_naive": wape < naive_wape}),
    }


def drawn(key: Mapping[str, Any], draw: Callable[[], Mapping[str, bytes]]) -> dict[str, str]:
    """Return pictures as base64 text where they are wanted; a picture that fails must not cost the model."""
    if not key["pictures"]:
        return {}
    try:
        return {name: base64.b64encode(png).decode() for name, png in draw().items()}
    except (ValueError, ArithmeticError) as error:
        return {"error.txt": base64.b64encode(f"could not be drawn: {error}".encode()).decode()}


def _forecast_pictures(job: str, judged: Backtest) -> dict[str, bytes]:
    from perdix.assets import forecast_pictures

    return {
        "forecast_against_truth.png": forecast_pictures.forecast_against_truth(job, judged),
        "residuals.png": forecast_pictures.residuals(job, judged),
    }


def train_capacity(key: Mapping[str, Any]) -> dict[str, Any]:
    """Train one job's capacity regressors, as :func:`train_forecast`.

    ``key``: in place of what forecasts need ``maximum``, the most workers that are estimated; of a job without a file
    (null) as many as it has had, 12 at least.
    """
    watch, lake, now_s = Stopwatch(), Lake(key["lake"]), WallClock().now_s()
    with watch.stage("read"):
        rows = capacity_history(lake, key["job"], key["history_days"], now_s)
    with watch.stage("fit and judge"):
        trained = select_capacity(rows, key["maximum"] or _most_workers(rows), key["seed"])
    with watch.stage("challenge"):
        champion, challenged = champion_of(key, lambda state, _: ScaleOuts.from_state(state))
        verdict = challenge_capacity(champion, trained, rows, key["seed"])
    return {
        "candidates": [_capacity_candidate(candidate) for candidate in trained.candidates],
        "winner": trained.winner,
        "why": trained.sentence,
        **gated(verdict, challenged),
        "state": to_text(trained.to_state()),
        "rows": len(rows),
        "data_digest": digest_of_days(lake, "capacity_features", key["job"], key["history_days"], now_s),
        "stages_s": watch.seconds,
        "warnings": list(trained.model.warnings),
        "pictures": drawn(key, lambda: _capacity_pictures(key["job"], rows, trained)),
    }


def _most_workers(rows: pd.DataFrame) -> int:
    """Return how many workers of a job without a file are estimated: a wrong count in a few rows is left out."""
    return max(FEWEST_SHOWN, int(scale_out_of(rows).quantile(0.99)))


def _capacity_pictures(job: str, rows: pd.DataFrame, trained: TrainedCapacity) -> dict[str, bytes]:
    from perdix.assets import pictures

    model = trained.model
    here = rows[scale_out_of(rows) == model.scale_out]
    lines = {name: line.fit() for name, line in model.workers.lines.items()}
    return {
        "capacity_over_scale_outs.png": pictures.capacity_over_scale_outs(
            job, list(model.table(trained.maximum).values())
        ),
        "cpu_throughput_lines.png": pictures.cpu_throughput_lines(job, here, lines),
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
