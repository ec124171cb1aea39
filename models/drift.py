"""When a job's forecasts have become too poor: the fallback, and one request to train again per drift.

A state machine without clock or I/O: the loop observes one tick after the other and acts on what the state says. The
first minute decides about the fallback, as in the paper; either the first minute or the whole horizon asks for a
retrain.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from perdix.models.horizon_drift import APART_S, LEAST_FORECASTS, HorizonDrift
from perdix.models.realised import Missed
from perdix.settings.replacing import replace

GOOD = 0.10  # Daedalus 3.2 and its program: below, a forecast is good
USABLE = 0.25  # below, the model's own forecast is used; from here on the fallback
POOR_TICKS = 15  # consecutive ticks that are not good until a retrain is requested
RECOVERED_TICKS = 3  # consecutive usable ticks that end the fallback (one good tick ends it at once)
CLOSED_TICKS = 15  # consecutive good ticks that end a drift
COOLDOWN_S = 3_600  # until the second attempt in the same drift
COOLDOWN_GROWTH = 4  # of each further one
LONGEST_COOLDOWN_S = 86_400


@dataclass(frozen=True)
class DriftState:
    """Where one job stands. Immutable: :meth:`observe` returns the next state."""

    # True when the decision must rest on the fallback instead of the model; so it starts with :meth:`untried`
    use_fallback: bool = False
    # True in the one state in which a retrain is to be requested; identify it by ``(drift, attempt)``
    retrain_due: bool = False
    # poor_ticks, good_ticks, usable_ticks: consecutive ticks whose first minute was not good, good, usable; of the
    # former two, one a minute counts
    poor_ticks: int = 0
    good_ticks: int = 0
    usable_ticks: int = 0
    drift: int = 0  # how many drifts there have been
    attempt: int = 0  # how many retrains were requested in the present drift; 0 when there is none
    # counted_s, requested_s: origins (epoch seconds) of the newest forecast that counted as good or poor, and of the
    # newest at the last request; ``None`` before
    counted_s: float | None = None
    requested_s: float | None = None
    sentence: str = ""  # why the last retrain was requested, for a reader
    horizon: HorizonDrift = field(default_factory=HorizonDrift)  # how forecasts of the whole horizon do
    # Origin (epoch seconds) of the first forecast of those that make up ``poor_ticks``; ``None`` when there is none
    poor_since_s: float | None = None
    began_s: float | None = None  # when the present drift began, epoch seconds, as far as poor forecasts tell
    # Whether the champion was trained for the present drift: on little, so it may be asked for again
    learning: bool = False

    @classmethod
    def untried(cls) -> Self:
        """Return the state of a model that has not forecast yet: the fallback is used until it was usable."""
        return cls(use_fallback=True)

    def observe(
        self, error: float | None, horizons: Iterable[Missed] = (), *, origin_s: float, asking: bool = True
    ) -> Self:
        """Return the state after one tick.

        Raises ``ValueError`` when the error is negative.

        ``error``: WAPE of the model's own forecast over its first minute (also while the fallback is used), 1.0 = 100
        %; ``None`` or NaN when none has come true: nothing is concluded then. Infinite is poor.
        ``horizons``: forecasts whose whole horizon has passed since the last tick, oldest first.
        ``origin_s``: epoch seconds of the forecast that ``error`` is of, or of the newest before it.
        ``asking``: ``False`` where a retrain that is due cannot be requested now: it stays due, and is no attempt.
        """
        horizon = self.horizon
        for missed in horizons:
            horizon = horizon.observe(missed)
        seen = replace(self, retrain_due=False, horizon=horizon)
        if error is None or math.isnan(error):
            return seen._requested(origin_s) if asking and horizon is not self.horizon else seen
        if error < 0.0:
            raise ValueError(f"a WAPE cannot be negative: {error}")
        good, usable = error < GOOD, error < USABLE
        switched = replace(seen, usable_ticks=self.usable_ticks + 1 if usable else 0)._switched(good, usable)
        if self.counted_s is not None and 0.0 <= origin_s - self.counted_s < APART_S:
            return switched
        counted = replace(
            switched,
            counted_s=origin_s,
            poor_ticks=0 if good else self.poor_ticks + 1,
            poor_since_s=None if good else (self.poor_since_s if self.poor_ticks else origin_s),
            good_ticks=self.good_ticks + 1 if good else 0,
        )._closed()
        return counted._requested(origin_s, error) if asking else counted

    def _switched(self, good: bool, usable: bool) -> Self:
        if not usable:
            return replace(self, use_fallback=True)
        ended = good or self.usable_ticks >= RECOVERED_TICKS
        return replace(self, use_fallback=self.use_fallback and not ended)

    def _closed(self) -> Self:
        over = self.good_ticks >= CLOSED_TICKS and not self.horizon.poor and not self._learnt_too_little
        return replace(self, attempt=0, learning=False) if over else self

    @property
    def _learnt_too_little(self) -> bool:
        known = self.horizon.forecasts >= LEAST_FORECASTS
        return self.learning and known and self.horizon.errors.wape >= USABLE

    def _requested(self, origin_s: float, error: float | None = None) -> Self:
        first_minute = error is not None and self.poor_ticks >= POOR_TICKS
        if not first_minute and not self.horizon.due and not self._learnt_too_little:
            return self
        if self.attempt and self.requested_s is not None and 0.0 <= origin_s - self.requested_s < self.cooldown_s:
            return self
        why = self.horizon.sentence()
        if first_minute:
            why = f"{self.poor_ticks} ticks in a row with a poor forecast of the first minute (WAPE now {error:.0%})"
        return replace(
            self,
            retrain_due=True,
            attempt=self.attempt + 1,
            drift=self.drift if self.attempt else self.drift + 1,
            requested_s=origin_s,
            sentence=why,
            began_s=self._poor_since_s(first_minute) or self.began_s,
            learning=False,
            horizon=self.horizon.after_report() if self.horizon.due else self.horizon,
        )

    def _poor_since_s(self, first_minute: bool) -> float | None:
        """Return the later one where both ask: on a noisy load the first minute has always been poor.

        ``None`` where neither asks, but what was learnt of the same drift was too little.
        """
        asking = (self.poor_since_s if first_minute else None, self.horizon.poor_since_s if self.horizon.due else None)
        return max((at_s for at_s in asking if at_s is not None), default=None)

    @property
    def cooldown_s(self) -> int:
        """Seconds until the next attempt of this drift: an hour, four, sixteen, and then a day."""
        return min(int(COOLDOWN_S * COOLDOWN_GROWTH ** (self.attempt - 1)), LONGEST_COOLDOWN_S)

    def promoted(self, usual: float | None = None) -> Self:
        """Return the state after a new champion was loaded: its errors count from here, the cooldown goes on.

        ``usual``: share of last value's error that the champion had in its backtest
        (:func:`~perdix.models.horizon_drift.usual_share`).
        """
        return replace(
            self,
            retrain_due=False,
            poor_ticks=0,
            poor_since_s=None,
            good_ticks=0,
            usable_ticks=0,
            learning=self.attempt > 0,
            horizon=HorizonDrift(expected=usual),
        )

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        horizon = {**vars(self.horizon), "errors": dict(vars(self.horizon.errors))}
        return {**vars(self), "horizon": horizon}
