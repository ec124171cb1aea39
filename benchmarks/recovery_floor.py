"""How far off recovery predictions must be: those of a predictor that knows all but what is drawn at random.

Known are the workload to come, what waits and is done again, the workers' speeds, and how standstills and keys are
distributed; unknown is how long this standstill takes, and how the keys of the next deployment fall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from perdix.replay.outcome import Course, Played, Recovery
from perdix.telemetry.window import Values
from perdix.twin.job import JobTwin
from perdix.twin.outages import draw_standstill_s
from perdix.twin.parameters import TwinParameters

DRAWS = 400
LONGEST_S = 3_600


def with_floors(parameters: TwinParameters, played: Iterable[Played]) -> Iterator[tuple[Recovery, float | None]]:
    """Yield each recovery with the relative error of the best prediction; ``None`` where it is not judged."""
    for replay in played:
        twin = JobTwin(parameters, replay.outcome.seed)
        for recovery in replay.outcome.recoveries:
            if recovery.error is None or not recovery.true_s:
                yield recovery, None
                continue
            stays = [other.at_s for other in replay.outcome.recoveries if other.cause != "failure"]
            best_s = best_prediction_s(possible_recoveries_s(twin, replay.course, recovery, stays))
            yield recovery, abs(best_s / recovery.true_s - 1.0)


def possible_recoveries_s(twin: JobTwin, course: Course, recovery: Recovery, rescales_s: Sequence[float]) -> Values:
    """Return random possible recovery times, seconds, shape ``(DRAWS,)``; ``rescales_s`` part the deployments."""
    rng = np.random.default_rng([twin.seed, int(recovery.at_s)])
    begun = int(recovery.at_s - course.times_s[0])
    restart = twin.parameters.restart
    standstills_s = np.array([draw_standstill_s(recovery.cause, restart, rng) for _ in range(DRAWS)], dtype=np.float64)
    if recovery.cause == "failure":
        # The same workers come back with the same keys: what they take is what they took, and will take.
        since_s = max((at_s for at_s in rescales_s if at_s <= recovery.at_s), default=-np.inf)
        until_s = min((at_s for at_s in rescales_s if at_s > recovery.at_s), default=np.inf)
        stay = course.capacity_per_s[(course.times_s >= since_s) & (course.times_s < until_s)]
        capacities = np.full(DRAWS, np.median(stay[stay > 0]))
    else:
        capacities = twin.possible_capacities(recovery.scale_out, DRAWS, rng)
    return _recovered_s(
        course.lag_records[begun] - course.workload_per_s[begun],
        course.workload_per_s[begun : begun + LONGEST_S],
        capacities,
        standstills_s,
        restart.warm_up(np.arange(1.0, LONGEST_S + 1.0), failed=recovery.cause == "failure"),
    )


def best_prediction_s(possible_s: Values) -> float:
    """Return what keeps the expected ``|predicted - true| / true`` least: the median, weighted by ``1 / true``."""
    ordered = np.sort(possible_s)
    weights = np.cumsum(1.0 / ordered)
    return float(ordered[np.searchsorted(weights, weights[-1] / 2.0)])


def mean_pct(shares: Sequence[float]) -> float | None:
    """Return the mean of some shares in percent; ``None`` of none."""
    return 100.0 * float(np.mean(shares)) if shares else None


def _recovered_s(waiting: float, arriving: Values, capacities: Values, standstills_s: Values, speed: Values) -> Values:
    """Return when nothing waits any more, in seconds; at most as long as ``arriving`` is known."""
    asked = waiting + np.cumsum(arriving)
    done_warm = np.concatenate(([0.0], np.cumsum(speed)))
    seconds = np.arange(1.0, len(arriving) + 1.0)
    running_s = np.clip(seconds - standstills_s[:, None], 0.0, len(speed)).astype(int)
    caught_up = (running_s > 0) & (capacities[:, None] * done_warm[running_s] >= asked)
    return np.where(caught_up.any(axis=1), caught_up.argmax(axis=1) + 1.0, float(len(arriving)))
