"""Rejections: what was read of a job's metrics and cannot be, counted for as long as the job is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perdix.settings.stored import restored
from perdix.telemetry.window import Rejected


@dataclass(frozen=True)
class Rejection:
    """What was rejected of one metric."""

    count: int  # values so far
    newest_s: float  # epoch seconds of the newest
    sentence: str  # which value that was, and what it could have been


@dataclass(frozen=True)
class Rejections:
    """Canonical metric -> what was rejected of it; empty while all that was read could be."""

    of: Mapping[str, Rejection] = field(default_factory=dict)

    def seen(self, rejected: Iterable[Rejected]) -> Rejections:
        """Count what was not counted before: the windows of two ticks overlap."""
        found = dict(self.of)
        for item in rejected:
            before = found.get(item.metric)
            new = item.times_s if before is None else item.times_s[item.times_s > before.newest_s]
            if len(new):
                count = len(new) + (0 if before is None else before.count)
                found[item.metric] = Rejection(count, float(new.max()), item.sentence())
        return self if found == self.of else Rejections(found)

    def until(self, now_s: float) -> Rejections:
        """Return what was rejected so far, so that all is counted that comes after ``now_s``."""
        found = {metric: replace(item, newest_s=min(item.newest_s, now_s)) for metric, item in self.of.items()}
        return Rejections(found)

    @property
    def counts(self) -> dict[str, int]:
        """Canonical metric -> values so far."""
        return {metric: item.count for metric, item in self.of.items()}

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {metric: dict(vars(item)) for metric, item in self.of.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Rejections:
        """Rebuild from :meth:`to_state`; raises ``ValueError`` when a part is wrong."""
        return cls({metric: restored(Rejection, item) for metric, item in state.items()})
