"""Rates of operators from those that the original DS2 program logged of each instance (equations 5 and 6)."""

import math
from collections.abc import Iterable, Mapping, Sequence

from perdix.models.dataflow.graph import Dataflow
from perdix.models.dataflow.rates import OperatorRates
from perdix.telemetry.ds2.files import Epoch, LoggedRates

COLUMNS = ("true_processing_per_s", "true_output_per_s", "observed_processing_per_s", "observed_output_per_s")


def operator_rates_of(epoch: Epoch) -> tuple[dict[str, OperatorRates], dict[str, str]]:
    """Return operator -> its rates in an epoch, and in words which of its instances do not count.

    An instance that wrote nothing, was idle (0/0) or worked in no time (a division by zero) has no true rate; the mean
    of the others stands for it. An idle instance's observed rates are zero, and count.
    """
    by_operator: dict[str, list[LoggedRates]] = {}
    for rate in epoch.rates:
        by_operator.setdefault(rate.operator, []).append(rate)
    rates, notes = {}, {}
    for name, instances in by_operator.items():
        count = max(instances[0].instances, len(instances))
        known = {
            column: [value for instance in instances if _counts(instance, column, value := getattr(instance, column))]
            for column in COLUMNS
        }
        true_in, true_out, seen_in, seen_out = (_over_all(known[column], count) for column in COLUMNS)
        rates[name] = OperatorRates(count, true_in, true_out, seen_in, seen_out)
        silent = count - max(len(known["true_processing_per_s"]), len(known["true_output_per_s"]))
        if silent:
            notes[name] = f"{silent} of {count} instances have no true rate; the mean of the others stands for them"
    return rates, notes


def source_targets(
    graph: Dataflow, epochs: Sequence[Mapping[str, OperatorRates]], per_instance: Mapping[str, float | None]
) -> dict[str, list[float]]:
    """Return source -> records/s that it should emit in each epoch; NaN: as its logged true rate says.

    The given rates are per instance; ``None`` stands for what the source was observed to emit.
    """
    nan = float("nan")
    targets: dict[str, list[float]] = {}
    for name in graph.sources:
        if name not in per_instance:
            continue
        each = per_instance[name]
        rates = [epoch.get(name) for epoch in epochs]
        targets[name] = [
            nan if rate is None else rate.observed_output_per_s if each is None else each * rate.instances
            for rate in rates
        ]
    return targets


def _counts(rates: LoggedRates, column: str, value: float) -> bool:
    """Whether an instance's rate is one: it is finite, and a true rate of nothing that was done is none."""
    if not math.isfinite(value):
        return False
    idle = rates.observed_processing_per_s == 0 and rates.observed_output_per_s == 0
    return value > 0 or not (idle and column.startswith("true"))


def _over_all(known: Iterable[float], count: int) -> float:
    """Return the sum over ``count`` instances, the mean of what is known in place of what is not."""
    values = list(known)
    return math.fsum(values) * count / len(values) if values else float("nan")
