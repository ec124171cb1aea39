"""What a learner knows of a workload at an origin: lags, means, the same time of other days, and the calendar.

Everything but the calendar is relative to the newest value, so that what was learned at one level holds at another.
Missing is NaN. Pure functions of the series before the origin.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from perdix.models.forecasting.failures import NotForecastableError
from perdix.models.forecasting.gaussian_process import LogGaussianProcess
from perdix.settings.durations import DAY_S
from perdix.settings.stored import restored
from perdix.telemetry.window import Values


@dataclass(frozen=True)
class LogScale:
    """Learnt from a history; applied to what comes."""

    # floor_per_s, offset_per_s: of the logarithm
    # (:class:`~perdix.models.forecasting.gaussian_process.LogGaussianProcess`), records/s
    floor_per_s: float
    offset_per_s: float
    # centre, spread: mean and standard deviation of the logarithms
    centre: float
    spread: float

    @classmethod
    def of(cls, per_s: Values, who: str) -> Self:
        """Learn from finite rates. Raises ``ValueError`` when they do not vary; the message names ``who``."""
        floor_per_s, offset_per_s = LogGaussianProcess.shape(per_s)
        logarithms = LogGaussianProcess.transformed(per_s, floor_per_s, offset_per_s)
        centre, spread = float(logarithms.mean()), float(logarithms.std())
        if not spread > 1e-9 * max(1.0, abs(centre)):
            raise NotForecastableError(f"{who}: the workload does not vary; last-value says all there is to say")
        return cls(floor_per_s, offset_per_s, centre, spread)

    def apply(self, per_s: Values) -> Values:
        """Return standardised logarithms."""
        logarithms = LogGaussianProcess.transformed(per_s, self.floor_per_s, self.offset_per_s)
        return np.asarray((logarithms - self.centre) / self.spread)

    def undo(self, values: Values) -> Values:
        """Return rates, records/s."""
        return LogGaussianProcess.restored(self.centre + self.spread * values, self.floor_per_s, self.offset_per_s)

    def to_state(self) -> dict[str, float]:
        """Return a JSON-serialisable state."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild. Raises ``ValueError`` when a number is not one, or what must be above zero is not."""
        made = restored(cls, state)
        if not (np.isfinite(list(asdict(made).values())).all() and made.offset_per_s > 0.0 and made.spread > 0.0):
            raise ValueError("a scale has offset and spread above zero")
        return made


LAGS = 16  # cells
WINDOWS = (3, 8, 16, 32)  # cells
DAYS_BACK = (1, 2, 3, 7)
PROFILE_DAYS = 7
HOURS_BACK = (1, 2, 3)
FARTHEST_DAYS = 8.0  # that any feature looks back
CALENDAR = 8  # columns at the end that are no rates
EPOCH_WEEKDAY = 3  # 1 January 1970 was a Thursday

Indices = NDArray[np.int_]


def features(series: Values, start_s: float, cell_s: float, origins: Indices, leads: int) -> NDArray[np.float32]:
    """Return the features of each origin and lead, shape ``(origins, leads, features)``.

    ``series``: standardised, without gaps; cell ``i`` begins at epoch second ``start_s + i cell_s``.
    ``origins``: cells known at each origin, at least :data:`LAGS`.
    ``leads``: cells ahead.
    """
    day, hour = max(1, round(DAY_S / cell_s)), round(3600.0 / cell_s)
    sums = np.concatenate([[0.0], np.cumsum(series)])
    newest = series[origins - 1]
    targets = origins[:, None] + np.arange(leads)[None, :]

    def at(cells: Indices, known: Indices) -> Values:
        inside = (cells >= 0) & (cells < known)
        return np.where(inside, series[np.clip(cells, 0, len(series) - 1)], np.nan)

    def mean(ends: Indices, length: int, known: Indices) -> Values:
        begins = ends - length
        value = (sums[np.clip(ends, 0, len(series))] - sums[np.clip(begins, 0, len(series))]) / length
        return np.where((begins >= 0) & (ends <= known), value, np.nan)

    recent = np.lib.stride_tricks.sliding_window_view(series, LAGS)[origins - LAGS]
    of_origin = [recent[:, lag] - newest for lag in range(LAGS - 1)]
    of_origin += [mean(origins, length, origins) - newest for length in (*WINDOWS, day)]
    of_origin += [recent.max(axis=1) - newest, recent.min(axis=1) - newest, recent.std(axis=1)]
    of_origin += [np.abs(np.diff(recent, axis=1)).mean(axis=1)]
    short = LAGS // 4
    for days in (1, 7):
        of_origin.append(mean(origins, short, origins) - mean(origins - days * day, short, origins))
        of_origin.append(mean(origins, day, origins) - mean(origins - days * day, day, origins))

    known, base = origins[:, None], newest[:, None]
    of_target: list[Values] = []
    for days in DAYS_BACK:
        same = at(targets - days * day, known)
        of_target += [same - base, same - at(origins - 1 - days * day, origins)[:, None]]
    for days in (1, 7):
        of_target.append(mean(targets - days * day + short // 2 + 1, 2 * (short // 2) + 1, known) - base)
    back = np.stack([at(targets - days * day, known) for days in range(1, PROFILE_DAYS + 1)])
    counts = np.isfinite(back).sum(axis=0)
    profile = np.divide(np.nansum(back, axis=0), counts, out=np.full(targets.shape, np.nan), where=counts > 0)
    of_target.append(profile - base)
    of_target += [
        at(targets - hours * hour, known) - base if hour > 1 else np.full(targets.shape, np.nan) for hours in HOURS_BACK
    ]
    of_target += _calendar(start_s + cell_s * targets.astype(np.float64))

    rows = np.empty((len(origins), leads, len(of_origin) + len(of_target)), dtype=np.float32)
    rows[:, :, : len(of_origin)] = np.stack(of_origin, axis=-1)[:, None, :]
    rows[:, :, len(of_origin) :] = np.stack(of_target, axis=-1)
    return rows


def _calendar(epoch_s: Values) -> list[Values]:
    """Return :data:`CALENDAR` columns: time of day as waves and hours, the day of the week, time within the hour."""
    angle = 2.0 * np.pi * (epoch_s % DAY_S) / DAY_S
    weekday = (np.floor(epoch_s / DAY_S) + EPOCH_WEEKDAY) % 7
    waves = [wave(times * angle) for times in (1, 2) for wave in (np.sin, np.cos)]
    return [*waves, (epoch_s % DAY_S) / 3600.0, weekday, (weekday >= 5).astype(np.float64), (epoch_s % 3600.0) / 3600.0]
