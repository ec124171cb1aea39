"""What is new of jobs since the tick before: what a log says of a tick beside its counts. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from perdix.control.fleet_report import FleetReport
from perdix.control.reconcile import Event
from perdix.control.state.journal import USUAL, Status
from perdix.policies.wording import workers
from perdix.settings.counting import named

_NO_NEWS = frozenset({Event.NOTHING, Event.WAITING, Event.UNREACHABLE})  # of the last the status says it


class Stand(NamedTuple):
    """How a job stands after a tick, as far as it is news when that changes."""

    status: Status
    advised: int | None = None  # workers, where other ones are advised than run
    fault: str = ""  # why perdix failed on it


_AS_USUAL = frozenset(map(Stand, USUAL))


@dataclass(frozen=True)
class News:
    """What is new of some jobs that are alike; it turns into JSON as it is, under stable names."""

    jobs: tuple[str, ...]
    status: Status
    advised: int | None  # workers, where other ones are advised than run
    event: Event  # between perdix and the target
    sentence: str

    def __str__(self) -> str:
        advised = "" if self.advised is None else f" {workers(self.advised)}"
        what = f"{self.status}{advised}" if self.event in _NO_NEWS else self.event
        return f"{named(self.jobs)} ({what}): {self.sentence}"


def stands_of(report: FleetReport, before: Mapping[str, Stand]) -> dict[str, Stand]:
    """Return how each job stands, to be compared with the tick that follows.

    ``before``: the same of the tick before, which holds on for a job that this one had no time for.
    """
    stands = {name: Stand(job.status, job.advised) for name, job in report.reports.items()}
    for name, job in report.others.items():
        if job.status is not Status.LATE:
            stands[name] = Stand(job.status, fault=job.sentence if job.status is Status.BROKEN else "")
        elif name in before:
            stands[name] = before[name]
    return stands


def news_of(report: FleetReport, stands: Mapping[str, Stand], before: Mapping[str, Stand]) -> tuple[News, ...]:
    """Return what happened between perdix and targets, and which jobs stand otherwise than ``before``.

    Jobs of which the same is new are together.

    ``stands``, ``before``: :func:`stands_of` the tick, and the one before; of a job that is not in the latter only what
    is not usual is news.
    """
    standing = report.standing
    alike = defaultdict[tuple[Status, int | None, Event, str], list[str]](list)
    for name, stand in sorted(stands.items()):
        event = report.reports[name].event if name in report.reports else Event.NOTHING
        as_before = stand == before[name] if name in before else stand in _AS_USUAL
        if not as_before or event not in _NO_NEWS:
            alike[stand.status, stand.advised, event, standing[name].sentence].append(name)
    return tuple(News(tuple(jobs), *what) for what, jobs in alike.items())
