"""Bugs that are planted on purpose: a storm that does not find them is no storm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from benchmarks.storm.episodes import Wrap
from perdix.control import observe, tenure
from perdix.control.state import ledger as state_ledger
from perdix.control.tenure import Tenure
from perdix.targets.contract import Running, Target
from perdix.telemetry.quality import Quality, assess


class OtherKeys:
    """A target that is asked with another key each time."""

    def __init__(self, inner: Target) -> None:
        self._inner = inner
        self._number = itertools.count()

    def read(self) -> Running:
        """Return what runs."""
        return self._inner.read()

    def scale(self, scale_out: int, idempotency_key: str, *more: Any, **others: Any) -> Running:
        """Ask with a new key."""
        return self._inner.scale(scale_out, f"{idempotency_key}-{next(self._number)}", *more, **others)

    def close(self) -> None:
        """Close the target."""
        self._inner.close()


@contextmanager
def another_key() -> Iterator[Wrap]:
    """Let each retry use another key."""
    yield OtherKeys


@contextmanager
def lease_not_renewed() -> Iterator[Wrap]:
    """Let nobody look at the lease, or prolong it, before the target is asked."""
    with mock.patch.object(Tenure, "_grant"), mock.patch.object(tenure, "renew"):
        yield lambda target: target


@contextmanager
def outcome_not_stored() -> Iterator[Wrap]:
    """Let nobody store what became of a decision."""
    with mock.patch.object(state_ledger, "_moved", return_value=True):
        yield lambda target: target


@contextmanager
def any_window() -> Iterator[Wrap]:
    """Let any window do to decide on that has a sample, however few or old they are."""

    def content(*given: Any) -> Quality:
        found = assess(*given)
        return replace(found, ok=True, blind=False, problems=()) if found.age_s < float("inf") else found

    with mock.patch.object(observe, "assess", content):
        yield lambda target: target


PLANTS: Mapping[str, Callable[[], Any]] = {
    "lease": lease_not_renewed,
    "outcome": outcome_not_stored,
    "key": another_key,
    "window": any_window,
}
