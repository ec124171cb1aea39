"""A workload, and the forecast that is made of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from perdix.models.forecasting.amounts import sums
from perdix.models.forecasting.failures import NotForecastableError
from perdix.settings.replacing import replace
from perdix.telemetry.window import Values

PROBABILITIES = (0.5, 0.8, 0.9, 0.95)
HORIZON_S = 900.0  # the papers': 15 minutes
LARGEST_PER_S = 1e15  # records/s; sums and squares of less stay finite


@dataclass(frozen=True)
class Workload:
    """A job's workload on a regular grid."""

    start_s: float  # epoch seconds at which the first step begins
    step_s: float  # length of a step in seconds
    per_s: Values  # mean rate in each step, records/s, shape ``(n,)``; NaN where nothing was measured

    @property
    def end_s(self) -> float:
        """Epoch seconds at which the last step ends: the origin of a forecast made from this workload."""
        return self.start_s + self.step_s * len(self.per_s)

    @cached_property
    def summed(self) -> tuple[Values, Values, Values]:
        """Boundaries of the steps, and the records and the measured seconds up to each, of one shape ``(n + 1,)``."""
        own = self.start_s + self.step_s * np.arange(len(self.per_s) + 1, dtype=np.float64)
        return own, *sums(own, self.per_s)

    @cached_property
    def state(self) -> dict[str, Any]:
        """JSON-serialisable, read only; missing rates are ``None``."""
        per_s = [rate if math.isfinite(rate) else None for rate in self.per_s.tolist()]
        return {"start_s": self.start_s, "step_s": self.step_s, "per_s": per_s}

    def __len__(self) -> int:
        return len(self.per_s)

    def part(self, begin: int, end: int) -> Workload:
        """Return the steps ``begin`` to ``end`` (exclusive)."""
        return Workload(self.start_s + begin * self.step_s, self.step_s, self.per_s[begin:end])

    def plausible(self) -> Workload:
        """Return the workload with what cannot be a rate as missing: infinite, beyond 1e15 records/s, or negative.

        A counter that was reset makes a negative rate; what the rate really was is not known then.

        Raises ``NotForecastableError`` when the steps have no length or no place in time.
        """
        if not (math.isfinite(self.start_s) and math.isfinite(self.step_s) and self.step_s > 0.0):
            raise NotForecastableError(f"a workload that starts at {self.start_s} s by steps of {self.step_s} s")
        rates = np.asarray(self.per_s, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            possible = (rates >= 0.0) & (rates <= LARGEST_PER_S)
        if possible.all() or (possible | np.isnan(rates)).all():
            return self
        return Workload(self.start_s, self.step_s, np.where(possible, rates, np.nan))


class Paths(Mapping[float, Values]):
    """Paths of a forecast, probability -> records/s, shape ``(horizon,)``; each is worked out when it is first read.

    Most are never read: a tick asks for two of eight. Pickled, copied and shown as the ``dict`` of all of them.
    """

    def __init__(self, probabilities: Iterable[float], path: Callable[[float], Values]) -> None:
        self._path = path
        self._known: dict[float, Values | None] = dict.fromkeys(probabilities)

    def __getitem__(self, probability: float) -> Values:
        known = self._known[probability]
        if known is None:
            known = self._known[probability] = self._path(probability)
        return known

    def __iter__(self) -> Iterator[float]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, probability: object) -> bool:
        return probability in self._known

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


@dataclass(frozen=True)
class Forecast:
    """What a forecaster believes at ``origin_s`` about the steps that follow.

    ``origin_s``: epoch seconds of the origin; step ``k`` covers ``[origin_s + k step_s, origin_s + (k + 1) step_s)``.
    ``mean``: records/s, shape ``(horizon,)``, never negative.
    ``quantiles``: probability -> records/s, shape ``(horizon,)``; at least 0.5, 0.8, 0.9 and 0.95.
    ``maxima``: probability -> records/s, shape ``(horizon,)``, never decreasing: what the highest rate of the steps
    ``0..k`` stays below with that probability. Empty where it was not calibrated.
    ``family``, ``version``: the model that made it; version 0 is a fallback that no registry knows.
    ``wape``: WAPE of the model's recent forecasts (1.0 = 100 %), ``None`` when none has come true yet.
    """

    origin_s: float
    step_s: float
    mean: Values
    quantiles: Mapping[float, Values] = field(default_factory=dict)
    family: str = ""
    version: int = 0
    wape: float | None = None
    maxima: Mapping[float, Values] = field(default_factory=dict)

    @property
    def horizon_s(self) -> float:
        """Seconds covered."""
        return self.step_s * len(self.mean)

    def over(self, step_s: float) -> Forecast:
        """Return the mean of its paths over longer steps; maxima are left out, as they have no means."""
        width = max(1, round(step_s / self.step_s))
        count = len(self.mean) // width
        if count == 0:
            width, count = 1, len(self.mean)
        mean, *paths = (
            path[: count * width].reshape(count, width).mean(axis=1) for path in (self.mean, *self.quantiles.values())
        )
        quantiles = dict(zip(self.quantiles, paths, strict=True))
        return replace(self, step_s=width * self.step_s, mean=mean, quantiles=quantiles, maxima={})

    def maximum_per_s(self, until_s: float | None = None, quantile: float | None = None) -> float:
        """Return the highest rate within ``until_s`` seconds of the origin (the whole horizon when ``None``).

        With a ``quantile``, the level that the highest rate stays below with that probability; where maxima were not
        calibrated, the highest value of that quantile's path.
        """
        count = len(self.mean) if until_s is None else max(1, int(np.ceil(until_s / self.step_s - 1e-9)))
        count = min(count, len(self.mean))
        if quantile is not None and quantile in self.maxima:
            return float(self.maxima[quantile][count - 1])
        values = self.mean if quantile is None else self.quantiles[quantile]
        return float(np.max(values[:count]))
