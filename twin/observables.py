"""What a running job shows of itself: the speed of its workers, their records and CPU, its latency."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin import physics
from twin.parameters import TwinParameters

Values = NDArray[np.float64]
SLOWEST = 0.1  # noise never takes more than nine tenths of a value
_CAPACITY, _SHARES, _CPU, _LATENCY = 3, 4, 5, 6


class Observables:
    """Noise included. Each kind has its own stream and is drawn once per second and worker, whatever the job does."""

    def __init__(self, parameters: TwinParameters, seed: int) -> None:
        self._parameters = parameters
        self._noise = {stream: np.random.default_rng([seed, stream]) for stream in (_CAPACITY, _SHARES, _CPU, _LATENCY)}

    def speed(self, uptime_s: Values) -> Values:
        """Return the relative speed of all workers in each second: warming up, and noise; shape of ``uptime_s``."""
        restart, workers = self._parameters.restart, self._parameters.workers
        noise = workers.capacity_noise * self._noise[_CAPACITY].standard_normal(len(uptime_s))
        return physics.warm_up(uptime_s, restart.warm_up_s, restart.warm_up_speed) * np.maximum(1.0 + noise, SLOWEST)

    def workers(self, processed: Values, speed: Values, shares: Values, capacities: Values) -> tuple[Values, Values]:
        """Return records and CPU of each worker, both ``(seconds, maximum)``; NaN beyond those deployed.

        Parameters
        ----------
        processed, speed
            Records in each second, and the workers' relative speed in it, shape ``(seconds,)``.
        shares, capacities
            Share of the keys, and records/s at CPU 1, of each deployed worker, shape ``(scale_out,)``.
        """
        cpu, keys = self._parameters.cpu, self._parameters.keys
        shape, deployed = (len(processed), self._parameters.workers.maximum), len(shares)
        wobble = 1.0 + keys.wobble * self._noise[_SHARES].standard_normal(shape)[:, :deployed]
        weights = shares * np.maximum(wobble, SLOWEST)
        records = processed[:, None] * (weights / weights.sum(axis=1, keepdims=True))
        busy = records / (capacities * speed[:, None])
        noise = cpu.noise * self._noise[_CPU].standard_normal(shape)[:, :deployed]
        all_records, all_cpu = np.full(shape, np.nan), np.full(shape, np.nan)
        all_records[:, :deployed] = records
        all_cpu[:, :deployed] = np.clip(cpu.idle + (1.0 - cpu.idle) * busy + noise, 0.0, 1.0)
        return all_records, all_cpu

    def latency_p95_ms(self, utilisation: Values, waited_s: Values) -> Values:
        """Return base, queueing and waiting in ms, shape ``(seconds,)``; NaN where nothing came out (utilisation 0)."""
        latency = self._parameters.latency
        noise = np.maximum(1.0 + latency.noise * self._noise[_LATENCY].standard_normal(len(utilisation)), SLOWEST)
        factor = physics.queueing_factor(utilisation, latency.queueing)
        p95_ms = latency.base_ms * factor * noise + 1_000.0 * waited_s
        return np.where(utilisation > 0, p95_ms, np.nan)
