"""The optimal parallelism of every operator in one traversal (DS2, section 3.2, equations 7 and 8).

Belongs here: the equations, over any dataflow and many windows at once, and what is done where they do not apply. Does
not belong here: how rates are measured, when to act on a result, or what a cluster has room for (``slots``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from perdix.models.dataflow.graph import Dataflow, Operator
from perdix.models.dataflow.rates import OperatorRates
from perdix.telemetry.window import Values

PerSource = Mapping[str, float | Sequence[float] | Values]

HIGHEST = 1_000_000  # instances: keeps a nonsense rate within what can be rounded


class Curve(Protocol):
    """How an operator really scales, where that was learned; see ``scaling_curve``."""

    def unrounded_for(self, rate_per_s: float, instances: int, true_processing_per_s: float) -> float:
        """Return the parallelism that processes ``rate_per_s``, given what ``instances`` were measured to take."""


@dataclass(frozen=True)
class Sizing:
    """Options of the equations; the defaults are the paper's rule as it stands.

    ``tolerance``: relative excess over a whole number of instances that is taken for an error of rounding.
    ``rate_factor``: share by which what an operator must process is raised before it is rounded up: head-room. Not
    passed on.
    ``target_rate_ratio``: where no operator of a window is scaled out and a source should emit more than this many
    times what it did emit, all results are multiplied by that ratio and rounded up: overheads that useful time does not
    show (section 4.2.1, target rate ratio). ``None``: never, which is the original program's default.
    ``minimum``, ``maximum``: bounds of every operator; an operator's own maximum counts too.
    ``sources``: whether sources are sized too, by their true output rate; otherwise they keep what they run, as in the
    paper.
    """

    tolerance: float = 1e-6
    rate_factor: float = 0.0
    target_rate_ratio: float | None = None
    minimum: int = 1
    maximum: int | None = None
    sources: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"the tolerance is {self.tolerance:g}; give a share from 0 to below 1")
        if not 0 <= self.rate_factor < math.inf:
            raise ValueError(f"the rate factor is {self.rate_factor:g}; give a share of 0 or more")
        if self.target_rate_ratio is not None and not self.target_rate_ratio >= 1:
            raise ValueError(f"the target rate ratio is {self.target_rate_ratio:g}; give 1 or more")
        if self.minimum < 1 or (self.maximum is not None and self.maximum < self.minimum):
            most = "any number" if self.maximum is None else self.maximum
            raise ValueError(f"bounds of {self.minimum} to {most} of instances; give 1 or more, the smaller first")


Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class RatesTable:
    """Rates of all windows and operators as arrays ``(windows, operators)``; NaN: not known."""

    reported: Flags
    instances: Counts
    true_in: Values
    true_out: Values
    observed_in: Values
    observed_out: Values
    sent: Mapping[tuple[str, str], Values]

    @classmethod
    def of(
        cls, graph: Dataflow, windows: Sequence[Mapping[str, OperatorRates]], running: Mapping[str, int]
    ) -> RatesTable:
        """Return rates by window and operator; an operator that did not report has the instances of ``running``."""
        shape = (len(windows), len(graph))
        reported, instances = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.int64)
        columns = np.full((4, *shape), np.nan)
        sent = {(up, down): np.full(len(windows), np.nan) for up, down in graph.edges}
        for row, window in enumerate(windows):
            for index, name in enumerate(graph.names):
                instances[row, index] = running.get(name, 1)
                rates = window.get(name)
                if rates is None:
                    continue
                reported[row, index], instances[row, index] = True, rates.instances
                columns[:, row, index] = (
                    rates.true_processing_per_s,
                    rates.true_output_per_s,
                    rates.observed_processing_per_s,
                    rates.observed_output_per_s,
                )
                for down in rates.sent_per_s:
                    if (name, down) in sent:
                        sent[name, down][row] = rates.sent_per_s[down]
        columns[~(np.isfinite(columns) & (columns >= 0))] = np.nan  # a rate cannot be infinite or below zero
        return cls(reported, instances, columns[0], columns[1], columns[2], columns[3], sent)


@dataclass(frozen=True)
class Optimal:
    """What the equations give; arrays of shape ``(windows, operators)``, operators in the dataflow's order."""

    operators: tuple[str, ...]
    unrounded: Values  # equation 7 before it is rounded; NaN for sources and where it does not apply
    # To run: rounded up, within bounds; what runs already, for sources and where the equation does not apply
    instances: Counts
    running: Counts  # instances that were measured
    target_per_s: Values  # records/s to process when every operator keeps up (a source: to emit); NaN: not known
    raised: Values  # ratio by which all results of a window were raised, shape ``(windows,)``; 1: not raised
    reasons: tuple[Mapping[str, str], ...]  # per window: operator -> in words why its result is not just the equation's

    def parallelism(self, window: int = -1) -> dict[str, int]:
        """Return operator -> instances of one window, by default the last."""
        return dict(zip(self.operators, self.instances[window].tolist(), strict=True))

    def unrounded_of(self, window: int = -1) -> dict[str, float]:
        """Return operator -> unrounded parallelism of one window, for those that the equation sized."""
        row = zip(self.operators, self.unrounded[window].tolist(), strict=True)
        return {name: value for name, value in row if not math.isnan(value)}


