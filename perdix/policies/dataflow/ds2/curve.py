"""How an operator scales, as far as the parallelisms that it ran at show, without reading more into them than they say.

DS2 leaves the learning of non-linear rates open (section 3.4). :mod:`perdix.models.dataflow.scaling_curve` learns a law
of three costs of a record: its own, contention (grows with instances), coherence (with their square). One parallelism
shows the first, two show two of them, three all. A guess at coherence from two would ask for too many instances, and a
law that misses what was seen by a hair asks for one more or less each time. So the cost of a record on a line through
what runs and another parallelism that ran counts as well, on the cautious side: it keeps scaling out from
overshooting, and scaling in from undershooting between the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from perdix.models.dataflow.scaling_curve import Point, ScalingCurve

ROUNDING = 1e-9  # relative
FURTHEST = 2.0  # a line is followed to at most twice, and at least half, of what the linear rule asks for


@dataclass(frozen=True)
class CautiousCurve:
    """A learned curve, and a line beside it; instead of it while two parallelisms were seen."""

    learned: ScalingCurve

    def unrounded_for(self, rate_per_s: float, instances: int, true_processing_per_s: float) -> float:
        """Return the parallelism that processes ``rate_per_s``, given what ``instances`` were measured to take."""
        others = [point for point in self.learned.points if point.instances != instances]
        curve = self.learned.unrounded_for(rate_per_s, instances, true_processing_per_s)
        if not others:
            return curve
        here_s = instances / true_processing_per_s
        linear = rate_per_s * here_s
        other = _nearest(others, instances, out=linear > instances)
        line = _on_the_line(rate_per_s, here_s, instances, other)
        if len(others) == 1:
            curve = line = min(max(line, linear / FURTHEST), linear * FURTHEST)
        if linear > instances * (1.0 + ROUNDING):
            return max(min(curve, line), linear)  # instances are not worth more because there are more
        return min(max(curve, line), float(instances))  # what runs was measured to take it


def _nearest(others: Sequence[Point], instances: int, *, out: bool) -> Point:
    """Return the other parallelism that says most: the nearest beyond the target's side, else the nearest at all."""
    beyond = [point for point in others if (point.instances > instances) == out]
    return min(beyond or others, key=lambda point: abs(point.instances - instances))


def _on_the_line(rate_per_s: float, here_s: float, instances: int, other: Point) -> float:
    """Return the parallelism on the line of costs through what runs and ``other``.

    ``here_s`` is the useful time of a record now, times instances. Where no parallelism on that line takes the rate, or
    cost does not rise with instances, that of the linear rule, the furthest that is gone.
    """
    linear = rate_per_s * here_s
    contention_s = max((here_s - other.instances / other.per_s) / (instances - other.instances), 0.0)
    alone_s, left = here_s - contention_s * instances, 1.0 - rate_per_s * contention_s
    if alone_s <= 0 or left <= 0:
        return linear * (FURTHEST if linear > instances else 1.0)
    return rate_per_s * alone_s / left
