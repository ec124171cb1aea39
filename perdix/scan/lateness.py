"""How late a job was, as measured, and whether that was for want of workers. How late it would be: the replays say."""

from __future__ import annotations

from typing import Final

import numpy as np

from perdix.scan.learning import LEAST_COVERAGE, Learned
from perdix.settings.stream_job import Objectives
from perdix.telemetry.window import Values

KEPT_UP: Final = 0.95  # of what arrived that was consumed: below that, records wait that no latency shows


def late_share_now(learned: Learned, objective_ms: float) -> float | None:
    """Return the share of the measured steps that were late: by latency, else by how long the lag would take."""
    measured = _measured_ms(learned)
    known = measured[~np.isnan(measured)]
    return float((known > objective_ms).mean()) if len(known) else None


def known_in_time(learned: Learned, objectives: Objectives) -> bool:
    """Return whether a job is known to hold its objective as it runs today.

    For that it was measured for most of the time, is late in no more of it than allowed, by its latency and by its
    lag, and consumed what arrived: a latency may leave out how long records wait in their topic.
    """
    measured, waits_ms, load = _measured_ms(learned), _waits_ms(learned), learned.load.per_s
    known = ~np.isnan(measured)
    if not known.any() or np.count_nonzero(known) < LEAST_COVERAGE * np.count_nonzero(np.isfinite(load)):
        return False
    late = (measured > objectives.latency_p95_ms) | (waits_ms > objectives.latency_p95_ms)
    both = np.isfinite(load) & np.isfinite(learned.throughput_per_s)
    kept_up = float(learned.throughput_per_s[both].sum()) >= KEPT_UP * float(load[both].sum())
    return bool(late[known].mean() <= objectives.error_budget and kept_up)


def late_share_with(learned: Learned, workers: int, objective_ms: float) -> float:
    """Return the share of the measured steps that were late although at least ``workers`` ran.

    They ran since the delay began: who catches up with many workers was late for having had too few. 0 where nothing
    was measured.
    """
    measured = _measured_ms(learned)
    known = ~np.isnan(measured)
    if not known.any():
        return 0.0
    late = measured[known] > objective_ms
    delay = np.cumsum(np.diff(late, prepend=False))  # which one: it counts where lateness begins and ends
    too_few = np.unique(delay[late & (learned.workers[known] < workers)])
    return float((late & ~np.isin(delay, too_few)).mean())


def _measured_ms(learned: Learned) -> Values:
    """Return the latency of each step, or how long its lag would take, ms; NaN where neither is known."""
    return np.where(np.isfinite(learned.latency_ms), learned.latency_ms, _waits_ms(learned))


def _waits_ms(learned: Learned) -> Values:
    lag = learned.lag_records
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(lag == 0.0, 0.0, 1_000.0 * lag / learned.throughput_per_s)
