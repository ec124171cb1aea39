"""Believe: what the models say of the job now. Champions are adopted and updated with what was seen, never refitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import orjson

from control.champions import ChampionSource
from control.job_memory import Adopted, JobMemory, history_of
from control.observe import Observation, workload_of
from models.capacity.contract import Estimate
from models.capacity.scale_outs import ScaleOuts
from models.drift import DriftState
from models.forecasting.contract import Forecast, Workload
from models.forecasting.forecaster import Forecaster, fallback, forecaster_from_state
from models.forecasting.tail import Tail
from models.registry import CAPACITY, FORECAST
from settings.stream_job import Bounds
from targets.contract import Running

HORIZON_S = 900.0
TRUTH_CELL_S = 10.0
TRUTH_KEPT_S = 2_400.0
FALLBACK_HISTORY_S = 1_800.0
MEASURED_ANEW_S = 3_600.0  # the fallback's spread


@dataclass(frozen=True)
class Beliefs:
    """What is believed at one tick.

    Attributes
    ----------
    champion
        The champion's forecast; ``None`` when there is no champion or it could not forecast.
    forecast
        The forecast that is acted on: the champion's, or the fallback's.
    capacities
        Scale-out -> estimate within the bounds, the current one among them; empty when nothing is known.
    versions
        Model name -> version; 0 where no champion is in use.
    """

    champion: Forecast | None
    forecast: Forecast | None
    capacities: Mapping[int, Estimate] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def adopt(memory: JobMemory, champions: ChampionSource, job: str) -> tuple[JobMemory, tuple[str, ...]]:
    """Take in the champions of this job, if they are others than those in use; return what went wrong, in words.

    A row that cannot be used leaves what is in use: the last good version.
    """
    notes: list[str] = []
    for name, take in ((FORECAST, _adopt_forecaster), (CAPACITY, _adopt_capacity)):
        fleet = champions.fleet(name)
        row = fleet.rows.get(job)
        if row is None and not fleet.known:
            continue
        try:
            memory = take(memory, None if row is None else (row.state, row.version))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            version = row.version if row else 0
            notes.append(f"{name} version {version} cannot be used for this job: {error}; what was in use stays")
    return memory, tuple(notes)


def update(memory: JobMemory, observation: Observation, running: Running | None) -> JobMemory:
    """Update every model with what was seen: the truth, the forecasters, the capacity."""
    window = observation.window
    if window is None or not len(window):
        return memory
    seen = workload_of(window)
    memory = replace(memory, workload=_appended(memory.workload, seen))
    if memory.champion is not None:
        updated = memory.champion.forecaster.update(seen)
        memory = replace(memory, champion=replace(memory.champion, forecaster=updated))
    memory = replace(memory, fallback=_fallback(memory, seen))
    scale_out = observation.scale_out if observation.scale_out is not None else (running.scale_out if running else None)
    if scale_out is not None and scale_out >= 1 and (running is None or running.settled):
        memory = replace(memory, capacity=memory.capacity.update(window, scale_out))
    return memory


def believe(memory: JobMemory, bounds: Bounds, current: int) -> Beliefs:
    """Forecast, and estimate the capacity of every scale-out that may be chosen.

    A champion whose recent forecasts were poor still forecasts, to be judged, but is not acted on.
    """
    notes: list[str] = []
    champion = None
    if memory.champion is not None:
        made = _forecast(memory.champion.forecaster, notes)
        champion = None if made is None else replace(made, version=memory.champion.version, wape=memory.wape)
    forecast = None if memory.drift.use_fallback else champion
    if forecast is None and memory.fallback is not None:
        forecast = _forecast(memory.fallback[0], notes)
        why = _why_fallback(memory, champion)
        notes.append(f"fallback forecast: {why}")
    low, high = min(bounds.minimum, current), max(bounds.maximum, current)
    versions = {
        FORECAST: forecast.version if forecast is not None else 0,
        CAPACITY: memory.capacity_version,
    }
    return Beliefs(champion, forecast, memory.capacity.table(high, low), versions, tuple(notes))


def _why_fallback(memory: JobMemory, champion: Forecast | None) -> str:
    if champion is None:
        return "no champion can forecast"
    if memory.wape is None:
        return "no forecast of the champion has come true yet"
    return f"the champion's recent forecasts were poor (WAPE {memory.wape:.0%})"


def coarse(forecast: Forecast, step_s: float = TRUTH_CELL_S) -> Forecast:
    """Return the forecast as means over ``step_s``: what is kept until its truth is known, a tenth of the size."""
    width = max(1, round(step_s / forecast.step_s))
    count = len(forecast.mean) // width
    if width == 1 or count == 0:
        return forecast
    mean = forecast.mean[: count * width].reshape(count, width).mean(axis=1)
    quantiles = {p: row[: count * width].reshape(count, width).mean(axis=1) for p, row in forecast.quantiles.items()}
    return replace(forecast, step_s=width * forecast.step_s, mean=mean, quantiles=quantiles)


def _adopt_forecaster(memory: JobMemory, row: tuple[str, int] | None) -> JobMemory:
    if row is None:
        return replace(memory, champion=None, drift=DriftState.untried(), wape=None)
    state, version = row
    if memory.champion is not None and memory.champion.version == version:
        return memory
    forecaster = forecaster_from_state(orjson.loads(state))
    for tail in (_tail_of(memory.champion), memory.workload):
        if tail is not None:
            forecaster = forecaster.update(history_of(tail))
    first = memory.champion is None
    drift = DriftState.untried() if first else memory.drift.promoted()
    return replace(memory, champion=Adopted(forecaster, version), drift=drift, wape=None)


def _tail_of(adopted: Adopted | None) -> Tail | None:
    """Return what the former champion remembers: it reaches further back than the workload that is kept."""
    return None if adopted is None else adopted.forecaster.finest


def _adopt_capacity(memory: JobMemory, row: tuple[str, int] | None) -> JobMemory:
    if row is None or row[1] == memory.capacity_version:
        return memory
    trained = ScaleOuts.from_state(orjson.loads(row[0]))
    # What this loop has seen itself is newer than any training set.
    model = memory.capacity.believing(trained.memory.values()) if memory.capacity.known else trained
    return replace(memory, capacity=model, capacity_version=row[1])


def _appended(tail: Tail | None, seen: Workload) -> Tail | None:
    if tail is not None:
        return tail.append(seen, TRUTH_KEPT_S)
    return Tail.of(seen, TRUTH_CELL_S, TRUTH_KEPT_S) if np.isfinite(seen.per_s).any() else None


def _fallback(memory: JobMemory, seen: Workload) -> tuple[Forecaster, float] | None:
    if memory.workload is None:
        return memory.fallback
    if memory.fallback is not None and seen.end_s - memory.fallback[1] < MEASURED_ANEW_S:
        return memory.fallback[0].update(seen), memory.fallback[1]
    history = history_of(memory.workload, FALLBACK_HISTORY_S)
    if not np.isfinite(history.per_s).any():
        return memory.fallback
    return fallback(history).update(seen), seen.end_s


def _forecast(forecaster: Forecaster, notes: list[str]) -> Forecast | None:
    try:
        made = forecaster.forecast(HORIZON_S)
    except ValueError as error:
        notes.append(f"{forecaster.family} could not forecast: {error}")
        return None
    if not np.isfinite(made.mean).all():
        notes.append(f"{forecaster.family} forecast something that is not finite")
        return None
    return made
