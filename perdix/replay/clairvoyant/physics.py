"""What a plan is held against: expected capacities and downtimes, and nothing of luck."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perdix.settings.stream_job import Bounds
from perdix.telemetry.window import Values
from perdix.twin.job import JobTwin


@dataclass(frozen=True)
class Physics:
    """One job's expected physics.

    Raises ``ValueError`` when a capacity is not finite and above 0, or a time is not a whole number of seconds from 0
    on.
    """

    capacities_per_s: Mapping[int, float]  # records/s by scale-out
    # out_s, in_s, failure_s: whole seconds that the job stands still: scaling out, scaling in, and after a crash with
    # its detection
    out_s: int
    in_s: int
    failure_s: int
    checkpoint_interval_s: int  # a crash has at most so much work done again

    def __post_init__(self) -> None:
        for scale_out, per_s in self.capacities_per_s.items():
            if not (math.isfinite(per_s) and per_s > 0):
                raise ValueError(f"the capacity of scale-out {scale_out} must be finite and above 0, found {per_s}")
        for name in ("out_s", "in_s", "failure_s", "checkpoint_interval_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0 and value == int(value)):
                raise ValueError(f"{name} must be a whole number of seconds from 0 on, found {value}")

    def capacities(self, bounds: Bounds) -> Values:
        """Return records/s of every scale-out within the bounds, smallest first.

        Raises ``ValueError`` when the bounds allow a scale-out whose capacity is not known.
        """
        scale_outs = range(bounds.minimum, bounds.maximum + 1)
        unknown = [scale_out for scale_out in scale_outs if scale_out not in self.capacities_per_s]
        if unknown:
            known = ", ".join(str(capacity_per_s) for capacity_per_s in sorted(self.capacities_per_s)) or "none"
            raise ValueError(
                f"the bounds {bounds.minimum}..{bounds.maximum} allow scale-out {unknown[0]}, whose capacity is not "
                f"known (known: {known}); narrow the bounds"
            )
        return np.array([self.capacities_per_s[scale_out] for scale_out in scale_outs], dtype=np.float64)


def physics_of(twin: JobTwin) -> Physics:
    """Return a twin's expected physics: capacities as means over key skews, downtimes as medians.

    Downtimes are rounded up, as the twin rounds each that it draws. A warm-up is left out: it only ever costs.
    """
    restart = twin.parameters.restart
    return Physics(
        {scale_out: twin.true_capacity(scale_out) for scale_out in range(1, twin.parameters.workers.maximum + 1)},
        out_s=math.ceil(restart.out.median_s),
        in_s=math.ceil(restart.in_.median_s),
        failure_s=math.ceil(restart.failure.median_s + restart.detection.median_s),
        checkpoint_interval_s=restart.checkpoint_interval_s,
    )


def checked_arrivals(arrivals_per_s: Values) -> Values:
    """Return the trace as it was given, if it is one.

    Raises ``ValueError`` when it is empty, not of one dimension, or a second is not finite or negative; the first such
    is named.
    """
    arrivals = np.asarray(arrivals_per_s, dtype=np.float64)
    if arrivals.ndim != 1 or len(arrivals) == 0:
        raise ValueError(f"a trace is one number per second, found the shape {arrivals.shape}")
    wrong = np.flatnonzero(~(np.isfinite(arrivals) & (arrivals >= 0)))
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"{len(wrong)} of {len(arrivals)} seconds are not finite or negative, the first is second {first} with "
            f"{arrivals[first]} records/s; fix the trace before planning for it"
        )
    return arrivals
