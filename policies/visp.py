"""The billing-aware policy of Hochreiner et al. (PeerJ CS 2018) for a job of equal workers on leased hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from policies.contract import Candidate, Decision, Reason, Situation
from policies.holding import hold
from policies.hosts.btu import AGAIN, Btu, BtuOptions
from policies.hosts.btu_forecast import BtuForecast, BtuForecastOptions
from policies.hosts.contract import (
    HostsDecision,
    HostsSituation,
    LeaseAgain,
    LeaseHost,
    OperatorType,
    ReleaseHost,
    Seen,
    StartInstance,
    StopInstance,
)
from policies.hosts.forecast_need import Demand, highest_per_s
from policies.hosts.plan import LEASED
from policies.hosts.scale_out_trigger import trigger
from policies.remembering import finite_or_null, number, parts_by_name, parts_of
from policies.visp_hosts import WORKER, Placement
from policies.visp_options import VispOptions
from policies.wording import records, seconds, workers


@dataclass(frozen=True)
class _Memory:
    """What travels with the decisions.

    Attributes
    ----------
    placed
        Hosts and workers as they are, and
    planned
        as they will be once what was decided last has happened: a guard may refuse it, and a rescale takes a while.
    latencies_s
        The last p95 latencies outside the grace of rescales, oldest first.
    scalings
        Rescales that were decided and happened.
    again, leased
        As the policies of hosts remember them.
    """

    placed: Placement
    planned: Placement | None = None
    latencies_s: tuple[float, ...] = ()
    scalings: int = 0
    again: Mapping[str, float] = field(default_factory=dict)
    leased: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-serialisable values."""
        return {
            "hosts": self.placed.to_json(),
            "planned": None if self.planned is None else self.planned.to_json(),
            "latencies_s": finite_or_null(self.latencies_s),
            "scalings": self.scalings,
            AGAIN: dict(self.again),
            LEASED: self.leased,
        }

    @classmethod
    def of(cls, situation: Situation, options: VispOptions) -> _Memory:
        """Return what was remembered, made to agree with the workers that really run."""
        found, now_s = situation.memory, situation.now_s
        placed = Placement.read(found.get("hosts"), options, now_s)
        planned = Placement.read(found.get("planned"), options, now_s)
        happened = planned is not None and planned.workers == situation.scale_out
        base = (planned if happened else placed) or Placement()
        return cls(
            base.matched(situation.scale_out, options, now_s),
            None,
            tuple(parts_of(found.get("latencies_s"), number)),
            _count(found.get("scalings")) + happened,
            parts_by_name(found.get(AGAIN), number),
            _count(found.get(LEASED)),
        )