def optimal_parallelism(
    graph: Dataflow,
    windows: Sequence[Mapping[str, OperatorRates]],
    source_per_s: PerSource | None = None,
    *,
    running: Mapping[str, int] | None = None,
    sizing: Sizing | None = None,
    curves: Mapping[str, Curve] | None = None,
) -> Optimal:
    """Size every operator of a dataflow, for each window by itself (equations 7 and 8).

    Raises ``ValueError`` when there is no window, or a source's rates are not one per window.

    ``windows``: per window: operator -> its rates; an operator that is missing did not report.
    ``source_per_s``: source -> records/s that it should emit, of all windows or of each. A source that is missing or
    NaN should emit what it could (its true output rate, as the original program has it), or else what it did.
    ``running``: operator -> instances, for operators that did not report; one instance where that is unknown, too.
    ``curves``: operator -> how it really scales; operators that are missing scale linearly, as the paper assumes.

    Where an operator's output is measured per downstream operator, each gets its part; where it is not, each gets
    all of it, as the paper's adjacency matrix has it.
    """
    if not windows:
        raise ValueError("no window was measured; give the rates of one at least")
    chosen = sizing or Sizing()
    table = RatesTable.of(graph, windows, running or {})
    traversal = _Traversal(graph, table, chosen, _source_targets(graph, table, source_per_s or {}), curves or {})
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not a number of instances, and is reported
        for index, operator in enumerate(graph):
            traversal.visit(index, operator)
        return traversal.result()


def global_parallelism(unrounded: Mapping[str, float], sizing: Sizing | None = None) -> int:
    """Return the workers that run all operators in turns: the sum of what each needs, rounded up (section 4.3).

    Raises ``ValueError`` when a value is not known: a sum without it would be too small.
    """
    unknown = sorted(name for name, value in unrounded.items() if not math.isfinite(value))
    if unknown or not unrounded:
        raise ValueError(
            f"the operators' needs cannot be summed: {', '.join(unknown) or 'none'} not known; measure them"
        )
    chosen = sizing or Sizing()
    total = np.array([math.fsum(unrounded.values()) * (1.0 + chosen.rate_factor)])
    return int(np.clip(rounded_up(total, chosen.tolerance)[0], chosen.minimum, chosen.maximum or HIGHEST))


def rounded_up(unrounded: Values, tolerance: float) -> Counts:
    """Round up, but not for an excess that is an error of rounding; NaN becomes 0."""
    finite = np.nan_to_num(unrounded, nan=0.0, posinf=HIGHEST)
    return np.ceil(np.minimum(finite, HIGHEST) * (1.0 - tolerance)).astype(np.int64)


