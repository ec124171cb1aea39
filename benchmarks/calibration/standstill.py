"""How long Phoebe's jobs stood still at each injected failure, inferred from the latency that was recorded after it.

The recorded latency hides the standstill (it is a moving mean over a minute), so the one that explains best what was
recorded is looked for, with the twin's own queue. Measured and simulated runs are read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks import measured
from benchmarks.calibration.daedalus import Row
from benchmarks.calibration.phoebe import TWINS, of_the_day, recorded_ms, static_ms
from perdix.telemetry.window import Values
from perdix.twin import physics
from perdix.twin.job import JobTwin

WINDOW_S = 500
BEFORE_S = 200
CANDIDATES_S = np.arange(30, 121, 2)
CALM = 0.6  # utilisation up to which the job catches up well within the window
CALM_MS = 2_000.0


def standstill(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield median and relative spread of the standstill (detection, restart and replay) over calm failures."""
    for job, name in TWINS.items():
        runs = {n: measured.phoebe(job, f"baseline_{n}") for n in (24, 12)}
        seen = [s for n, run in runs.items() for s in _standstills(job, n, run.arrived, run.latency_ms)]
        played = [
            [
                s
                for n, run in runs.items()
                for s in _standstills(job, n, run.arrived, static_ms(job, run.arrived, n, seed))
            ]
            for seed in seeds
        ]
        yield (
            f"{name}: s, median",
            float(np.median(seen)),
            [float(np.median(standstills)) for standstills in played],
            True,
        )
        yield f"{name}: sd of its log", _log_sd(seen), [_log_sd(standstills) for standstills in played], False


def _standstills(job: str, scale_out: int, arrived: Values, latency_ms: Values) -> list[float]:
    """Return the standstill of each failure that fell on a calm job."""
    parameters = of_the_day(job)
    capacity_per_s = JobTwin(parameters, 0).true_capacity(scale_out)
    found = []
    for failure_s in measured.FAILURES_S:
        after = arrived[failure_s - BEFORE_S : failure_s + WINDOW_S]
        calm = latency_ms[failure_s - 30 : failure_s].mean() < CALM_MS
        if not calm or after.mean() > CALM * capacity_per_s:
            continue
        recorded = latency_ms[failure_s : failure_s + WINDOW_S]
        base_ms = float(latency_ms[failure_s - 30 : failure_s].mean())
        warm_up = (parameters.restart.warm_up_s, parameters.restart.warm_up_speed)
        off = [
            float(
                np.mean(
                    (
                        np.log(1_000.0 + _expected_ms(after, capacity_per_s, int(s), base_ms, warm_up))
                        - np.log(1_000.0 + recorded)
                    )
                    ** 2
                )
            )
            for s in CANDIDATES_S
        ]
        found.append(float(CANDIDATES_S[int(np.argmin(off))]))
    return found


def _expected_ms(
    arrived: Values, capacity_per_s: float, standstill_s: int, base_ms: float, warm_up: tuple[int, float]
) -> Values:
    """Return what would be recorded after a standstill that begins ``BEFORE_S`` seconds into ``arrived``."""
    seconds = len(arrived)
    ends_s = np.arange(1.0, seconds + 1.0)
    begin, end = BEFORE_S, BEFORE_S + standstill_s
    capacity = np.full(seconds, capacity_per_s)
    capacity[end:] *= physics.warm_up(ends_s[end:] - end, *warm_up)
    capacity[begin:end] = 0.0
    lag = physics.backlog(0.0, arrived, capacity)
    processed = np.concatenate(([0.0], lag[:-1])) + arrived - lag
    totals = np.cumsum(arrived)
    out = processed > 0
    waited = np.zeros(seconds)
    before = np.cumsum(processed) - processed
    known = np.concatenate(([0.0], totals))
    waited[out] = physics.waited_s(np.arange(seconds + 1.0), known, ends_s[out], before[out], processed[out])
    latency_ms = np.where(out, base_ms + 1_000.0 * waited, np.nan)
    return recorded_ms(latency_ms)[begin:]


def _log_sd(values: Sequence[float]) -> float:
    return float(np.std(np.log(values), ddof=1))
