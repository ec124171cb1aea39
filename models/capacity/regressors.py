"""Candidates for a job's capacity: from a worker's CPU load, its share and the scale-out to its throughput (P4)."""

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from perdix.models.capacity.line import IdleShare, Line
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.telemetry.window import Values

FEATURES = ("cpu_load", "cpu_share", "relative_throughput", "scale_out")
MOST_ROWS = 2_000  # rows a tree family learns from, every k-th minute; 6,000 score alike in twice the time
EACH_ASKED = 100  # scale-outs, and workers of one, that trees are asked for one by one; of more only some are
APART = 1.05  # ratio of neighbours among the greater scale-outs that trees are asked for
NO_EXTRAPOLATION = "trees cannot extrapolate: beyond the throughput that was seen the answer stays flat"


class Regressor(ABC):
    """A family fitted to one job's ``capacity_features``. Deterministic for a frame and a seed."""

    family: ClassVar[str]
    notes: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def fit(cls, frame: pd.DataFrame, seed: int) -> Self:
        """Fit. Raises ``ValueError`` when the frame has no usable row."""

    @abstractmethod
    def predict(self, frame: pd.DataFrame) -> Values:
        """Return the throughput of every row (a worker's minute), records/s, shape ``(len(frame),)``."""

    @abstractmethod
    def capacity(self, scale_out: int) -> float:
        """Return the capacity of a scale-out, records/s."""

    def table(self, maximum: int) -> dict[int, float]:
        """Return the capacity of 1 .. ``maximum`` workers, non-decreasing."""
        every = np.arange(1, maximum + 1)
        asked = self.asked(maximum)
        values = np.interp(every, asked, [self.capacity(n) for n in asked.tolist()])
        return dict(enumerate(isotonic_regression(values).x.tolist(), start=1))

    def asked(self, maximum: int) -> NDArray[np.int_]:
        """Return the scale-outs of 1 .. ``maximum``, ascending, whose capacity is worked out; others lie between."""
        return np.arange(1, maximum + 1)


class Linear(Regressor):
    """A line per worker with proportional skew: the model that goes on learning in the loop (Daedalus 3.1)."""

    family = "linear"
    notes = "one line per worker, proportional skew; learns on in the loop"

    def __init__(self, model: ScaleOuts, frame: pd.DataFrame) -> None:
        self.model = model
        self._frame = frame

    @classmethod
    def fit(cls, frame: pd.DataFrame, seed: int) -> Self:  # noqa: ARG003  nothing is random here
        """Fit."""
        return cls(ScaleOuts.from_features(frame), frame)

    @cached_property
    def _lines(self) -> dict[tuple[int, str], Line]:
        """Return the line of each worker at each scale-out: thousands, of which only :meth:`predict` has a use."""
        cpu, throughput = (self._frame[name].to_numpy(float) for name in ("cpu_load", "throughput_per_s"))
        rows = self._frame.groupby(["scale_out", "worker"], observed=True).indices
        lines = {
            (int(scale_out), str(worker)): Line.of(cpu[at], throughput[at], np.maximum(cpu[at], 0.0))
            for (scale_out, worker), at in cast("dict[tuple[int, str], NDArray[np.int_]]", rows).items()
        }
        return {key: line for key, line in lines.items() if line.weight > 0}

    def predict(self, frame: pd.DataFrame) -> Values:
        """Return the worker's own line where it is known at that scale-out, else the mean worker's nearest to it."""
        together: dict[int, Line] = {}
        for (scale_out, _), line in self._lines.items():
            together[scale_out] = together.get(scale_out, Line()).merge(line)
        fits = {key: line.fit() for key, line in self._lines.items()}
        mean = {n: line.fit() for n, line in together.items()}
        found = np.empty(len(frame))
        columns = zip(frame["scale_out"].tolist(), frame["worker"].astype(str), frame["cpu_load"].tolist(), strict=True)
        for row, (scale_out, worker, cpu) in enumerate(columns):
            fit = fits.get((scale_out, worker)) or mean[min(mean, key=lambda n: (abs(np.log(n / scale_out)), n))]
            found[row] = fit.predict(cpu)
        return found

    def capacity(self, scale_out: int) -> float:
        """Return the capacity model's estimate."""
        return self.model.capacity(scale_out).per_s


class Ratio(Regressor):
    """Throughput / CPU load, every worker to CPU 1: what is done without a model. The floor for all others."""

    family = "ratio"
    notes = "plain throughput / CPU: ignores idle CPU and skew; the floor that a model must beat"

    def __init__(self, per_worker: float) -> None:
        self._per_worker = per_worker

    @classmethod
    def fit(cls, frame: pd.DataFrame, seed: int) -> Self:  # noqa: ARG003  nothing is random here
        """Fit."""
        rows = frame[(frame["cpu_load"] > 0) & frame["throughput_per_s"].notna()]
        if rows.empty:
            raise ValueError("no row has both CPU load and throughput")
        return cls(float((rows["throughput_per_s"] / rows["cpu_load"]).mean()))

    def predict(self, frame: pd.DataFrame) -> Values:
        """Return CPU load times the mean ratio."""
        return self._per_worker * frame["cpu_load"].to_numpy(float)

    def capacity(self, scale_out: int) -> float:
        """Return the mean ratio times the workers."""
        return self._per_worker * scale_out


