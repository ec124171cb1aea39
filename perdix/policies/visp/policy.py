"""The billing-aware policy of Hochreiner et al. (PeerJ CS 2018) for a job of equal workers on leased hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perdix.policies.contract import TINY_PER_S, Candidate, Decision, Reason, Situation
from perdix.policies.holding import hold
from perdix.policies.hosts.btu import AGAIN, Btu, BtuOptions
from perdix.policies.hosts.btu_forecast import BtuForecast, BtuForecastOptions
from perdix.policies.hosts.contract import (
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
from perdix.policies.hosts.fleet import Fleet
from perdix.policies.hosts.forecast_need import Demand, highest_per_s
from perdix.policies.hosts.plan import LEASED
from perdix.policies.hosts.scale_out_trigger import trigger
from perdix.policies.hosts.spare import Spare
from perdix.policies.remembering import finite_or_null, number, parts_by_name, parts_of
from perdix.policies.visp.hosts import MOST_NAMED, WORKER, Placement, room_for
from perdix.policies.visp.options import VispOptions
from perdix.policies.wording import records, seconds, workers


@dataclass(frozen=True)
class Remembered:
    """What is remembered from tick to tick: it travels with the decisions."""

    placed: Placement  # hosts and workers as they are, and
    # as they will be once what was decided last has happened: a guard may refuse it, and a rescale takes a while, in
    # whose grace it may still happen
    planned: Placement | None = None
    latencies_s: tuple[float, ...] = ()  # the last p95 latencies outside the grace of rescales, oldest first
    scalings: int = 0  # rescales that were decided and happened
    # again, leased: as the policies of hosts remember them
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
    def of(cls, situation: Situation, options: VispOptions) -> Remembered:
        """Return what was remembered, made to agree with the workers that really run."""
        found, now_s = situation.memory, situation.now_s
        placed = Placement.read(found.get("hosts"), options, now_s)
        planned = Placement.read(found.get("planned"), options, now_s)
        happened = planned is not None and planned.workers == situation.scale_out
        waits = placed is not None and placed.workers == situation.scale_out and not happened
        base = (planned if happened else placed) or Placement()
        return cls(
            base.matched(situation.scale_out, options, now_s),
            planned if waits else None,
            tuple(parts_of(found.get("latencies_s"), number)),
            _count_of(found.get("scalings")) + happened,
            parts_by_name(found.get(AGAIN), number),
            _count_of(found.get(LEASED)),
        )


class _ByHost(Btu):
    """``btu``, where a whole host of workers may go at once if the learned capacity of the rest carries the load.

    Hosts of a job are full of its workers, and a fifth of those is rarely a host: with the cap alone none would ever be
    given back.
    """

    def __init__(self, options: BtuOptions, needed: int | None, per_host: int) -> None:
        super().__init__(options)
        self._needed, self._per_host = needed, per_host

    def _spares(self, situation: HostsSituation, fleet: Fleet) -> dict[str, Spare]:
        found = super()._spares(situation, fleet)
        spare, runs = found[WORKER], fleet.count(WORKER)
        if spare.most > 0 and self._needed is not None:
            needed = max(self._needed, situation.operators[WORKER].least)
            most = max(0, min(max(spare.most, self._per_host), runs - needed))
            found[WORKER] = replace(spare, most=most, why=f"{spare.why}, the present load takes {workers(needed)}")
        return found


class Visp:
    """Adds workers by Algorithm 1 where Algorithm 2 puts them, and takes workers away only where a host's unit ends.

    Workers are equal, so Algorithm 3 has nothing to choose between: it says whether any may go. All rules are those of
    :mod:`perdix.policies.hosts`; this translates a job into one operator type, and back. Differences to the paper:
    docs/decisions/0021-policies-of-hosts.md.
    """

    name = "visp"
    learns = False

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
        memory = Remembered.of(situation, self.options)
        if situation.since_rescale_s < self.options.grace_s:
            why = f"Rescaled {seconds(situation.since_rescale_s)} ago, left alone for {seconds(self.options.grace_s)}"
            return self._held(situation, replace(memory, latencies_s=()), Reason.HOLD_GRACE, why)
        memory = replace(memory, planned=None)
        latency_s = _usable(situation.latency_p95_ms, 1e-3)
        latencies_s = (*memory.latencies_s, math.nan if latency_s is None else latency_s)[-self.options.durations :]
        seen = Seen(latencies_s, self._lag_s(situation), memory.scalings)
        memory = replace(memory, latencies_s=tuple(value for value in latencies_s if math.isfinite(value)))
        if situation.scale_out > situation.bounds.maximum:
            return self._into_bounds(situation, memory, seen)
        decided = self._rules(situation).decide(self._hosts_situation(situation, memory, seen))
        again = parts_by_name(decided.memory.get(AGAIN), number)
        memory = replace(memory, again=again, leased=_count_of(decided.memory.get(LEASED)))
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
            now = self._needed(situation, situation.workload_per_s)
            return _ByHost(BtuOptions(**common), now, room_for(options.host, options))
        ahead = BtuForecastOptions(**common, lead_s=options.lead_s, react=True)
        return BtuForecast(ahead, lambda _, __, ahead_s: self._demand(situation, ahead_s))

    def _demand(self, situation: Situation, ahead_s: float) -> Demand | None:
        highest = highest_per_s(situation.forecast, situation.now_s, ahead_s, self.options.quantile)
        needed = None if highest is None else self._needed(situation, highest)
        return None if highest is None or needed is None else Demand(highest, needed)

    def _needed(self, situation: Situation, per_s: float) -> int | None:
        """Return the fewest workers whose learned capacity carries a load and works off what waits."""
        load, lag, bounds = _usable(per_s), _usable(situation.lag_records), situation.bounds
        if load is None or lag is None or not situation.capacities:
            return None
        least_per_s = max(load / self.options.use, load + lag / self.options.drain_s)
        for scale_out in range(bounds.minimum, bounds.maximum + 1):
            estimate = situation.capacities.get(scale_out)
            if estimate is not None and estimate.per_s >= least_per_s:
                return scale_out
        return bounds.maximum

    def _lag_s(self, situation: Situation) -> float | None:
        """Return how many seconds of the present workload wait; ``None`` where that is not measured.

        Without a workload whatever waits is very long.
        """
        lag, load = _usable(situation.lag_records), _usable(situation.workload_per_s)
        return None if lag is None or load is None else lag / max(load, TINY_PER_S)

    def _hosts_situation(self, situation: Situation, memory: Remembered, seen: Seen) -> HostsSituation:
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

    def _decision(self, situation: Situation, memory: Remembered, decided: HostsDecision, seen: Seen) -> Decision:
        current, options = situation.scale_out, self.options
        after, filling = self._filled(situation, memory.placed.after(decided.steps, situation.now_s))
        objective_s = self._objective_ms(situation) / 1_000.0
        asked = trigger(
            seen.durations_s,
            objective_s,
            seen.queue_items,
            most_durations=options.durations,
            queue_threshold=options.lag_s,
        )
        measured = self._measured(situation, seen)
        changed = ", ".join(filter(None, [_changes(decided, asked.why), filling]))
        if after.workers < situation.bounds.minimum:
            least = workers(situation.bounds.minimum)
            why = f"{measured}: {least} are the least, but {self._limit(situation)}"
            return self._held(situation, memory, Reason.SCALE_MAXIMUM, why)
        if after.workers != current:
            sentence = f"{measured}: {changed}. {_capital(after.in_words(options, situation.now_s))}."
            examined = tuple(Candidate.believed(situation, scale_out) for scale_out in (current, after.workers))
            reason, planned = Reason.of_change(current, after.workers), replace(memory, planned=after)
            return Decision(self.name, after.workers, reason, sentence, examined, memory=planned.to_json())
        stays = replace(memory, placed=after)
        if not _measured(seen):
            return self._held(situation, stays, Reason.HOLD_BLIND, "; ".join(filter(None, [measured, changed])))
        if asked.needed:
            why = f"{measured}: more would be needed, but {self._limit(situation)}"
            return self._held(situation, stays, Reason.SCALE_MAXIMUM, "; ".join(filter(None, [why, changed])))
        return self._held(situation, stays, Reason.HOLD_GOOD, "; ".join(filter(None, [measured, changed])))

    def _filled(self, situation: Situation, after: Placement) -> tuple[Placement, str]:
        """Return the placement of a scale-out with its hosts full, within the bounds, and what that adds in words."""
        room = room_for(self.options.host, self.options)
        most = min(room * len(after.hosts), situation.bounds.maximum)
        if not self.options.fill_hosts or not situation.scale_out < after.workers < most:
            return after, ""
        filled = after.matched(most, self.options, situation.now_s)
        return filled, f"{workers(most - after.workers)} more fill hosts that are paid for"

    def _into_bounds(self, situation: Situation, memory: Remembered, seen: Seen) -> Decision:
        most = situation.bounds.maximum
        said = f"{workers(situation.scale_out)} run, {workers(most)} are allowed"
        if not _measured(seen):
            why = f"{said}, but nothing is scaled in: {self._measured(situation, seen)}"
            return self._held(situation, memory, Reason.HOLD_BLIND, why)
        after = memory.placed.matched(most, self.options, situation.now_s)
        sentence = f"{said}. {_capital(after.in_words(self.options, situation.now_s))}."
        return Decision(self.name, most, Reason.SCALE_IN, sentence, memory=replace(memory, planned=after).to_json())

    def _held(self, situation: Situation, memory: Remembered, reason: Reason, why: str) -> Decision:
        sentence = f"{why}. {_capital(memory.placed.in_words(self.options, situation.now_s))}."
        return hold(self.name, situation, reason, sentence, memory=memory.to_json())

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


def _changes(decided: HostsDecision, said: str) -> str:
    """Return what changes in words: where workers come and go, which hosts, and why if that is not ``said`` already."""
    come: dict[str, int] = {}
    go, parts, why = 0, [], dict[str, None]()
    ends: dict[str, list[str]] = {}
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
                ends.setdefault(f"given back, {step.why}", []).append(host_id)
            case LeaseAgain(host_id):
                ends.setdefault(f"leased again, {step.why}", []).append(host_id)
    more = [f"{workers(count)} more on {host_id}" for host_id, count in come.items()]
    fewer = [f"{workers(go)} fewer"] if go else []
    parts += [f"{_named(names)} {what}" for what, names in ends.items()]
    return ", ".join([*more, *fewer, *parts, *(reason for reason in why if reason != said)])


def _named(hosts: list[str]) -> str:
    """Return hosts with their verb; of many the first, and how many more."""
    if len(hosts) == 1:
        return f"{hosts[0]} is"
    shown, others = hosts[:MOST_NAMED], len(hosts) - MOST_NAMED
    return ", ".join(shown) + (f" and {others} more are" if others > 0 else " are")


def _measured(seen: Seen) -> bool:
    return math.isfinite(seen.durations_s[-1]) and seen.queue_items is not None


def _usable(value: float | None, factor: float = 1.0) -> float | None:
    return None if value is None or not math.isfinite(value) or value < 0 else value * factor


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _count_of(value: Any) -> int:
    """Return a number that was remembered; 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
