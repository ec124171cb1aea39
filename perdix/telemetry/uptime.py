"""Since when a job runs, by its uptime: a lost scrape hides no restart, for the next one says as much."""

import numpy as np

from perdix.telemetry.metrics import UPTIME
from perdix.telemetry.window import Values, Window


def starts_s(window: Window) -> Values | None:
    """Return the epoch second since which the job runs, of each row by the next known uptime, shape ``(n,)``.

    Infinity after the last known uptime; ``None`` where it is not measured at all.
    """
    uptime = window.job_metric(UPTIME.name)
    known = np.flatnonzero(np.isfinite(uptime))
    if not len(known):
        return None
    started = np.concatenate((window.times_s[known] - uptime[known], [np.inf]))
    return np.asarray(started[np.searchsorted(known, np.arange(len(window)))])


def last_start_s(window: Window) -> float | None:
    """Return the epoch second since which the job runs by the last known uptime; ``None`` where it is not measured."""
    starts = starts_s(window)
    return None if starts is None else float(starts[np.isfinite(starts)][-1])
