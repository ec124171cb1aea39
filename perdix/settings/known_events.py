"""What is known to come: a job's calendar, as an operator writes it under ``events`` of a job file.

Belongs here: what an event is, and when it starts. Does not belong here: what becomes of a forecast
(:mod:`perdix.models.forecasting.known_events`).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from perdix.settings.durations import in_words, seconds_of
from perdix.settings.nearest_name import meant
from perdix.settings.strict import Strict

MOST_TIMES = 1_000.0  # the usual load: what claims to be more is a fault
LONGEST_S = 7 * 86_400.0
AHEAD_S = 3_600.0  # for which starts are looked up at once
FAR_S = 86_400.0  # a look so much later than the last one begins anew
CRON_FIELDS = 5
TRIED = 16  # starts by cron, of which no two may be closer than the event lasts
_ANY_TIME = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = seconds_of(value)
    if found is None:
        raise ValueError("write a length of time as 45m, 2h or plain seconds")
    return found


def _several(value: Any) -> Any:
    return value if value is None or isinstance(value, list | tuple) else (value,)


def checked_cron(cron: str) -> str:
    """Return five fields of cron as they are; raises ``ValueError`` with the fix where they are none."""
    if len(cron.split()) != CRON_FIELDS:
        raise ValueError("write five fields, minute, hour, day of the month, month, day of the week: 30 2 * * MON")
    try:
        CronSim(cron, _ANY_TIME)
    except CronSimError as error:
        raise ValueError(f"{error}; write for example 30 2 * * MON") from None
    return cron


def _zoned(times: tuple[datetime, ...]) -> tuple[datetime, ...]:
    if any(time.tzinfo is None for time in times):
        raise ValueError("give a time zone, for example 2026-01-31T06:00:00Z")
    return tuple(datetime.combine(time.date(), time.timetz()) for time in times)


def _of_this_world(timezone: str) -> str:
    try:
        ZoneInfo(timezone)
    except (LookupError, ValueError, OSError):
        # Of three letters the nearest are another part of the world's, and Etc/GMT+1 is an hour behind GMT
        places = [name for name in available_timezones() if "/" in name and not name.startswith("Etc/")]
        fix = meant(timezone, places, "write for example Europe/Berlin")
        raise ValueError(f"not a known time zone; {fix}") from None
    return timezone


Times = Annotated[tuple[datetime, ...], BeforeValidator(_several), Field(min_length=1), AfterValidator(_zoned)]


class KnownEvent(Strict):
    """Something that is known to change the load."""

    at: Times | None = None  # when it starts: one time or several, each with its zone
    # Or: five fields, as Debian's cron reads them, in ``timezone`` (UTC if left out)
    cron: Annotated[str, AfterValidator(checked_cron)] | None = None
    timezone: Annotated[str, AfterValidator(_of_this_world)] | None = None
    lasts: Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=LONGEST_S)]  # seconds, or a text such as ``45m``
    # The load that is expected while it lasts, as a multiple of what is forecast without it
    factor: Annotated[float, Field(gt=0, le=MOST_TIMES)]

    @model_validator(mode="after")
    def _unambiguous(self) -> Self:
        if self.at is None and self.cron is None:
            raise ValueError("nothing says when it comes; give 'at' or 'cron'")
        if self.at is not None and self.cron is not None:
            raise ValueError("give 'at' or 'cron', not both")
        if self.at is not None and self.timezone is not None:
            raise ValueError("times under 'at' have zones of their own; leave 'timezone' out")
        # Each time would be expected on top of the one before, and none could be distinguished from it
        apart_s = min((after - before for before, after in itertools.pairwise(self._some_starts())), default=math.inf)
        if apart_s == 0:
            raise ValueError("a moment is given twice under 'at'; leave one out")
        if apart_s < self.lasts:
            raise ValueError(
                f"it would start again after {in_words(apart_s)}, while it lasts; correct when, or 'lasts'"
            )
        return self

    def _some_starts(self) -> Iterator[float]:
        """Return some starts, epoch seconds, in order: all under ``at``; by ``cron`` as where no clock is changed."""
        if self.at is not None:
            yield from sorted(moment.timestamp() for moment in self.at)
        elif self.cron is not None:
            for start in itertools.islice(CronSim(self.cron, _ANY_TIME), TRIED):
                yield start.timestamp()

    def starts_from(self, begin_s: float) -> Iterator[float]:
        """Return its starts by ``cron`` from ``begin_s`` on, epoch seconds, in order."""
        if self.cron is None:
            return
        zone = ZoneInfo(self.timezone or "UTC")
        for start in CronSim(self.cron, datetime.fromtimestamp(math.floor(begin_s) - 1, zone)):
            start_s = start.timestamp()
            if start_s >= begin_s:
                yield start_s


@dataclass(frozen=True, order=True)
class Occurrence:
    """One time that an event is to come: from ``start_s`` to ``end_s`` (epoch seconds), ``factor`` times the load."""

    start_s: float
    name: str
    end_s: float
    factor: float


@dataclass
class Calendar:
    """When the events of a job start. Starts by cron are looked up once, an hour at a time.

    All calendars are equal: jobs compare their events themselves.
    """

    events: Mapping[str, KnownEvent] = field(default_factory=dict, compare=False)
    _crons: dict[str, Iterator[float]] = field(default_factory=dict, compare=False, repr=False)
    _next_s: dict[str, float] = field(default_factory=dict, compare=False, repr=False)
    _found: list[Occurrence] = field(default_factory=list, compare=False, repr=False)
    _from_s: float = field(default=math.inf, compare=False, repr=False)
    _until_s: float = field(default=-math.inf, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[Calendar], tuple[Mapping[str, KnownEvent]]]:
        return Calendar, (self.events,)  # what was looked up cannot be sent to another process

    def starting(self, begin_s: float, end_s: float) -> tuple[Occurrence, ...]:
        """Return what starts from ``begin_s`` up to, not including, ``end_s`` (epoch seconds), in order."""
        if not self.events:
            return ()
        if not self._from_s <= begin_s <= self._until_s + FAR_S:
            self._begin(begin_s)
        if end_s > self._until_s:
            self._look_up(begin_s, end_s + AHEAD_S)
        return tuple(sorted((*_within(self._fixed, begin_s, end_s), *_within(self._found, begin_s, end_s))))

    @cached_property
    def _fixed(self) -> list[Occurrence]:
        times = ((name, event, moment) for name, event in self.events.items() for moment in event.at or ())
        return sorted(_occurrence(name, event, moment.timestamp()) for name, event, moment in times)

    def _begin(self, begin_s: float) -> None:
        self._from_s = self._until_s = begin_s
        self._found = []
        self._crons = {
            name: event.starts_from(begin_s) for name, event in self.events.items() if event.cron is not None
        }
        self._next_s = {name: next(starts, math.inf) for name, starts in self._crons.items()}

    def _look_up(self, begin_s: float, until_s: float) -> None:
        found = [event for event in self._found if event.start_s >= begin_s]
        for name, starts in self._crons.items():
            start_s = self._next_s[name]
            while start_s < until_s:
                found.append(_occurrence(name, self.events[name], start_s))
                start_s = next(starts, math.inf)
            self._next_s[name] = start_s
        self._found = sorted(found)
        self._from_s, self._until_s = begin_s, until_s


def _occurrence(name: str, event: KnownEvent, start_s: float) -> Occurrence:
    return Occurrence(start_s, name, start_s + event.lasts, event.factor)


def _within(found: list[Occurrence], begin_s: float, end_s: float) -> list[Occurrence]:
    first = bisect.bisect_left(found, begin_s, key=lambda occurrence: occurrence.start_s)
    last = bisect.bisect_left(found, end_s, key=lambda occurrence: occurrence.start_s)
    return found[first:last]
