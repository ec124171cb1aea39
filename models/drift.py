"""When a job's forecasts have become too poor: the fallback, and one request to train again per drift.

A state machine without clock or I/O: the loop observes one WAPE per tick and acts on what the state says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import numpy as np

from models.forecasting.contract import Forecast, Values, Workload
from models.forecasting.errors import error_of_maximum, wape
from models.forecasting.tail import Tail

GOOD = 0.10  # Daedalus 3.2 and its program: below, a forecast is good
USABLE = 0.25  # below, the model's own forecast is used; from here on the fallback
POOR_TICKS = 15  # consecutive ticks that are not good until a retrain is requested
RECOVERED_TICKS = 3  # consecutive usable ticks that end the fallback (one good tick ends it at once)
CLOSED_TICKS = 15  # consecutive good ticks that end a drift
COOLDOWN_TICKS = 60  # ticks until the next attempt in the same drift, times the attempts so far
LONGEST_COOLDOWN_TICKS = 1440
FIRST_MINUTE_S = 60.0
NEEDED_COVERAGE = 0.5


@dataclass(frozen=True)
class Realised:
    """How a forecast turned out.

    Attributes
    ----------
    first_minute_wape, horizon_wape
        WAPE over the first 60 s (what Daedalus watches) and over all that has come true; ``None`` where less than half
        of that part was measured.
    maximum_error
        Signed error of the highest rate over the horizon; ``None`` like ``horizon_wape``.
    """

    first_minute_wape: float | None
    horizon_wape: float | None
    maximum_error: float | None


def come_true(forecast: Forecast, observed: Workload) -> Realised:
    """Compare a forecast with what was measured since, on the forecast's own steps.

    Only steps that have ended count. The whole horizon is judged once all of it has passed.
    """
    actual = _on_steps(forecast, observed)
    minute = max(1, int(np.ceil(FIRST_MINUTE_S / forecast.step_s)))
    first = _judged(actual[:minute], forecast.mean[:minute])
    passed = observed.end_s >= forecast.origin_s + forecast.horizon_s - 1e-6
    whole = _judged(actual, forecast.mean) if passed else None
    maximum = error_of_maximum(actual, forecast.mean) if whole is not None else None
    return Realised(first, whole, maximum)


def _on_steps(forecast: Forecast, observed: Workload) -> Values:
    if not np.isfinite(observed.per_s).any():
        return np.full(len(forecast.mean), np.nan)
    edges_s = forecast.origin_s + forecast.step_s * np.arange(len(forecast.mean) + 1, dtype=np.float64)
    own = Tail(observed.start_s, observed.step_s, observed.per_s, observed.end_s)
    return np.where(edges_s[1:] <= observed.end_s + 1e-6, own.means(edges_s), np.nan)


def _judged(actual: Values, forecast: Values) -> float | None:
    if not len(actual) or np.isfinite(actual).mean() < NEEDED_COVERAGE:
        return None
    return wape(actual, forecast)


@dataclass(frozen=True)
class DriftState:
    """Where one job stands. Immutable: :meth:`observe` returns the next state.

    Attributes
    ----------
    use_fallback
        True when the decision must rest on the fallback instead of the model; so it starts with :meth:`untried`.
    retrain_due
        True in the one state in which a retrain is to be requested; identify it by ``(drift, attempt)``.
    poor_ticks, good_ticks, usable_ticks
        Consecutive ticks that were not good, good, usable.
    drift
        How many drifts there have been.
    attempt
        How many retrains were requested in the present drift; 0 when there is none.
    ticks_since_request
        Observations since the last request.
    """

    use_fallback: bool = False
    retrain_due: bool = False
    poor_ticks: int = 0
    good_ticks: int = 0
    usable_ticks: int = 0
    drift: int = 0
    attempt: int = 0
    ticks_since_request: int = 0

    @classmethod
    def untried(cls) -> Self:
        """Return the state of a model that has not forecast yet: the fallback is used until it was usable."""
        return cls(use_fallback=True)

    def observe(self, error: float | None) -> Self:
        """Return the state after one tick.

        Parameters
        ----------
        error
            WAPE of the model's own forecast (also while the fallback is used), 1.0 = 100 %; ``None`` or NaN when none
            has come true: nothing is concluded then. Infinite is poor.

        Raises
        ------
        ValueError
            When the error is negative.
        """
        if error is None or math.isnan(error):
            return replace(self, retrain_due=False)
        if error < 0.0:
            raise ValueError(f"a WAPE cannot be negative: {error}")
        good, usable = error < GOOD, error < USABLE
        counted = replace(
            self,
            retrain_due=False,
            poor_ticks=0 if good else self.poor_ticks + 1,
            good_ticks=self.good_ticks + 1 if good else 0,
            usable_ticks=self.usable_ticks + 1 if usable else 0,
            ticks_since_request=self.ticks_since_request + 1,
        )
        return counted._switched(good, usable)._closed()._requested()

    def _switched(self, good: bool, usable: bool) -> Self:
        if not usable:
            return replace(self, use_fallback=True)
        ended = good or self.usable_ticks >= RECOVERED_TICKS
        return replace(self, use_fallback=self.use_fallback and not ended)

    def _closed(self) -> Self:
        return replace(self, attempt=0) if self.good_ticks >= CLOSED_TICKS else self

    def _requested(self) -> Self:
        if self.poor_ticks < POOR_TICKS:
            return self
        cooldown = min(COOLDOWN_TICKS * self.attempt, LONGEST_COOLDOWN_TICKS)
        if self.attempt and self.ticks_since_request < cooldown:
            return self
        drift = self.drift if self.attempt else self.drift + 1
        return replace(self, retrain_due=True, attempt=self.attempt + 1, drift=drift, ticks_since_request=0)

    def promoted(self) -> Self:
        """Return the state after a new champion was loaded: its errors count from here, the cooldown goes on."""
        return replace(self, retrain_due=False, poor_ticks=0, good_ticks=0, usable_ticks=0)

    def to_state(self) -> dict[str, int | bool]:
        """Return a JSON-serialisable state."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`; what an older state lacks has its default."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in state.items() if name in known})
