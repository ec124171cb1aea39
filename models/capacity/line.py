"""One worker's line: throughput over CPU load as an exact, mergeable simple regression (Daedalus 3.1).

Records are counted, CPU load is sampled: what scatters is the CPU load. So CPU is regressed on throughput, and the line
is read the other way round. Throughput regressed on CPU would be too flat by as much as CPU scatters beside how far the
load ranged (regression dilution), and so promise too little at full CPU the less a job has to do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from perdix.telemetry.window import Values

TYPICAL_NOISE = 0.02  # residual sd of throughput as a share of its mean, believed before residuals were seen
NOISE_WEIGHT = 2.0  # how many samples that belief is worth
STEADY_VARIANCE = 1e-8  # CPU variance below which a slope is rounding noise
MODEL_ERROR = 0.015  # relative error of a straight line within the CPU loads that it has seen
BETWEEN_SD = 0.01  # of the idle share between workers of one job, and between its stays
BEND_ERROR = 0.15  # its growth with the square of the distance beyond them (measured: benchmarks/capacity.py)


@dataclass(frozen=True)
class IdleShare:
    """What is believed of the CPU load at which throughput is zero.

    Measured on four runs of two jobs: 7.8 to 11.4 %. It fixes a line whose CPU load hardly varied: the line must pass
    through ``(cpu, 0)``, give or take ``sd``.
    """

    cpu: float = 0.09
    sd: float = 0.04

    @property
    def least_cpu(self) -> float:
        """What it hardly falls below: less by a standard deviation, and never below 0."""
        return max(self.cpu - self.sd, 0.0)


@dataclass(frozen=True)
class Fit:
    """A usable line: throughput = ``intercept + slope * cpu``, with what is needed for its uncertainty."""

    # slope, intercept: records/s per unit of CPU load, and records/s
    slope: float
    intercept: float
    noise: float  # residual standard deviation of one sample of weight 1, records/s
    # weight, cpu_mean, spread: weight of the data, their mean CPU load, and the part of their sum of squared CPU
    # deviations that follows the throughput (anchor included)
    weight: float
    cpu_mean: float
    spread: float
    # CPU load up to which the line was seen, as mean + 1.5 sd (a uniform range ends at 1.7, a sine at 1.4): it forgets
    # as the data do, a maximum would not
    reach: float

    def predict(self, cpu: float) -> float:
        """Return the throughput at ``cpu``, records/s, never negative."""
        return max(0.0, self.intercept + self.slope * cpu)

    def sampling_sd(self, cpu: float) -> float:
        """Return the standard error of :meth:`predict` from noise and from the uncertain slope, records/s."""
        return self.noise * math.sqrt(1.0 / self.weight + (cpu - self.cpu_mean) ** 2 / self.spread)

    def model_sd(self, cpu: float) -> float:
        """Return the error of taking a straight line at all, records/s: grows with the distance beyond ``reach``."""
        beyond = max(0.0, cpu - self.reach)
        return self.predict(cpu) * (MODEL_ERROR + BEND_ERROR * beyond**2)

    def sd(self, cpu: float) -> float:
        """Return the standard deviation of :meth:`predict`, records/s."""
        return math.hypot(self.sampling_sd(cpu), self.model_sd(cpu))


@dataclass(frozen=True)
class Line:
    """Sufficient statistics of a simple regression of throughput on CPU load; immutable, ``O(1)`` in memory."""

    weight: float = 0.0  # sum of the samples' weights
    # cpu_mean, throughput_mean: weighted means; ratio and records/s
    cpu_mean: float = 0.0
    throughput_mean: float = 0.0
    # cpu_m2, throughput_m2, comoment: weighted sums of squared deviations and of their product
    cpu_m2: float = 0.0
    throughput_m2: float = 0.0
    comoment: float = 0.0

    @classmethod
    def of(cls, cpu: ArrayLike, throughput_per_s: ArrayLike, weights: ArrayLike = 1.0) -> Self:
        """Return the line of paired samples; pairs with a NaN or infinity, or of no weight, are left out.

        ``cpu``, ``throughput_per_s``: same shape; ratio and records/s.
        ``weights``: broadcast to that shape; in units of independent samples, so a 10 s step of a one-minute mean
        weighs 1/6.
        """
        x, y = np.asarray(cpu, float).ravel(), np.asarray(throughput_per_s, float).ravel()
        if x.shape != y.shape:
            raise ValueError(f"{x.size} CPU samples against {y.size} throughput samples; pair them first")
        w = np.broadcast_to(np.asarray(weights, float), np.shape(cpu)).ravel()
        usable = np.isfinite(x) & np.isfinite(y) & (w > 0)
        x, y, w = x[usable], y[usable], w[usable]
        total = float(w.sum())
        if total == 0.0:
            return cls()
        x_mean, y_mean = float(w @ x) / total, float(w @ y) / total
        dx, dy = x - x_mean, y - y_mean
        return cls(total, x_mean, y_mean, float(w @ dx**2), float(w @ dy**2), float(w @ (dx * dy)))

    def merge(self, other: Line) -> Line:
        """Return the line of both sets of samples: exact, commutative and associative (Chan et al.)."""
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        share, cross = other.weight / weight, self.weight * other.weight / weight
        dx, dy = other.cpu_mean - self.cpu_mean, other.throughput_mean - self.throughput_mean
        return Line(
            weight,
            self.cpu_mean + dx * share,
            self.throughput_mean + dy * share,
            self.cpu_m2 + other.cpu_m2 + dx * dx * cross,
            self.throughput_m2 + other.throughput_m2 + dy * dy * cross,
            self.comoment + other.comoment + dx * dy * cross,
        )

    @property
    def slope(self) -> float:
        """Slope, records/s per unit of CPU load; NaN when CPU load or throughput did not vary, or not together."""
        varied = self.cpu_m2 > STEADY_VARIANCE * self.weight and self.throughput_m2 > 0.0
        return self.throughput_m2 / self.comoment if varied and self.comoment != 0.0 else math.nan

    @property
    def flat_slope(self) -> float:
        """The same of throughput regressed on CPU: too flat where CPU scatters, and never steep by chance.

        Where throughput scatters, too, the truth lies between the two. NaN as :attr:`slope`.
        """
        return self.comoment / self.cpu_m2 if not math.isnan(self.slope) else math.nan

    @property
    def noise_variance(self) -> float:
        """Residual variance of one sample, shrunk towards a typical noise while there are few; never zero."""
        residual = self.throughput_m2
        if self.cpu_m2 > STEADY_VARIANCE * self.weight:
            residual = max(0.0, residual - self.comoment**2 / self.cpu_m2)
        typical = (TYPICAL_NOISE * max(self.throughput_mean, 1e-9)) ** 2
        return (residual + NOISE_WEIGHT * typical) / (max(self.weight - 2.0, 0.0) + NOISE_WEIGHT)

    def fit(self, idle: IdleShare | None = None) -> Fit:
        """Return a line that is always usable: the data, with the idle share as a weak anchor.

        The slope is that of the samples and that from the anchor ``(idle.cpu, 0)`` to their mean, each by its
        precision: the anchor decides where the CPU load was steady, and vanishes where the load ranged widely. A
        negative slope is refused: the line then goes through the mean and the anchor.

        Raises ``ValueError`` when there is no sample at all.
        """
        if self.weight <= 0.0:
            raise ValueError("no CPU and throughput samples were paired for this worker yet")
        idle = idle or IdleShare()
        if self.cpu_mean <= idle.cpu + idle.sd:
            return self._nearly_idle()
        noise, distance, slope = math.sqrt(self.noise_variance), self.cpu_mean - idle.cpu, self.slope
        anchored = self.throughput_mean / distance
        anchored_variance = max(anchored * idle.sd / distance, 1e-9) ** 2
        if not slope > 0.0:
            return self._through_mean(anchored, anchored_variance, noise)
        variance = noise**2 * self.throughput_m2 / self.comoment**2 + (slope - self.flat_slope) ** 2
        by_anchor = variance / (variance + anchored_variance)
        slope += by_anchor * (anchored - slope)
        return self._through_mean(slope, by_anchor * anchored_variance, noise)

    def _through_mean(self, slope: float, variance: float, noise: float) -> Fit:
        intercept = self.throughput_mean - slope * self.cpu_mean
        return Fit(slope, intercept, noise, self.weight, self.cpu_mean, noise**2 / variance, self.reach)

    def _nearly_idle(self) -> Fit:
        noise = math.sqrt(self.noise_variance)
        if self.slope > 0.0:
            # Hardly more than scatter, so not the steeper of the two regressions, which knows no limit.
            return self._through_mean(self.flat_slope, noise**2 / self.cpu_m2, noise)
        # Nothing separates idle CPU from work here: the plain ratio errs low, and the spread says that it is a guess.
        slope = self.throughput_mean / max(self.cpu_mean, 1e-3)
        spread = (noise / max(slope, 1e-9)) ** 2
        return Fit(slope, 0.0, noise, self.weight, self.cpu_mean, spread, self.reach)

    @property
    def reach(self) -> float:
        """CPU load up to which the samples range, as mean + 1.5 sd."""
        return self.cpu_mean + 1.5 * math.sqrt(max(self.cpu_m2, 0.0) / self.weight)


def refuse_unusable(state: Sequence[Any]) -> None:
    """Raise ``ValueError`` when these are not the statistics of a line: six finite numbers, in its order."""
    numbers = np.asarray(state, float)
    if numbers.shape != (6,) or not np.isfinite(numbers).all() or numbers[[0, 3, 4]].min() < 0:
        raise ValueError(f"not the state of a line: {state!r}; six finite numbers are needed")


def lines_of(cpu: Values, throughput_per_s: Values, weights: Values) -> Values:
    """Return the sufficient statistics of several lines at once, shape ``(6, lines)`` in the order of :class:`Line`.

    All of shape ``(lines, n)``, finite, and of weights above 0.
    """
    w = np.ascontiguousarray(weights)
    total, values = w.sum(axis=1), np.array([cpu, throughput_per_s])
    means = _dots(w, values) / total
    apart = values - means[:, :, None]
    return np.concatenate([total[None], means, _dots(w, np.array([*apart**2, apart[0] * apart[1]]))])


def merged(lines: Values, others: Values) -> Values:
    """Return :meth:`Line.merge` of several lines at once, shapes ``(6, lines)``; each has samples on one side."""
    both = lines + others
    share, cross = others[0] / both[0], lines[0] * others[0] / both[0]
    apart = others[1:3] - lines[1:3]
    both[1:3] = lines[1:3] + apart * share
    both[3:5] += apart**2 * cross
    both[5] += apart[0] * apart[1] * cross
    return both


def reach_of(lines: Values) -> Values:
    """Return :attr:`Line.reach` of several lines at once, of shape ``(6, lines)``; shape ``(lines,)``."""
    return np.asarray(lines[1] + 1.5 * np.sqrt(np.maximum(lines[3], 0.0) / lines[0]))


def _dots(a: Values, b: Values) -> Values:
    """Return the sum of products of each row of ``a`` with that of each of ``b``, shape ``(len(b), lines)``."""
    return np.asarray((a[:, None, :] @ b[..., None])[..., 0, 0])
