"""The digital twin of a dataflow, second by second."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from perdix.models.dataflow.graph import Dataflow
from perdix.models.dataflow.rates import InstanceWindow
from perdix.telemetry.window import Values
from perdix.twin.dataflow import physics
from perdix.twin.dataflow.ledger import Ledger, Stretch
from perdix.twin.dataflow.parameters import DataflowParameters
from perdix.twin.observables import SLOWEST, Flicker
from perdix.twin.parameters import RandomTime

LEAST_SEEN = 0.2  # measurement noise never takes more than four fifths of a value


@dataclass(frozen=True)
class Rescale:
    """One rescale: when it was asked for, when it runs again, and what ran before and after."""

    asked_s: int
    end_s: int
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)


class DataflowTwin:
    """A dataflow whose truth is known.

    Deterministic for ``parameters``, ``seed`` and the calls made; how the time is cut into steps makes no difference.
    Noise is drawn per second whatever the dataflow does, so that two policies are compared on the same luck.

    ``start_s``: epoch second at which it begins, with nothing waiting.
    """

    def __init__(self, parameters: DataflowParameters, seed: int = 0, *, start_s: int = 0) -> None:
        self.parameters = parameters
        self.seed = seed
        self.start_s = start_s
        self.graph: Dataflow = parameters.graph()
        self.rescales: list[Rescale] = []
        operators = self.parameters.operators
        gains = [operators[up].selectivity * operators[down].inputs[up] for up, down in self.graph.edges]
        self._wired = physics.wiring(self.graph, gains)
        self._numbers = {name: k for k, name in enumerate(self.graph.names)}
        count, edges = len(self.graph), len(self.graph.edges)
        noise = self.parameters.noise
        spreads = [operator.source.noise if operator.source else 0.0 for operator in operators.values()]
        self._chances = Chances(seed, np.full(count, noise.speed), np.array(spreads))
        self.ledger = Ledger(count, edges)
        self._processed, self._received = [0.0] * count, [0.0] * edges
        self._held = [0.0] * edges
        self._endless = [float("inf")] * edges
        self._offered, self._lag = [0.0] * count, [0.0] * count
        self._keys_seen: dict[str, Mapping[str, int]] = {}
        self._bursts = [
            None if operator.bursts is None else physics.burst_factors(**operator.bursts.model_dump()).tolist()
            for operator in operators.values()
        ]
        self._down_until_s: int | None = None
        self.now_s = start_s  # epoch second that has been reached
        self._parallelism = dict(self.parameters.start)
        self._requested = dict(self._parallelism)
        self._deploy()

    # ---- what it is now -------------------------------------------------------------------------------------------

    @property
    def parallelism(self) -> Mapping[str, int]:
        """Operator -> instances deployed; during a rescale still the old numbers."""
        return dict(self._parallelism)

    @property
    def requested(self) -> Mapping[str, int]:
        """Operator -> instances that were last asked for."""
        return dict(self._requested)

    @property
    def settled(self) -> bool:
        """False while the dataflow stands still."""
        return self._down_until_s is None

    @property
    def lag_records(self) -> Mapping[str, float]:
        """Source -> records that wait before it; sources that are no log are left out."""
        sources = self.parameters.sources
        return {name: self._lag[self._numbers[name]] for name, source in sources.items() if source.kind == "log"}

    @property
    def queues(self) -> Mapping[tuple[str, str], float]:
        """Edge -> share of its buffer that is full, 0 to 1 (above 1 for a while after a scale-in)."""
        return {edge: self._held[k] / self._bounds[k] for k, edge in enumerate(self.graph.edges)}

    def target_per_s(self) -> Mapping[str, float]:
        """Return source -> records/s that it is to emit now, without noise."""
        return self.parameters.target_per_s(self.now_s - self.start_s)

    def offered_per_s(self, since_s: int) -> Mapping[str, float]:
        """Return source -> mean records/s that it was to emit since ``since_s``, noise included."""
        seconds = self.ledger.between(max(since_s - self.start_s, 0))
        offered = seconds.target.sum(axis=0) / max(len(seconds), 1)
        return {name: float(offered[self._numbers[name]]) for name in self.graph.sources}

    def windows(self, since_s: int) -> Mapping[str, InstanceWindow]:
        """Return what the instances deployed did since epoch second ``since_s``, or since they started if later.

        As an engine's instrumentation shows it: useful time with noise, and without overhead that it does not see.
        Empty while the dataflow stands still, or before a second has passed.
        """
        first_s = max(since_s, self.started_s)
        if not self.settled or first_s >= self.now_s:
            return {}
        seconds = self.ledger.between(first_s - self.start_s)
        most = max(self._parallelism.values())
        noise = self._chances.instrumentation(first_s, self.now_s, len(self.graph), most)
        return {name: self._window(k, seconds, noise[k]) for k, name in enumerate(self.graph.names)}

    # ---- what can be done to it -----------------------------------------------------------------------------------

    def step(self, seconds: int = 1) -> None:
        """Let ``seconds`` seconds pass. Raises ``ValueError`` when negative."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds} s")
        for _ in range(seconds):
            self._pass_second()
            if self._down_until_s == self.now_s:
                self._deploy()

    def rescale(self, parallelism: Mapping[str, int], key: str) -> bool:
        """Ask for these instances; the dataflow stops at once. Operators that are not named keep theirs.

        What is in buffers stays there: a savepoint loses nothing.

        Raises ``ValueError`` when an operator is not there, cannot have this many instances or is not to be scaled, or
        the key was used for something else.

        Returns false when nothing changed: the key was used before for the same, or that is what was asked for last.
        """
        wanted = {**self._requested, **self._checked(parallelism)}
        if key in self._keys_seen:
            if self._keys_seen[key] != wanted:
                raise ValueError(f"key {key!r} was used for another parallelism; use another key")
            return False
        self._keys_seen[key] = wanted
        if wanted == self._requested:
            return False
        self._requested = wanted
        standstill_s = self._chances.standstill_s(self.parameters.restart.standstill, len(self.rescales))
        self._down_until_s = max(self.now_s + standstill_s, self._down_until_s or 0)
        self.rescales.append(Rescale(self.now_s, self._down_until_s, dict(self._parallelism), dict(wanted)))
        return True

    # ---- how it works ---------------------------------------------------------------------------------------------

    def _checked(self, parallelism: Mapping[str, int]) -> Mapping[str, int]:
        for name, instances in parallelism.items():
            if name not in self._numbers:
                raise ValueError(f"there is no operator '{name}'; known: {', '.join(self.graph.names)}")
            maximum = self.parameters.maximum(name)
            if not 1 <= instances <= maximum:
                raise ValueError(f"operator '{name}': {instances} instances are outside 1..{maximum}")
            if instances != self._requested[name] and not self.graph[name].scalable:
                raise ValueError(f"operator '{name}' is not to be scaled; leave it at {self._requested[name]}")
        lacking = self.parameters.without_room({**self._requested, **parallelism})
        if lacking is not None:
            raise ValueError(f"{lacking}; ask for fewer instances")
        return parallelism

    def _deploy(self) -> None:
        """Start at the requested parallelism."""
        self._parallelism = dict(self._requested)
        self.started_s, self._down_until_s = self.now_s, None  # when what is deployed began to run
        operators = self.parameters.operators
        deployed = [(operators[name], self._parallelism[name]) for name in self.graph.names]
        self._shares = [physics.shares(instances, operator.hottest) for operator, instances in deployed]
        self._capacity = [operator.capacity(instances) for operator, instances in deployed]
        self._seen_cost_s = [operator.seen_cost_s(instances) for operator, instances in deployed]
        # The first buffer to be full holds up all: with a hot instance that is its own.
        self._bounds = [
            operators[down].buffer_records / float(self._shares[self._numbers[down]].max())
            for _, down in self.graph.edges
        ]
        self._instances = [float(instances) for _, instances in deployed]
        self._too_full = {e for e, held in enumerate(self._held) if held >= self._bounds[e]}

    def _pass_second(self) -> None:
        speed, rate = self._chances.next_second()
        at_s = self.now_s - self.start_s
        target = [0.0] * len(self._wired.names)
        for name, per_s in self.parameters.target_per_s(at_s).items():
            number = self._numbers[name]
            target[number] = per_s * rate[number]
            self._offered[number] += target[number]
        self.now_s += 1
        if self._down_until_s is None:
            processed, worked_s, waited_s = self._work(at_s, target, speed)
        else:
            processed, worked_s, waited_s = ([0.0] * len(target) for _ in range(3))
        for name, source in self.parameters.sources.items():
            number = self._numbers[name]
            self._lag[number] = self._offered[number] - self._processed[number] if source.kind == "log" else 0.0
        self.ledger.append(
            processed,
            worked_s,
            waited_s,
            tuple(self._held),
            target,
            tuple(self._lag),
            self._instances,
            running=self._down_until_s is None,
        )

    def _work(self, at_s: int, target: list[float], speed: list[float]) -> tuple[list[float], list[float], list[float]]:
        """Let records flow for a second; return processed, seconds worked by all, and seconds waited by each."""
        wired, warm = self._wired, self._warm()
        pace = [warm * value for value in speed]
        for k, cycle in enumerate(self._bursts):
            if cycle is not None:
                pace[k] /= cycle[at_s % len(cycle)]
        capacity = [capacity * factor for capacity, factor in zip(self._capacity, pace, strict=True)]
        wishes = [want + max(lag, 0.0) for want, lag in zip(target, self._lag, strict=True)]
        held = [max(lag, 0.0) for lag in self._held]
        if self.parameters.back_pressure == "blocking":
            processed, taken = physics.flow(wired, wishes, capacity, held, self._bounds)
            waited_s = self._blocked_s(processed, capacity, wishes, held)
        else:
            waited_s = self._stopped_s()
            wishes = [0.0] * len(wishes) if self._too_full else wishes
            processed, taken = physics.flow(wired, wishes, capacity, held, self._endless)
        worked_s = [n * cost / p for n, cost, p in zip(processed, self._seen_cost_s, pace, strict=True)]
        for k, count in enumerate(processed):
            self._processed[k] += count
        for e, (up, _) in enumerate(wired.edges):
            self._received[e] += taken[e]
            # From the totals, so that no rounding adds up: sent = received + held, always.
            self._held[e] = wired.gains[e] * self._processed[up] - self._received[e]
            if self._held[e] >= self._bounds[e]:
                self._too_full.add(e)
            elif self._held[e] <= self.parameters.resume_at * self._bounds[e]:
                self._too_full.discard(e)
        return processed, worked_s, waited_s

    def _warm(self) -> float:
        restart = self.parameters.restart
        if restart.warm_up_s == 0 or not self.rescales:
            return 1.0  # it has been running before the twin begins
        share = min((self.now_s - self.started_s) / restart.warm_up_s, 1.0)
        return restart.warm_up_speed + (1.0 - restart.warm_up_speed) * share

    def _blocked_s(
        self, processed: list[float], capacity: list[float], wishes: list[float], held: list[float]
    ) -> list[float]:
        """Return the part of the second in which each operator waited for room in its output: the rest of its time."""
        wired, found = self._wired, [0.0] * len(processed)
        for k, edges in enumerate(wired.inputs):
            if not wired.outputs[k]:
                continue
            there = wishes[k]
            if edges:
                there = sum(held[e] + wired.gains[e] * processed[wired.edges[e][0]] for e in edges)
            if processed[k] < min(capacity[k], there) * (1.0 - physics.NOTHING):
                found[k] = 1.0 - processed[k] / capacity[k]
        return found

    def _stopped_s(self) -> list[float]:
        """Return 1 for all that is held back by a queue that is too full, and for all sources when there is one."""
        held_back = {k for e in self._too_full for k in self._wired.before[e]}
        if held_back:
            held_back |= {k for k, edges in enumerate(self._wired.inputs) if not edges}
        return [1.0 if k in held_back else 0.0 for k in range(len(self._wired.names))]

    def _window(self, number: int, seconds: Stretch, noise: Values) -> InstanceWindow:
        """Return what the instances of one operator did in ``seconds``."""
        name, shares = self.graph.names[number], self._shares[number]
        operator = self.parameters.operators[name]
        processed = float(seconds.processed[:, number].sum()) * shares
        seen = np.maximum(1.0 + self.parameters.noise.instrumentation * noise[: len(shares)], LEAST_SEEN)
        worked_s = float(seconds.worked_s[:, number].sum()) * shares * seen
        waited_s = float(seconds.back_pressured_s[:, number].sum())
        produced = processed * operator.selectivity if self.graph.outputs[name] else np.zeros(len(shares))
        shared = {down: self.parameters.operators[down].inputs[name] for down in self.graph.outputs[name]}
        split = any(share < 1.0 for share in shared.values())  # only then it must be measured who got what
        sent = {down: float(produced.sum()) * share for down, share in shared.items()} if split else {}
        return InstanceWindow(
            float(len(seconds)),
            np.zeros(len(shares)) if operator.source is not None else processed,
            produced,
            np.minimum(worked_s, float(len(seconds))),
            np.full(len(shares), waited_s),
            sent,
        )


