"""Whether forecasts of the whole horizon have become worse than may be expected (docs/decisions/0013).

What may be expected differs from load to load: no forecast follows noise. So a champion is held against last value on
the same minutes, and against how it compared with last value in its own backtest.
"""

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from perdix.models.forecasting.tail import EPSILON_S
from perdix.models.forecasting.track_record import TrackRecord
from perdix.models.realised import Missed
from perdix.settings.replacing import replace
from perdix.telemetry.window import Values

SMOOTHING_S = 600.0  # horizons of neighbouring forecasts overlap: each alone says little
LEAST_FORECASTS = 15
POOR_FORECASTS = 10  # in a row
GOOD = 0.10  # WAPE below which a forecast is good, whatever last value does
TOLERANCE = 1.5  # times the share of last value's error that the backtest showed
CEILING = 1.1  # times last value's error: no champion may be worse for long
WORSE = 2.0  # times the share that was last reported: reported again before a day is over
PATIENCE_S = 86_400.0
APART_S = 45.0  # of shorter ticks one forecast a minute counts: neighbours say the same, and a day is a day
USUAL = 0.9  # of the backtest's stretches were no worse than what is expected
LEAST_ORIGINS = 8


@dataclass(frozen=True)
class Errors:
    """Absolute errors of recent forecasts, sums of records/s in which the newest count most. Immutable."""

    newest_s: float = 0.0  # origin of the newest forecast, epoch seconds; 0 before the first
    # by_forecast, by_last_value, actual: like those of :class:`~perdix.models.realised.Missed`
    by_forecast: float = 0.0
    by_last_value: float = 0.0
    actual: float = 0.0

    def after(self, missed: Missed) -> Self:
        """Return the sums with a newer forecast."""
        kept = math.exp(-max(missed.origin_s - self.newest_s, 0.0) / SMOOTHING_S)
        return type(self)(
            missed.origin_s,
            kept * self.by_forecast + missed.by_forecast,
            kept * self.by_last_value + missed.by_last_value,
            kept * self.actual + missed.actual,
        )

    @property
    def wape(self) -> float:
        """WAPE, 1.0 = 100 %; infinite when something was forecast and nothing came."""
        return _share(self.by_forecast, self.actual)

    @property
    def share(self) -> float:
        """The forecasts' error as a share of last value's."""
        return _share(self.by_forecast, self.by_last_value)


@dataclass(frozen=True)
class HorizonDrift:
    """How the champion's forecasts of the whole horizon do. Immutable: :meth:`observe` returns the next state.

    ``expected``: share of last value's error that is usual for the champion, by its backtest; ``None`` when there was
    none.
    ``errors``, ``forecasts``: of the forecasts that came true since the champion is in use, and how many.
    ``poor``: how many in a row were worse than may be expected.
    ``poor_since_s``: middle of the horizon of the first of those, epoch seconds: somewhere in it the load has changed.
    ``None`` when there is none.
    ``reported``, ``reported_s``: the share when a retrain was last asked for, and the origin of the newest forecast
    then, epoch seconds; 0 before.
    """

    expected: float | None = None
    errors: Errors = field(default_factory=Errors)
    forecasts: int = 0
    poor: int = 0
    reported: float = 0.0
    reported_s: float = 0.0
    poor_since_s: float | None = None

    @property
    def allowed(self) -> float:
        """Share of last value's error that is still allowed."""
        bar = CEILING if self.expected is None else min(TOLERANCE * self.expected, CEILING)
        patient = self.reported > 0.0 and self.errors.newest_s - self.reported_s < PATIENCE_S
        return max(bar, WORSE * self.reported) if patient else bar

    @property
    def due(self) -> bool:
        """Whether a retrain should be asked for."""
        return self.poor >= POOR_FORECASTS

    def observe(self, missed: Missed) -> Self:
        """Return the state after another forecast has come true; one that is hardly newer changes nothing."""
        if self.forecasts and missed.origin_s < self.errors.newest_s + APART_S:
            return self
        errors = self.errors.after(missed)
        poor = self.forecasts + 1 >= LEAST_FORECASTS and errors.wape >= GOOD and errors.share >= self.allowed
        poor &= missed.by_forecast > 0.0 or missed.actual > 0.0  # while both are nothing, only old sums fade
        return replace(
            self,
            errors=errors,
            forecasts=self.forecasts + 1,
            poor=self.poor + 1 if poor else 0,
            poor_since_s=(self.poor_since_s if self.poor else missed.origin_s + missed.horizon_s / 2) if poor else None,
        )

    def after_report(self) -> Self:
        """Return the state after a retrain was asked for: until a better champion comes, this is what there is."""
        share, newest_s = self.errors.share, self.errors.newest_s
        return replace(self, poor=0, reported=share if math.isfinite(share) else 0.0, reported_s=newest_s)

    def sentence(self) -> str:
        """Return how the champion does, for a reader."""
        share = self.errors.share
        against = f"{share:.2f} times last value's error" if math.isfinite(share) else "where last value has no error"
        usual = "" if self.expected is None else f"; {self.expected:.2f} is usual for it"
        return f"WAPE {self.errors.wape:.0%} over the whole horizon, {against}{usual}"


def usual_share(record: TrackRecord) -> float | None:
    """Return the share of last value's error that forecasts of a record have had in nine of ten stretches.

    ``None`` with fewer than eight origins whose horizon is known. Last value is the mean of the last part of the
    horizon's length that had ended by the origin, which the record knows from an earlier origin.
    """
    whole = np.isfinite(record.actual).all(axis=1) & np.isfinite(record.combined).all(axis=1)
    last = _before_origins(record)
    chosen = np.flatnonzero(whole & np.isfinite(last))
    if len(chosen) < LEAST_ORIGINS:
        return None
    errors, shares = Errors(), []
    for row in chosen:
        actual = record.actual[row]
        by_forecast = float(np.abs(actual - record.combined[row]).sum())
        by_last_value = float(np.abs(actual - last[row]).sum())
        errors = errors.after(Missed(record.origins_s[row], by_forecast, by_last_value, float(actual.sum())))
        shares.append(errors.share)
    usual = float(np.quantile(shares[LEAST_ORIGINS // 4 :], USUAL))
    return usual if math.isfinite(usual) else None


def _before_origins(record: TrackRecord) -> Values:
    """Return the mean of the newest part that had ended at each origin, at most a part ago; NaN where not known."""
    ends_s = (record.origins_s[:, None] + record.edges_s[None, 1:]).ravel()
    means = record.actual.ravel()
    ends_s, means = ends_s[np.isfinite(means)], means[np.isfinite(means)]
    if not len(ends_s):
        return np.full(len(record), np.nan)
    order = np.argsort(ends_s, kind="stable")
    ends_s, means = ends_s[order], means[order]
    newest = np.searchsorted(ends_s, record.origins_s + EPSILON_S, side="right") - 1
    known = (newest >= 0) & (record.origins_s - ends_s[newest] < record.lead_s)
    return np.where(known, means[np.maximum(newest, 0)], np.nan)


def _share(part: float, whole: float) -> float:
    if whole > 0.0:
        return part / whole
    return math.inf if part > 0.0 else 0.0
