"""What a running job shows of itself: the speed of its workers, their records and CPU, its latency."""

import numpy as np

from perdix.telemetry.window import Values
from perdix.twin import physics
from perdix.twin.parameters import TwinParameters

SLOWEST = 0.1  # noise never takes more than nine tenths of a value
FLICKER_S = 10  # noise persists this long: minute means keep a part of it, and no more of it the next minute
_CAPACITY, _SHARES, _CPU, _LATENCY = 3, 4, 5, 6


class Flicker:
    """Noise of variance 1 that persists for some seconds: the moving mean of white noise, scaled.

    Measured minute means of 12 workers, taken every 15 s, are correlated by .69, .44, .21, -.04 at lags 1 to 4: what is
    left of noise that persists for much less than a minute (white noise: .75, .5, .25, 0).
    """

    def __init__(self, rng: np.random.Generator, width: int, step_s: int = 1) -> None:
        self._rng = rng
        self._persists = max(1, round(FLICKER_S / step_s))  # rows; what minutes show of it hardly depends on the step
        self._before = rng.standard_normal((self._persists - 1, width))

    def draw(self, seconds: int) -> Values:
        """Return the next ``seconds`` rows, shape ``(seconds, width)``, however they are cut into pieces."""
        white = np.concatenate((self._before, self._rng.standard_normal((seconds, self._before.shape[1]))))
        self._before = white[seconds:]
        total = white[:seconds].copy()
        for later in range(1, self._persists):
            total += white[later : later + seconds]
        return np.asarray(total / np.sqrt(self._persists))


class Observables:
    """Noise included. Each kind has its own stream and is drawn once per row and worker, whatever the job does."""

    def __init__(self, parameters: TwinParameters, seed: int, step_s: int = 1) -> None:
        self._parameters = parameters
        workers = parameters.workers.maximum
        self._noise = {
            stream: Flicker(np.random.default_rng([seed, stream]), width, step_s)
            for stream, width in ((_CAPACITY, 1), (_SHARES, workers), (_CPU, workers), (_LATENCY, 1))
        }

    def speed(self, uptime_s: Values, *, failed: bool = False) -> Values:
        """Return the relative speed of all workers in each second: warming up, and noise; shape of ``uptime_s``.

        ``failed``: whether the start followed a failure.
        """
        restart, workers = self._parameters.restart, self._parameters.workers
        noise = workers.capacity_noise * self._noise[_CAPACITY].draw(len(uptime_s))[:, 0]
        return restart.warm_up(uptime_s, failed=failed) * np.maximum(1.0 + noise, SLOWEST)

    def workers(self, processed: Values, speed: Values, shares: Values, capacities: Values) -> tuple[Values, Values]:
        """Return records and CPU of each worker, both ``(seconds, maximum)``; NaN beyond those deployed.

        ``processed``, ``speed``: records in each second, and the workers' relative speed in it, shape ``(seconds,)``.
        ``shares``, ``capacities``: share of the keys, and records/s at CPU 1, of each deployed worker, shape
        ``(scale_out,)``.
        """
        cpu, keys = self._parameters.cpu, self._parameters.keys
        shape, deployed = (len(processed), self._parameters.workers.maximum), len(shares)
        wobble = 1.0 + keys.wobble * self._noise[_SHARES].draw(shape[0])[:, :deployed]
        weights = shares * np.maximum(wobble, SLOWEST)
        records = processed[:, None] * (weights / weights.sum(axis=1, keepdims=True))
        busy = physics.bent(records / (capacities * speed[:, None]), cpu.shuffling * (1.0 - 1.0 / deployed))
        noise = cpu.noise * self._noise[_CPU].draw(shape[0])[:, :deployed]
        all_records, all_cpu = np.full(shape, np.nan), np.full(shape, np.nan)
        all_records[:, :deployed] = records
        all_cpu[:, :deployed] = (cpu.idle + (1.0 - cpu.idle) * busy + noise).clip(0.0, 1.0)
        return all_records, all_cpu

    def latency_p95_ms(self, processed: Values, capacity: Values, waited_s: Values, scale_out: int) -> Values:
        """Return base, queueing, filling and waiting in ms, shape ``(seconds,)``; NaN where nothing came out."""
        latency = self._parameters.latency
        noise = np.maximum(1.0 + latency.noise * self._noise[_LATENCY].draw(len(processed))[:, 0], SLOWEST)
        factor = physics.queueing_factor(processed / np.maximum(capacity, 1.0), latency.queueing)
        filling_ms = physics.fill_ms(processed / scale_out, latency.fill_records, latency.fill_at_most_ms)
        p95_ms = (latency.base_ms * factor + filling_ms) * noise + 1_000.0 * waited_s
        return np.where(processed > 0, p95_ms, np.nan)
