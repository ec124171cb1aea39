"""A baseline after Dhalion (VLDB '17): symptoms, a diagnosis, one action on one operator, and a look at its effect.

What is published: back-pressure names the bottleneck; its parallelism grows by the time it held the input back over the
time it did not (the paper's resolver, section 5.1); after an action nothing is done for a while; actions that did not
help are not repeated. The constants are those of the resolver that Heron ships (apache/incubator-heron, healthmgr,
``ScaleUpResolver`` and ``DynamicResourceAllocationPolicy``), where an operator's time of back-pressure is the sum over
its instances, and a bottleneck that is uneven is left alone. Scaling in, and for how long an action is not repeated,
are assumptions: what Heron ships has neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation, OperatorVerdict
from perdix.policies.dataflow.holding import hold, running, unknown, with_usable_windows
from perdix.policies.dataflow.skew import skew_of
from perdix.policies.remembering import count, number, part_of, parts_by_name, parts_of
from perdix.policies.wording import seconds
from perdix.settings.strict import Strict

MOST_HELD_BACK = 0.999  # share of time: where all of it was lost, the resolver reckons with a thousandth that was not
Seconds = Annotated[float, Field(ge=0, le=604_800)]


class DhalionOptions(Strict):
    """Options of the policy; what Heron ships unless marked as assumed."""

    noise: Annotated[float, Field(ge=0, lt=1)] = 0.02  # share of time in back-pressure up to which there is none
    # Back-pressure is the mean over so long, whatever was done in that time
    sensor_s: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    fence: Annotated[float, Field(gt=0, le=1_000)] = 4.0  # an action adds at most this many times the present instances
    # Whether the time of back-pressure counts for each instance that causes it and is summed (as shipped: instances
    # that are equally loaded all count), or is the mean, as one may also read the paper
    attribution: Literal["sum", "mean"] = "sum"
    wait_s: Seconds = 180.0  # for so long after a start or an action nothing is done
    # A bottleneck one of whose instances works this many times as long as the mean is not scaled: that is data skew or
    # a slow instance, for which there is no resolver
    skew_ratio: Annotated[float, Field(gt=1)] = 1.5
    # For so long an action that did not help is not repeated on the same operator (assumed)
    blacklist_s: Seconds = 3_600.0
    # Share by which an action must lower the bottleneck's back-pressure, or raise what it processes (assumed)
    least_effect: Annotated[float, Field(ge=0, le=1)] = 0.05
    # scale_in_after_s, scale_in_share, idle: when for so long there was no back-pressure and no backlog, the operator
    # that works the least share of its time, if that is below ``idle``, gives up this share of its instances (assumed).
    # ``scale_in_after_s: null``: never, as shipped
    scale_in_after_s: Seconds | None = 600.0
    scale_in_share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    idle: Annotated[float, Field(gt=0, le=1)] = 0.6
    maximum: Annotated[int, Field(ge=1)] | None = None  # upper bound of every operator beside its own


@dataclass(frozen=True)
class _Action:
    """What was done last: to which operator, at what, and how that stood before (shares of time, records/s)."""

    operator: str
    before: int
    after: int
    held_back: float
    processed_per_s: float


@dataclass(frozen=True)
class _Memory:
    """What was remembered; times in epoch seconds."""

    # Operator -> when it held its input back, as (from, until, for what share of that time)
    sensed: Mapping[str, tuple[tuple[float, float, float], ...]] = field(default_factory=dict)
    acted_s: float | None = None
    action: _Action | None = None
    calm_since_s: float | None = None  # since when there is no back-pressure
    # Direction and operator -> until when that is not done
    blacklist: Mapping[str, float] = field(default_factory=dict)

    def sensing(self, situation: DataflowSituation, noise: float, sensor_s: float) -> _Memory:
        """Return it with what the windows of this interval show, and without what the sensor has forgotten."""
        now_s, sensed = situation.now_s, {}
        for name in situation.graph.names:
            window, share = situation.windows.get(name), _held_back(situation, name, noise)
            kept = tuple(reading for reading in self.sensed.get(name, ()) if now_s - sensor_s < reading[1] < now_s)
            if window is not None and share > 0:
                kept = (*kept, (now_s - window.window_s, now_s, share))
            if kept:
                sensed[name] = kept
        return replace(self, sensed=sensed)

    def since(self, at_s: float) -> _Memory:
        """Return it without what was sensed earlier; a window that began before counts from then on, at its mean."""
        later = {
            name: tuple((max(from_s, at_s), until_s, share) for from_s, until_s, share in several if until_s > at_s)
            for name, several in self.sensed.items()
        }
        return replace(self, sensed={name: kept for name, kept in later.items() if kept})

    def held_back(self, now_s: float, sensor_s: float) -> dict[str, float]:
        """Return for what share of the sensor's time, or of the newest window if that is longer, each operator did."""
        found = {}
        for name, several in self.sensed.items():
            begin_s = min(now_s - sensor_s, several[-1][0])
            held_s = math.fsum(share * (until_s - max(from_s, begin_s)) for from_s, until_s, share in several)
            found[name] = min(held_s / (now_s - begin_s), 1.0)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-serialisable values."""
        return {
            "sensed": {name: [list(reading) for reading in several] for name, several in self.sensed.items()},
            "acted_s": self.acted_s,
            "action": None if self.action is None else list(vars(self.action).values()),
            "calm_since_s": self.calm_since_s,
            "blacklist": dict(self.blacklist),
        }

    @classmethod
    def of(cls, situation: DataflowSituation, blacklist_s: float) -> _Memory:
        """Return what was remembered; a part that cannot be read, or lies in the future, is left out."""
        found, now_s = situation.memory, situation.now_s

        def past(value: Any) -> float:
            if number(value) > now_s:
                raise ValueError("a clock that was ahead has been set back")
            return number(value)

        action = part_of(
            found.get("action"), lambda v: _Action(str(v[0]), count(v[1]), count(v[2]), number(v[3]), number(v[4]))
        )
        blacklist = parts_by_name(found.get("blacklist"), number)
        return cls(
            parts_by_name(
                found.get("sensed"),
                lambda several: tuple(parts_of(several, lambda v: (number(v[0]), number(v[1]), number(v[2])))),
            ),
            part_of(found.get("acted_s"), past),
            action if action is not None and action.operator in situation.parallelism else None,
            part_of(found.get("calm_since_s"), past),
            {key: until_s for key, until_s in blacklist.items() if now_s < until_s <= now_s + blacklist_s},
        )


class Dhalion:
    """Dhalion's dynamic resource provisioning.

    Needs back-pressure, which only under-provisioned dataflows have; sees one bottleneck at a time, and so takes a step
    for each.
    """

    name = "dhalion"

    def __init__(self, options: DhalionOptions | None = None) -> None:
        self.options = options or DhalionOptions()

    def decide(self, situation: DataflowSituation) -> DataflowDecision:
        """Scale one operator at most, or hold what runs."""
        situation = with_usable_windows(situation)
        blind = unknown(situation)
        if blind is not None:
            return hold(self.name, situation, Reason.HOLD_BLIND, f"Blind: {blind}.")
        options, now_s = self.options, situation.now_s
        memory = _Memory.of(situation, options.blacklist_s).sensing(situation, options.noise, options.sensor_s)
        acted_s = max(now_s - situation.since_rescale_s, -math.inf if memory.acted_s is None else memory.acted_s)
        if now_s - acted_s < options.wait_s:
            why = f"Acted {seconds(now_s - acted_s)} ago; waits {seconds(options.wait_s)} for the effect."
            return hold(self.name, situation, Reason.HOLD_GRACE, why, memory=memory.to_json())
        held_back = memory.held_back(now_s, options.sensor_s)
        effect = memory.since(acted_s).held_back(now_s, min(now_s - acted_s, options.sensor_s))
        memory = replace(memory, action=None, blacklist=self._judged(situation, memory, effect))
        found = {name: share for name, share in held_back.items() if share > options.noise}
        if found:
            return self._scale_out(situation, found, replace(memory, calm_since_s=None))
        calm_s = now_s if memory.calm_since_s is None else memory.calm_since_s
        return self._calm(situation, replace(memory, calm_since_s=calm_s))

    def _judged(
        self, situation: DataflowSituation, memory: _Memory, effect: Mapping[str, float]
    ) -> Mapping[str, float]:
        """Return the blacklist, with the last action on it if that did not help.

        It helped if another operator is the bottleneck now, or the same one holds back less, or processes more. A
        scale-in helped if it made no bottleneck.

        ``effect``: operator -> share of the time since that action, or of the sensor's if that is shorter, for which it
        held its input back.
        """
        blacklist, action, options = dict(memory.blacklist), memory.action, self.options
        if action is None or situation.parallelism[action.operator] != action.after:
            return blacklist
        now = effect.get(action.operator, 0.0)
        if action.after < action.before:
            helped = now <= options.noise
        else:
            less = now <= action.held_back * (1.0 - options.least_effect)
            more = _processed_per_s(situation, action.operator) >= action.processed_per_s * (1.0 + options.least_effect)
            helped = less or more
        if not helped:
            blacklist[_key(action.operator, action.before, action.after)] = situation.now_s + options.blacklist_s
        return blacklist

    def _scale_out(self, situation: DataflowSituation, found: Mapping[str, float], memory: _Memory) -> DataflowDecision:
        """Resolve the most downstream bottleneck that may be acted on."""
        verdicts = []
        for name in reversed([name for name in situation.graph.names if name in found]):
            runs, share = situation.parallelism[name], found[name]
            why_not = self._why_not(situation, name, memory)
            wanted = runs if why_not else self._grown(situation, name, share)
            if why_not is None and wanted == runs:
                why_not = "it cannot have more instances"
            held = f"it holds its input back for {share:.0%} of the time"
            verdicts.append(OperatorVerdict(name, None, f"{held}; {why_not}" if why_not else held))
            if why_not is None:
                action = _Action(name, runs, wanted, share, _processed_per_s(situation, name))
                return self._act(situation, action, tuple(verdicts), memory)
        why = f"Bottlenecks are left alone: {'; '.join(f'{verdict.operator}: {verdict.why}' for verdict in verdicts)}."
        held_too = memory.to_json()
        return hold(self.name, situation, Reason.HOLD_AVOIDED, why, operators=tuple(verdicts), memory=held_too)

    def _why_not(self, situation: DataflowSituation, name: str, memory: _Memory) -> str | None:
        if not situation.graph[name].scalable:
            return "it is not to be scaled"
        if _key(name, 0, 1) in memory.blacklist:
            return "scaling it out did not help not long ago"
        window = situation.windows.get(name)
        skew = None if window is None else skew_of(window, self.options.skew_ratio)
        return None if skew is None else f"{skew.in_words()}: data skew or a slow instance has no resolver"

    def _grown(self, situation: DataflowSituation, name: str, share: float) -> int:
        """Return the resolver's parallelism: the present one, and as much of it as could not be handled."""
        runs = situation.parallelism[name]
        total = share * runs if self.options.attribution == "sum" else share
        lost = min(total, MOST_HELD_BACK)
        grown = math.ceil(round(runs * (1.0 + min(lost / (1.0 - lost), self.options.fence)), 9))
        bounds = [bound for bound in (self.options.maximum, situation.most_instances(name)) if bound is not None]
        return max(min([grown, *bounds]), runs)

    def _calm(self, situation: DataflowSituation, memory: _Memory) -> DataflowDecision:
        """Without back-pressure: nothing, or after a while fewer instances of the operator that works least."""
        after_s, calm_s = self.options.scale_in_after_s, situation.now_s - (memory.calm_since_s or situation.now_s)
        why = f"No back-pressure for {seconds(calm_s)}."
        if after_s is None or calm_s < after_s:
            return hold(self.name, situation, Reason.HOLD_GOOD, why, memory=memory.to_json())
        backlog = self._backlog(situation)
        if backlog is not None:
            return hold(self.name, situation, Reason.HOLD_GOOD, f"{why} {backlog}", memory=memory.to_json())
        name, useful = self._idlest(situation, memory)
        if name is None:
            return hold(self.name, situation, Reason.HOLD_GOOD, why, memory=memory.to_json())
        runs = situation.parallelism[name]
        wanted = max(1, min(runs - 1, math.ceil(round(runs * (1.0 - self.options.scale_in_share), 9))))
        verdict = OperatorVerdict(name, None, f"it works {useful:.0%} of its time, no back-pressure")
        action = _Action(name, runs, wanted, 0.0, _processed_per_s(situation, name))
        return self._act(situation, action, (verdict,), memory)

    def _backlog(self, situation: DataflowSituation) -> str | None:
        """Return why scaling in would be unsafe: the queues are not known to be empty."""
        silent = [name for name in situation.graph.names if name not in situation.windows]
        if silent:
            return f"{silent[0]} did not report, so nothing is scaled in."
        waiting = {name: lag for name, lag in situation.lag_records.items() if not lag <= 0}
        seconds_of = {name: situation.source_per_s.get(name, 0.0) for name in waiting}
        late = [name for name, lag in waiting.items() if not lag <= seconds_of[name]]
        return f"More than a second's records wait before {late[0]}." if late else None

    def _idlest(self, situation: DataflowSituation, memory: _Memory) -> tuple[str | None, float]:
        """Return the operator that works the least share of its time, if that is little, and the share."""
        shares = {}
        for operator in situation.graph:
            name, window = operator.name, situation.windows[operator.name]
            may = operator.scalable and not operator.is_source and situation.parallelism[name] > 1
            whole = window.instances == situation.parallelism[name] and bool(np.isfinite(window.useful_s).all())
            if may and whole and _key(name, 1, 0) not in memory.blacklist:
                shares[name] = float(window.useful_s.mean()) / window.window_s
        idle = {name: share for name, share in shares.items() if share < self.options.idle}
        if not idle:
            return None, math.nan
        name = min(idle, key=lambda name: idle[name])
        return name, idle[name]

    def _act(
        self, situation: DataflowSituation, action: _Action, verdicts: tuple[OperatorVerdict, ...], memory: _Memory
    ) -> DataflowDecision:
        """Return the decision to carry out one action; ``verdicts`` ends with that on its operator."""
        remembered = replace(memory, acted_s=situation.now_s, action=action, calm_since_s=None).to_json()
        chosen = {**running(situation), action.operator: action.after}
        sentence = f"{action.operator}: {verdicts[-1].why}: {action.before} to {action.after} instances."
        reason = Reason.of_change(action.before, action.after)
        return DataflowDecision(self.name, chosen, reason, sentence, verdicts, remembered, memory.to_json())


def _key(operator: str, before: int, after: int) -> str:
    return f"{'out' if after > before else 'in'} {operator}"


def _waited(situation: DataflowSituation, name: str) -> float:
    """Return the mean share of time in which the instances of an operator waited for room in their output."""
    window = situation.windows.get(name)
    if window is None or window.window_s <= 0:
        return 0.0
    waited_s = window.back_pressured_s[np.isfinite(window.back_pressured_s)]
    return min(float(waited_s.mean()) / window.window_s, 1.0) if len(waited_s) else 0.0


def _held_back(situation: DataflowSituation, name: str, noise: float) -> float:
    """Return for what share of time an operator holds its input back, while nothing behind holds it back."""
    inputs = situation.graph[name].inputs
    if not inputs or _waited(situation, name) > noise:
        return 0.0
    return max(_waited(situation, upstream) for upstream in inputs)


def _processed_per_s(situation: DataflowSituation, name: str) -> float:
    window = situation.windows.get(name)
    return 0.0 if window is None else float(window.processed[np.isfinite(window.processed)].sum()) / window.window_s