@dataclass
class _Traversal:
    """One pass over the operators, each after all that feed it; every step is over all windows at once."""

    graph: Dataflow
    table: RatesTable
    sizing: Sizing
    source_targets: Mapping[str, Values]
    curves: Mapping[str, Curve]
    unrounded: Values = field(init=False)
    instances: Counts = field(init=False)
    target: Values = field(init=False)
    output: Values = field(init=False)
    sized: Flags = field(init=False)
    reasons: tuple[dict[str, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        shape = self.table.instances.shape
        self.unrounded, self.target, self.output = (np.full(shape, np.nan) for _ in range(3))
        self.instances = self.table.instances.copy()
        self.sized = np.zeros(shape, dtype=np.bool_)
        self.reasons = tuple({} for _ in range(shape[0]))
        self._at = {name: index for index, name in enumerate(self.graph.names)}

    def visit(self, index: int, operator: Operator) -> None:
        """Find what reaches an operator, what it then needs, and what it passes on."""
        if operator.is_source:
            self.target[:, index] = self.output[:, index] = self.source_targets[operator.name]
            if self.sizing.sources:
                self._size(index, operator, self.table.true_out[:, index])
            return
        self.target[:, index] = np.sum([self._flow(name, operator.name) for name in operator.inputs], axis=0)
        self.output[:, index] = self._output(index)
        self._size(index, operator, self.table.true_in[:, index])

    def result(self) -> Optimal:
        """Return everything, after the rule of the target rate ratio had its say."""
        raised = self._raised()
        return Optimal(
            self.graph.names, self.unrounded, self.instances, self.table.instances, self.target, raised, self.reasons
        )

    def _flow(self, upstream: str, downstream: str) -> Values:
        """Return records/s over one edge: the upstream's output, or the part of it that goes this way."""
        index = self._at[upstream]
        output, sent = self.output[:, index], self.table.sent[upstream, downstream]
        share = np.where(np.isnan(sent), 1.0, _ratio(sent, self.table.observed_out[:, index]))
        return np.where(output == 0, 0.0, output * share)

    def _output(self, index: int) -> Values:
        """Return equation 8: the selectivity times what reaches the operator."""
        target = self.target[:, index]
        selectivity = _ratio(self.table.true_out[:, index], self.table.true_in[:, index])
        return np.where(target == 0, 0.0, target * selectivity)

    def _size(self, index: int, operator: Operator, true_per_s: Values) -> None:
        """Apply equation 7, round up, and keep within bounds; what cannot be sized keeps what runs."""
        running, target = self.table.instances[:, index], self.target[:, index]
        exact = self._exact(operator, target, true_per_s, running)
        self.unrounded[:, index] = exact
        factor = 1.0 + self.sizing.rate_factor
        generous = exact if factor == 1.0 else self._exact(operator, target * factor, true_per_s, running)
        sized = ~np.isnan(exact) & operator.scalable
        wanted = rounded_up(generous, self.sizing.tolerance)
        bounded = np.clip(wanted, *self._bounds(operator))
        self.sized[:, index] = sized
        self.instances[:, index] = np.where(sized, bounded, running)
        for row in np.flatnonzero(~sized | (bounded != wanted)):
            why = _bound(int(wanted[row]), int(bounded[row])) if sized[row] else self._why_not(row, index, operator)
            self.reasons[row][operator.name] = why

    def _exact(self, operator: Operator, target: Values, true_per_s: Values, running: Counts) -> Values:
        """Return the instances that take ``target``, a fraction, by a line or by the operator's curve."""
        each_per_s = true_per_s / np.maximum(running, 1)
        exact = np.full(len(target), np.nan)
        np.divide(target, each_per_s, out=exact, where=~np.isnan(target) & (each_per_s > 0))
        curve = self.curves.get(operator.name)
        if curve is not None:
            for row in np.flatnonzero(~np.isnan(exact)):
                exact[row] = curve.unrounded_for(float(target[row]), int(running[row]), float(true_per_s[row]))
        return exact

    def _bounds(self, operator: Operator) -> tuple[int, int]:
        most = min(self.sizing.maximum or HIGHEST, operator.maximum or HIGHEST)
        return min(self.sizing.minimum, most), most

    def _why_not(self, row: np.intp, index: int, operator: Operator) -> str:
        """Return why an operator that could not be sized keeps what runs."""
        table = self.table
        if not operator.scalable:
            return "it is not to be scaled"
        if not table.reported[row, index]:
            return "it did not report"
        true, observed = (
            (table.true_out, table.observed_out) if operator.is_source else (table.true_in, table.observed_in)
        )
        if not true[row, index] > 0:
            if observed[row, index] > 0:
                return "it processed records, but in no measured useful time"
            idle = observed[row, index] == 0 or true[row, index] == 0
            return "it was idle, so its true rate is not known" if idle else "its true rate is not known"
        unknown = [name for name in operator.inputs if np.isnan(self._flow(name, operator.name)[row])]
        return f"what reaches it from {', '.join(unknown)} is not known"

    def _raised(self) -> Values:
        """Apply the target rate ratio where no operator is scaled out; return the ratio per window."""
        raised = np.ones(len(self.instances))
        threshold = self.sizing.target_rate_ratio
        if threshold is None:
            return raised
        columns = [self._at[name] for name in self.graph.sources]
        short = np.nan_to_num(_ratio(self.target[:, columns], self.table.observed_out[:, columns])).max(axis=1)
        applies = (short > threshold) & ~(self.instances > self.table.instances).any(axis=1)
        raised[applies] = short[applies]
        for row in np.flatnonzero(applies):
            for index, operator in enumerate(self.graph):
                if not self.sized[row, index]:
                    continue  # what keeps what runs is not raised either
                results = np.array([self.instances[row, index] * short[row]])
                more = int(np.clip(rounded_up(results, self.sizing.tolerance)[0], *self._bounds(operator)))
                self.instances[row, index] = more
                self.reasons[row][operator.name] = (
                    f"raised by {short[row]:.4g}: a source should emit this many times what it did"
                )
        return raised


def _source_targets(graph: Dataflow, table: RatesTable, given: PerSource) -> dict[str, Values]:
    """Return source -> records/s that it should emit, shape ``(windows,)``."""
    targets = {}
    for index, name in enumerate(graph.names):
        if name not in graph.sources:
            continue
        count = len(table.instances)
        asked = np.asarray(given.get(name, np.nan), dtype=np.float64)
        if asked.ndim and len(asked) != count:
            raise ValueError(f"source '{name}' has {len(asked)} rates for {count} windows; give one, or one per window")
        asked = np.where(np.isfinite(asked) & (asked >= 0), asked, np.nan) * np.ones(count)
        logged = np.where(np.isnan(table.true_out[:, index]), table.observed_out[:, index], table.true_out[:, index])
        targets[name] = np.where(np.isnan(asked), logged, asked)
    return targets


def _bound(wanted: int, bounded: int) -> str:
    if bounded < wanted:
        return f"{wanted} are needed; {bounded} is the most that it may have"
    return f"{wanted} would do; {bounded} is the least"


def _ratio(above: Values, below: Values) -> Values:
    """Return ``above / below``, NaN where that is not defined."""
    result = np.full(np.broadcast(above, below).shape, np.nan)
    np.divide(above, below, out=result, where=below > 0)
    return result
