"""How forecasts from a row of origins turned out: errors, coverage, and what became of the maximum."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perdix.models.forecasting.errors import (
    coverage,
    error_of_maximum,
    mae,
    quantile_loss,
    smape,
    under_forecast_rate,
    wape,
)
from perdix.models.forecasting.member import LEADS
from perdix.telemetry.window import Values

RECOVERY_S = 600.0  # Daedalus's recovery target: the maximum that decides about a rescaling lies within it
NEEDED_COVERAGE = 0.5  # of an origin's truth
MAXIMUM = 0.9  # the probability at which policies ask for the maximum


@dataclass(frozen=True)
class Backtest:
    """Forecasts of one family, or of the ensemble, from a row of origins, and their errors."""

    family: str
    step_s: float
    origins_s: Values  # epoch seconds, ascending, shape ``(origins,)``
    # Records/s, shape ``(origins, steps)``; NaN where it was not measured or lies after the end of the history
    actual: Values
    # forecast, upper, upper_p95: mean forecast and its 0.9 and 0.95 quantiles, of the same shape; NaN where there was
    # no forecast
    forecast: Values
    upper: Values
    upper_p95: Values = field(default_factory=lambda: np.empty((0, 0)))
    # What the highest rate of the steps so far should stay below with probability 0.9, of the same shape
    highest: Values = field(default_factory=lambda: np.empty((0, 0)))
    in_sample: bool = False  # true when the parameters had seen a part of the truth, so that the errors flatter
    recovery_s: float = RECOVERY_S  # the shorter of the two horizons over which the maximum is judged
    # fit_s, update_s, forecast_s: median seconds of one fit (NaN when nothing was fitted), one update by a part of the
    # horizon, one forecast
    fit_s: float = float("nan")
    update_s: float = float("nan")
    forecast_s: float = float("nan")
    state_bytes: int = 0  # length of the state as JSON

    @property
    def horizon_s(self) -> float:
        """Seconds covered by each forecast."""
        return float(self.step_s * self.actual.shape[1])

    @property
    def horizons_s(self) -> tuple[float, float, float]:
        """The horizons that a row distinguishes: a fifteenth, a third, and the whole (60, 300 and 900 s)."""
        return self.horizon_s / LEADS, self.horizon_s / 3, self.horizon_s

    def wape(self, horizon_s: float | None = None) -> float:
        """Return the WAPE of all steps up to ``horizon_s`` (all of them by default) of all origins together."""
        steps = self._steps(horizon_s)
        return wape(self.actual[:, :steps], self.forecast[:, :steps])

    def errors_of_maximum(self, horizon_s: float | None = None, *, calibrated: bool = False) -> Values:
        """Return the signed error of the highest rate up to ``horizon_s`` per origin, shape ``(origins,)``.

        Of the mean forecast, or of the calibrated 0.9 quantile of the maximum. NaN where less than half of the truth
        was measured.
        """
        steps = self._steps(horizon_s)
        said = self.highest if calibrated and self.highest.size else self.forecast
        pairs = zip(self.actual[:, :steps], said[:, :steps], strict=True)
        return np.array(
            [
                error_of_maximum(actual, forecast) if np.isfinite(actual).mean() >= NEEDED_COVERAGE else np.nan
                for actual, forecast in pairs
            ]
        )

    @property
    def judgeable(self) -> NDArray[np.bool_]:
        """Which origins have a measured truth in at least half of their steps, shape ``(origins,)``."""
        return np.asarray(np.isfinite(self.actual).mean(axis=1) >= NEEDED_COVERAGE)

    @property
    def evidence(self) -> int:
        """How many origins have a measured truth in at least half of their steps."""
        return int(self.judgeable.sum()) if len(self.actual) else 0

    @property
    def unanswered(self) -> int:
        """How many of the origins with a measured truth had no forecast."""
        missing = ~np.isfinite(self.forecast).all(axis=1)
        return int((missing & self.judgeable).sum()) if len(self.actual) else 0

    @property
    def maximum_loss(self) -> float:
        """What the calibrated maximum over the whole horizon cost: its mean quantile loss as a share of the truth.

        Origins after which nothing arrived are left out, as long as there are others: there is nothing to be a share
        of. What was forecast for them counts in the WAPE.
        """
        errors = self.errors_of_maximum(calibrated=True)
        busy = np.nan_to_num(self.actual).max(axis=1, initial=0.0) > 0.0
        busy &= ~np.isnan(errors)
        return quantile_loss(errors[busy] if busy.any() else errors, MAXIMUM)

    @property
    def score(self) -> float:
        """WAPE over the whole horizon plus :attr:`maximum_loss`: what selection compares, less is better.

        A forecast serves two ends: its path says when a rescaling pays, its maximum how many workers are needed. The
        loss of a 0.9 quantile costs nine times as much below the truth as above it, which is what the probability
        means: a family that under-forecasts peaks pays for it however good its path is, and one that buys safety by
        a wide margin pays for the margin.
        """
        return self.wape() + self.maximum_loss

    def _steps(self, horizon_s: float | None) -> int:
        if horizon_s is None:
            return int(self.actual.shape[1])
        return max(1, int(np.ceil(horizon_s / self.step_s - 1e-9)))

    def to_row(self) -> dict[str, float | int | str | bool]:
        """Return the metrics as one flat row: errors as shares of 1, times in seconds.

        Without a horizon in its name a metric covers the whole of it.
        """
        by_horizon: dict[str, float] = {}
        for horizon_s in self.horizons_s:
            steps, suffix = self._steps(horizon_s), f"_{horizon_s:.0f}s"
            actual, forecast = self.actual[:, :steps], self.forecast[:, :steps]
            figures = {
                "wape": wape(actual, forecast),
                "smape": smape(actual, forecast),
                "mae_per_s": mae(actual, forecast),
                "coverage_p90": coverage(actual, self.upper[:, :steps]),
                "coverage_p95": coverage(actual, self.upper_p95[:, :steps]) if self.upper_p95.size else np.nan,
            }
            whole = horizon_s == self.horizon_s
            by_horizon.update({name if whole else f"{name}{suffix}": value for name, value in figures.items()})
        return {
            "family": self.family,
            "score": self.score,
            "origins": len(self.origins_s),
            "evidence": self.evidence,
            "unanswered": self.unanswered,
            "in_sample": self.in_sample,
            **by_horizon,
            **self._of_maximum("", None),
            **self._of_maximum("recovery_", self.recovery_s),
            "maximum_loss": self.maximum_loss,
            "fit_s": self.fit_s,
            "update_s": self.update_s,
            "forecast_s": self.forecast_s,
            "state_bytes": self.state_bytes,
        }

    def _of_maximum(self, prefix: str, horizon_s: float | None) -> dict[str, float]:
        mean = self.errors_of_maximum(horizon_s)
        safe = self.errors_of_maximum(horizon_s, calibrated=True)
        return {
            f"{prefix}maximum_bias": _mean(mean),
            f"{prefix}maximum_under_forecast_rate": under_forecast_rate(mean),
            f"{prefix}maximum_p90_over_provision": _mean(safe),
            f"{prefix}maximum_p90_under_forecast_rate": under_forecast_rate(safe),
        }


def _mean(errors: Values) -> float:
    known = errors[np.isfinite(errors)]
    return float(known.mean()) if len(known) else float("nan")
