"""The rule as a policy of the tick: the job as a whole is its one vertex, and a source."""

import math
from dataclasses import dataclass, replace

from perdix.policies import useful_time
from perdix.policies.contract import Candidate, Decision, Reason, Situation
from perdix.policies.flink_autoscaler.evaluation import Evaluated
from perdix.policies.flink_autoscaler.graph import Graph, Measured, Sample, Vertex
from perdix.policies.flink_autoscaler.history import Restart
from perdix.policies.flink_autoscaler.job import JobDecision, carried_out, decide_job, recorded
from perdix.policies.flink_autoscaler.memory import JOB, Asked, Memory, appended
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.policies.flink_autoscaler.vertex import VertexDecision
from perdix.policies.flink_autoscaler.window import gather, observed_per_s
from perdix.policies.holding import hold, usable
from perdix.policies.wording import per_s, seconds, workers


@dataclass(frozen=True)
class _Seen:
    """What this tick measured: ``busy`` has a share per worker, ``started_s`` is minus infinity where it is unknown."""

    throughput_per_s: float
    busy: tuple[float, ...]
    started_s: float


class FlinkAutoscaler:
    """Flink's own autoscaler, deciding for the job as a whole.

    Samples, timers and history travel in the decision's memory. It differs from the original where that would be blind:
    without the consumer lag it never scales in (the original takes it for 0). And what runs outside the job's bounds is
    moved into them at once.
    """

    name = "flink-autoscaler"
    learns = False

    def __init__(self, options: FlinkAutoscalerOptions | None = None) -> None:
        self.options = options or FlinkAutoscalerOptions()

    def decide(self, situation: Situation) -> Decision:
        """Choose a scale-out within the bounds, or hold what runs while the window fills or nothing is measured."""
        blind = _blindness(situation)
        if blind is not None:
            return hold(self.name, situation, Reason.HOLD_BLIND, f"Blind: {blind}.")
        seen = _seen(situation)
        memory = self._remember(situation, seen)
        inside = situation.bounds.clamp(situation.scale_out)
        if inside != situation.scale_out and not (inside < situation.scale_out and situation.lag_records is None):
            return self._into_the_bounds(situation, inside, memory)
        gathered = gather(memory.samples, seen.started_s, situation.now_s, self.options)
        memory = replace(memory, samples=gathered.samples)
        if not gathered.full:
            return self._gathering(situation, seen, gathered.full_s, memory)
        options = self._within(situation)
        key_groups = max(situation.scale_out, options.max_parallelism or situation.bounds.maximum)
        vertex = Vertex(JOB, situation.scale_out, key_groups, partitions=options.partitions)
        graph = Graph((vertex,))
        decision = decide_job(graph, gathered.samples, memory.state, options, situation.now_s)
        chosen = decision.changes.get(JOB, situation.scale_out)
        memory = replace(memory, state=decision.state)
        if chosen < situation.scale_out and situation.lag_records is None:
            why = f"{workers(chosen)} would do, but the consumer lag is not measured, so there is no scaling in."
            return hold(self.name, situation, Reason.HOLD_BLIND, why, memory=memory.to_json())
        if chosen != situation.scale_out:
            state = recorded(graph, decision, options, situation.now_s)
            memory = replace(memory, state=state, asked=Asked(situation.now_s, chosen))
        return self._decision(situation, decision, chosen, memory)

    def _remember(self, situation: Situation, seen: _Seen) -> Memory:
        """Return the memory with this tick's sample; a rescale or restart since the last tick empties the window."""
        now_s, options = situation.now_s, self.options
        memory = Memory.from_json(situation.memory, now_s)
        if memory.scale_out not in {0, situation.scale_out}:
            asked = memory.asked
            known = asked is not None and asked.scale_out == situation.scale_out and seen.started_s >= asked.at_s
            restart = Restart(seen.started_s, seen.started_s - asked.at_s) if known and asked is not None else None
            memory = Memory((), carried_out(memory.state, restart, options))
        samples = gather(memory.samples, seen.started_s, now_s, options).samples
        sample = self._sample(situation, seen, samples[-1] if samples else None)
        earlier = [sample.vertices[JOB].observed_per_s for sample in samples]
        observed = observed_per_s(sample, 0.0, earlier, options)
        span_s = options.stabilisation_s + options.window_s
        samples = appended(samples, Sample(now_s, {JOB: replace(sample, observed_per_s=observed)}), span_s)
        return replace(memory, samples=samples, scale_out=situation.scale_out)

    def _sample(self, situation: Situation, seen: _Seen, before: Sample | None) -> Measured:
        """Return what was measured, counters among it: a rate is taken to have lasted since the sample before."""
        since_s = 0.0 if before is None else situation.now_s - before.at_s
        records_in, busy_ms = (0.0, 0.0) if before is None else _counters(before)
        least = self.options.busy_aggregator == "MIN"
        return Measured(
            records_in + seen.throughput_per_s * since_s,
            load=min(seen.busy) if least else max(seen.busy),
            in_per_s=seen.throughput_per_s,
            busy_ms=busy_ms + 1_000.0 * math.fsum(seen.busy) * since_s,
            lag=math.nan if situation.lag_records is None else situation.lag_records,
        )

    def _within(self, situation: Situation) -> FlinkAutoscalerOptions:
        """Return the options with the vertex's bounds within those of the job."""
        clamp = situation.bounds.clamp
        limits = {"vertex_min": clamp(self.options.vertex_min), "vertex_max": clamp(self.options.vertex_max)}
        return self.options.model_copy(update=limits)

    def _into_the_bounds(self, situation: Situation, inside: int, memory: Memory) -> Decision:
        reason = Reason.of_change(situation.scale_out, inside)
        sentence = f"{workers(situation.scale_out)} are outside the bounds; moved to {inside}."
        candidates = (Candidate(inside, math.nan, None, None),)
        return Decision(self.name, inside, reason, sentence, candidates, memory=memory.to_json())

    def _gathering(self, situation: Situation, seen: _Seen, full_s: float, memory: Memory) -> Decision:
        stable_s = seen.started_s + self.options.stabilisation_s
        stabilising = situation.now_s < stable_s
        until = "the job stabilises" if stabilising else "the window fills"
        why = f"No decision for another {seconds(full_s - situation.now_s)}: {until}."
        reason = Reason.HOLD_GRACE if stabilising else Reason.HOLD_UNKNOWN
        return hold(self.name, situation, reason, why, memory=memory.to_json())

    def _decision(self, situation: Situation, decision: JobDecision, chosen: int, memory: Memory) -> Decision:
        wish, found, current = decision.vertices[JOB], decision.evaluated[JOB], situation.scale_out
        reason = Reason.of_change(current, chosen)
        sentence = f"{_demand(situation, found)}; {_outcome(wish, found, current)}.{useful_time.caveat(situation)}"
        candidates = _candidates(wish, found, current, chosen)
        return Decision(self.name, chosen, reason, sentence, candidates, memory=memory.to_json())


