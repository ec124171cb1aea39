"""How an operator scales, as far as the parallelisms that it ran at tell, without reading more into them than they say.

DS2 leaves the learning of non-linear rates open (section 3.4). :mod:`models.dataflow.scaling_curve` learns a law of
three costs of a record: its own, contention (grows with instances), coherence (with their square). One parallelism
tells the first, two tell two of them, three all. A guess at coherence from two would ask for too many instances, so
with two the cost of a record is a line through both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from models.dataflow.optimal import Curve
from models.dataflow.scaling_curve import ScalingCurve

FURTHEST = 2.0  # a line is followed to at most twice, and at least half, of what the linear rule asks for


@dataclass(frozen=True)
class CautiousCurve:
    """A learned curve, and a line instead of it while two parallelisms were seen."""

    learned: ScalingCurve

    def unrounded_for(self, rate_per_s: float, instances: int, true_processing_per_s: float) -> float:
        """Return the parallelism that processes ``rate_per_s``, given what ``instances`` were measured to take."""
        others = [point for point in self.learned.points if point.instances != instances]
        if len(others) != 1:
            return self.learned.unrounded_for(rate_per_s, instances, true_processing_per_s)
        (other,) = others
        here_s, there_s = instances / true_processing_per_s, other.instances / other.per_s
        contention_s = max((here_s - there_s) / (instances - other.instances), 0.0)
        alone_s = here_s - contention_s * instances
        linear, left = rate_per_s * here_s, 1.0 - rate_per_s * contention_s
        if alone_s <= 0 or left <= 0:
            return linear * (FURTHEST if linear > instances else 1.0)  # no parallelism on this line takes it
        return min(max(rate_per_s * alone_s / left, linear / FURTHEST), linear * FURTHEST)


def cautious(curves: Mapping[str, ScalingCurve]) -> Mapping[str, Curve]:
    """Return operator -> how it scales, of learned curves."""
    return {name: CautiousCurve(curve) for name, curve in curves.items()}
