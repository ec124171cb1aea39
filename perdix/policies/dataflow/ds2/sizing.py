"""The rule of one interval: the equations, and what perdix adds for the hottest instance of an uneven operator."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perdix.models.dataflow.optimal import Curve, Optimal, Sizing, optimal_parallelism, rounded_up
from perdix.policies.dataflow.contract import DataflowSituation, OperatorVerdict
from perdix.policies.dataflow.ds2.measured import Measured
from perdix.policies.dataflow.ds2.options import Ds2Options
from perdix.policies.wording import per_s


@dataclass(frozen=True)
class Sized:
    """What one interval asks for."""

    situation: DataflowSituation
    measured: Measured
    optimal: Optimal
    wanted: Mapping[str, int]  # operator -> instances; operators that could not be sized, or are not to be, are missing
    exact: Mapping[str, float]  # the same before rounding, with head-room
    why: Mapping[str, str]  # operator -> why its result is not just the equation's

    @property
    def held_back_by(self) -> tuple[str, ...]:
        """Uneven operators whose hottest instance can do no more, which more instances need not fix."""
        return tuple(name for name, skew in self.measured.skews.items() if skew.saturated)

    @property
    def lets_through(self) -> float:
        """How many times its load the narrowest operator takes by the equations with what runs."""
        runs, exact = self.situation.parallelism, self.optimal.unrounded_of()
        return min((runs[name] / need for name, need in exact.items() if need > 0), default=math.inf)

    def verdicts(self) -> tuple[OperatorVerdict, ...]:
        """Return what was found of each operator."""
        exact, found = self.optimal.unrounded_of(), []
        for index, name in enumerate(self.situation.graph.names):
            target_per_s = float(self.optimal.target_per_s[-1, index])
            if name in exact:
                said = f"{per_s(target_per_s)} take {exact[name]:.4g}"
            elif self.situation.graph[name].is_source:
                target = "an unknown rate" if math.isnan(target_per_s) else per_s(target_per_s)
                said = f"a source keeps its instances; it should emit {target}"
            else:
                said = "held"
            why = f"{said}: {self.why[name]}" if name in self.why else said
            found.append(OperatorVerdict(name, exact.get(name), why))
        return tuple(found)


def size(
    situation: DataflowSituation,
    measured: Measured,
    options: Ds2Options,
    curves: Mapping[str, Curve],
    *,
    for_the_hottest: bool = False,
) -> Sized:
    """Apply equations 7 and 8 to the rates of one interval.

    ``curves``: operator -> how it really scales; operators that are missing scale linearly.
    ``for_the_hottest``: whether uneven operators are sized so that their hottest instance keeps up.
    """
    sizing = Sizing(options.tolerance, options.rate_factor, None, options.minimum, options.maximum)
    optimal = optimal_parallelism(
        situation.graph,
        [measured.rates],
        measured.source_per_s,
        running=situation.parallelism,
        sizing=sizing,
        curves=curves,
    )
    instances, unrounded = optimal.parallelism(), optimal.unrounded_of()
    why = {**optimal.reasons[0], **measured.held}
    wanted: dict[str, int] = {}
    exact: dict[str, float] = {}
    for index, name in enumerate(situation.graph.names):
        if name not in unrounded or not situation.graph[name].scalable:
            continue
        wanted[name], exact[name] = instances[name], unrounded[name] * (1.0 + options.rate_factor)
        if name in measured.skews:
            target_per_s = float(optimal.target_per_s[-1, index]) * (1.0 + options.rate_factor)
            reason, needed = f"{measured.skews[name].in_words()}, which is averaged away", exact[name]
            if for_the_hottest:
                reason, needed = _for_the_hottest(measured, options, name, target_per_s, exact[name])
            why[name] = reason
            wanted[name] = max(wanted[name], bounded(situation, options, name, needed))
    return Sized(situation, measured, optimal, wanted, exact, why)


def bounded(situation: DataflowSituation, options: Ds2Options, name: str, exact: float) -> int:
    """Return an unrounded parallelism rounded up, within the bounds of the options and the operator."""
    count = int(rounded_up(np.array([exact]), options.tolerance)[0])
    most = [bound for bound in (options.maximum, situation.graph[name].maximum) if bound is not None]
    return max(min([count, *most]), min([options.minimum, *most]))


def _for_the_hottest(
    measured: Measured, options: Ds2Options, name: str, target_per_s: float, average: float
) -> tuple[str, float]:
    """Return in words what makes an operator uneven, and the unrounded instances at which its hottest keeps up.

    ``average`` are the instances that its mean takes, which count where the hottest cannot keep up whatever runs.
    """
    skew = measured.skews[name]
    needed, most = skew.unrounded_for(target_per_s), average * options.skew_bound
    if math.isinf(needed):
        return f"{skew.in_words()}; {skew.key:.0%} of its input go to one instance however many there are", average
    said = f"{skew.in_words()}; that one keeps up with {needed:.4g} instances"
    return (said, needed) if needed <= most else (f"{said}, of which {most:.4g} are allowed", most)
