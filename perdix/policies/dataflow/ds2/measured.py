"""From the windows of a situation to the rates that DS2 may reckon with, and what it must not conclude from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from perdix.models.dataflow.graph import Dataflow
from perdix.models.dataflow.rates import InstanceWindow, OperatorRates
from perdix.models.dataflow.useful_time import measured_rates
from perdix.policies.dataflow.contract import DataflowSituation
from perdix.policies.dataflow.scaling_manager import Emitted
from perdix.policies.dataflow.skew import Skew, skew_of
from perdix.telemetry.window import Values

SETTLED = 0.02  # share of an operator's input by which what it processes may differ: beyond, a queue fills or empties
WAITED = 0.02  # share of its time up to which an operator is not held back by what it feeds


@dataclass(frozen=True)
class Measured:
    """What one interval shows."""

    rates: Mapping[str, OperatorRates]  # operators whose windows count
    source_per_s: Mapping[str, float]  # source -> records/s that it should emit, where that and where it goes are known
    held: Mapping[str, str]  # operator -> why it is not sized at all
    # Operator -> why it is not scaled in: part of what it does, or of what reaches it, was not measured
    not_in: Mapping[str, str]
    skews: Mapping[str, Skew]  # operators among whose instances one works much more than the mean
    emitted: Emitted | None  # what the sources emit and should; ``None``: not known

    def with_keys(self, shares: Mapping[str, float]) -> Measured:
        """Return it with the shares of the input that one key is known to make up, of uneven operators."""
        skews = {name: replace(skew, key=shares.get(name, skew.key)) for name, skew in self.skews.items()}
        return replace(self, skews=skews)


def measure(situation: DataflowSituation, skew_ratio: float) -> Measured:
    """Return what the windows of a situation show."""
    graph = situation.graph
    rates: dict[str, OperatorRates] = {}
    held: dict[str, str] = {}
    not_in: dict[str, str] = {}
    skews: dict[str, Skew] = {}
    for name in graph.names:
        window, count = situation.windows.get(name), situation.parallelism[name]
        if window is None:
            held[name] = "it did not report"
        elif window.instances > count:
            held[name] = f"{window.instances} instances reported, {count} run: the window is of another time"
        else:
            whole = _of_all(window, count)
            found = measured_rates(whole)
            rates[name] = found.rates
            silent = len(found.left_out) - _idle(whole)
            if silent > 0:
                not_in[name] = f"{silent} of its {count} instances did not report what can be used"
            skew = None if graph[name].is_source else skew_of(whole, skew_ratio)
            if skew is not None:
                skews[name] = skew
    source_per_s = {name: rate for name, rate in situation.source_per_s.items() if math.isfinite(rate) and rate >= 0}
    lost = [name for name in graph.sources if name not in rates and len(graph.outputs[name]) > 1]
    unknown = [name for name in graph.sources if name not in source_per_s]
    for name, source in _fed_by(graph, unknown).items():
        not_in.setdefault(name, f"it is not known what {source} should emit")
    targets = {name: rate for name, rate in source_per_s.items() if name not in lost}
    emitted = _emitted(graph, rates, source_per_s)
    if emitted is not None:
        skews = {
            name: replace(skew, holds_back=_holds_back(situation, name, skew, emitted)) for name, skew in skews.items()
        }
    return Measured(rates, targets, held, not_in, skews, emitted)


def _of_all(window: InstanceWindow, count: int) -> InstanceWindow:
    """Return the window with a place for each instance that runs: those that did not report were not measured."""
    missing = np.full(count - window.instances, np.nan)
    if not len(missing):
        return window

    def filled(values: Values) -> Values:
        return np.concatenate([values, missing])

    return replace(
        window, processed=filled(window.processed), produced=filled(window.produced), useful_s=filled(window.useful_s)
    )


def _idle(window: InstanceWindow) -> int:
    """Return how many instances reported that there was nothing to do."""
    nothing = (np.nan_to_num(window.processed) == 0) & (np.nan_to_num(window.produced) == 0)
    counted = ~(np.isnan(window.processed) & np.isnan(window.produced))
    return int(np.count_nonzero(nothing & counted & np.isfinite(window.useful_s) & (window.useful_s >= 0)))


def _fed_by(graph: Dataflow, sources: Iterable[str]) -> dict[str, str]:
    """Return operator -> one of ``sources`` that feeds it, directly or not."""
    fed = {name: name for name in sources}
    for operator in graph:
        feeder = next((fed[name] for name in operator.inputs if name in fed), None)
        if feeder is not None:
            fed.setdefault(operator.name, feeder)
    return {name: source for name, source in fed.items() if name != source}


def _emitted(graph: Dataflow, rates: Mapping[str, OperatorRates], source_per_s: Mapping[str, float]) -> Emitted | None:
    """Return what the source that falls short most emits and should."""
    settled = all(_keeps_pace(graph, rates, name) for name in rates)
    known = [
        Emitted(rates[name].observed_output_per_s, source_per_s[name], settled)
        for name in graph.sources
        if name in rates and source_per_s.get(name, 0.0) > 0 and math.isfinite(rates[name].observed_output_per_s)
    ]
    return min(known, key=lambda source: source.per_s / source.target_per_s, default=None)


def _keeps_pace(graph: Dataflow, rates: Mapping[str, OperatorRates], name: str) -> bool:
    """Whether an operator processes what is emitted to it, as far as that was measured."""
    inputs = graph[name].inputs
    if not inputs or any(up not in rates for up in inputs):
        return True
    comes_per_s = math.fsum(rates[up].sent_per_s.get(name, rates[up].observed_output_per_s) for up in inputs)
    return not abs(comes_per_s - rates[name].observed_processing_per_s) > SETTLED * comes_per_s


def _holds_back(situation: DataflowSituation, name: str, skew: Skew, emitted: Emitted) -> bool:
    """Whether an uneven operator is what the sources wait for.

    What feeds it waits for room, and it does not. Where waiting was not measured: the sources fall short, and no other
    instance of the dataflow works as much as its hottest.
    """
    graph, windows = situation.graph, situation.windows
    waited = {operator: _waited(windows[operator]) for operator in (name, *graph[name].inputs) if operator in windows}
    if all(share is not None for share in waited.values()) and len(waited) > 1:
        own = waited.pop(name) or 0.0
        return own <= WAITED and all((share or 0.0) > WAITED for share in waited.values())
    others = (  # NaN is not counted
        np.fmax.reduce(window.useful_s, initial=0.0) / window.window_s
        for other, window in windows.items()
        if other != name
    )
    return not emitted.sustained and skew.useful >= max(others, default=0.0)


def _waited(window: InstanceWindow) -> float | None:
    """Return the share of its time that the instance that waited most did so for room; ``None``: not measured."""
    known = window.back_pressured_s[np.isfinite(window.back_pressured_s)]
    return float(known.max()) / window.window_s if len(known) else None
