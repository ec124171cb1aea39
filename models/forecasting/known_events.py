"""Known events in a forecast, and what became of such events so far.

An event changes the steps that it covers by what its calendar says, as far as that came true before. While it is not
known yet whether it came, at least that is expected; then the forecaster has seen for itself, and nothing is added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.models.forecasting.tail import Tail
from perdix.settings.known_events import Calendar, Occurrence
from perdix.telemetry.window import Values

JUDGED_S = 900.0  # of an event, from its start: what is held against what was forecast without it
LEARNED = 0.3  # weight of the newest occurrence, at least
LITTLE = 0.1  # share below which an event is not reckoned with
SLIGHT = 0.05  # of the load: a smaller change cannot be distinguished from noise
MOST_AWAITED = 64
MOST_SEEN = 1_000.0


class Share(NamedTuple):
    """How much of the expected change came true, 0 to 1, and how many occurrences that rests on."""

    share: float = 1.0
    seen: float = 1.0  # before anything came: as if it had come in full once

    def after(self, came: float) -> Share:
        """Return the share after another occurrence, of whose change the part ``came`` came true."""
        moved = self.share + (came - self.share) * max(1.0 / (self.seen + 1.0), LEARNED)
        return Share(moved, min(self.seen + 1.0, MOST_SEEN))


class Awaited(NamedTuple):
    """An occurrence of which it is not known yet whether it came."""

    name: str
    start_s: float
    until_s: float  # end of the part that is judged, epoch seconds
    usual_per_s: float  # what was forecast for that part without the event, just before it began, records/s
    factor: float
    teaches: bool  # whether no other event falls into that part


@dataclass(frozen=True)
class Expected:
    """An event that falls into a forecast, how far it is believed, and whether it is reckoned with."""

    name: str
    start_s: float
    end_s: float
    factor: float
    share: float

    @property
    def changes(self) -> bool:
        """Whether the forecast reckons with it."""
        return self.share >= LITTLE


@dataclass(frozen=True)
class KnownEvents:
    """What is known of a job's events beside its calendar."""

    shares: Mapping[str, Share] = field(default_factory=dict)  # name -> how far it came true
    awaited: tuple[Awaited, ...] = ()  # occurrences that fall into the newest forecast or have just begun

    def share(self, name: str) -> float:
        """Return how much of the change that an event says is expected, 0 to 1; 1 before anything is known."""
        return self.shares.get(name, Share()).share

    def times(self, name: str, factor: float) -> float:
        """Return the load that is expected of an event, as a multiple of what is forecast without it."""
        share = self.share(name)
        return 1.0 + share * (factor - 1.0) if share >= LITTLE else 1.0

    def reckoned(self, forecast: Forecast, calendar: Calendar) -> Reckoned:
        """Return the forecast with the events that fall into it.

        Where several cover a step, the one with the highest load counts: they may be the same thing under two names.
        """
        origin_s, until_s = forecast.origin_s, forecast.origin_s + forecast.horizon_s
        found = calendar.starting(origin_s - JUDGED_S, until_s)
        begun = {(event.name, event.start_s): event for event in self.awaited if event.start_s < origin_s}
        if not found:
            return Reckoned(forecast, (), replace(self, awaited=tuple(begun.values())))
        concerned = [event for event in found if event.start_s >= origin_s or (event.name, event.start_s) in begun]
        mean, leading = self._covered(forecast, concerned, begun)
        to_come = [event for event in leading if event.start_s >= origin_s][:MOST_AWAITED]
        awaited = (*begun.values(), *self._awaiting(forecast, to_come, found))[:MOST_AWAITED]
        shares = {name: share for name, share in self.shares.items() if name in calendar.events}
        expected = [
            Expected(event.name, event.start_s, event.end_s, event.factor, self.share(event.name)) for event in leading
        ]
        return Reckoned(_scaled(forecast, mean), tuple(expected), KnownEvents(shares, awaited))

    def settled(self, workload: Tail) -> Self:
        """Return what is known after what came was held against what was forecast without each event."""
        over = [event for event in self.awaited if event.until_s <= workload.end_s + 1e-6]
        if not over:
            return self
        shares = dict(self.shares)
        for event in over:
            came = _came(event, workload)
            if came is not None:
                shares[event.name] = shares.get(event.name, Share()).after(came)
        return replace(self, shares=shares, awaited=tuple(event for event in self.awaited if event not in over))

    def _covered(
        self, forecast: Forecast, events: Sequence[Occurrence], begun: Mapping[tuple[str, float], Awaited]
    ) -> tuple[Values, list[Occurrence]]:
        """Return the mean with events, and those of them that count somewhere."""
        mean = forecast.mean
        highest, leads = np.full(len(mean), -np.inf), np.full(len(mean), -1)
        for k, event in enumerate(events):
            part = _part(forecast, event.start_s, event.end_s)
            times, before = self.times(event.name, event.factor), begun.get((event.name, event.start_s))
            # Of one that began, the forecaster may have seen something: what is expected counts where it is more.
            wanted = times * mean if before is None else np.maximum(mean, times * before.usual_per_s)
            higher = (part > 0.0) & (wanted > highest)
            highest = np.where(higher, wanted, highest)
            leads[higher] = k
        parts = {int(k): _part(forecast, events[k].start_s, events[k].end_s) for k in np.unique(leads[leads >= 0])}
        found = mean.copy()
        for k, part in parts.items():
            covered = leads == k
            found[covered] += part[covered] * (highest - mean)[covered]
        return found, [events[k] for k in parts]

    def _awaiting(
        self, forecast: Forecast, events: Sequence[Occurrence], found: Sequence[Occurrence]
    ) -> tuple[Awaited, ...]:
        real = [event for event in found if self.share(event.name) >= LITTLE]
        starts_s, ends_s = np.array([event.start_s for event in real]), np.array([event.end_s for event in real])
        awaited = []
        for event in events:
            until_s = min(event.end_s, event.start_s + JUDGED_S, forecast.origin_s + forecast.horizon_s)
            part = _part(forecast, event.start_s, until_s)
            usual = float(part @ forecast.mean / part.sum()) if part.sum() > 0 else math.nan
            beside = int(((starts_s < until_s) & (ends_s > event.start_s)).sum()) - (self.share(event.name) >= LITTLE)
            awaited.append(Awaited(event.name, event.start_s, until_s, usual, event.factor, beside == 0))
        return tuple(event for event in awaited if math.isfinite(event.usual_per_s))

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {
            "shares": {name: list(share) for name, share in self.shares.items()},
            "awaited": [list(event) for event in self.awaited],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` or ``LookupError`` where a part cannot be used."""
        shares = {str(name): Share(*(_number(value) for value in row)) for name, row in state["shares"].items()}
        return cls(shares, tuple(_awaited(row) for row in state["awaited"]))


@dataclass(frozen=True)
class Reckoned:
    """A forecast with the events that fall into it, what is expected of each, and what is to be remembered."""

    forecast: Forecast
    expected: tuple[Expected, ...]
    known: KnownEvents


def _part(forecast: Forecast, start_s: float, end_s: float) -> Values:
    """Return the part of each step, 0 to 1, that lies between two times."""
    begins = forecast.origin_s + forecast.step_s * np.arange(len(forecast.mean))
    inside = np.minimum(begins + forecast.step_s, end_s) - np.maximum(begins, start_s)
    return np.asarray(np.clip(inside / forecast.step_s, 0.0, 1.0))


def _scaled(forecast: Forecast, mean: Values) -> Forecast:
    """Return a forecast of another mean; its quantiles and maxima keep their ratios to it."""
    if np.array_equal(mean, forecast.mean):
        return forecast
    tops, before = np.maximum.accumulate(mean), np.maximum.accumulate(forecast.mean)
    quantiles = {at: _following(values, mean, forecast.mean) for at, values in forecast.quantiles.items()}
    maxima = {at: np.maximum.accumulate(_following(values, tops, before)) for at, values in forecast.maxima.items()}
    return replace(forecast, mean=mean, quantiles=quantiles, maxima=maxima)


def _following(values: Values, mean: Values, before: Values) -> Values:
    """Return values in their ratio to the mean ``before``, now to another; where that was 0, the other at least."""
    ratio = np.divide(mean, before, out=np.ones(len(before)), where=before > 0.0)
    return np.asarray(np.where(before > 0.0, values * ratio, np.maximum(values, mean)))


def _came(event: Awaited, workload: Tail) -> float | None:
    """Return how much of an expected change came true, 0 to 1; ``None`` where that is unknown."""
    expected = event.factor - 1.0
    if not event.teaches or not event.usual_per_s > 0.0 or abs(expected) < SLIGHT:
        return None
    truth = float(workload.means_between(np.array([event.start_s]), np.array([event.until_s]))[0])
    if not math.isfinite(truth):
        return None
    return float(np.clip((truth / event.usual_per_s - 1.0) / expected, 0.0, 1.0))


def _awaited(row: Sequence[Any]) -> Awaited:
    start_s, until_s, usual_per_s, factor = (_number(value) for value in row[1:5])
    return Awaited(str(row[0]), start_s, until_s, usual_per_s, factor, bool(row[5]))


def _number(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is not a number")
    return found
