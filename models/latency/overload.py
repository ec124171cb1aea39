"""Which points of a profile are overloaded: their latency is far above what is normal. There may be none."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perdix.models.forecasting.contract import LARGEST_PER_S
from perdix.models.latency.curve import LatencyCurve
from perdix.models.profiling.profile import KEEPS_UP, ProfilePoint
from perdix.models.profiling.tmax import HighestRates

Flags = NDArray[np.bool_]

FAR_ABOVE = 1.75  # factor on normal latency that the least noisy job must exceed; measured overloads begin at 2.1
SPREADS = 8.0  # robust standard deviations that a noisier one must
ROUNDS = 5
LEAST_MS, LARGEST_MS = 1e-6, 1e12  # squares of what lies between stay finite


def highest_rates_of(points: Sequence[ProfilePoint], maximum_per_s: dict[int, float]) -> HighestRates:
    """Return T_max over the scale-out; where none was measured, the highest throughput of each stands for it."""
    if maximum_per_s:
        return HighestRates.fit(maximum_per_s)
    highest: dict[int, float] = {}
    for point in points:
        if point.throughput_per_s > highest.get(point.scale_out, 0.0):  # False of NaN
            highest[point.scale_out] = point.throughput_per_s
    return HighestRates.fit(highest)


def measured(points: Sequence[ProfilePoint]) -> list[ProfilePoint]:
    """Return the points that have a latency and a rate. Raises ``ValueError`` when none has."""
    kept = [point for point in points if is_measured(point.rate_per_s, point.latency_ms)]
    if not kept:
        raise ValueError("no point of the profile has a rate and a latency: profile the job anew")
    return kept


def is_measured(rate_per_s: float, latency_ms: float) -> bool:
    """Return whether both can have been measured: finite, a rate that is not negative, a latency above 0."""
    return 0.0 <= rate_per_s <= LARGEST_PER_S and LEAST_MS <= latency_ms <= LARGEST_MS


def overload_factor(curve: LatencyCurve) -> float:
    """Return by which factor a latency must exceed the normal one to be an overload's."""
    return max(FAR_ABOVE, 1.0 + SPREADS * curve.spread)


def overloaded_points(points: Sequence[ProfilePoint], rates: HighestRates) -> tuple[Flags, LatencyCurve]:
    """Return which points are overloaded, and the curve of the others' latency.

    A point is overloaded when its throughput stayed below what was offered, or its latency lies far above both the
    level of the less utilised half and the curve through the normal ones. The curve is fitted and the points are judged
    in turn, so that latency which grows with utilisation as queueing does is not taken for overload.

    Unlike two clusters, this finds no overload where there is none, and one measurement more or less does not move the
    boundary by its scale. Raises ``ValueError`` when no point kept up.

    ``points``: with finite rates and latencies; see :func:`measured`.
    """
    offered, latencies, throughputs, sizes = (
        np.array([getattr(point, name) for point in points], float)
        for name in ("rate_per_s", "latency_ms", "throughput_per_s", "scale_out")
    )
    utilisations = offered / rates.per_s(sizes)
    behind = throughputs < KEEPS_UP * offered  # a throughput that was not measured (NaN) says nothing
    if behind.all():
        raise ValueError("no point of the profile kept up with what was offered: profile at lower rates")
    calm = ~behind & (utilisations <= np.median(utilisations[~behind]))
    level_ms = float(np.median(latencies[calm]))
    overloaded = behind | (latencies > FAR_ABOVE * level_ms)
    for _ in range(ROUNDS):
        normal = ~overloaded
        curve = LatencyCurve.fit(utilisations[normal], offered[normal], latencies[normal])
        usual = np.maximum(curve.latency_ms(utilisations, offered), level_ms)
        found = behind | (latencies > overload_factor(curve) * usual)
        if (found == overloaded).all():
            break
        overloaded = found
    return overloaded, curve
