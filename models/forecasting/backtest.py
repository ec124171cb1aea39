"""Rolling origins: what forecasters would have said in the past, from what was known then, against what came.

One drive over the origins judges every member alone and all of them together: the ensemble says what its members say,
weighted, so no member is asked twice.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from perdix.models.forecasting.contract import HORIZON_S, Forecast, Workload
from perdix.models.forecasting.failures import NotForecastableError
from perdix.models.forecasting.families import ENSEMBLE
from perdix.models.forecasting.forecaster import Fits, Forecaster, Timer, fit_members
from perdix.models.forecasting.judgement import MAXIMUM, RECOVERY_S, Backtest
from perdix.models.forecasting.member import Member, stretched
from perdix.models.forecasting.origins import Stops

__all__ = ["Backtest", "Walk", "backtest", "backtest_fitted"]

TIMED_UPDATES = 3
_NO_ORIGIN = "no origin to forecast from; give origins inside the history, with a horizon of truth after them"


@dataclass(frozen=True)
class Walk:
    """What came of one drive over the origins."""

    backtests: Mapping[str, Backtest]  # one per member, and one of all together when there are several
    forecaster: Forecaster  # at the last stop, with the record of the walk
    failures: Mapping[str, str]  # family -> why it could not be fitted to what precedes the first stop


def backtest(
    families: Mapping[str, type[Member]],
    history: Workload,
    *,
    stops: Stops,
    horizon_s: float = HORIZON_S,
    refit_every: int = 0,
    seed: int = 0,
    maximum: float = MAXIMUM,
    timer: Timer = time.perf_counter,
) -> Walk:
    """Judge families alone and together: fit at the first origin, update to each next, fit anew at every n-th.

    A forecast from an origin sees only the steps that had ended by then; a new fit keeps the record so far.

    Raises ``ValueError`` when there is no origin, or when no family can be fitted to what precedes the first.

    ``stops``: where to forecast; those that are not scored only fill the record.
    ``refit_every``: origins between two fits; 0 fits once.
    ``maximum``: the probability of the calibrated maximum that is judged.
    """
    history = history.plausible()
    inside = _inside(history, stops)
    if not inside:
        raise NotForecastableError(_NO_ORIGIN)
    first = history.part(0, inside[0][0])
    fits = [fit_members(families, first, horizon_s=horizon_s, seed=seed, timer=timer)]
    members, failures = fits[0].members, fits[0].failures
    drive = _Drive(history, horizon_s, Forecaster.of(fits[0].usable(), first, horizon_s=horizon_s), maximum)
    for index, (end, judged) in enumerate(inside):
        drive.move_to(end)
        if refit_every and index and index % refit_every == 0:
            fits.append(drive.refit(families, seed, timer))
        if judged:
            drive.forecast()
    took_s = {name: median(fit.took_s[name] for fit in fits if name in fit.took_s) for name in members}
    took_s[ENSEMBLE] = sum(took_s.values())
    backtests = {name: replace(made, fit_s=took_s[name]) for name, made in drive.judged(timer).items()}
    return Walk(backtests, drive.forecaster, failures)


def backtest_fitted(
    forecaster: Forecaster, history: Workload, *, stops: Stops, horizon_s: float | None = None
) -> Backtest:
    """Judge a forecaster as it is, a champion for instance, without refitting; its record starts anew.

    Its parameters may have seen what lies before the end of its own workload: ``in_sample`` says so.

    Raises ``ValueError`` when there is no origin, or nothing was measured before the first.
    """
    history = history.plausible()
    inside = _inside(history, stops)
    if not inside:
        raise NotForecastableError(_NO_ORIGIN)
    horizon_s = forecaster.horizon_s if horizon_s is None else horizon_s
    drive = _Drive(history, horizon_s, forecaster.on(history.part(0, inside[0][0])))
    for end, judged in inside:
        drive.move_to(end)
        if judged:
            drive.forecast()
    made = drive.judged()[forecaster.family]
    return replace(made, in_sample=bool(made.origins_s[0] < forecaster.end_s - 1e-6))


@dataclass
class _Drive:
    """A forecaster on its way over a history, and what it and its members said."""

    history: Workload
    horizon_s: float
    forecaster: Forecaster
    maximum: float = MAXIMUM
    said: list[dict[str, Forecast]] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return round((self.forecaster.end_s - self.history.start_s) / self.history.step_s)

    def move_to(self, end: int) -> None:
        if end > self.end:
            self.forecaster = self.forecaster.update(self.history.part(self.end, end))

    def refit(self, families: Mapping[str, type[Member]], seed: int, timer: Timer) -> Fits:
        """Fit the same members anew and keep the record; one that cannot be fitted now stays as it was."""
        walked, seen = self.forecaster, self.history.part(0, self.end)
        again = {name: families[name] for name in walked.names}
        fits = fit_members(again, seen, horizon_s=walked.horizon_s, seed=seed, timer=timer)
        renewed = [fits.members.get(name, member) for name, member in zip(walked.names, walked.members, strict=True)]
        made = Forecaster.of(renewed, seen, horizon_s=walked.horizon_s)
        self.forecaster = made.taking(walked.record, walked.names)
        return fits

    def forecast(self) -> None:
        """Ask every member once; note what each says alone, and what all say together."""
        forecaster, step_s = self.forecaster, self.history.step_s
        steps = int(np.ceil(self.horizon_s / step_s - 1e-9))
        edges_s = step_s * np.arange(steps + 1, dtype=np.float64)
        rows = forecaster.said(edges_s)
        made: dict[str, Forecast] = {}
        for index, name in enumerate(forecaster.names):
            if np.isfinite(rows[index]).all():
                alone = forecaster.only(name)
                made[name] = alone.combined(alone.tamed(rows[index : index + 1]), edges_s)
        if len(forecaster.names) > 1 and made:
            made[ENSEMBLE] = forecaster.combined(forecaster.tamed(rows), edges_s)
        self.said.append(made)
        self.origins.append(self.end)

    def judged(self, timer: Timer = time.perf_counter) -> dict[str, Backtest]:
        steps = int(np.ceil(self.horizon_s / self.history.step_s - 1e-9))
        padded = np.concatenate([self.history.per_s, np.full(steps, np.nan)])
        actual = np.array([padded[origin : origin + steps] for origin in self.origins]).reshape(-1, steps)
        names = self.forecaster.names
        unknown = np.full(steps, np.nan)
        made: dict[str, Backtest] = {}
        for name in [*names, ENSEMBLE] if len(names) > 1 else names:
            forecasts = [said.get(name) for said in self.said]
            update_s, forecast_s = self._times_s(name, timer)
            made[name] = Backtest(
                family=name,
                step_s=self.history.step_s,
                origins_s=self.history.start_s + self.history.step_s * np.array(self.origins, dtype=np.float64),
                actual=actual,
                forecast=np.array([forecast.mean if forecast else unknown for forecast in forecasts]),
                upper=np.array([forecast.quantiles[0.9] if forecast else unknown for forecast in forecasts]),
                upper_p95=np.array([forecast.quantiles[0.95] if forecast else unknown for forecast in forecasts]),
                highest=np.array([forecast.maxima[self.maximum] if forecast else unknown for forecast in forecasts]),
                recovery_s=stretched(RECOVERY_S, self.horizon_s),
                update_s=update_s,
                forecast_s=forecast_s,
                state_bytes=len(json.dumps(self._alone(name).to_state())),
            )
        return made

    def _alone(self, name: str) -> Forecaster:
        return self.forecaster if name == ENSEMBLE else self.forecaster.only(name)

    def _times_s(self, name: str, timer: Timer) -> tuple[float, float]:
        """Return median seconds of an update by a part of the horizon, and of a forecast, from where the walk ended."""
        alone, part_s = self._alone(name), self.forecaster.record.lead_s
        steps = max(1, round(part_s / self.history.step_s))
        newest = self.history.per_s[max(0, self.end - steps) : self.end]
        updates_s, forecasts_s = [], []
        for _ in range(TIMED_UPDATES):
            began = timer()
            updated = alone.update(Workload(alone.end_s, self.history.step_s, newest))
            updates_s.append(timer() - began)
            began = timer()
            try:
                updated.forecast(self.horizon_s, self.history.step_s)
            except ValueError:
                return median(updates_s), float("nan")
            forecasts_s.append(timer() - began)
        return median(updates_s), median(forecasts_s)


def _inside(history: Workload, stops: Stops) -> list[tuple[int, bool]]:
    """Return, for every origin inside the history, how many of its steps had ended by then, and whether it counts."""
    ends = np.floor((stops.origins_s - history.start_s) / history.step_s + 1e-9).astype(int)
    inside = [(int(end), bool(mark)) for end, mark in zip(ends, stops.scored, strict=True) if 0 < end <= len(history)]
    return sorted(inside) if any(mark for _, mark in inside) else []
