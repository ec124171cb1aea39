"""The latency model as published (Phoebe, 3.4): boosted trees for latency, two clusters for what is normal of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdix.models.latency.contract import LatencyPredictions
from perdix.models.latency.overload import is_measured, measured
from perdix.models.profiling.profile import ProfilePoint
from perdix.models.profiling.tmax import HighestRates
from perdix.telemetry.window import Values

STATE_FORMAT = "perdix-latency-boosting-1"
DEPTH, TREES_PER_POINT = 10, 3
THRESHOLD = 0.5  # of a cluster's radius, in scaled log latency
MOST_POINTS = 1_000  # the published program appends without end; a refit of this many already takes a minute


@dataclass(frozen=True)
class PublishedLatency:
    """Gradient boosting over (scale-out, throughput), and Birch with two clusters over the latencies.

    It memorises: trained on 79 points it is exact on all of them, and calls two thirds of left-out overloads normal.
    Two clusters are found even where all latencies are normal. It is kept to be compared with.
    """

    family = "boosting-clusters"

    # Scale-out, throughput in records/s and latency in ms; shape ``(n, 3)``. The state: fitted again when loaded
    points: Values
    seed: int = 0  # of the trees

    @classmethod
    def fit(cls, points: Sequence[ProfilePoint], maximum_per_s: Mapping[int, float], seed: int = 0) -> Self:  # noqa: ARG003  of every family
        """Fit to a profile; T_max takes no part. Raises ``ValueError`` below two points with a latency."""
        known = [
            (point.scale_out, point.throughput_per_s, point.latency_ms)
            for point in measured(points)
            if math.isfinite(point.throughput_per_s)
        ]
        return cls(_checked(np.array(known, float).reshape(-1, 3)), seed)

    def predict(self, scale_outs: ArrayLike, rates_per_s: ArrayLike) -> LatencyPredictions:
        """Predict for pairs of workers and records/s; the first call after fitting, loading or learning refits."""
        sizes, offered = np.broadcast_arrays(np.asarray(scale_outs, float), np.asarray(rates_per_s, float))
        asked = np.column_stack([sizes.ravel(), offered.ravel()])
        known = np.isfinite(asked).all(axis=1)
        latency_ms, normal = np.full(len(asked), np.nan), np.zeros(len(asked), bool)
        if known.any():
            latency_ms[known] = self._regression.predict(asked[known])
            normal[known] = self._clusters.normal(latency_ms[known])
        return LatencyPredictions(latency_ms, normal)

    def learned(self, scale_out: int, rate_per_s: float, latency_ms: float) -> Self:
        """Return the model with one more point, to be refitted as a whole (some 0.1 to 1 s) when it is next asked."""
        if scale_out < 1 or not is_measured(rate_per_s, latency_ms):
            return self
        return replace(self, points=np.vstack([self.points, [scale_out, rate_per_s, latency_ms]])[-MOST_POINTS:])

    def with_rates(self, rates: HighestRates) -> Self:  # noqa: ARG002  as published, it reckons with none
        """Return the model as it is: trees on scale-out and rate know no T_max."""
        return self

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state: the points."""
        return {"format": STATE_FORMAT, "family": self.family, "seed": self.seed, "points": self.points.tolist()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when the state is not one of this model."""
        if state.get("format") != STATE_FORMAT:
            raise ValueError(f"not a latency state of format {STATE_FORMAT}: format is {state.get('format')!r}")
        try:
            points, seed = np.array(state["points"], float), int(state.get("seed", 0))
        except (KeyError, TypeError) as error:
            raise ValueError(f"a latency state of {STATE_FORMAT} holds no points ({error!r})") from None
        if points.ndim != 2 or points.shape[1] != 3:
            raise ValueError(f"a latency state holds points of scale-out, throughput and latency, not {points.shape}")
        return cls(_checked(points), seed)

    @cached_property
    def _regression(self) -> Any:
        from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415  seconds to import
        from sklearn.pipeline import make_pipeline  # noqa: PLC0415
        from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

        trees = GradientBoostingRegressor(
            max_depth=DEPTH, n_estimators=TREES_PER_POINT * len(self.points), random_state=self.seed
        )
        return make_pipeline(StandardScaler(), trees).fit(self.points[:, :2], self.points[:, 2])

    @cached_property
    def _clusters(self) -> Clusters:
        return Clusters.of(self.points[:, 2])


@dataclass(frozen=True)
class Clusters:
    """Two clusters of latencies: scaled by median and 1st percentile, logarithmised, Birch."""

    # median_ms, scale_ms: what is subtracted, and the distance from the minimum to the 1st percentile that is divided
    # by
    median_ms: float
    scale_ms: float
    birch: Any  # the fitted clusters, ``None`` where Birch finds no second one
    label: int  # of the cluster with the lower latencies

    @classmethod
    def of(cls, latencies_ms: Values) -> Self:
        """Cluster latencies, shape ``(n,)``, ms."""
        from sklearn.cluster import Birch  # noqa: PLC0415
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

        median_ms = float(np.median(latencies_ms))
        scale_ms = float(np.percentile(latencies_ms, 1.0) - latencies_ms.min())
        clusters = cls(median_ms, scale_ms if scale_ms > 0.0 else 1.0, None, 0)
        scaled = clusters._scaled(latencies_ms)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # one subcluster: everything is alike
            birch = Birch(n_clusters=2, threshold=THRESHOLD).fit(scaled)
        labels = birch.predict(scaled)
        return replace(clusters, birch=birch, label=int(labels[np.argmin(latencies_ms)]))

    def normal(self, latencies_ms: Values) -> NDArray[np.bool_]:
        """Return which latencies belong to the lower cluster."""
        return np.asarray(self.birch.predict(self._scaled(latencies_ms)) == self.label, bool)

    def _scaled(self, latencies_ms: Values) -> Values:
        return np.log(np.maximum((latencies_ms - self.median_ms) / self.scale_ms, 1.0)).reshape(-1, 1)


def _checked(points: Values) -> Values:
    if len(points) < 2 or not np.isfinite(points).all():
        raise ValueError(f"boosting needs two points or more with finite numbers, found {len(points)}: profile the job")
    return points
