"""When a job was late, sample by sample."""

from dataclasses import dataclass, field

import numpy as np

from perdix.telemetry.window import Values


@dataclass(frozen=True)
class SeenLate:
    """Whether the p95 latency was above its objective, or the job stood still."""

    # Epoch seconds at which each step ends, ascending, shape ``(n,)``
    times_s: Values = field(default_factory=lambda: np.zeros(0))
    # 1 for a late step, 0 for another, NaN where nothing was measured; of the same shape
    late: Values = field(default_factory=lambda: np.zeros(0))

    def ended(self, since_s: float) -> bool:
        """Whether a step has ended after ``since_s``; also where the latency is not measured at all."""
        return not len(self.times_s) or bool(self.times_s[-1] > since_s)

    def share(self, since_s: float) -> float | None:
        """Return the late share of the steps that ended after ``since_s``; ``None`` where none was measured."""
        recent = self.late[self.times_s > since_s]
        known = recent[np.isfinite(recent)]
        return float(known.mean()) if len(known) else None
