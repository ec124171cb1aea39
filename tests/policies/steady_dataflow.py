"""A dataflow in its steady state, worked out exactly: no twin, no noise, nothing left to chance but the seed.

Sources are throttled to what the narrowest operator behind them passes; everything upstream of that one is
back-pressured for the rest of its time.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perdix.models.dataflow.graph import Dataflow, Operator
from perdix.models.dataflow.rates import InstanceWindow
from perdix.policies.dataflow.contract import DataflowDecision, DataflowPolicy, DataflowSituation

NOW_S = 1_700_000_000.0
WINDOW_S = 10.0


@dataclass(frozen=True)
class Truth:
    """``true_per_s``: records/s of one lone instance; ``contention``: what each further one costs the others.

    ``keys``: share of the input that goes to the first instance however many there are.
    """

    true_per_s: float
    selectivity: float = 1.0
    contention: float = 0.0
    key: float = 0.0

    def each_per_s(self, count: int) -> float:
        return self.true_per_s / (1.0 + self.contention * (count - 1))

    def shares(self, count: int) -> np.ndarray[Any, Any]:
        shares = np.full(count, (1.0 - self.key) / count)
        shares[0] += self.key
        return shares

    def capacity_per_s(self, count: int) -> float:
        return float(self.each_per_s(count) / self.shares(count).max())

    def least_for(self, rate_per_s: float) -> int:
        return next((n for n in range(1, 5_000) if self.capacity_per_s(n) >= rate_per_s * (1.0 - 1e-9)), 5_000)


@dataclass(frozen=True)
class Steady:
    """A dataflow: what its sources should emit, and the truth of every other operator.

    ``split``: upstream -> downstream -> share of the output; operators that are missing send all to each.
    """

    graph: Dataflow
    source_per_s: Mapping[str, float]
    truth: Mapping[str, Truth]
    split: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    source_true_per_s: float = 1e9

    def flows(self, emitted: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
        """Return records/s into and out of every operator."""
        into: dict[str, float] = {}
        out: dict[str, float] = {}
        for operator in self.graph:
            name = operator.name
            if operator.is_source:
                into[name], out[name] = 0.0, emitted[name]
                continue
            into[name] = math.fsum(out[up] * self.split.get(up, {}).get(name, 1.0) for up in operator.inputs)
            out[name] = into[name] * self.truth[name].selectivity
        return into, out

    def least(self) -> dict[str, int]:
        """Return the least instances of every operator that carry all; sources keep one."""
        into, _ = self.flows(self.source_per_s)
        return {name: 1 if name in self.source_per_s else self.truth[name].least_for(into[name]) for name in into}

    def emitted(self, parallelism: Mapping[str, int]) -> tuple[dict[str, float], set[str]]:
        """Return what each source can emit, and the operators that hold one back."""
        into, _ = self.flows(self.source_per_s)
        passed = {
            name: min(self.truth[name].capacity_per_s(parallelism[name]) / into[name], 1.0) if into[name] > 0 else 1.0
            for name in self.truth
        }
        emitted, narrow = {}, set()
        for source, rate_per_s in self.source_per_s.items():
            behind = [name for name in self.behind(source) if name in passed]
            share = min((passed[name] for name in behind), default=1.0)
            emitted[source] = rate_per_s * share
            if share < 1.0:
                narrow |= {name for name in behind if passed[name] <= share * (1.0 + 1e-12)}
        return emitted, narrow

    def behind(self, name: str) -> set[str]:
        found = {name}
        for operator in self.graph:
            if found & set(operator.inputs):
                found.add(operator.name)
        return found - {name}

    def windows(self, parallelism: Mapping[str, int], window_s: float = WINDOW_S) -> dict[str, InstanceWindow]:
        emitted, narrow = self.emitted(parallelism)
        into, out = self.flows(emitted)
        windows = {}
        for name in self.graph.names:
            count = parallelism[name]
            if name in self.source_per_s:
                shares, each_per_s, driver = np.full(count, 1.0 / count), self.source_true_per_s, out[name]
            else:
                truth = self.truth[name]
                shares, each_per_s, driver = truth.shares(count), truth.each_per_s(count), into[name]
            useful_s = window_s * driver * shares / each_per_s
            waits = bool(self.behind(name) & narrow)
            lost = 1.0 - emitted[name] / self.source_per_s[name] if name in self.source_per_s and waits else 1.0
            windows[name] = InstanceWindow(
                window_s,
                window_s * into[name] * shares,
                window_s * out[name] * shares,
                useful_s,
                (window_s - useful_s) * lost if waits else np.zeros(count),
                {down: window_s * out[name] * share for down, share in self.split.get(name, {}).items()},
            )
        return windows

    def situation(self, parallelism: Mapping[str, int], **changes: Any) -> DataflowSituation:
        given: dict[str, Any] = {
            "now_s": NOW_S,
            "graph": self.graph,
            "parallelism": dict(parallelism),
            "windows": self.windows(parallelism),
            "source_per_s": dict(self.source_per_s),
        }
        return DataflowSituation(**{**given, **changes})


def follow(
    policy: DataflowPolicy,
    steady: Steady,
    start: Mapping[str, int],
    *,
    intervals: int = 12,
    window_s: float = WINDOW_S,
    **changes: Any,
) -> list[DataflowDecision]:
    """Let a policy run a dataflow from ``start``, every decision carried out at once; return its decisions."""
    situation = steady.situation(start, windows=steady.windows(start, window_s), **changes)
    decisions: list[DataflowDecision] = []
    for _ in range(intervals):
        decision = policy.decide(situation)
        decisions.append(decision)
        rescaled = bool(decision.changes(situation))
        since_s = window_s if rescaled else situation.since_rescale_s + window_s
        situation = replace(
            situation,
            now_s=situation.now_s + window_s,
            parallelism=dict(decision.parallelism),
            windows=steady.windows(decision.parallelism, window_s),
            since_rescale_s=since_s,
            memory=decision.memory,
        )
    return decisions


def configurations(start: Mapping[str, int], decisions: list[DataflowDecision]) -> list[Mapping[str, int]]:
    """Return the different configurations that ran one after the other, the start first."""
    found: list[Mapping[str, int]] = [dict(start)]
    for decision in decisions:
        if decision.parallelism != found[-1]:
            found.append(decision.parallelism)
    return found


def chain(*truths: tuple[str, Truth], source_per_s: float, **operators: Mapping[str, Any]) -> Steady:
    """Return a source named ``source`` and one operator after the other behind it."""
    names = ["source", *(name for name, _ in truths)]
    graph = Dataflow(
        tuple(
            Operator(name, tuple(names[max(k - 1, 0) : k]), **operators.get(name, {})) for k, name in enumerate(names)
        )
    )
    return Steady(graph, {"source": source_per_s}, dict(truths))


def heron_word_count() -> Steady:
    """Return the word count of Dhalion's paper as DS2 uses it (5.2), in records/s: 1 M sentences/min of 20 words."""
    split, count = Truth(100_000 / 60, selectivity=20.0), Truth(1_000_000 / 60)
    return chain(("split", split), ("count", count), source_per_s=1_000_000 / 60)