class Visp:
    """Adds workers by Algorithm 1 where Algorithm 2 puts them, and takes workers away only where a host's unit ends.

    Workers are equal, so Algorithm 3 has nothing to choose between: it says whether any may go. All rules are those of
    :mod:`policies.hosts`; this translates a job into one operator type, and back. Differences to the paper:
    docs/decisions/0021-policies-of-hosts.md.
    """

    name = "visp"

    def __init__(self, options: VispOptions | None = None) -> None:
        self.options = options or VispOptions()

    def decide(self, situation: Situation) -> Decision:
        """Choose a scale-out within the bounds, or hold what runs."""
        if situation.scale_out < 1:
            why = f"Blind: {situation.scale_out} workers are running."
            return hold(self.name, situation, Reason.HOLD_BLIND, why)
        if math.isnan(situation.since_rescale_s):
            why = "Blind: the time since the last rescale is not known."
            return hold(self.name, situation, Reason.HOLD_BLIND, why)
        memory = _Memory.of(situation, self.options)
        if situation.since_rescale_s < self.options.grace_s:
            why = f"Rescaled {seconds(situation.since_rescale_s)} ago, left alone for {seconds(self.options.grace_s)}"
            return self._held(situation, replace(memory, latencies_s=()), Reason.HOLD_GRACE, why)
        latency_s = _usable(situation.latency_p95_ms, 1e-3)
        latencies_s = (*memory.latencies_s, math.nan if latency_s is None else latency_s)[-self.options.durations :]
        seen = Seen(latencies_s, self._lag_s(situation), memory.scalings)
        memory = replace(memory, latencies_s=tuple(value for value in latencies_s if math.isfinite(value)))
        if situation.scale_out > situation.bounds.maximum:
            return self._into_bounds(situation, memory, seen)
        decided = self._rules(situation).decide(self._hosts_situation(situation, memory, seen))
        again = parts_by_name(decided.memory.get(AGAIN), number)
        memory = replace(memory, again=again, leased=_count(decided.memory.get(LEASED)))
        return self._decision(situation, memory, decided, seen)

    def _rules(self, situation: Situation) -> Btu:
        options = self.options
        common: dict[str, Any] = {
            "durations": options.durations,
            "queue_threshold": options.lag_s,
            "out_step": options.out_step,
            "moves_alone": False,
            "unit_share": options.unit_share,
            "settle_s": options.settle_s,
        }
        if options.most_dropped is not None:
            common["most_dropped"] = options.most_dropped
        if not options.forecast:
            return Btu(BtuOptions(**common))
        ahead = BtuForecastOptions(**common, lead_s=options.lead_s, react=True)
        return BtuForecast(ahead, lambda _, __, ahead_s: self._demand(situation, ahead_s))

    def _demand(self, situation: Situation, ahead_s: float) -> Demand | None:
        """Return the fewest workers whose learned capacity carries what is forecast and works off what waits."""
        options, lag = self.options, _usable(situation.lag_records)
        highest = highest_per_s(situation.forecast, situation.now_s, ahead_s, options.quantile)
        if highest is None or lag is None or not situation.capacities:
            return None
        needed = max(highest / options.use, highest + lag / options.drain_s)
        bounds = situation.bounds
        for scale_out in range(bounds.minimum, bounds.maximum + 1):
            estimate = situation.capacities.get(scale_out)
            if estimate is not None and estimate.per_s >= needed:
                return Demand(highest, scale_out)
        return Demand(highest, bounds.maximum)

    def _lag_s(self, situation: Situation) -> float | None:
        """Return how many seconds of the present workload wait; ``None`` where that is not measured."""
        lag, load = _usable(situation.lag_records), _usable(situation.workload_per_s)
        return None if lag is None or load is None else lag / max(load, 1.0)

    def _hosts_situation(self, situation: Situation, memory: _Memory, seen: Seen) -> HostsSituation:
        options, bounds, need = self.options, situation.bounds, self.options.need
        hosts, instances = memory.placed.listed(options, situation.now_s)
        objective_s = self._objective_ms(situation) / 1_000.0
        operator = OperatorType(
            WORKER, need.cpu_cores, need.memory_mb, objective_s, least=bounds.minimum, most=bounds.maximum
        )
        return HostsSituation(
            now_s=situation.now_s,
            check_interval_s=situation.tick_interval_s,
            unit_s=float(options.unit_s),
            host_cores=options.host_cores,
            host_memory_mb=options.host_memory_mb,
            operators={WORKER: operator},
            hosts=hosts,
            instances=instances,
            seen={WORKER: seen},
            most_hosts=options.most_hosts,
            memory={AGAIN: dict(memory.again), LEASED: memory.leased},
        )

    def _decision(self, situation: Situation, memory: _Memory, decided: HostsDecision, seen: Seen) -> Decision:
        current, options = situation.scale_out, self.options
        after = memory.placed.after(decided.steps, situation.now_s)
        objective_s = self._objective_ms(situation) / 1_000.0
        asked = trigger(
            seen.durations_s,
            objective_s,
            seen.queue_items,
            most_durations=options.durations,
            queue_threshold=options.lag_s,
        )
        measured, changed = self._measured(situation, seen), _changes(decided, asked.why)
        if after.workers < situation.bounds.minimum:
            least = workers(situation.bounds.minimum)
            why = f"{measured}: {least} are the least, but {self._limit(situation)}"
            return self._held(situation, memory, Reason.SCALE_MAXIMUM, why)
        if after.workers != current:
            sentence = f"{measured}: {changed}. {_capital(after.told(options, situation.now_s))}."
            examined = tuple(_candidate(situation, scale_out) for scale_out in (current, after.workers))
            reason, planned = Reason.of_change(current, after.workers), replace(memory, planned=after)
            return Decision(self.name, after.workers, reason, sentence, examined, memory=planned.to_json())
        stays = replace(memory, placed=after)
        if not _measured(seen):
            return self._held(situation, stays, Reason.HOLD_BLIND, "; ".join(filter(None, [measured, changed])))
        if asked.needed:
            why = f"{measured}: more would be needed, but {self._limit(situation)}"
            return self._held(situation, stays, Reason.SCALE_MAXIMUM, "; ".join(filter(None, [why, changed])))
        return self._held(situation, stays, Reason.HOLD_GOOD, "; ".join(filter(None, [measured, changed])))

    def _into_bounds(self, situation: Situation, memory: _Memory, seen: Seen) -> Decision:
        most = situation.bounds.maximum
        said = f"{workers(situation.scale_out)} run, {workers(most)} are allowed"
        if not _measured(seen):
            why = f"{said}, but nothing is scaled in: {self._measured(situation, seen)}"
            return self._held(situation, memory, Reason.HOLD_BLIND, why)
        after = memory.placed.matched(most, self.options, situation.now_s)
        sentence = f"{said}. {_capital(after.told(self.options, situation.now_s))}."
        return Decision(self.name, most, Reason.SCALE_IN, sentence, memory=replace(memory, planned=after).to_json())

    def _held(self, situation: Situation, memory: _Memory, reason: Reason, why: str) -> Decision:
        told = f"{why}. {_capital(memory.placed.told(self.options, situation.now_s))}."
        return hold(self.name, situation, reason, told, memory=memory.to_json())

    def _limit(self, situation: Situation) -> str:
        if situation.scale_out >= situation.bounds.maximum:
            return f"{workers(situation.bounds.maximum)} are the most"
        return f"all {self.options.most_hosts} hosts that may be are leased and full"

    def _measured(self, situation: Situation, seen: Seen) -> str:
        lag, latency_s = _usable(situation.lag_records), seen.durations_s[-1]
        waits = (
            "the consumer lag is not measured" if seen.queue_items is None or lag is None else f"{records(lag)} wait"
        )
        if math.isnan(latency_s):
            return f"The latency is not measured, {waits}"
        return f"Latency {1_000.0 * latency_s:,.0f} ms of {self._objective_ms(situation):,.0f} ms, {waits}"

    def _objective_ms(self, situation: Situation) -> float:
        return self.options.latency_ms or situation.objectives.latency_p95_ms


