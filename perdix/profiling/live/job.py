"""A running job under load: what profiling and sampling on a real cluster have in common."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from perdix.control.clock import Clock
from perdix.control.sources import MetricsSource, SourceError
from perdix.profiling.live.commands import CommandError, Load
from perdix.profiling.measuring import mean
from perdix.settings.plain_error import PlainError
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Running, ScalesOperators, Target, TargetError
from perdix.telemetry import metrics
from perdix.telemetry.window import Window

LOOKS_S = 1.0  # between two looks at what is waited for
READS_S, RETRIES_S = 60.0, 5.0  # for which metrics may be unreadable, and between two tries
RESCALED_S = 300.0  # that a rescale may take, Flink's cooldown included
DRAINED_S = 1_800.0  # that a backlog may take
NEWEST_S = 60.0  # in which a lag counts as that of now


class LiveError(PlainError):
    """The running job could not be rescaled, driven or measured; says why."""


@contextmanager
def turned_into(kind: type[Exception]) -> Iterator[None]:
    """Raise what goes wrong with a running job as an error of the caller's contract."""
    try:
        yield
    except (LiveError, CommandError, TargetError) as error:
        raise kind(str(error)) from error


@dataclass(frozen=True)
class LiveJob:
    """A job that runs on a cluster."""

    job: StreamJob  # its file: where its metrics are
    # source, target: its metrics, and the cluster
    source: MetricsSource
    target: Target
    load: Load  # what arrives
    # clock, pause: epoch seconds, and a wait of this many seconds
    clock: Clock
    pause: Callable[[float], None] = time.sleep

    @property
    def now_s(self) -> float:
        """Epoch seconds."""
        return self.clock.now_s()

    def wait(self, for_s: float) -> None:
        """Let time pass under the load. Raises ``CommandError`` when the load ends meanwhile."""
        until_s = self.now_s + for_s
        while (left_s := until_s - self.now_s) > 0.0:
            self.pause(min(LOOKS_S, left_s))
            self.load.check()

    def asked_of_operators(self) -> Mapping[str, int]:
        """Return how many instances each operator was asked to have; empty where all are scaled alike."""
        return self.target.requested_operators() if isinstance(self.target, ScalesOperators) else {}

    def is_as(self, before: Running, operators: Mapping[str, int]) -> bool:
        """Whether the same runs, and was asked for, as before; not where nobody can tell."""
        try:
            return self.target.read() == before and self.asked_of_operators() == operators
        except TargetError:
            return False

    def rescaled(self, scale_out: int, enough: int | None = None, operators: Mapping[str, int] | None = None) -> None:
        """Rescale it, and wait until this many workers run, or ``enough``. Raises ``LiveError``, ``TargetError``.

        ``operators``: instances of each, the most of which is ``scale_out``; where left out, all get as many.
        """
        least = scale_out if enough is None else min(enough, scale_out)
        key, until_s = f"profiling-{scale_out}-{self.now_s:.0f}", self.now_s + READS_S
        while True:
            try:
                if operators and isinstance(self.target, ScalesOperators):
                    self.target.scale_operators(operators, key)
                else:
                    self.target.scale(scale_out, key)
                break
            except TargetError as error:
                if not error.retriable or self.now_s >= until_s:
                    raise
                self.pause(RETRIES_S)
        if not self.comes_to(lambda now: now.settled and least <= now.scale_out <= scale_out, RESCALED_S):
            raise LiveError(f"{scale_out} workers did not run within {RESCALED_S:g} s{self._what_runs()}")

    def require(self, scale_out: int) -> None:
        """Raise ``LiveError`` when another number of workers runs: somebody else has rescaled it."""
        if not self.comes_to(lambda now: now.is_at(scale_out, {}), READS_S):
            raise LiveError(f"it no longer has {scale_out} workers{self._what_runs()}; let nothing else scale it")

    def comes_to(
        self, holds: Callable[[Running], bool], within_s: float, check: Callable[[], None] = lambda: None
    ) -> bool:
        """Wait until the cluster shows something; one that does not answer is asked again. ``check`` may end it."""
        until_s = self.now_s + within_s
        while True:
            check()
            try:
                if holds(self.target.read()):
                    return True
            except TargetError as error:
                if not error.retriable:
                    raise
            if self.now_s >= until_s:
                return False
            self.pause(LOOKS_S)

    def window(self, since_s: float) -> Window:
        """Return what was measured since then. Raises ``LiveError`` when it cannot be read for a minute."""
        now_s = self.now_s
        while True:
            try:
                return self.source.read(self.job, now_s, since_s).window
            except SourceError as error:
                if self.now_s >= now_s + READS_S:
                    raise LiveError(str(error)) from error
                self.pause(RETRIES_S)

    def drained(self, to_records: float) -> None:
        """Wait until no more than this many records wait; not where no lag is measured within a minute.

        Raises ``LiveError`` when that takes longer than half an hour.
        """
        since_s = self.now_s
        while not (lag := self._lag(since_s)) <= to_records:  # NaN is not
            if math.isnan(lag) and self.now_s >= since_s + NEWEST_S:
                return
            if self.now_s >= since_s + DRAINED_S:
                raise LiveError(
                    f"{lag:,.0f} records still wait after {DRAINED_S / 60:g} min without load; "
                    "let nothing else write to the topic"
                )
            self.pause(RETRIES_S)

    def _lag(self, since_s: float) -> float:
        """Return the newest lag since then, and of the last minute; what was measured before a rescale is no lag."""
        lag = self.window(max(self.now_s - NEWEST_S, since_s)).job_metric(metrics.LAG.name)
        known = lag[np.isfinite(lag)]
        return float(known[-1]) if known.size else math.nan

    def _what_runs(self) -> str:
        try:
            return f", but {self.target.read().scale_out}"
        except TargetError as error:
            return f" ({error})"


def offered_per_s(window: Window, asked_per_s: float, tolerance: float) -> float:
    """Return what arrived in a window, records/s.

    Raises ``LiveError`` when that is not measured, or differs from what was asked of the load by more than a share of
    it: what is measured under another load than was meant is no measurement.
    """
    arrived_per_s = mean(window.job_metric(metrics.WORKLOAD.name))
    if math.isnan(arrived_per_s):
        raise LiveError(
            f"nobody measures what arrives ({metrics.WORKLOAD.name}), so a load that misses its rate would pass for a "
            "job that is slow; perdix doctor names the fix"
        )
    if abs(arrived_per_s - asked_per_s) > tolerance * asked_per_s:
        raise LiveError(
            f"{arrived_per_s:,.1f} records/s arrived where the load was asked for {asked_per_s:,.1f}; see to it that "
            "the command keeps its rate, and that nothing else writes to the topic"
        )
    return arrived_per_s