def random_dataflow(rng: np.random.Generator, *, contention: float = 0.0) -> Steady:
    """Return 3 to 14 operators, 1 to 3 of them sources, each sized for 1 to 60 instances."""
    sources, others = int(rng.integers(1, 4)), int(rng.integers(2, 12))
    operators = [Operator(f"s{k}") for k in range(sources)]
    for k in range(others):
        inputs = rng.choice(len(operators), size=min(int(rng.integers(1, 4)), len(operators)), replace=False)
        operators.append(Operator(f"o{k}", tuple(operators[index].name for index in sorted(inputs))))
    graph = Dataflow(tuple(operators))
    split = {}
    for name, outputs in graph.outputs.items():
        if len(outputs) > 1 and rng.random() < 0.5:
            split[name] = dict(zip(outputs, rng.dirichlet(np.ones(len(outputs))).tolist(), strict=True))
    source_per_s = {name: float(10 ** rng.uniform(0, 6)) for name in graph.sources}
    truth = {
        operator.name: Truth(1.0, float(10 ** rng.uniform(-1, 1)), float(contention * rng.random()))
        for operator in graph
        if not operator.is_source
    }
    steady = Steady(graph, source_per_s, truth, split)
    into, _ = steady.flows(source_per_s)
    for name, operator in truth.items():
        needed = float(rng.uniform(0.05, 60.0))
        lone = into[name] * (1.0 + operator.contention * max(needed - 1.0, 0.0)) / needed
        truth[name] = replace(operator, true_per_s=max(lone, 1e-9))
    return steady


def random_start(rng: np.random.Generator, steady: Steady) -> dict[str, int]:
    """Return a start that is too small, too large, or each as it comes."""
    least, kind = steady.least(), rng.integers(0, 3)
    start = {}
    for name, count in least.items():
        low, high = ((1, count + 1), (count, 4 * count + 1), (1, 81))[kind]
        start[name] = 1 if name in steady.source_per_s else int(rng.integers(low, high))
    return start
