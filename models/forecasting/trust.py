"""How much of the changes that were forecast came true recently: that much of a forecast change is acted on.

A forecaster that foresees changes which do not come moves a job for nothing, be it good at levels. So the changes that
it said 5, 10 and 15 minutes ahead are regressed on those that came, and a forecast is drawn towards the present load by
what is missing. Who foresees well is believed in full.

An hour ahead (:data:`HOUR`) nobody is believed before such changes came true on this very job for an hour.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from perdix.models.forecasting.contract import Forecast, Paths
from perdix.models.forecasting.failures import positive
from perdix.models.forecasting.tail import Tail
from perdix.settings.durations import HOUR_S, MINUTE_S
from perdix.settings.replacing import replace
from perdix.telemetry.window import Values

IN_FULL = 0.7  # share of the foreseen changes that must have come for all of them to be believed
TWICE = 2.0  # the present load: no forecast goes higher, unless the last hours did
HALF_AS_MUCH = 1.5  # of the highest minute of the last hours, likewise


@dataclass(frozen=True)
class Changes:
    """Which changes are judged."""

    leads_s: tuple[float, ...]  # how far ahead they are said, seconds, ascending
    over_s: float = MINUTE_S  # they are those of means over this many seconds
    every_s: float = MINUTE_S  # one forecast is judged in this many seconds
    half_life_s: float = 7_200.0  # after which one counts half
    # believed, doubted: sums of squared relative changes that are taken for granted before anything came true: as
    # having come, and as having failed to
    believed: float = 0.0
    doubted: float = 0.0
    least: float = 0.0  # forecasts that must have been judged before any is believed


QUARTER = Changes((300.0, 600.0, 900.0), believed=0.05)
HOUR = Changes(
    (1_800.0, 2_700.0, HOUR_S), over_s=300.0, every_s=300.0, half_life_s=6 * HOUR_S, doubted=0.05, least=11.0
)


@dataclass(frozen=True)
class Made:
    """One forecast: where the load stood, and the changes that were said for each lead; records/s."""

    origin_s: float
    level_per_s: float
    changes: tuple[float, ...]


@dataclass(frozen=True)
class Trust:
    """What forecasts of changes were worth; newer ones weigh more."""

    # said, came: sums of squared relative changes that were forecast, and of their products with those that came
    said: float = 0.0
    came: float = 0.0
    made: tuple[Made, ...] = ()  # forecasts whose truth is still to come, oldest first
    judged: float = 0.0  # how many were held against what came
    of: Changes = QUARTER  # which changes
    # Seconds between forecasts that are judged, in whole ticks; ``None`` where they are those of :attr:`of`
    apart_s: float | None = None

    @property
    def share(self) -> float:
        """Return the share of a forecast change to act on, 0 to 1."""
        if self.judged < self.of.least:
            return 0.0
        known = (self.came + self.of.believed) / (self.said + self.of.believed + self.of.doubted)
        return min(max(known / IN_FULL, 0.0), 1.0)

    def due(self, origin_s: float) -> bool:
        """Whether a forecast of this origin is to be judged as well."""
        return not self.made or abs(origin_s - self.made[-1].origin_s) >= self.of.every_s

    def ticking(self, tick_s: float) -> Self:
        """Return the trust of a job that is looked at every ``tick_s`` seconds."""
        apart_s = tick_s * math.ceil(self.of.every_s / tick_s)
        return replace(self, apart_s=None if apart_s == self.of.every_s else apart_s)

    def issued(self, forecast: Forecast, level_per_s: float) -> Self:
        """Return the trust that remembers a forecast until its truth has come."""
        steps = [int(lead_s / forecast.step_s) for lead_s in self.of.leads_s if lead_s <= forecast.horizon_s + 1e-6]
        width = max(1, int(self.of.over_s / forecast.step_s))
        changes = tuple(float(forecast.mean[max(step - width, 0) : step].mean()) - level_per_s for step in steps)
        return replace(self, made=(*self.made, Made(forecast.origin_s, level_per_s, changes)))

    def settled(self, minutes: Tail) -> Self:
        """Return the trust after the forecasts whose last lead has passed were held against what came."""
        ended_s = minutes.end_s + 1e-6 - self.of.leads_s[-1]
        over = [forecast for forecast in self.made if forecast.origin_s <= ended_s]
        if not over:
            return self
        usual = minutes.mean_per_s
        said, came = self.said, self.came
        leads_s, over_s = np.array(self.of.leads_s), self.of.over_s
        fade = 0.5 ** ((self.apart_s or self.of.every_s) / self.of.half_life_s)
        for forecast in over:
            said, came = fade * said, fade * came
            ends_s = forecast.origin_s + leads_s[: len(forecast.changes)]
            truths = minutes.means_between(ends_s - over_s, ends_s).tolist()
            for change, truth in zip(forecast.changes, truths, strict=True):
                if math.isfinite(truth) and usual > 0:
                    foreseen = change / usual
                    said += foreseen**2
                    most = abs(foreseen)
                    came += foreseen * min(max((truth - forecast.level_per_s) / usual, -most), most)
        made = tuple(forecast for forecast in self.made if forecast.origin_s > ended_s)
        return replace(self, said=said, came=came, made=made, judged=self.judged + len(over))

    def tempered(self, forecast: Forecast, level_per_s: float, minutes: Values) -> Forecast:
        """Return the forecast to act on: its change as far as such changes came true, and no height without precedent.

        ``level_per_s``: present load.
        ``minutes``: mean load of the last hours' minutes, records/s, NaN where it was not measured.
        """
        highest = max(TWICE * level_per_s, HALF_AS_MUCH * float(np.fmax.reduce(minutes, initial=0.0)))
        mean = np.minimum(level_per_s + self.share * (forecast.mean - level_per_s), max(highest, 0.0))
        if highest <= 0 or (mean == forecast.mean).all():
            return forecast
        before, quantiles, maxima = forecast.mean, forecast.quantiles, forecast.maxima

        def quantile(at: float) -> Values:
            return np.maximum(quantiles[at] + (mean - before), mean if at >= 0.5 else 0.0)

        def maximum(at: float) -> Values:
            lifted = np.maximum.accumulate(mean) - np.maximum.accumulate(before)
            return np.maximum.accumulate(np.maximum(maxima[at] + lifted, 0.0))

        return replace(forecast, mean=mean, quantiles=Paths(quantiles, quantile), maxima=Paths(maxima, maximum))

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        made = [[forecast.origin_s, forecast.level_per_s, *forecast.changes] for forecast in self.made]
        apart = {} if self.apart_s is None else {"apart_s": self.apart_s}
        return {"said": self.said, "came": self.came, "made": made, "judged": self.judged, **apart}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], of: Changes = QUARTER) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` or ``LookupError`` where a part is missing."""
        made = tuple(Made(float(row[0]), float(row[1]), tuple(map(float, row[2:]))) for row in state["made"])
        said, came, judged = float(state["said"]), float(state["came"]), float(state.get("judged", 0.0))
        apart_s = state.get("apart_s")
        return cls(said, came, made, judged, of, None if apart_s is None else positive("apart_s", apart_s))