class Trees(Regressor):
    """What the three families of trees share: features, thinning, and the capacity by asking at saturation."""

    notes = NO_EXTRAPOLATION

    def __init__(self, estimator: Any, profiles: dict[int, pd.DataFrame]) -> None:
        self.estimator = estimator
        self._profiles = profiles

    @classmethod
    @abstractmethod
    def estimator_of(cls, seed: int) -> Any:
        """Return the unfitted estimator."""

    @classmethod
    def fit(cls, frame: pd.DataFrame, seed: int) -> Self:
        """Fit on at most ``MOST_ROWS`` rows, whole minutes spread evenly."""
        rows = _with_relative_throughput(frame)
        rows = rows[rows["throughput_per_s"].notna() & rows["cpu_load"].notna()]
        if rows.empty:
            raise ValueError("no row has both CPU load and throughput")
        kept = _thinned(rows)
        estimator = cls.estimator_of(seed)
        estimator.fit(kept[list(FEATURES)].to_numpy(float), kept["throughput_per_s"].to_numpy(float))
        return cls(estimator, {int(cast("int", n)): _profile(group) for n, group in rows.groupby("scale_out")})

    def predict(self, frame: pd.DataFrame) -> Values:
        """Return the trees' answer; a row whose throughput share is missing counts as the mean worker."""
        values = _with_relative_throughput(frame)[list(FEATURES)].to_numpy(float)
        return np.asarray(self.estimator.predict(values), float)

    def asked(self, maximum: int) -> NDArray[np.int_]:
        """Return each scale-out up to 100, and beyond those that are 5 % apart: a forest takes 10 ms for each."""
        count = max(0, math.ceil(math.log(maximum / EACH_ASKED) / math.log(APART)))
        above = np.geomspace(min(maximum, EACH_ASKED), maximum, count + 1).round().astype(int)
        return np.union1d(np.arange(1, min(maximum, EACH_ASKED) + 1), above)

    def capacity(self, scale_out: int) -> float:
        """Return the sum over workers at their expected CPU, skewed as at the nearest scale-out that was seen."""
        nearest = min(self._profiles, key=lambda n: (abs(np.log(n / scale_out)), n))
        profile, workers = self._profiles[nearest], min(scale_out, EACH_ASKED)
        # The same spread of shares, from however many workers it was seen on.
        at = (np.arange(workers) + 0.5) / workers * len(profile) - 0.5
        known = np.arange(len(profile))
        share = np.interp(at, known, profile["cpu_share"])
        relative = np.interp(at, known, profile["relative_throughput"])
        asked = np.column_stack([share / share.max(), share / share.max(), relative, np.full(workers, scale_out)])
        return float(np.sum(self.estimator.predict(asked))) * scale_out / workers


class RandomForest(Trees):
    """scikit-learn's random forest."""

    family = "random-forest"

    @classmethod
    def estimator_of(cls, seed: int) -> Any:
        """Return the unfitted estimator."""
        from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415  the loop imports this package, not sklearn

        return RandomForestRegressor(n_estimators=100, min_samples_leaf=2, random_state=seed, n_jobs=1)


class GradientBoosting(Trees):
    """scikit-learn's gradient boosting."""

    family = "gradient-boosting"

    @classmethod
    def estimator_of(cls, seed: int) -> Any:
        """Return the unfitted estimator."""
        from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415

        return GradientBoostingRegressor(
            n_estimators=200, learning_rate=0.08, max_depth=3, subsample=0.8, random_state=seed
        )


class XGBoost(Trees):
    """XGBoost, made to rise with CPU load."""

    family = "xgboost"
    notes = f"{NO_EXTRAPOLATION}; made to rise with CPU load"

    @classmethod
    def estimator_of(cls, seed: int) -> Any:
        """Return the unfitted estimator."""
        from xgboost import XGBRegressor  # noqa: PLC0415

        return XGBRegressor(
            n_estimators=200,
            learning_rate=0.08,
            max_depth=3,
            subsample=0.8,
            monotone_constraints=(1, 0, 0, 0),
            random_state=seed,
            n_jobs=1,
        )


FAMILIES: tuple[type[Regressor], ...] = (Linear, RandomForest, GradientBoosting, XGBoost, Ratio)


def _with_relative_throughput(frame: pd.DataFrame) -> pd.DataFrame:
    """Add ``relative_throughput``: a worker's throughput share in units of the mean worker's, so that 1 is no skew."""
    relative = frame["throughput_share"].to_numpy(float) * frame["scale_out"].to_numpy(float)
    share = frame["cpu_share"].fillna(1.0)
    return frame.assign(relative_throughput=np.where(np.isfinite(relative), relative, 1.0), cpu_share=share)


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    every = -(-len(rows) // MOST_ROWS)
    return rows[rows["ts"].isin(np.sort(rows["ts"].unique())[::every])]


def _profile(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each worker's mean shares over its loaded minutes, the hottest worker first."""
    loaded = rows[rows["cpu_load"] > IdleShare().cpu + IdleShare().sd]
    means = (
        (loaded if len(loaded) else rows).groupby("worker", observed=True)[["cpu_share", "relative_throughput"]].mean()
    )
    return means.sort_values("cpu_share", ascending=False)
