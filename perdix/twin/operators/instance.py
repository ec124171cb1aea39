"""One operator instance, second by second: it starts, warms up, flickers, is full, or dies."""

import math

import numpy as np

from perdix.telemetry.window import Values
from perdix.twin.first_order import first_order
from perdix.twin.observables import SLOWEST, Flicker
from perdix.twin.operators import physics
from perdix.twin.operators.parameters import LiveWorkload, OperatorTwinParameters
from perdix.twin.physics import warm_up

_OWN_SPEED, _FLICKER, _DRIFT, _WORKLOAD = 21, 22, 23, 24  # random streams


class OperatorInstance:
    """One instance; time passes only in :meth:`step`.

    ``cpu_cores``, ``memory_mb``: what it is given. An impossible size is not refused here: it starves or dies, as on a
    cluster.
    ``luck``: seeds of its noise: the same numbers, the same course, however time is cut into steps.
    """

    def __init__(
        self, operator: OperatorTwinParameters, cpu_cores: float, memory_mb: float, luck: tuple[int, ...]
    ) -> None:
        self._operator = operator
        self.cpu_cores, self.memory_mb = cpu_cores, memory_mb
        noise = operator.noise
        own = np.random.default_rng([*luck, _OWN_SPEED]).standard_normal()
        self._full_per_s = self.true_performance * math.exp(noise.instance_spread * own)
        self._flicker = Flicker(np.random.default_rng([*luck, _FLICKER]), 1)
        self._drift = Drift(np.random.default_rng([*luck, _DRIFT]), noise.drift_s)
        self._age_s = 0
        self._loaded_s = 0
        self._waiting = 0.0
        self.died_because: str | None = None

    @property
    def true_performance(self) -> float:
        """Records/s of a warm instance of mean speed; for benchmarks, since nobody can measure it."""
        return float(physics.true_performance(self._operator, self.cpu_cores, self.memory_mb))

    def step(self, offered_per_s: Values) -> Values:
        """Let time pass while this many records are offered in each second; return those processed, ``(seconds,)``."""
        able = self._able_per_s(len(offered_per_s))
        buffer = self._operator.buffer_s * self._full_per_s
        done = np.zeros(len(able))
        for second, (offered, most) in enumerate(zip(offered_per_s.tolist(), able.tolist(), strict=True)):
            if self.died_because is not None:
                break
            self._live_a_second(offered)
            self._waiting = min(self._waiting + offered, most + buffer)
            done[second] = min(self._waiting, most)
            self._waiting -= done[second]
        return done

    def _able_per_s(self, seconds: int) -> Values:
        """Return what it could process in each of the next seconds."""
        operator = self._operator
        age_s = self._age_s + np.arange(seconds) - operator.start.start_s
        self._age_s += seconds
        noise = operator.noise.flicker * self._flicker.draw(seconds)[:, 0]
        noise += operator.noise.drift * self._drift.draw(seconds)
        warmth = warm_up(age_s.astype(float), operator.start.warm_up_s, operator.start.warm_up_speed)
        return np.asarray(np.where(age_s < 0, 0.0, self._full_per_s * warmth * np.maximum(1.0 + noise, SLOWEST)))

    def _live_a_second(self, offered: float) -> None:
        self._loaded_s += offered > 0.0
        live_mb = self._operator.memory.live_mb
        if self.memory_mb <= live_mb and self._loaded_s > self._operator.start.out_of_memory_s:
            self.died_because = f"out of memory: killed at {self.memory_mb:g} MB"


class Drift:
    """Noise of variance 1 that is left to 1/e after ``persists_s`` seconds: what neighbours on a host take."""

    def __init__(self, rng: np.random.Generator, persists_s: float) -> None:
        self._rng = rng
        self._kept = math.exp(-1.0 / persists_s)
        self._last = float(rng.standard_normal())

    def draw(self, seconds: int) -> Values:
        """Return the next ``seconds`` seconds, however they are cut into pieces."""
        drawn = first_order(self._rng.standard_normal(seconds), self._kept, self._last)
        self._last = float(drawn[-1]) if seconds else self._last
        return drawn


class Live:
    """The live workload of an operator, second by second."""

    def __init__(self, workload: LiveWorkload, luck: tuple[int, ...]) -> None:
        self._workload = workload
        self._flicker = Flicker(np.random.default_rng([*luck, _WORKLOAD]), 1)

    def draw(self, from_s: float, seconds: int) -> Values:
        """Return the records/s of the next ``seconds`` seconds, which begin at ``from_s`` (phase of the sine)."""
        workload = self._workload
        sine = np.sin(2.0 * np.pi * (from_s + np.arange(seconds)) / workload.period_s)
        noise = workload.noise * self._flicker.draw(seconds)[:, 0]
        return np.asarray(workload.per_s * (1.0 + workload.swing * sine) * np.maximum(1.0 + noise, SLOWEST))
