"""The digital twin of a topology on leased hosts, second by second."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perdix.telemetry.window import Values
from perdix.twin.hosts.fleet import Fleet
from perdix.twin.hosts.ledger import Course, Ledger
from perdix.twin.hosts.luck import Luck
from perdix.twin.hosts.parameters import Topology
from perdix.twin.hosts.waiting import mean_own, waits_s

BUSY_MEASUREMENTS = 20  # this many of the last ones of what busy instances work off are kept
NEVER_BELOW = 0.1  # a measured duration keeps a tenth of itself, whatever the noise


@dataclass(frozen=True)
class Measured:
    """One measurement of an operator type."""

    queue_items: float  # what waits
    arrived_per_s: float  # mean since the measurement before
    duration_s: float | None  # mean of the items that were looked at since then; ``None`` where none was begun
    # Items/s per working instance, where items waited all the time; ``None`` elsewhere: nobody knows what they could
    busy_per_instance_s: float | None


class HostsTwin:
    """A topology on leased hosts whose truth is known.

    Deterministic for topology, pattern, seed and the calls made; how the time is cut into steps makes no difference.
    At the beginning each operator has one instance, spread over the hosts that run then.

    ``unit_s``: billing time unit of the hosts.
    """

    def __init__(self, topology: Topology, pattern: str, seed: int = 0, *, unit_s: int = 3_600) -> None:
        self.topology = topology
        self.unit_s = unit_s
        self.operators = tuple(topology.operators)
        self.luck = Luck(topology, seed)
        self.fleet = Fleet(topology, self.luck, unit_s)
        self.measured: list[Mapping[str, Measured]] = []
        # durations_s, busy_per_s: operator -> the last values that were measured of it, oldest first
        self.durations_s = {name: deque[float](maxlen=topology.measuring.last) for name in self.operators}
        self.busy_per_s = {name: deque[float](maxlen=BUSY_MEASUREMENTS) for name in self.operators}
        self.second = 0  # since it began
        self._machines = topology.pattern(pattern)
        self._work = Work(topology)
        self._ledger = Ledger(len(self.operators))
        self._passes_on, self._from_sensors = _wiring(topology)
        self._arrived = np.zeros(len(self.operators))
        self._queue = np.zeros(len(self.operators))
        self._coming = np.zeros(len(self.operators))
        self._known_s = 0
        self._placed: tuple[int, Placement] | None = None
        self._begin()

    @property
    def course(self) -> Course:
        """Every second so far."""
        return self._ledger.course()

    def step(self, seconds: int = 1) -> None:
        """Let ``seconds`` seconds pass. Raises ``ValueError`` when negative."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds} s")
        for _ in range(seconds):
            self._pass_second()
            if self.second % self.topology.measuring.every_s == 0:
                self._measure()

    def _begin(self) -> None:
        names = [f"start-{number + 1}" for number in range(self.topology.hosts.at_start)]
        for name in names:
            self.fleet.lease(name, 0, started=True)
        for number, operator in enumerate(self.operators):
            self.fleet.start(operator, names[number % len(names)], 0, ready=True)

    def _foresee(self) -> None:
        """Draw what does not depend on what is done: arrivals and stalls, of twice as many seconds as were known."""
        self._known_s = max(2 * self._known_s, self.topology.duration_s)
        sizes = np.array([sensor.per_machine_minute for sensor in self.topology.sensors.values()])
        self._machines_at = self._machines.machines(self._known_s)
        emitted = self._machines_at[:, None] * sizes / self.topology.minute_s * self.luck.arrivals(self._known_s)
        self._emitted_at = emitted @ self._from_sensors
        self._stalled_at = self.luck.stalled(self._known_s)

    def _pass_second(self) -> None:
        at = self.second
        if at >= self._known_s:
            self._foresee()
        placed = self._placement()
        speeds = np.array([self.luck.speed(number, at) for number in placed.numbers])
        arriving = self._emitted_at[at] + self._coming
        wanted = self._queue + arriving
        moving = 1.0 - self._stalled_at[at]
        guaranteed = self._work.guaranteed(placed, speeds)
        can = self._work.with_idle_cpu(placed, speeds, guaranteed, wanted) * moving
        self._arrived = self._arrived + arriving
        self._queue = np.maximum(wanted - can, 0.0)
        self._coming = (wanted - self._queue) @ self._passes_on
        working = placed.counts.sum(axis=0)
        fast = speeds @ placed.counts
        most = self._work.at_most(placed, speeds, guaranteed, wanted)
        busy = np.divide(wanted, most, out=np.ones_like(wanted), where=most > 0)
        self._ledger.append(
            self._arrived,
            self._arrived - self._queue,
            utilisation=np.minimum(busy, 1.0),
            slowness=np.divide(working, fast, out=np.ones_like(fast), where=fast > 0),
            working=working,
            instances=self._there,
            machines=float(self._machines_at[at]),
            hosts=len(self.fleet.hosts),
        )
        self.second += 1
        self.fleet.pass_to(self.second)

    def _placement(self) -> Placement:
        if self._placed is None or self._placed[0] != self.fleet.version:
            self._placed = (self.fleet.version, Placement.of(self.fleet, self.operators))
            names = [container.operator for container in self.fleet.containers.values()]
            self._there = np.array([names.count(name) for name in self.operators], dtype=np.float64)
        return self._placed[1]

    def _measure(self) -> None:
        course, end = self._ledger.course(), self.second
        seconds = slice(max(end - self.topology.measuring.every_s, 0), end)
        luck = np.stack((self.luck.measured(end), self.luck.moments(end)), axis=1).tolist()
        row = {name: self._measurement(course, k, seconds, luck[k]) for k, name in enumerate(self.operators)}
        self.measured.append(row)
        for name, rates in row.items():
            self.durations_s[name].extend(() if rates.duration_s is None else (rates.duration_s,))
            self.busy_per_s[name].extend(() if rates.busy_per_instance_s is None else (rates.busy_per_instance_s,))

    def _measurement(self, course: Course, k: int, seconds: slice, luck: Sequence[float]) -> Measured:
        span_s, (noise, moment) = seconds.stop - seconds.start, luck
        arrived, left = course.arrived[:, k], course.left[:, k]
        begun = np.diff(left[seconds.start : seconds.stop + 1])
        total = float(begun.sum())
        waiting = arrived[seconds.start + 1 : seconds.stop + 1] - left[seconds.start + 1 : seconds.stop + 1]
        working_s = float(course.working[seconds, k].sum())
        busy = total / working_s if working_s > 0 and float(waiting.min()) > 1.0 else None
        return Measured(
            queue_items=float(waiting[-1]) + self._in_burst(course, k, seconds.stop - 1, moment),
            arrived_per_s=float(arrived[seconds.stop] - arrived[seconds.start]) / span_s,
            duration_s=self._duration_s(course, k, seconds, begun, noise) if total > 0 else None,
            busy_per_instance_s=busy,
        )

    def _in_burst(self, course: Course, k: int, second: int, moment: float) -> float:
        """Return the items that wait of the last burst alone, at the moment in it in which one happens to look."""
        burst_s = self.topology.processing.arrivals_every_s
        burst = float(course.arrived[second + 1, k] - course.arrived[second, k]) * burst_s
        return burst * max(1.0 - moment / max(float(course.utilisation[second, k]), 1e-9), 0.0)

    def _duration_s(self, course: Course, k: int, seconds: slice, begun: Values, noise: float) -> float:
        """Return the mean duration of the items that were looked at, with the error of looking at a part of them."""
        processing, objective_s = self.topology.processing, self.topology.operators[self.operators[k]].duration_s
        waited_s = waits_s(
            course.arrived[:, k],
            course.left[:, k],
            seconds,
            course.utilisation[seconds, k],
            processing.arrivals_every_s,
        ).mean(axis=1)
        own_s = objective_s * mean_own(processing.usual, processing.spread) * course.slowness[seconds, k]
        mean_s = float(np.average(waited_s + own_s, weights=begun))
        looked_at = max(float(begun.sum()) * self.topology.measuring.share, 1.0)
        error_s = noise * objective_s * processing.usual * processing.spread / np.sqrt(looked_at)
        return float(max(mean_s + error_s, NEVER_BELOW * mean_s))


