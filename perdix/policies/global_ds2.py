"""DS2 for a job as a whole: ``ceil(target rate / true processing rate of an instance)`` (OSDI '18, sections 3 and 4).

The published rule sizes every operator of a dataflow. Where metrics cover workers only, the job is one operator: each
worker runs an instance of it, and useful time is the share of time in which the worker was busy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import Field

from perdix.policies import useful_time
from perdix.policies.contract import Candidate, Decision, Reason, Situation
from perdix.policies.holding import hold, usable
from perdix.policies.wording import per_s, seconds, workers
from perdix.settings.strict import Strict

HIGHEST = 1e6  # instances: keeps a nonsense rate within what can be rounded


class GlobalDs2Options(Strict):
    """Options of the policy; the defaults are those of the paper's runs on Flink (5.3), or else of its program.

    ``policy_interval_s``: how often the rule is applied, to the means since it was applied last.
    ``warm_up_s``: for so long after a start nothing is measured.
    ``activation``, ``combine``: how many results since the last rescale are gathered before one is acted on, and which
    of them counts.
    ``rate_factor``: share by which the target rate is raised: head-room, which the paper does without.
    ``target_rate_ratio``: where no scale-out results and the target rate is still more than this many times the
    throughput, the result is raised by that ratio: overheads that useful time does not show. ``null``: never, which is
    the program's default.
    ``tolerance``: relative excess over a whole number of instances that is taken for an error of rounding.
    ``ignored_out``, ``ignored_in``: changes of at most this many instances are not worth a rescale. The program ignores
    one instance fewer.
    """

    policy_interval_s: Annotated[float, Field(gt=0, le=86_400)] = 10.0
    warm_up_s: Annotated[float, Field(ge=0, le=86_400)] = 30.0
    activation: Annotated[int, Field(ge=1, le=100)] = 1
    combine: Literal["last", "max", "median"] = "max"
    rate_factor: Annotated[float, Field(ge=0, le=10)] = 0.0
    target_rate_ratio: Annotated[float, Field(ge=1)] | None = 1.0
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 1e-6
    ignored_out: Annotated[int, Field(ge=0)] = 0
    ignored_in: Annotated[int, Field(ge=0)] = 1


@dataclass(frozen=True)
class _Epoch:
    """Sums since the rule was applied last: seconds, records that arrived and were processed, useful worker-seconds."""

    seconds: float = 0.0
    arrived: float = 0.0
    processed: float = 0.0
    useful_s: float = 0.0

    def plus(self, situation: Situation, busy: Sequence[float], throughput_per_s: float) -> _Epoch:
        """Return the sums with this tick in them."""
        tick_s = situation.tick_interval_s
        return _Epoch(
            self.seconds + tick_s,
            self.arrived + tick_s * situation.workload_per_s,
            self.processed + tick_s * throughput_per_s,
            self.useful_s + tick_s * math.fsum(busy),
        )


@dataclass(frozen=True)
class _Memory:
    """``scale_out`` is what ran at the last tick, ``results`` those of the rule since the last rescale."""

    scale_out: int = 0
    epoch: _Epoch = field(default_factory=_Epoch)
    results: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-serialisable values."""
        return {"scale_out": self.scale_out, "epoch": list(vars(self.epoch).values()), "results": list(self.results)}

    @classmethod
    def of(cls, situation: Situation) -> _Memory:
        """Return what was remembered; nothing where it cannot be read, or is of another scale-out."""
        found: Mapping[str, Any] = situation.memory
        try:
            epoch = _Epoch(*(float(value) for value in found["epoch"]))
            memory = cls(int(found["scale_out"]), epoch, tuple(int(value) for value in found["results"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            return cls(situation.scale_out)
        usable = all(math.isfinite(value) and value >= 0 for value in vars(epoch).values())
        return memory if usable and memory.scale_out == situation.scale_out else cls(situation.scale_out)


class GlobalDs2:
    """DS2's rule on the job as one operator.

    Like the published rule it assumes that instances are worth the same and that rates grow linearly with them, looks
    neither at the backlog nor ahead, and sizes for full use. Unlike the program it keeps to bounds, needs a measured
    useful time, and tolerates errors of rounding.
    """

    name = "ds2-global"
    learns = False

    def __init__(self, options: GlobalDs2Options | None = None) -> None:
        self.options = options or GlobalDs2Options()

    def decide(self, situation: Situation) -> Decision:
        """Choose a scale-out within the bounds, or hold what runs when its rates are not measured."""
        blind = _blindness(situation)
        if blind is not None:
            return hold(self.name, situation, Reason.HOLD_BLIND, f"Blind: {blind}.")
        since_s = useful_time.running_for_s(situation)
        if since_s < self.options.warm_up_s:
            why = f"Started {seconds(since_s)} ago, within the warm-up of {seconds(self.options.warm_up_s)}."
            fresh = _Memory(situation.scale_out).to_json()
            return hold(self.name, situation, Reason.HOLD_GRACE, why, memory=fresh)
        memory = _Memory.of(situation)
        epoch = memory.epoch.plus(situation, useful_time.shares_of(situation), situation.throughput_per_s or 0.0)
        if epoch.seconds < self.options.policy_interval_s:
            why = (
                f"{seconds(epoch.seconds)} of the policy interval of {seconds(self.options.policy_interval_s)} passed."
            )
            gathered = _Memory(situation.scale_out, epoch, memory.results).to_json()
            return hold(self.name, situation, Reason.HOLD_GOOD, why, memory=gathered)
        return self._apply(situation, epoch, memory.results)

    def _apply(self, situation: Situation, epoch: _Epoch, before: tuple[int, ...]) -> Decision:
        if epoch.processed <= 0 or epoch.useful_s <= 0:
            why = "Nothing was processed, so an instance's true rate is not known."
            kept = _Memory(situation.scale_out, results=before).to_json()
            return hold(self.name, situation, Reason.HOLD_UNKNOWN, why, memory=kept)
        each_per_s, target_per_s = epoch.processed / epoch.useful_s, epoch.arrived / epoch.seconds
        result, how = self._result(situation, epoch, each_per_s)
        results = (*before, result)[-self.options.activation :]
        memory = _Memory(situation.scale_out, results=results).to_json()
        said = f"{per_s(target_per_s)} at {per_s(each_per_s)} of useful time per instance take {workers(result)}{how}"
        if len(results) < self.options.activation:
            why = f"{said}; {len(results)} of {self.options.activation} results until one is acted on."
            return hold(self.name, situation, Reason.HOLD_GOOD, why, memory=memory)
        combined = self._combined(results)
        worthwhile = self._worthwhile(situation.scale_out, combined)
        chosen = situation.bounds.clamp(worthwhile)
        steps = (
            (result, combined, f"the {self.options.combine} of {len(results)} results"),
            (combined, worthwhile, "ignoring so small a change"),
            (worthwhile, chosen, "the bound of the job"),
        )
        turns = "".join(f"; {why} makes it {after}" for was, after, why in steps if was != after)
        rejected = [Candidate(was, each_per_s * was, None, why) for was, after, why in steps if was != after]
        return Decision(
            self.name,
            chosen,
            Reason.of_change(situation.scale_out, chosen),
            f"{said}{turns}.{useful_time.caveat(situation)}",
            (*rejected, Candidate(chosen, each_per_s * chosen, None, None)),
            memory=memory,
        )

    def _result(self, situation: Situation, epoch: _Epoch, each_per_s: float) -> tuple[int, str]:
        """Return the instances that the rule asks for, and in words what it did beside the division."""
        target_per_s = epoch.arrived / epoch.seconds
        exact = target_per_s * (1.0 + self.options.rate_factor) / each_per_s
        result, short = self._whole(exact), epoch.arrived / epoch.processed
        allowed = self.options.target_rate_ratio
        if allowed is None or result > situation.scale_out or short <= allowed:
            return result, ""
        more = f"{short:.3g}"
        why = "" if more == "1" else f" (raised by {more}, as so much more arrives than is processed)"
        return self._whole(exact * short), why

    def _whole(self, exact: float) -> int:
        return max(1, math.ceil(min(exact, HIGHEST) * (1.0 - self.options.tolerance)))

    def _combined(self, results: Sequence[int]) -> int:
        if self.options.combine == "last":
            return results[-1]
        return max(results) if self.options.combine == "max" else math.ceil(median(results))

    def _worthwhile(self, current: int, result: int) -> int:
        ignored = self.options.ignored_out if result > current else self.options.ignored_in
        return current if abs(result - current) <= ignored else result


def _blindness(situation: Situation) -> str | None:
    if not usable(situation.workload_per_s):
        return f"the mean workload is {situation.workload_per_s}"
    return useful_time.blindness(situation)
