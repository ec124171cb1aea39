"""What is known of single scale-outs, how it ages, and the curve through it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import mul
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from perdix.settings.durations import DAY_S
from perdix.settings.replacing import replace
from perdix.settings.stored import restored
from perdix.telemetry.window import Values

OBSERVED = "observed"
DRIFT_PER_DAY = 0.10  # relative sd by which a job's capacity wanders in a day (same pod, two days: 13 %, originals)
REDRAWN_SKEW = 0.06  # relative sd between stays: each rescale deals the keys anew, and the unluckiest worker decides
OFF_CURVE = 0.08  # relative sd of what a scale-out takes around a smooth curve: no two workers are equally fast
OWN_SD = 0.10  # relative sd up to which the errors of two stays have nothing to do with each other
EFFICIENCY = (
    -0.17
)  # scaling exponent that is expected of a job before it is seen at two scale-outs (measured: 1 -> 12 workers)
EFFICIENCY_SD = 0.15  # prior sd of that exponent


@dataclass(frozen=True)
class Evidence:
    """What one scale-out was found to take."""

    scale_out: int
    # per_s, relative_sd: capacity in records/s, and its standard deviation as a share of it, when it was found. Of a
    # stay that goes on it is that stay's; of one that is over, see :meth:`of_any_stay`
    per_s: float
    relative_sd: float
    at_s: float  # epoch seconds of the newest sample behind it
    cpu_reach: float  # highest CPU load of the hottest worker that it rests on
    source: str = OBSERVED  # ``observed``, or the family of the regressor that says so
    # Share of the job's records of the worker that is full first; ``None`` where that is not known
    hottest_share: float | None = None
    # Records per CPU of that worker, as a multiple of the mean worker's; ``None`` where that is not known
    hottest_speed: float | None = None

    def variance(self, now_s: float) -> float:
        """Return the variance of ``log(per_s)`` at ``now_s``: it grows linearly with age, as a random walk's."""
        days = max(0.0, now_s - self.at_s) / DAY_S
        return self.relative_sd**2 + DRIFT_PER_DAY**2 * days

    @property
    def shared_sd(self) -> float:
        """Relative sd of what other stays of the job are off by as well: a wrong idle share misleads them all."""
        return math.sqrt(max(self.relative_sd**2 - OWN_SD**2, 0.0))

    @property
    def log_speed(self) -> float:
        """The log of :attr:`hottest_speed`, at most 0, as it is where that is not known: the hottest is not quick."""
        return min(math.log(self.hottest_speed or 1.0), 0.0)

    def of_any_stay(self) -> Evidence:
        """Return what this says of another stay at the same scale-out, where the keys are dealt anew."""
        return replace(self, relative_sd=math.hypot(self.relative_sd, REDRAWN_SKEW))

    def combined(self, newer: Evidence) -> Evidence:
        """Return the precision-weighted mean (in logs) of this and newer evidence of the same scale-out."""
        mine, theirs = 1.0 / self.variance(newer.at_s), 1.0 / newer.variance(newer.at_s)
        log_value = (mine * math.log(self.per_s) + theirs * math.log(newer.per_s)) / (mine + theirs)
        shared = (mine * self.shared_sd + theirs * newer.shared_sd) / (mine + theirs)

        def mean(old: float | None, new: float | None) -> float | None:
            if old is None or new is None:
                return old if new is None else new
            return (mine * old + theirs * new) / (mine + theirs)

        return Evidence(
            newer.scale_out,
            math.exp(log_value),
            max(math.sqrt(1.0 / (mine + theirs)), shared),
            newer.at_s,
            max(self.cpu_reach, newer.cpu_reach),
            newer.source,
            mean(self.hottest_share, newer.hottest_share),
            mean(self.hottest_speed, newer.hottest_speed),
        )

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when a number is missing or cannot be."""
        evidence = restored(cls, state)
        if evidence.scale_out < 1 or not evidence.per_s > 0 or not evidence.relative_sd > 0:
            raise ValueError(f"evidence needs a scale-out of 1 or more, a capacity and an sd above 0: {dict(state)!r}")
        if evidence.hottest_share is not None and not 0 < evidence.hottest_share <= 1:
            raise ValueError(f"a worker's share of the records is above 0 and at most 1: {dict(state)!r}")
        if evidence.hottest_speed is not None and not 0 < evidence.hottest_speed < math.inf:
            raise ValueError(f"a worker's speed is above 0 and finite: {dict(state)!r}")
        return evidence


@dataclass(frozen=True)
class Curve:
    """``capacity(n) = a * n ** (1 + e)`` with ``e`` in [-1, 0]: the per-worker average, less the cost of being many.

    With one scale-out known, ``e`` is its prior mean ``EFFICIENCY``, where Daedalus 3.1 has 0: the average per worker
    times ``n``. Each further one moves it. Above 0 (super-linear) is noise, and is cut.
    """

    log_scale: float
    exponent: float
    covariance: tuple[float, float, float]
    points: int
    shared_sd: float = 0.0

    @classmethod
    def through(cls, evidence: Iterable[Evidence], now_s: float) -> Self:
        """Return the posterior curve: weighted least squares in logs with a normal prior on the exponent.

        ``evidence`` is of any stay, at different scale-outs.
        """
        known, prior = list(evidence), EFFICIENCY_SD**-2
        logs = [math.log(item.scale_out) for item in known]
        values = [math.log(item.per_s) - log for item, log in zip(known, logs, strict=True)]
        weights = [1.0 / (item.variance(now_s) + OFF_CURVE**2) for item in known]
        weighted = list(map(mul, weights, logs))
        weight, log, square = sum(weights), sum(weighted), sum(map(mul, weighted, logs)) + prior
        value, product = sum(map(mul, weights, values)), sum(map(mul, weighted, values)) + EFFICIENCY * prior
        determinant = weight * square - log**2
        exponent = min(max((weight * product - log * value) / determinant, -1.0), 0.0)
        shared = sum(map(mul, weights, (item.shared_sd for item in known))) / weight
        covariance = (max(square / determinant, shared**2), -log / determinant, weight / determinant)
        return cls((value - exponent * log) / weight, exponent, covariance, len(known), shared)

    def log_value(self, scale_out: int) -> float:
        """Return the logarithm of the capacity of ``scale_out`` workers in records/s."""
        return self.log_scale + (1.0 + self.exponent) * math.log(scale_out)

    def variance(self, scale_out: int) -> float:
        """Return the variance of what ``scale_out`` takes on average; a stay differs from it by ``REDRAWN_SKEW``."""
        log = math.log(scale_out)
        scale, cross, exponent = self.covariance
        return scale + 2.0 * cross * log + exponent * log**2 + OFF_CURVE**2


def as_workers_add(logs: Values, weights: Values, seen: NDArray[np.bool_]) -> Values:
    """Return log capacities of 1 .. n workers that never fall with the scale-out, nor promise more than was seen.

    The total is the nearest non-decreasing sequence by weighted least squares. A scale-out that the job never had takes
    no more per worker than the best smaller one that it had: workers get in each other's way, and never help.
    Shapes ``(n,)``.
    """
    rises = (logs[1:] > logs[:-1]).all()
    total = logs if rises else isotonic_regression(logs, weights=weights).x
    alone = np.log(np.arange(1.0, len(logs) + 1.0))
    best = np.maximum.accumulate(np.where(seen, total - alone, -np.inf))
    bounded = np.where(seen | np.isinf(best), total, np.minimum(total, best + alone))
    return np.asarray(np.maximum.accumulate(bounded))
