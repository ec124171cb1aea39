"""Rates of all windows and operators side by side, so that equations are applied to all windows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdix.models.dataflow.graph import Dataflow
from perdix.models.dataflow.rates import OperatorRates
from perdix.telemetry.window import Values

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
