"""The Flink Autoscaler's rule on every operator: gathers samples for :mod:`perdix.policies.flink_autoscaler`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from perdix.models.dataflow.graph import Operator
from perdix.models.dataflow.rates import InstanceWindow
from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation, OperatorVerdict
from perdix.policies.dataflow.holding import changes_in_words, hold, reason_of, running, unknown, with_usable_windows
from perdix.policies.flink_autoscaler.delay import PendingScaleDown
from perdix.policies.flink_autoscaler.graph import Graph, Measured, Sample, Samples, Vertex
from perdix.policies.flink_autoscaler.history import Rescale, Restart
from perdix.policies.flink_autoscaler.job import JobDecision, JobState, carried_out, decide_job, recorded
from perdix.policies.flink_autoscaler.memory import appended
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.policies.flink_autoscaler.window import gather, observed_per_s
from perdix.policies.remembering import counts, finite_or_null, null_as_nan, number, part_of, parts_by_name, parts_of
from perdix.policies.wording import per_s, seconds

EMITS_ALL = 0.99  # of what a source should emit: then nothing waits before it, be its lag measured or not


class FlinkAutoscaler:
    """Flink's own autoscaler for a job graph.

    Useful time stands for Flink's busy time, the time an instance waited for room in its output for its back-pressured
    time, and a source's emitted records for those that come in. It differs from the original where that would be blind:
    an operator that did not report holds all (its samples are of the whole graph), and nothing is scaled in while it is
    not known whether records wait before a source.
    """

    name = "flink-autoscaler"

    def __init__(self, options: FlinkAutoscalerOptions | None = None) -> None:
        self.options = options or FlinkAutoscalerOptions()

    def decide(self, situation: DataflowSituation) -> DataflowDecision:
        """Choose the parallelism of every operator, or hold what runs while the window fills."""
        situation = with_usable_windows(situation)
        blind = _blindness(situation)
        if blind is not None:
            return hold(self.name, situation, Reason.HOLD_BLIND, f"Blind: {blind}.")
        memory, started_s = self._remember(situation)
        gathered = gather(memory.samples, started_s, situation.now_s, self.options)
        memory = replace(memory, samples=gathered.samples)
        if not gathered.full:
            stabilising = situation.now_s < started_s + self.options.stabilisation_s
            until = "the job stabilises" if stabilising else "the window fills"
            why = f"No decision for another {seconds(gathered.full_s - situation.now_s)}: {until}."
            reason = Reason.HOLD_GRACE if stabilising else Reason.HOLD_UNKNOWN
            return hold(self.name, situation, reason, why, memory=memory.to_json())
        graph = Graph(tuple(self._vertex(situation, operator) for operator in situation.graph))
        decision = decide_job(graph, gathered.samples, memory.state, self.options, situation.now_s)
        return self._decision(situation, graph, decision, replace(memory, state=decision.state))

    def _remember(self, situation: DataflowSituation) -> tuple[Memory, float]:
        """Return the memory with this interval's sample, and when the job last started (epoch seconds)."""
        now_s, runs = situation.now_s, running(situation)
        memory = Memory.from_json(situation.memory, now_s, situation.graph.names)
        changed = bool(memory.parallelism) and memory.parallelism != runs
        window_s = max(window.window_s for window in situation.windows.values())
        first_s = min(now_s - window_s, math.inf if memory.first_s is None else memory.first_s)
        started_s = now_s - situation.since_rescale_s if math.isfinite(situation.since_rescale_s) else first_s
        if changed:
            asked = memory.asked
            known = asked is not None and asked.parallelism == runs and started_s >= asked.at_s
            restart = Restart(started_s, started_s - asked.at_s) if known and asked is not None else None
            memory = Memory((), carried_out(memory.state, restart, self.options))
        samples = gather(memory.samples, started_s, now_s, self.options).samples
        before = samples[-1] if samples else None
        vertices = {
            operator.name: self._measured(situation, operator, before, samples_of(samples, operator.name))
            for operator in situation.graph
        }
        span_s = self.options.stabilisation_s + self.options.window_s
        samples = appended(samples, Sample(now_s, vertices), span_s)
        return replace(memory, samples=samples, parallelism=runs, first_s=first_s), started_s

    def _measured(
        self, situation: DataflowSituation, operator: Operator, before: Sample | None, earlier: list[float]
    ) -> Measured:
        """Return what was measured of an operator: its rates are taken to have lasted since the sample before."""
        name = operator.name
        window = situation.windows[name]
        lasted = 1.0 if before is None else (situation.now_s - before.at_s) / window.window_s
        came_in = _total(window.produced if operator.is_source else window.processed)
        records_in, records_out, busy_ms = counters_of(before, name)
        useful_s = window.useful_s[np.isfinite(window.useful_s)]
        least = self.options.busy_aggregator == "MIN"
        measured = Measured(
            records_in + lasted * came_in,
            records_out + lasted * _total(window.produced),
            float(useful_s.min() if least else useful_s.max()) / window.window_s,
            came_in / window.window_s,
            busy_ms + 1_000.0 * lasted * float(useful_s.sum()),
            situation.lag_records.get(name, math.nan) if operator.is_source else 0.0,
        )
        if not operator.is_source:
            return measured
        observed = observed_per_s(measured, _back_pressure(window), earlier, self.options)
        return replace(measured, observed_per_s=observed)

    def _vertex(self, situation: DataflowSituation, operator: Operator) -> Vertex:
        count = situation.parallelism[operator.name]
        groups = operator.key_groups or self.options.max_parallelism
        slots = situation.slots if situation.slots_shared else None  # not shared: see _within_slots
        known = [bound for bound in (operator.maximum, slots, groups) if bound is not None]
        inputs = dict.fromkeys(operator.inputs, operator.key_groups is not None)
        partitions = operator.key_groups if operator.is_source else None
        most = max(min(known, default=self.options.vertex_max), 1)
        return Vertex(operator.name, count, most, inputs, partitions, groups)

    def _decision(
        self, situation: DataflowSituation, graph: Graph, decision: JobDecision, memory: Memory
    ) -> DataflowDecision:
        runs = running(situation)
        changes = {name: n for name, n in decision.changes.items() if situation.graph[name].scalable}
        verdicts = tuple(_verdict(vertex, decision) for vertex in graph)
        shrinks = any(count < runs[name] for name, count in changes.items())
        unknown_lag = _unknown_lag(situation)
        note = ""
        if shrinks and unknown_lag is not None:
            changes = {name: count for name, count in changes.items() if count > runs[name]}
            note = f" Nothing is scaled in: it is not known whether records wait before {unknown_lag}."
        changes, wanted = _within_slots(situation, changes), {**runs, **changes}
        cut = {**runs, **changes} != wanted
        few = f" {sum(wanted.values())} slots are wanted, {situation.slots} are there." if cut else ""
        if not changes:
            small = _too_small(situation, decision)
            why = (
                f"Too small, and left alone: {small}."
                if small
                else "Every operator is within its band, or waits to be scaled in."
            )
            reason = Reason.HOLD_AVOIDED if small else Reason.HOLD_GOOD
            reason = Reason.HOLD_BLIND if note else reason
            return hold(self.name, situation, reason, f"{why}{note}{few}", operators=verdicts, memory=memory.to_json())
        chosen = {**runs, **changes}
        state = recorded(graph, replace(decision, changes=changes), self.options, situation.now_s)
        asked = replace(memory, state=state, asked=Asked(situation.now_s, chosen)).to_json()
        sentence = (
            f"{changes_in_words(runs, chosen)}, for {self.options.utilisation_target:.0%} of the true rates.{note}{few}"
        )
        reason = reason_of(runs, chosen)
        return DataflowDecision(self.name, chosen, reason, sentence, verdicts, asked, memory.to_json())


