"""The window of samples: when it is full, and rates and averages over it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perdix.policies.flink_autoscaler.graph import Measured, Samples
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions


@dataclass(frozen=True)
class Gathered:
    """The samples that count now; ``full_s`` (epoch seconds) is when a decision may rest on them."""

    samples: Samples
    full_s: float
    full: bool


def gather(samples: Samples, started_s: float, now_s: float, options: FlinkAutoscalerOptions) -> Gathered:
    """Return the samples since the job's start, and of these the newest window once that is full.

    It is full one window after the first sample that follows the stabilisation interval. Samples are taken while the
    job stabilises, so a window that is full may reach back into that time at most by one sample.

    ``samples``: in order of time.
    ``started_s``: when the job last started to run, epoch seconds: a restart makes all earlier samples worthless.
    """
    own = [sample for sample in samples if sample.at_s > started_s]
    stable_s = started_s + options.stabilisation_s
    first_s = next((sample.at_s for sample in own if sample.at_s >= stable_s), max(stable_s, now_s))
    full_s = first_s + options.window_s
    if now_s < full_s:
        return Gathered(own, full_s, full=False)
    # Ticks jitter: the newest sample that is a window old stays, else every other window would fall short of full.
    begin = max((k for k, sample in enumerate(own) if sample.at_s <= now_s - options.window_s), default=0)
    return Gathered(own[begin:], full_s, full=True)


def rate(points: Iterable[tuple[float, float]]) -> float:
    """Return the change per second between the first and the last known of ``(seconds, value)``; NaN below two."""
    known = [(at_s, value) for at_s, value in points if not math.isnan(value)]
    if len(known) < 2 or known[-1][0] <= known[0][0]:
        return math.nan
    (first_s, first), (last_s, last) = known[0], known[-1]
    return (last - first) / (last_s - first_s)


def average(values: Iterable[float], least: int = 1) -> float:
    """Return the mean of the finite values; infinite where there are only infinite ones, NaN below ``least``."""
    known = [value for value in values if not math.isnan(value)]
    finite = [value for value in known if math.isfinite(value)]
    if known and not finite:
        return math.inf
    return math.fsum(finite) / len(finite) if finite and len(finite) >= least else math.nan


def observed_per_s(
    measured: Measured, backpressure: float, earlier: Sequence[float], options: FlinkAutoscalerOptions
) -> float:
    """Return what a source can process, as seen while it catches up: then it works as fast as it can.

    ``backpressure``: share of time in which it waited for the vertices behind it.
    ``earlier``: earlier observations of the window: their mean counts while it does not catch up.
    """
    in_per_s = measured.in_per_s
    if measured.lag >= options.observed_lag_s * in_per_s and backpressure < 1.0:
        return in_per_s / (1.0 - backpressure) if in_per_s > 0 else math.inf
    return average(earlier, options.observed_least)
