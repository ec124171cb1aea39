"""A job's own physics as a twin: its learned capacities, its usual latency, its restarts as far as they were seen.

No other job's twin stands in: capacities are a table, one for each scale-out, and nothing is drawn but the noise within
a step. Records are counted in a unit of which a worker takes many, because a twin has workers of 1/s and more only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Workload
from perdix.replay.case import BEST_STATIC, Case, Contender
from perdix.replay.workload import ingested
from perdix.scan.learning import CannotJudgeError, Learned
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings
from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.window import Values
from perdix.twin.parameters import TwinParameters

UNIT_PER_S: Final = 10_000.0  # of one worker, in the twin's records
STEP_S: Final = 60  # of the twin: the recorded data shows nothing within a minute
SHORTEST_STANDSTILL_S: Final = 1.0
ASSUMED_BASE_MS: Final = 1_000.0
LEAST_OBJECTIVE_MS: Final = 5_000.0
TIMES_USUAL: Final = 2.0  # the usual latency: less is no objective that the job can hold
SETTLE_S: Final = 600  # beyond the end, for the records that still wait by then


@dataclass(frozen=True)
class OwnPhysics:
    """A job that can be replayed."""

    name: str
    parameters: TwinParameters  # its twin
    arrivals: Values  # records (in the twin's unit) of each second, longer than :attr:`seconds` by ``SETTLE_S``
    objectives: Objectives  # what has to hold
    seconds: int  # how long it is, whole minutes
    notes: tuple[str, ...] = ()  # gaps that were closed, in words

    @property
    def minutes(self) -> Values:
        """Mean rate of each minute in the twin's unit, shape ``(seconds / 60,)``."""
        return np.asarray(self.arrivals[: self.seconds].reshape(-1, 60).mean(axis=1))

    @property
    def capacities(self) -> Values:
        """What 1, 2, ... workers take, in the twin's unit, shape ``(maximum,)``."""
        return np.asarray(self.parameters.workers.measured_per_s, dtype=np.float64)

    def case(self, contender: Contender | None = None) -> Case:
        """Return the case of a contender, by default of the search of the best fixed size."""
        return Case(
            contender or Contender(BEST_STATIC, PolicySettings(name="static")),
            self.name,
            self.parameters,
            seed=0,
            hours=self.seconds / 3_600.0,
            objectives=self.objectives,
            bounds=Bounds(minimum=1, maximum=self.parameters.workers.maximum),
            arrivals=self.arrivals,
            step_s=STEP_S,
        )

    def with_capacities(self, per_s: Values) -> OwnPhysics:
        """Return the same job with other capacities, in the twin's unit, shape ``(maximum,)``."""
        workers = self.parameters.workers.model_copy(update={"measured_per_s": per_s.tolist()})
        return replace(self, parameters=self.parameters.model_copy(update={"workers": workers}))

    def part(self, first_s: int, seconds: int) -> OwnPhysics:
        """Return a part of the time, which begins ``first_s`` seconds after the start."""
        part = self.arrivals[first_s : first_s + seconds + SETTLE_S]
        return replace(self, arrivals=part, seconds=seconds)


def objectives_of(learned: Learned, latency_ms: float | None, error_budget: float) -> Objectives:
    """Return what is to hold: the latency that was asked for, or 5 s, or twice what is usual where that is more."""
    usual_ms = learned.usual_latency_ms or 0.0
    assumed_ms = max(LEAST_OBJECTIVE_MS, TIMES_USUAL * usual_ms)
    return Objectives(latency_p95_ms=round(latency_ms or assumed_ms, 1), error_budget=error_budget)


def own_physics(name: str, learned: Learned, objectives: Objectives) -> OwnPhysics:
    """Return the job as a twin of its own. Raises ``CannotJudgeError`` when its load cannot be one."""
    unit = UNIT_PER_S / learned.capacities[1].per_s
    arrivals, seconds, notes = _arrivals(name, learned.load, unit)
    table = [unit * learned.capacities[n].per_s for n in range(1, learned.maximum + 1)]
    standstill_s = learned.restarts.standstill_s
    # Without queueing: the usual latency, and never so much that nothing could hold
    base_ms = min(learned.usual_latency_ms or ASSUMED_BASE_MS, objectives.latency_p95_ms / TIMES_USUAL)
    parameters = TwinParameters.model_validate(
        {
            "name": name,
            "demo": False,
            "workers": {
                "capacity_per_s": UNIT_PER_S,
                "maximum": learned.maximum,
                "speed_spread": 0.0,
                "contention": 0.0,
                "measured_per_s": table,
            },
            "keys": {"skew_spread": 0.0, "wobble": 0.0},
            "restart": {} if standstill_s is None else _restart(standstill_s),
            "latency": {"base_ms": base_ms},
            "workload": {"shape": "constant", "peak_per_s": UNIT_PER_S},
            "start_scale_out": 1,
        }
    )
    return OwnPhysics(name, parameters, arrivals, objectives, seconds, notes)


def at_low_end(capacities: Mapping[int, Estimate], unit: float = 1.0) -> Values:
    """Return the lower ends of the 90 % intervals, never falling with the scale-out; shape ``(maximum,)``."""
    low = [unit * capacities[n].low_per_s for n in sorted(capacities)]
    return np.asarray(np.maximum.accumulate(low))


def _arrivals(name: str, load: Workload, unit: float) -> tuple[Values, int, tuple[str, ...]]:
    """Return what arrives in each second, how many seconds are replayed, and which gaps were closed, in words."""
    try:
        trace = ingested(name, load, fill_gaps=True)
    except SettingsError as error:
        raise CannotJudgeError(f"its load cannot be replayed: {error}") from None
    seconds = 60 * int(trace.length_s // 60)
    # A step's rate is its mean, so it holds for all of the step: lines between steps would smooth a noisy load.
    steps_s = load.step_s * np.arange(round(trace.length_s / load.step_s))
    each = np.repeat(np.interp(steps_s, trace.times_s, trace.rates), round(load.step_s))
    rates = unit * np.resize(each, seconds + SETTLE_S)
    notes = tuple(note for note in trace.notes if "lines across" in note)
    return np.maximum(rates, 0.0), seconds, notes


def _restart(standstill_s: float) -> dict[str, dict[str, float]]:
    median_s = max(standstill_s, SHORTEST_STANDSTILL_S)
    return {kind: {"median_s": median_s, "spread": 0.0} for kind in ("out", "in")}
