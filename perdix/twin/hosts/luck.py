"""Luck of a cloud: two policies meet the same neighbours, stalls and start-up times for the same seed."""

import numpy as np

from perdix.telemetry.window import Values
from perdix.twin.first_order import first_order
from perdix.twin.hosts.parameters import Between, Topology

SLOWEST = 0.2  # noise never takes more than four fifths of a value
BLOCK_S = 3_600  # noise is drawn this many seconds at a time
_ARRIVALS, _STALLS, _HOST, _SPEED, _CONTAINER, _MEASURED, _MOMENT = 31, 32, 33, 34, 35, 36, 37


class Luck:
    """What is drawn for a seed. Each stream is keyed by what it is drawn for, so nothing depends on the order of calls.

    Hosts and containers are counted in the order in which they are asked for.
    """

    def __init__(self, topology: Topology, seed: int) -> None:
        self._topology = topology
        self._seed = seed
        self._speeds: dict[int, list[Values]] = {}
        self._ends: dict[int, float] = {}

    def arrivals(self, seconds: int) -> Values:
        """Return the relative rate of each sensor in the first seconds, ``(seconds, sensors)``."""
        rng = np.random.default_rng([self._seed, _ARRIVALS])
        noise = rng.standard_normal((seconds, len(self._topology.sensors)))
        return np.maximum(1.0 + self._topology.neighbours.arrivals * noise, 0.0)

    def stalled(self, seconds: int) -> Values:
        """Return the share of each of the first seconds in which messaging stands still, ``(seconds,)``."""
        found = np.zeros(seconds)
        around = self._topology.neighbours
        if around.stalls_every_s <= 0:
            return found
        rng = np.random.default_rng([self._seed, _STALLS])
        at_s = 0.0
        while True:
            at_s += rng.exponential(around.stalls_every_s)
            if at_s >= seconds:
                return found
            end_s = at_s + rng.uniform(around.stall_s.low, around.stall_s.high)
            for second in range(int(at_s), min(int(np.ceil(end_s)), seconds)):
                part = min(end_s, second + 1) - max(at_s, second)
                found[second] = min(found[second] + part, 1.0)
            at_s = end_s

    def speed(self, host: int, second: int) -> float:
        """Return the relative speed of the ``host``-th host in a second."""
        around = self._topology.neighbours
        if around.speed == 0.0:
            return 1.0
        blocks = self._speeds.setdefault(host, [])
        while len(blocks) * BLOCK_S <= second:
            blocks.append(self._next_speeds(host, len(blocks)))
        return float(blocks[second // BLOCK_S][second % BLOCK_S])

    def _next_speeds(self, host: int, block: int) -> Values:
        """Return the next block of a first-order process that forgets itself after ``persists_s``."""
        around = self._topology.neighbours
        rng = np.random.default_rng([self._seed, _SPEED, host, block])
        keep = float(np.exp(-1.0 / around.persists_s))
        white = rng.standard_normal(BLOCK_S)
        begin = self._ends.get(host, rng.standard_normal())
        noise = first_order(white, keep, begin)
        self._ends[host] = float(noise[-1])
        return np.asarray(np.maximum(1.0 + around.speed * noise, SLOWEST))

    def host_start_s(self, host: int) -> float:
        """Return how long the ``host``-th host takes to start."""
        return self._between(self._topology.hosts.start_up_s, _HOST, host)

    def container_start_s(self, container: int) -> float:
        """Return how long the ``container``-th container takes to start once its image is there."""
        return self._between(self._topology.containers.start_s, _CONTAINER, container)

    def fails(self, container: int) -> bool:
        """Return whether the ``container``-th container fails to start."""
        rng = np.random.default_rng([self._seed, _CONTAINER, container, 1])
        return bool(rng.random() < self._topology.containers.failing)

    def measured(self, second: int) -> Values:
        """Return a standard normal number per operator for what is measured in a second, ``(operators,)``."""
        rng = np.random.default_rng([self._seed, _MEASURED, second])
        return rng.standard_normal(len(self._topology.operators))

    def moments(self, second: int) -> Values:
        """Return the moment between two bursts in which each queue is looked at, from 0 to 1, ``(operators,)``."""
        return np.random.default_rng([self._seed, _MOMENT, second]).random(len(self._topology.operators))

    def _between(self, time: Between, stream: int, number: int) -> float:
        return float(np.random.default_rng([self._seed, stream, number, 0]).uniform(time.low, time.high))