def _wiring(topology: Topology) -> tuple[Values, Values]:
    """Return what an item begun by an operator, and one emitted by a sensor, becomes at each operator.

    Shapes ``(operators, operators)`` and ``(sensors, operators)``.
    """
    at = {name: k for k, name in enumerate(topology.operators)}
    passes_on = np.zeros((len(at), len(at)))
    for name, operator in topology.operators.items():
        targets = topology.targets(name)
        for down in targets:
            passes_on[at[name], at[down]] = operator.emits / operator.consumes / len(targets)
    from_sensors = np.zeros((len(topology.sensors), len(at)))
    for row, sensor in enumerate(topology.sensors):
        for down in topology.targets(sensor):
            from_sensors[row, at[down]] = 1.0
    return passes_on, from_sensors


@dataclass(frozen=True)
class Placement:
    """Which instances work where."""

    numbers: tuple[int, ...]  # of the hosts on which something works
    counts: Values  # working instances, ``(hosts, operators)``
    # Per host the operators of its instances, those that were asked for first coming first
    order: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, fleet: Fleet, operators: Sequence[str]) -> Placement:
        """Return where the instances of a fleet work."""
        at = {name: k for k, name in enumerate(operators)}
        found: dict[int, list[int]] = {}
        for container in fleet.containers.values():
            if container.ready:
                found.setdefault(fleet.hosts[container.host_id].number, []).append(at[container.operator])
        counts = np.zeros((len(found), len(operators)))
        for row, mine in enumerate(found.values()):
            np.add.at(counts[row], mine, 1.0)
        return cls(tuple(found), counts, tuple(tuple(mine) for mine in found.values()))