def samples_of(samples: Samples, name: str) -> list[float]:
    """Return what was observed of a vertex's true rate at each sample, records/s."""
    return [sample.vertices[name].observed_per_s for sample in samples]


def _blindness(situation: DataflowSituation) -> str | None:
    blind = unknown(situation)
    if blind is not None:
        return blind
    for operator in situation.graph:
        window = situation.windows.get(operator.name)
        if window is None:
            return f"{operator.name} did not report"
        if window.instances > situation.parallelism[operator.name]:
            return f"{operator.name} reported {window.instances} instances, more than run"
        counted = window.produced if operator.is_source else window.processed
        if not (np.isfinite(window.useful_s).any() and np.isfinite(counted).any()):
            return f"neither records nor useful time of {operator.name} were measured"
    return "it is not known when the last rescale was" if math.isnan(situation.since_rescale_s) else None


def _total(records: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(np.nansum(records))


def _back_pressure(window: InstanceWindow) -> float:
    waited_s = window.back_pressured_s[np.isfinite(window.back_pressured_s)]
    return float(waited_s.mean()) / window.window_s if len(waited_s) else 0.0


def _unknown_lag(situation: DataflowSituation) -> str | None:
    """Return a source of which it is not known whether records wait before it."""
    for name in situation.graph.sources:
        if math.isfinite(situation.lag_records.get(name, math.nan)):
            continue
        window, target_per_s = situation.windows[name], situation.source_per_s.get(name, math.nan)
        if not _total(window.produced) / window.window_s >= EMITS_ALL * target_per_s:
            return name
    return None


def _too_small(situation: DataflowSituation, decision: JobDecision) -> str:
    """Return the operators that can process less than their band asks for, each with why it gets no more instances."""
    found = {}
    for name, evaluated in decision.evaluated.items():
        if evaluated.true_per_s < evaluated.more_below_per_s:
            bound = "it cannot have more instances" if situation.graph[name].scalable else "it is not to be scaled"
            found[name] = decision.vertices[name].held_by or bound
    return "; ".join(f"{name}: {why}" for name, why in found.items())


def _within_slots(situation: DataflowSituation, changes: dict[str, int]) -> dict[str, int]:
    """Return the changes; of slots that are not shared, each that grows gets those that are left by what it lacks."""
    runs = situation.parallelism
    lacks = {name: count - runs[name] for name, count in changes.items() if count > runs[name]}
    lacking, found = sum(lacks.values()), dict(changes)
    taken = sum({**runs, **changes}.values())
    if situation.slots is None or situation.slots_shared or taken <= situation.slots:
        return changes
    left = max(situation.slots - taken + lacking, 0)
    for name, lack in sorted(lacks.items(), key=lambda item: -item[1]):
        given = math.ceil(lack * left / lacking)
        found[name], left, lacking = runs[name] + given, left - given, lacking - lack
    return {name: count for name, count in found.items() if count != runs[name]}


def _verdict(vertex: Vertex, decision: JobDecision) -> OperatorVerdict:
    wish, found = decision.vertices[vertex.name], decision.evaluated[vertex.name]
    if math.isnan(found.demand.target_per_s) or math.isnan(found.true_per_s):
        return OperatorVerdict(vertex.name, None, "its rates are not known")
    true = "any rate" if math.isinf(found.true_per_s) else per_s(found.true_per_s)
    said = f"{per_s(found.demand.target_per_s)} are due, it can process {true}"
    if wish.held_by is not None:
        said = f"{said}; {wish.held_by}"
    return OperatorVerdict(vertex.name, None, said)


class Asked(NamedTuple):
    """A rescale that was decided and not yet seen to have happened."""

    at_s: float
    parallelism: Mapping[str, int]


@dataclass(frozen=True)
class Memory:
    """``parallelism`` is what ran at the last interval (empty before the first), ``first_s`` when that was."""

    samples: Samples = ()
    state: JobState = field(default_factory=JobState)
    parallelism: Mapping[str, int] = field(default_factory=dict)
    first_s: float | None = None
    asked: Asked | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-serialisable values; what is not finite becomes null, and is not known afterwards."""
        return {
            "parallelism": dict(self.parallelism),
            "first_s": self.first_s,
            "asked": self.asked and [self.asked.at_s, dict(self.asked.parallelism)],
            "samples": [
                [sample.at_s, {name: finite_or_null([*vars(m).values()]) for name, m in sample.vertices.items()}]
                for sample in self.samples
            ],
            "history": {
                name: [finite_or_null(value) for value in several] for name, several in self.state.history.items()
            },
            "restarts": [finite_or_null(restart) for restart in self.state.restarts],
            "pending": {name: waiting.to_json() for name, waiting in self.state.pending.items()},
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any], now_s: float, names: Sequence[str]) -> Memory:
        """Rebuild it for the operators ``names``; a part that cannot be read, or lies in the future, is left out."""
        parallelism = part_of(found.get("parallelism"), counts) or {}
        samples = [sample for sample in parts_of(found.get("samples"), _sample) if set(names) <= set(sample.vertices)]
        pending = {
            name: waiting
            for name, waiting in parts_by_name(found.get("pending"), PendingScaleDown.of_json).items()
            if waiting.first_s <= now_s and waiting.below(parallelism.get(name, 0))
        }
        history = parts_by_name(found.get("history"), lambda several: tuple(parts_of(several, Rescale.of_json)))
        known = {
            name: tuple(entry for entry in history[name] if entry.at_s <= now_s) for name in names if name in history
        }
        return cls(
            tuple(sample for sample in samples if sample.at_s < now_s),
            JobState(known, pending, tuple(parts_of(found.get("restarts"), Restart.of_json))),
            parallelism,
            part_of(found.get("first_s"), number),
            part_of(found.get("asked"), lambda values: Asked(number(values[0]), counts(values[1]))),
        )


def _sample(values: Sequence[Any]) -> Sample:
    return Sample(number(values[0]), {str(name): _measured(measured) for name, measured in values[1].items()})


def _measured(values: Sequence[Any]) -> Measured:
    known = {name: null_as_nan(value) for name, value in zip(Measured.__dataclass_fields__, values, strict=True)}
    return Measured(**known)


def counters_of(sample: Sample | None, name: str) -> tuple[float, float, float]:
    """Return what a vertex had counted at a sample: records in, records out, busy milliseconds; zeros where unknown."""
    if sample is None:
        return 0.0, 0.0, 0.0
    one = sample.vertices[name]
    counters = (one.records_in, one.records_out, one.busy_ms)
    return counters if all(math.isfinite(value) for value in counters) else (0.0, 0.0, 0.0)
