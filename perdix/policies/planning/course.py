"""The course that a load is expected to take, in the stages of a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Self

import numpy as np

from perdix.models.forecasting.contract import Forecast, Values

STAGE_S = 60.0
UPPER = 0.9  # the quantile from which the spread of a forecast is read
_Z = NormalDist().inv_cdf(UPPER)
WIDEST = 1.0  # sd of a logarithm beyond which nothing is foreseen anyway


@dataclass(frozen=True)
class Course:
    """Loads of the coming stages.

    Attributes
    ----------
    per_s
        Mean load of each stage, records/s, shape ``(stages,)``.
    log_sd
        Standard deviation of its logarithm, shape ``(stages,)``.
    """

    per_s: Values
    log_sd: Values

    def __len__(self) -> int:
        return len(self.per_s)

    def at_most(self, per_s: float) -> Self:
        """Return the course without what lies above a load."""
        return replace(self, per_s=np.minimum(self.per_s, per_s))


def course_of(forecast: Forecast, now_s: float) -> Course:
    """Return the course from ``now_s`` to the end of the forecast, at least one stage long."""
    step_s = forecast.step_s
    passed = int(np.clip((now_s - forecast.origin_s) // step_s, 0, len(forecast.mean) - 1))
    each = max(1, round(STAGE_S / step_s))
    mean = _staged(forecast.mean[passed:], each)
    upper, middle = forecast.quantiles.get(UPPER), forecast.quantiles.get(0.5)
    if upper is None or middle is None:
        return Course(mean, np.zeros(len(mean)))
    high, median = _staged(upper[passed:], each), _staged(middle[passed:], each)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_sd = np.log(high / median) / _Z
    return Course(mean, np.clip(np.nan_to_num(log_sd, nan=0.0, posinf=WIDEST), 0.0, WIDEST))


def _staged(steps: Values, each: int) -> Values:
    """Return means over ``each`` steps; what is left over at the end belongs to the last stage."""
    whole = len(steps) // each * each
    if whole == 0:
        return np.array([steps.mean()])
    return np.asarray(steps[:whole].reshape(-1, each).mean(axis=1))