DRAWN_S = 600  # noise is drawn this many seconds at a time
_SPEED, _RATE, _STANDSTILL, _INSTRUMENTATION = 11, 12, 13, 14  # random streams


class Chances:
    """Two policies meet the same luck in the same second, however time is cut into steps.

    ``speed``, ``rate``: relative standard deviations, by operator, shape ``(n,)`` each; noise persists for ten seconds.
    """

    def __init__(self, seed: int, speed: Values, rate: Values) -> None:
        self.seed = seed
        self._spreads = (speed, rate)
        self._flickers = tuple(Flicker(np.random.default_rng([seed, k]), len(speed)) for k in (_SPEED, _RATE))
        self._rows: list[tuple[list[float], list[float]]] = []

    def next_second(self) -> tuple[list[float], list[float]]:
        """Return the relative speed and the relative rate of every operator in the next second."""
        if not self._rows:
            drawn = [
                np.maximum(1.0 + spread * flicker.draw(DRAWN_S), SLOWEST).tolist()
                for spread, flicker in zip(self._spreads, self._flickers, strict=True)
            ]
            self._rows = list(zip(*drawn, strict=True))[::-1]
        return self._rows.pop()

    def standstill_s(self, time: RandomTime, number: int) -> int:
        """Return how long the ``number``-th standstill takes, whole seconds."""
        rng = np.random.default_rng([self.seed, _STANDSTILL, number])
        return math.ceil(time.median_s * math.exp(time.spread * rng.standard_normal()))

    def instrumentation(self, since_s: int, until_s: int, operators: int, instances: int) -> Values:
        """Return standard normal numbers for what is measured in a window, shape ``(operators, instances)``."""
        rng = np.random.default_rng([self.seed, _INSTRUMENTATION, since_s, until_s])
        return rng.standard_normal((operators, instances))
