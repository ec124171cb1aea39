"""Which scale-outs are profiled, and at which rates (Phoebe, 3.3 and 4.2)."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Plan:
    """What a profiling does; the defaults are those of the paper's experiments."""

    scale_outs: tuple[int, ...]  # deployed side by side
    # first_per_s, step_per_s: records/s of the first runs, and by how much every following one is higher
    first_per_s: float = 20_000.0
    step_per_s: float = 20_000.0
    # settle_s, measure_s: seconds that conditions may take to become normal after each change of the rate, and that are
    # measured then
    settle_s: int = 300
    measure_s: int = 120
    most_steps: int = 60  # rates that are tried at most: a deployment that holds them all has no highest rate
    # Whether a worker of each deployment is made to fail once, after the first rate, to learn how long a restart takes.
    # The paper takes that time "from observations"; its program has it as a constant
    fail: bool = True
    fail_s: int = 600  # seconds that are allowed for the deployment to work again

    def __post_init__(self) -> None:
        if not self.scale_outs or min(self.scale_outs) < 1 or len(set(self.scale_outs)) != len(self.scale_outs):
            raise ValueError(f"scale-outs must be different numbers of workers from 1 on, found {self.scale_outs}")
        if not (self.first_per_s > 0 and self.step_per_s > 0):
            raise ValueError(f"rates must be above 0, found {self.first_per_s} and steps of {self.step_per_s}")
        if self.settle_s < 0 or self.measure_s < 1 or self.most_steps < 1 or self.fail_s < 1:
            raise ValueError(f"times and steps must be positive, found {self}")

    def rate_per_s(self, step: int) -> float:
        """Return the rate of the ``step``-th runs (from 0), records/s."""
        return self.first_per_s + step * self.step_per_s


def equidistant(minimum: int, maximum: int, count: int) -> tuple[int, ...]:
    """Return ``count`` scale-outs from ``minimum`` to ``maximum``, both among them; fewer where there are not so many.

    The published program rounds the distance and so never profiles the largest.

    Raises ``ValueError`` when the range is empty or ``count`` is below 1.
    """
    if not 1 <= minimum <= maximum or count < 1:
        raise ValueError(f"expected 1 <= minimum <= maximum and a count from 1 on, found {minimum}, {maximum}, {count}")
    if count == 1:
        return (maximum,)
    return tuple(dict.fromkeys(int(n) for n in np.rint(np.linspace(minimum, maximum, count))))


def plan_for(minimum: int, maximum: int, peak_per_s: float, *, count: int = 8, steps_to_peak: int = 10) -> Plan:
    """Return a plan with rates at equal distances, ``steps_to_peak`` of them up to ``peak_per_s`` (records/s).

    Beyond it the rate goes on rising, until every deployment has ended.

    Raises ``ValueError`` as :func:`equidistant`, or when the peak is not above 0.
    """
    step_per_s = peak_per_s / steps_to_peak
    return Plan(equidistant(minimum, maximum, count), first_per_s=step_per_s, step_per_s=step_per_s)
