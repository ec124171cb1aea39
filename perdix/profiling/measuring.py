"""What the metrics of a deployment show of the time in which it was driven."""

import numpy as np

from perdix.control.observe import total_throughput
from perdix.profiling.deployment import Measured
from perdix.telemetry import metrics
from perdix.telemetry.window import Values, Window


def measured(window: Window) -> Measured:
    """Return the means over a window."""
    return Measured(
        mean(total_throughput(window)),
        mean(window.job_metric(metrics.LATENCY.name)),
        _growth(window.times_s, window.job_metric(metrics.LAG.name)),
    )


def mean(values: Values) -> float:
    """Return the mean of what is known; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")


def _growth(times_s: Values, lag: Values) -> float:
    known = np.isfinite(lag)
    if np.count_nonzero(known) < 2:
        return float("nan")
    return float(np.polyfit(times_s[known] - times_s[0], lag[known], 1)[0])