class Work:
    """Rates of instances, and how hosts share their CPU."""

    def __init__(self, topology: Topology) -> None:
        operators = list(topology.operators.values())
        processing = topology.processing
        self.per_instance_s: Values = np.array([processing.at_a_time / operator.duration_s for operator in operators])
        self._cores = np.array([operator.cpu_cores for operator in operators])
        self._host_cores = topology.hosts.cores
        self._boost = processing.boost

    def guaranteed(self, placed: Placement, speeds: Values) -> Values:
        """Return the items/s that each operator's instances work off with what they are guaranteed."""
        return np.asarray((speeds @ placed.counts) * self.per_instance_s)

    def with_idle_cpu(self, placed: Placement, speeds: Values, guaranteed: Values, wanted: Values) -> Values:
        """Return the items/s that each operator's instances work off with the idle CPU of their hosts, too.

        CPU that an instance is guaranteed and does not need is idle; who needs more gets it, who was there first coming
        first, up to ``boost`` times its own.
        """
        asked = np.divide(wanted, guaranteed, out=np.zeros_like(wanted), where=guaranteed > 0)
        more = np.minimum(asked, self._boost) - 1.0
        extra = np.where(more > 0, more, 0.0) * self._cores  # cores that an instance would take beyond its own
        if not extra.any():
            return guaranteed
        used = placed.counts @ (np.minimum(asked, 1.0) * self._cores)
        idle = np.maximum(self._host_cores - used, 0.0)
        short = placed.counts @ extra > idle
        gained = (speeds * ~short) @ placed.counts * extra
        for row in np.flatnonzero(short):
            left = float(idle[row])
            for k in placed.order[row]:
                taken = min(float(extra[k]), left)
                gained[k] += speeds[row] * taken
                left -= taken
        return np.asarray(guaranteed + gained / self._cores * self.per_instance_s)

    def at_most(self, placed: Placement, speeds: Values, guaranteed: Values, wanted: Values) -> Values:
        """Return the items/s that each operator's instances reach for a moment, as when a burst of items has come.

        Idle CPU is there for all instances of a host alike then, since their bursts fall into different moments.
        """
        asked = np.divide(wanted, guaranteed, out=np.zeros_like(wanted), where=guaranteed > 0)
        mean = np.minimum(asked, self._boost)
        base = np.maximum(mean, 1.0)
        idle = np.maximum(self._host_cores - placed.counts @ (mean * self._cores), 0.0)
        more = placed.counts @ ((self._boost - base) * self._cores)
        part = np.minimum(np.divide(idle, more, out=np.ones_like(idle), where=more > 0), 1.0)
        steady, bursting = speeds @ placed.counts, (speeds * part) @ placed.counts
        return np.asarray((steady * base + bursting * (self._boost - base)) * self.per_instance_s)
