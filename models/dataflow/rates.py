"""True and observed rates from useful time (DS2, section 3.2, equations 1 to 6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from perdix.telemetry.window import Values


@dataclass(frozen=True)
class InstanceWindow:
    """What the instances of one operator did in one window of observed time; arrays of shape ``(instances,)``.

    NaN marks what was not measured.

    ``window_s``: length of the window, seconds (W).
    ``processed``, ``produced``: records that each instance read, and that it emitted (R_prc, R_psd). A source reads
    nothing.
    ``useful_s``: seconds that each instance worked: it waited neither for input nor for output (W_u, at most
    ``window_s``).
    ``back_pressured_s``: seconds that each instance waited for room in its output.
    ``sent``: downstream operator -> records emitted to it by all instances. Empty: every downstream operator receives
    the whole output, as the paper's adjacency matrix has it.
    """

    window_s: float
    processed: Values
    produced: Values
    useful_s: Values
    back_pressured_s: Values = field(default_factory=lambda: np.zeros(0))
    sent: Mapping[str, float] = field(default_factory=dict)

    @property
    def instances(self) -> int:
        """How many instances there are."""
        return len(self.useful_s)


@dataclass(frozen=True)
class OperatorRates:
    """Rates of one operator over all its instances, records/s (equations 5 and 6); NaN: undefined.

    ``true_processing_per_s``, ``true_output_per_s``: records per second of useful time, summed over instances.
    ``observed_processing_per_s``, ``observed_output_per_s``: records per second of observed time, summed over
    instances.
    ``sent_per_s``: downstream operator -> observed records/s sent to it; empty where it is not measured by edge.
    """

    instances: int
    true_processing_per_s: float
    true_output_per_s: float
    observed_processing_per_s: float
    observed_output_per_s: float
    sent_per_s: Mapping[str, float] = field(default_factory=dict)