def _blindness(situation: Situation) -> str | None:
    lag = situation.lag_records
    if lag is not None and not usable(lag):
        return f"the consumer lag is {lag}"
    return useful_time.blindness(situation)


def _seen(situation: Situation) -> _Seen:
    return _Seen(
        situation.throughput_per_s or 0.0,
        useful_time.shares_of(situation),
        situation.now_s - useful_time.running_for_s(situation),
    )


def _counters(sample: Sample) -> tuple[float, float]:
    measured = sample.vertices[JOB]
    counters = (measured.records_in, measured.busy_ms)
    return counters if all(math.isfinite(value) for value in counters) else (0.0, 0.0)


def _demand(situation: Situation, found: Evaluated) -> str:
    demand = found.demand
    backlog = f" and {_rate(demand.catch_up_per_s)} of backlog" if demand.catch_up_per_s > 0 else ""
    running = workers(situation.scale_out)
    true = f"{running} can process {_rate(found.true_per_s)}"
    if math.isinf(found.true_per_s):
        true = f"{running}: nothing came in to measure by"
    return f"{_rate(demand.target_per_s)}{backlog} are due, {true}"


def _outcome(wish: VertexDecision, found: Evaluated, current: int) -> str:
    band = f"the band from {_rate(found.more_below_per_s)} to {_rate(found.less_above_per_s)}"
    if wish.held_by is not None:
        return f"{workers(wish.wanted)} are wanted, but {wish.held_by}"
    if wish.parallelism == current:
        return "that is what the target asks for"
    if not wish.outside:
        return f"{workers(wish.parallelism)} would meet the target, but this is within {band}"
    aligned = "" if wish.computed == wish.wanted else f" (aligned from {wish.computed})"
    delayed = "" if wish.parallelism == wish.wanted else f", the most that was wanted while scaling in waited ({band})"
    outside = f", outside {band}" if not delayed else ""
    return f"{workers(wish.parallelism)}{aligned} are wanted{delayed}{outside}"


def _rate(rate_per_s: float) -> str:
    if math.isnan(rate_per_s):
        return "an unknown rate"
    return "any rate" if math.isinf(rate_per_s) else per_s(rate_per_s)


def _candidates(wish: VertexDecision, found: Evaluated, current: int, chosen: int) -> tuple[Candidate, ...]:
    each_per_s = found.true_per_s / current
    rejected = {
        wish.computed: f"alignment asks for {wish.wanted}",
        wish.wanted: wish.held_by or "the utilisation is within its band",
        current: "the utilisation is outside its band",
    }
    others = [Candidate(n, each_per_s * n, None, why) for n, why in rejected.items() if n != chosen and n > 0]
    return (*others, Candidate(chosen, each_per_s * chosen, None, None))
