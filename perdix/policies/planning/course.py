"""The course that a load is expected to take, in the stages of a plan: minutes first, then what lies further."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Self

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.telemetry.window import Values

STAGE_S = 60.0
RISEN = 1.05  # times the highest load of the last hours: more is new
UPPER = 0.9  # the quantile from which the spread of a forecast is read
_Z = NormalDist().inv_cdf(UPPER)
WIDEST = 1.0  # sd of a logarithm beyond which nothing is foreseen anyway


@dataclass(frozen=True)
class Highest:
    """The highest load of the last hours, records/s, and for how many seconds it has been that; unknown by default.

    What stood for hours is hardly surpassed in the next minutes, whatever a forecast makes of a step or of the errors
    that it made at others. The longer it stood, the less likely it is to be surpassed soon.
    """

    per_s: float = np.inf
    stood_s: float = 0.0

    @classmethod
    def of(cls, minutes: Values) -> Self:
        """Return that of mean loads of minutes, records/s, shape ``(n,)``, the newest last; NaN: not measured."""
        known = np.flatnonzero(np.isfinite(minutes))
        if not len(known):
            return cls()
        most = float(minutes[known].max())
        reached = int(known[(minutes[known] >= most / RISEN).argmax()])
        return cls(most, (len(minutes) - 1 - reached) * STAGE_S)

    @property
    def new_per_s(self) -> float:
        """The load from which on one is new, records/s."""
        return RISEN * self.per_s

    def surpassed(self, within_s: Values) -> Values:
        """Return how likely a new load is to come within some seconds, of their shape."""
        return np.asarray(within_s / (self.stood_s + within_s))


@dataclass(frozen=True)
class Course:
    """Loads of the coming stages."""

    per_s: Values  # mean load of each stage, records/s, shape ``(stages,)``
    log_sd: Values  # standard deviation of its logarithm, shape ``(stages,)``
    # How long each stage lasts, seconds, shape ``(stages,)``; a minute each where nothing is said
    lasts_s: Values = field(default_factory=lambda: np.empty(0))
    highest: Highest = Highest()  # what a load hardly surpasses

    def __post_init__(self) -> None:
        if len(self.lasts_s) != len(self.per_s):
            object.__setattr__(self, "lasts_s", np.full(len(self.per_s), STAGE_S))

    def __len__(self) -> int:
        return len(self.per_s)

    @cached_property
    def whole_s(self) -> float:
        """Seconds from its beginning to its end."""
        return float(self.lasts_s.sum())

    @cached_property
    def begins_s(self) -> Values:
        """When each stage begins, seconds from the beginning of the course, shape ``(stages,)``."""
        return np.asarray(np.cumsum(self.lasts_s) - self.lasts_s)

    @property
    def surpassed(self) -> Values:
        """How likely a new load is to come by the end of each stage, shape ``(stages,)``."""
        return self.highest.surpassed(self.begins_s + self.lasts_s)

    def at_most(self, per_s: float) -> Self:
        """Return the course without what lies above a load."""
        return replace(self, per_s=np.minimum(self.per_s, per_s))


def course_of(forecast: Forecast, now_s: float, further: Forecast | None = None) -> Course:
    """Return the course from ``now_s`` to the end of the forecast, at least one stage long, and what lies further.

    ``further``: a forecast in longer steps, of which those count that begin after the other one. Until they begin, a
    newer forecast is made: so they are known as well by then as the last minute is now.
    """
    near = _minutes_of(forecast, now_s)
    if further is None:
        return near
    steps_s = further.origin_s + further.step_s * np.arange(len(further.mean))
    beyond = further.mean[steps_s >= forecast.origin_s + forecast.horizon_s - 1e-6]
    return Course(
        np.concatenate([near.per_s, beyond]),
        np.concatenate([near.log_sd, np.full(len(beyond), near.log_sd[-1])]),
        np.concatenate([near.lasts_s, np.full(len(beyond), further.step_s)]),
    )


def _minutes_of(forecast: Forecast, now_s: float) -> Course:
    step_s = forecast.step_s
    passed = int(min(max((now_s - forecast.origin_s) // step_s, 0), len(forecast.mean) - 1))
    each = max(1, round(STAGE_S / step_s))
    mean = _staged(forecast.mean[passed:], each)
    upper, middle = forecast.quantiles.get(UPPER), forecast.quantiles.get(0.5)
    if upper is None or middle is None:
        return Course(mean, np.zeros(len(mean)))
    high, median = _staged(upper[passed:], each), _staged(middle[passed:], each)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_sd = np.log(high / median) / _Z
    return Course(mean, np.minimum(np.where(log_sd > 0.0, log_sd, 0.0), WIDEST))  # also where it is not a number


def _staged(steps: Values, each: int) -> Values:
    """Return means over ``each`` steps; what is left over at the end belongs to the last stage."""
    whole = len(steps) // each * each
    if whole == 0:
        return np.array([steps.mean()])
    return np.asarray(steps[:whole].reshape(-1, each).sum(axis=1) / each)
