"""What DS2 keeps from interval to interval, as JSON: results since the last rescale, and what that rescale did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from perdix.models.dataflow.rates import OperatorRates
from perdix.models.dataflow.scaling_curve import ScalingCurve
from perdix.policies.dataflow.contract import DataflowSituation
from perdix.policies.dataflow.holding import running
from perdix.policies.dataflow.scaling_manager import Emitted, Parallelism, Rescale, Result
from perdix.policies.dataflow.skew import Skew
from perdix.policies.remembering import counts, number, part_of, parts_by_name, parts_of

MOST_AVOIDED = 20  # that are remembered, the latest


class Avoided(NamedTuple):
    """A configuration that turned out badly, at what target rate, and until when (epoch seconds) it is not taken again.

    It is remembered beyond that time while the target rate is much the same: once is enough.
    """

    until_s: float
    parallelism: Parallelism
    target_per_s: float = 0.0


class Raised(NamedTuple):
    """By what unrounded results were last multiplied, and what the sources should have emitted then, records/s."""

    ratio: float
    target_per_s: float


class HotKey(NamedTuple):
    """The greatest share of an operator's input that one key was seen to make up, and until when (epoch seconds)."""

    share: float
    until_s: float


@dataclass(frozen=True)
class Memory:
    """What was remembered.

    ``parallelism``, ``since_s``: what runs, and the epoch seconds since when it was seen to.
    ``results``: of the rule since then: rates of an earlier configuration never mix with those of this one.
    ``rescale``: the rescale that was asked for last, until its effect was looked at.
    ``in_vain``, ``in_vain_at_per_s``: how many scale-outs in a row raised nothing, and what the sources should have
    emitted at the last.
    ``curves``: operator -> how it really scales, as far as it was seen to.
    """

    parallelism: Parallelism
    since_s: float
    results: tuple[Result, ...] = ()
    rescale: Rescale | None = None
    in_vain: int = 0
    in_vain_at_per_s: float = 0.0
    avoided: tuple[Avoided, ...] = ()
    raised: Raised | None = None
    hot_keys: Mapping[str, HotKey] = field(default_factory=dict)
    curves: Mapping[str, ScalingCurve] = field(default_factory=dict)

    @classmethod
    def of(cls, situation: DataflowSituation) -> Memory:
        """Return what was remembered, without what belongs to another configuration or cannot be read.

        Of a job that was redeployed with other operators nothing of it counts.
        """
        now_s, runs = situation.now_s, running(situation)
        kept = _read(situation.memory)
        if kept.parallelism.keys() != runs.keys():
            kept = _read({})
        if kept.parallelism == runs and kept.since_s <= now_s:
            return kept
        rescale = kept.rescale if kept.rescale is not None and kept.rescale.after == runs else None
        began_s = _began_s(situation, known=bool(kept.parallelism), asked=rescale is not None)
        return replace(kept, parallelism=runs, since_s=began_s, results=(), rescale=rescale)

    def learning(self, rates: Mapping[str, OperatorRates], at_s: float) -> Memory:
        """Return it with what the operators were measured to take at their present parallelism."""
        curves = {
            name: self.curves.get(name, ScalingCurve()).observed(rate.instances, rate.true_processing_per_s, at_s)
            for name, rate in rates.items()
        }
        return replace(self, curves={**self.curves, **curves})

    def knowing_keys(self, skews: Mapping[str, Skew], now_s: float, keep_s: float) -> Memory:
        """Return it with the hot keys of uneven operators.

        Where an instance is hot for another reason than a key, its excess looks like a small key among few instances
        and like a greater one among many: the greatest counts, or the operator would be scaled out and in by turns.
        """
        known = {name: share for name, share in self.hot_keys.items() if now_s < share.until_s <= now_s + keep_s}
        for name, skew in skews.items():
            if name not in known or skew.key >= known[name].share:
                known[name] = HotKey(skew.key, now_s + keep_s)
        return replace(self, hot_keys=known)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-serialisable values."""
        rescale = self.rescale
        return {
            "parallelism": dict(self.parallelism),
            "since_s": self.since_s,
            "results": [[dict(result.wanted), _of_emitted(result.emitted)] for result in self.results],
            "rescale": rescale and [dict(rescale.before), dict(rescale.after), _of_emitted(rescale.emitted)],
            "in_vain": [self.in_vain, self.in_vain_at_per_s],
            "avoided": [
                [size.until_s, dict(size.parallelism), size.target_per_s] for size in self.avoided[-MOST_AVOIDED:]
            ],
            "raised": self.raised and list(self.raised),
            "hot_keys": {name: list(share) for name, share in self.hot_keys.items()},
            "curves": {name: curve.to_json() for name, curve in self.curves.items() if curve.points},
        }


def _began_s(situation: DataflowSituation, *, known: bool, asked: bool) -> float:
    """Return since when (epoch seconds) a configuration that is seen for the first time runs at the latest.

    Where another ran before, its windows may reach back to that one, unless it is what was asked for: then the time
    since the rescale decides. At the very first the windows are taken to be of what runs.
    """
    if not known:
        return situation.now_s - max((window.window_s for window in situation.windows.values()), default=0.0)
    return situation.now_s - (situation.since_rescale_s if asked and math.isfinite(situation.since_rescale_s) else 0.0)


def _read(found: Mapping[str, Any]) -> Memory:
    """Rebuild it; a part that cannot be read is left out."""
    in_vain, at_per_s = part_of(found.get("in_vain"), lambda v: (int(v[0]), number(v[1]))) or (0, 0.0)
    return Memory(
        part_of(found.get("parallelism"), counts) or {},
        part_of(found.get("since_s"), number) or 0.0,
        tuple(parts_of(found.get("results"), lambda v: Result(counts(v[0]), _emitted(v[1])))),
        part_of(found.get("rescale"), lambda v: Rescale(counts(v[0]), counts(v[1]), _emitted(v[2]))),
        in_vain,
        at_per_s,
        tuple(parts_of(found.get("avoided"), lambda v: Avoided(number(v[0]), counts(v[1]), number(v[2])))),
        part_of(found.get("raised"), lambda v: Raised(number(v[0]), number(v[1]))),
        parts_by_name(found.get("hot_keys"), lambda v: HotKey(number(v[0]), number(v[1]))),
        parts_by_name(found.get("curves"), ScalingCurve.of_json),
    )


def _of_emitted(emitted: Emitted | None) -> list[float] | None:
    return None if emitted is None else [emitted.per_s, emitted.target_per_s, float(emitted.settled)]


def _emitted(values: Any) -> Emitted | None:
    return None if values is None else Emitted(number(values[0]), number(values[1]), bool(number(values[2])))