def _changes(decided: HostsDecision, told: str) -> str:
    """Return what changes in words: where workers come and go, which hosts, and why if that is not ``told`` already."""
    come: dict[str, int] = {}
    go, parts, why = 0, [], dict[str, None]()
    for step in decided.steps:
        match step.action:
            case LeaseHost(host_id):
                parts.append(f"{host_id} is leased")
            case StartInstance(_, host_id):
                come[host_id] = come.get(host_id, 0) + 1
                why[step.why] = None
            case StopInstance():
                go += 1
            case ReleaseHost(host_id):
                parts.append(f"{host_id} is given back, {step.why}")
            case LeaseAgain(host_id):
                parts.append(f"{host_id} is leased again, {step.why}")
    more = [f"{workers(count)} more on {host_id}" for host_id, count in come.items()]
    fewer = [f"{workers(go)} fewer"] if go else []
    return ", ".join([*more, *fewer, *parts, *(one for one in why if one != told)])


def _measured(seen: Seen) -> bool:
    return math.isfinite(seen.durations_s[-1]) and seen.queue_items is not None


def _candidate(situation: Situation, scale_out: int) -> Candidate:
    estimate = situation.capacities.get(scale_out)
    return Candidate(scale_out, math.nan if estimate is None else estimate.per_s, None, None)


def _usable(value: float | None, factor: float = 1.0) -> float | None:
    return None if value is None or not math.isfinite(value) or value < 0 else value * factor


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
