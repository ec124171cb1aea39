"""T_max of any scale-out: a regression over those that were profiled (Phoebe, 3.4), kept true by the running job."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from perdix.models.forecasting.contract import LARGEST_PER_S
from perdix.settings.stored import restored
from perdix.telemetry.window import Values

RIDGE, LINE, USL = "ridge", "line", "usl"
FAMILIES = (RIDGE, LINE, USL)
STATE_FORMAT = "perdix-highest-rates-1"
SLOPE_WITHOUT_FURTHER = 1e-3  # prior of the intercept against the slope: one scale-out alone says "so much per worker"
CLEARLY_BETTER = 0.8  # share of the line's error that the law's must stay below: its third parameter follows scatter
ENOUGH_TO_COMPARE = 4  # scale-outs: leaving one out of fewer judges a line by its extrapolations
FIRST_WEIGHT, MOST_WEIGHT = 0.5, 3.0  # of what the running job showed, beside 1 of a profiled scale-out
NEWEST_SHARE = 0.3  # of a new measurement in the mean of its scale-out
FORGETTING = 0.99  # by which earlier evidence of the running job fades with each further measurement
LEAST_WEIGHT = 0.05
LEAST_PER_S = 1e-6


@dataclass(frozen=True)
class Known:
    """What one scale-out was found to take at most."""

    scale_out: int
    per_s: float  # records/s
    weight: float = 1.0  # 1 when profiled
    running: bool = False  # whether the running job showed it


@dataclass(frozen=True)
class Errors:
    """Errors of predicting each scale-out from the others: mean and largest, as shares of what was measured."""

    mape: float
    worst: float


@dataclass(frozen=True)
class HighestRates:
    """T_max over the scale-out.

    ``ridge`` is the published one: a ridge regression with intercept, whose slope is shrunk and whose errors are
    absolute, so that small scale-outs count for nothing. ``line`` minimises relative errors and has neither a negative
    slope nor a negative intercept: per worker it can only lose with the scale-out. ``usl`` is the Universal Scalability
    Law ``n k / (1 + s (n - 1) + c n (n - 1))``, none of the three negative.
    """

    family: str
    # Of the family: slope and intercept in records/s; or for ``usl`` ``1/k, s/k, c/k``, seconds per record
    coefficients: tuple[float, ...]
    known: tuple[Known, ...]  # what the regression goes through, sorted by scale-out

    @classmethod
    def fit(cls, maximum_per_s: Mapping[int, float], family: str | None = None) -> Self:
        """Fit to profiled scale-outs.

        Raises ``ValueError`` when no T_max is known, one is of no scale-out, or ``ridge`` is asked of a single one.

        ``maximum_per_s``: scale-out -> T_max in records/s; what is not finite or not above 0 was not measured: left
        out.
        ``family``: one of :data:`FAMILIES`; ``None`` takes ``line`` unless ``usl`` predicts left-out scale-outs clearly
        better.
        """
        known = _usable(maximum_per_s)
        return cls._through(family or _better(known), known)

    @classmethod
    def _through(cls, family: str, known: Sequence[Known]) -> Self:
        if family not in _FITS:
            raise ValueError(f"no regression of T_max is called '{family}'; known: {', '.join(FAMILIES)}")
        ordered = tuple(sorted(known, key=lambda point: (point.scale_out, point.running)))
        sizes, rates, weights = (
            np.array([getattr(point, name) for point in ordered], float) for name in ("scale_out", "per_s", "weight")
        )
        return cls(family, tuple(float(value) for value in _FITS[family](sizes, rates, weights)), ordered)

    def per_s(self, scale_outs: ArrayLike) -> Values:
        """Return T_max in records/s of scale-outs of any shape, in that shape; NaN below one worker, never negative."""
        sizes = np.asarray(scale_outs, float)
        if self.family == USL:
            first, contention, coherency = self.coefficients
            found = sizes / (first + contention * (sizes - 1.0) + coherency * sizes * (sizes - 1.0))
        else:
            slope, intercept = self.coefficients
            found = np.maximum(slope * sizes + intercept, 0.0)
        return np.where(sizes >= 1.0, found, np.nan)

    def relative_spread(self) -> float:
        """Return how far a scale-out's T_max lies from the regression: standard deviation, as a share of it.

        Keys fall anew at each deployment, so that the same scale-out takes more or less.
        """
        sizes = np.array([point.scale_out for point in self.known], float)
        off = np.array([point.per_s for point in self.known]) / self.per_s(sizes) - 1.0
        free = len(off) - len(self.coefficients)
        return float(np.sqrt((off @ off) / free)) if free > 0 else 0.0

    def learned(self, scale_out: int, per_s: float, *, saturated: bool = True) -> Self:
        """Return the regression after a measurement of the running job.

        ``per_s``: throughput in records/s.
        ``saturated``: whether the job worked off a backlog or was back-pressured, so that this was all it could do.
        Where it was not, the rate is a lower bound, and teaches only when it lies above what was believed, and above
        what the running job was measured to take.
        """
        if not (LEAST_PER_S <= per_s <= LARGEST_PER_S and scale_out >= 1):
            return self
        if not saturated and per_s <= float(self.per_s(scale_out)):
            return self
        before = next((point for point in self.known if point.running and point.scale_out == scale_out), None)
        if not saturated and before is not None and per_s <= before.per_s:
            return self
        now = (
            Known(int(scale_out), float(per_s), FIRST_WEIGHT, running=True)
            if before is None
            else replace(
                before,
                per_s=before.per_s + NEWEST_SHARE * (float(per_s) - before.per_s),
                weight=min(before.weight + FIRST_WEIGHT, MOST_WEIGHT),
            )
        )
        faded = [
            replace(point, weight=point.weight * FORGETTING) if point.running else point
            for point in self.known
            if point is not before and (not point.running or point.weight * FORGETTING > LEAST_WEIGHT)
        ]
        return self._through(self.family, [*faded, now])

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state: what is known, through which the regression is laid again."""
        return {"format": STATE_FORMAT, "family": self.family, "known": [dict(vars(point)) for point in self.known]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when the state is not one of this regression."""
        if state.get("format") != STATE_FORMAT:
            raise ValueError(f"not a state of T_max of format {STATE_FORMAT}: format is {state.get('format')!r}")
        try:
            known = [restored(Known, row) for row in state["known"]]
            family = str(state["family"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"a state of T_max lacks something or holds what is no number ({error!r})") from None
        _refuse_unusable(known)
        return cls._through(family, known)


def leave_one_out(maximum_per_s: Mapping[int, float], family: str | None) -> Errors:
    """Return how far a family is off each scale-out when that one was left out; NaN below three scale-outs."""
    known = _usable(maximum_per_s)
    if len(known) < 3:
        return Errors(math.nan, math.nan)
    off = []
    for left_out in known:
        others = [point for point in known if point is not left_out]
        found = HighestRates._through(family or _better(others), others)
        off.append(abs(float(found.per_s(left_out.scale_out)) / left_out.per_s - 1.0))
    return Errors(float(np.mean(off)), float(np.max(off)))


def _better(known: Sequence[Known]) -> str:
    """Return ``line``, unless ``usl`` predicts left-out scale-outs clearly better."""
    if len(known) < ENOUGH_TO_COMPARE:
        return LINE
    maximum_per_s = {point.scale_out: point.per_s for point in known}
    line, law = (leave_one_out(maximum_per_s, family).mape for family in (LINE, USL))
    return USL if law < CLEARLY_BETTER * line else LINE


def _line(sizes: Values, rates: Values, weights: Values) -> Values:
    scale = np.sqrt(weights) / rates  # relative errors: 5 % of two workers weigh what 5 % of twenty do
    rows = np.column_stack([sizes, np.ones_like(sizes)]) * scale[:, None]
    prior = [0.0, SLOPE_WITHOUT_FURTHER / rates.min()]
    found, _ = nnls(np.vstack([rows, prior]), np.append(scale * rates, 0.0))
    return np.asarray(found, float)


def _usl(sizes: Values, rates: Values, weights: Values) -> Values:
    # n / T(n) is linear in 1/k, s/k and c/k; times T(n)/n its errors are relative ones.
    terms = np.column_stack([np.ones_like(sizes), sizes - 1.0, sizes * (sizes - 1.0)])
    scale = np.sqrt(weights)
    per_worker = rates / sizes
    unit = float(per_worker.mean())
    found, _ = nnls(terms * (scale * per_worker / unit)[:, None], scale)
    if found[0] <= 0.0:  # one worker would take an unlimited rate: as many per worker as there are
        found = np.array([unit * float(np.average(1.0 / per_worker, weights=weights)), 0.0, 0.0])
    return np.asarray(found / unit, float)


def _ridge(sizes: Values, rates: Values, weights: Values) -> Values:
    from sklearn.linear_model import RidgeCV  # noqa: PLC0415  seconds to import, and wanted for comparison only

    if len(sizes) < 2:
        raise ValueError("the published regression of T_max needs two scale-outs or more: profile another one")
    model = RidgeCV().fit(sizes[:, None], rates, sample_weight=weights)
    return np.array([float(model.coef_[0]), float(model.intercept_)])


_FITS: Mapping[str, Callable[[Values, Values, Values], Values]] = {RIDGE: _ridge, LINE: _line, USL: _usl}


def _usable(maximum_per_s: Mapping[int, float]) -> list[Known]:
    known = [
        Known(int(scale_out), float(per_s))
        for scale_out, per_s in sorted(maximum_per_s.items())
        if LEAST_PER_S <= per_s <= LARGEST_PER_S  # False of NaN
    ]
    _refuse_unusable(known)
    return known


def _refuse_unusable(known: Sequence[Known]) -> None:
    if not known:
        raise ValueError("no T_max is known of any scale-out: profile until a deployment no longer keeps up (--step)")
    if wrong := [point for point in known if point.scale_out < 1 or not LEAST_PER_S <= point.per_s <= LARGEST_PER_S]:
        raise ValueError(f"T_max of {wrong[0].scale_out} workers cannot be {wrong[0].per_s} records/s")
