"""How an operator really scales, learned from what it took at the parallelisms that it ran at.

DS2 assumes that rates grow linearly with instances and names the learning of the real, mostly sub-linear rates as what
would save it steps (section 3.4). Here a curve goes through what was observed. Between and beyond observations it
follows the universal scalability law, ``X(n) = lambda n / (1 + sigma (n - 1) + kappa n (n - 1))``. Whatever was
observed, more instances never take less, an instance never takes more because there are others, and with a single
parallelism observed the rule is DS2's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from perdix.telemetry.window import Values

HALF_LIFE_S = 7 * 86_400.0  # an observation counts half as much after a week
MOST_WEIGHT = 10.0  # observations of one parallelism that are averaged over
LEAST_WEIGHT = 0.01  # what counts less is forgotten
NOISE = 0.02  # relative standard deviation of one observation, before repeated ones tell it
BELIEF, MOST_REPEATS = 4.0, 30.0  # what that is worth in repeated observations, and how many of those count
OUTLIER = 3.0  # standard deviations: what is further off counts as so far off
EXPECTED = 2.5  # standard deviations: what differs by no more is noise
CONTENTION, COHERENCE = 0.5, 0.05  # how much of an instance's cost they are thought to make up, standard deviations
WILDEST = 2.0  # beyond what was observed, an instance is worth at least half, and at most twice, of what it was there
HIGHEST = 100_000  # instances: beyond, linear scaling is as good a guess as any


class Point(NamedTuple):
    """What all instances together took: a weighted mean of what was observed, the last time at ``at_s``."""

    instances: int
    per_s: float
    weight: float
    at_s: float


@dataclass(frozen=True)
class ScalingCurve:
    """Records/s that an operator takes at any parallelism."""

    points: tuple[Point, ...] = ()  # by instances, ascending
    # What is believed of the share that cannot be done in parallel (sigma) while one parallelism only was observed
    contention: float = 0.0
    half_life_s: float = HALF_LIFE_S  # after so long an observation counts half as much
    # noise, repeats: relative standard deviation of an observation, and how many repeated ones it was learned from
    noise: float = NOISE
    repeats: float = 0.0

    def observed(self, instances: int, per_s: float, at_s: float = 0.0) -> ScalingCurve:
        """Return the curve with one more observation: the true processing rate of all instances together.

        Where this parallelism was observed before and now takes more or less, records have become lighter or heavier:
        what was observed at other parallelisms is moved by the same ratio, so that the shape stays. More than noise
        is followed at once. What cannot be (no instances, a rate that is not above zero) changes nothing.
        """
        if instances < 1 or not (math.isfinite(per_s) and per_s > 0 and math.isfinite(at_s)):
            return self
        aged = [self._aged(point, at_s) for point in self.points]
        before = next((point for point in aged if point.instances == instances), None)
        others = [point for point in aged if point.instances != instances and point.weight >= LEAST_WEIGHT]
        if before is None:
            return replace(self, points=tuple(sorted([*others, Point(instances, per_s, 1.0, at_s)])))
        off = per_s / before.per_s - 1.0
        held = min(before.weight, MOST_WEIGHT - 1.0 if self._is_noise(off) else 1.0)
        now = Point(instances, (before.per_s * held + per_s) / (held + 1.0), held + 1.0, at_s)
        moved = now.per_s / before.per_s
        others = [other._replace(per_s=other.per_s * moved) for other in others]
        known = BELIEF + self.repeats
        squared = min(abs(off), OUTLIER * self.noise) ** 2 / (1.0 + 1.0 / before.weight)  # the mean errs as well
        return replace(
            self,
            points=tuple(sorted([*others, now])),
            noise=math.sqrt((self.noise**2 * known + squared) / (known + 1.0)),
            repeats=min(self.repeats + 1.0, MOST_REPEATS),
        )

    def per_s(self, instances: Values | float) -> Values:
        """Return records/s at each parallelism (fractions too), shape of ``instances``; NaN: nothing was observed."""
        asked = np.asarray(instances, dtype=np.float64)
        if not self.points or asked.size == 0:
            return np.full(asked.shape, np.nan)
        table = self._table(math.ceil(float(asked.max())))
        return np.asarray(np.interp(asked, np.arange(len(table)), table))

    def unrounded_for(self, rate_per_s: float, instances: int, true_processing_per_s: float) -> float:
        """Return the parallelism that takes ``rate_per_s``, given what ``instances`` were just measured to take.

        The curve gives the shape, and the measurement its height where it differs by more than noise. Where the curve
        has no other parallelism, and nothing else is believed, this is DS2's linear rule (equation 7).
        """
        each_per_s = true_processing_per_s / instances
        linear = rate_per_s / each_per_s
        if self._is_linear or not self.points or linear == 0:
            return linear
        here = float(self.per_s(instances))
        # A measurement that is within noise of what was observed so far adds nothing to the mean.
        height = here if self._is_noise(true_processing_per_s / here - 1.0) else true_processing_per_s
        target = rate_per_s / height * here
        largest = max(target / self._each[-1] * WILDEST, self.points[-1].instances)
        if largest > HIGHEST:
            return linear
        takes = self._table(math.ceil(largest) + 1)
        first = int(np.searchsorted(takes, target * (1.0 - 1e-12), side="left"))
        if first >= len(takes):
            return linear
        gained = float(takes[first] - takes[first - 1])
        return first - 1 + min(1.0, (target - float(takes[first - 1])) / gained)

    def to_json(self) -> dict[str, Any]:
        """Return the curve as JSON-serialisable values."""
        return {
            "points": [list(point) for point in self.points],
            "contention": self.contention,
            "half_life_s": self.half_life_s,
            "noise": self.noise,
            "repeats": self.repeats,
        }

    @classmethod
    def of_json(cls, state: Mapping[str, Any]) -> ScalingCurve:
        """Return the curve of :meth:`to_json`. Raises ``ValueError`` when it is none: what is missing or cannot be."""
        try:
            points = tuple(
                sorted(Point(int(n), float(per_s), float(w), float(at)) for n, per_s, w, at in state["points"])
            )
            names = {"contention": 0.0, "half_life_s": HALF_LIFE_S, "noise": NOISE, "repeats": 0.0}
            settings = {name: float(state.get(name, usual)) for name, usual in names.items()}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"not a scaling curve ({error}); give points of instances, per_s, weight, at_s") from None
        sound = all(p.instances >= 1 and p.per_s > 0 and p.weight > 0 and all(map(math.isfinite, p)) for p in points)
        distinct = len({point.instances for point in points}) == len(points)
        possible = all(math.isfinite(value) and value >= 0 for value in settings.values())
        if not (sound and distinct and possible and settings["half_life_s"] > 0 and settings["noise"] > 0):
            raise ValueError("a scaling curve with a point that cannot be; give each parallelism once, values above 0")
        return cls(points, **settings)

    def _is_noise(self, off: float) -> bool:
        """Whether a relative deviation is no more than observations differ by anyway."""
        return abs(off) <= EXPECTED * self.noise

    def _aged(self, point: Point, at_s: float) -> Point:
        age_s = max(0.0, at_s - point.at_s)
        return point._replace(weight=point.weight * 0.5 ** (age_s / self.half_life_s), at_s=max(point.at_s, at_s))

    @property
    def _is_linear(self) -> bool:
        return len(self.points) == 1 and self.contention == 0

    @cached_property
    def _each(self) -> Values:
        """Records/s of an instance at each observed parallelism: falling, while all together never take less."""
        count = np.array([point.instances for point in self.points], dtype=np.float64)
        total = np.array([point.per_s for point in self.points])
        weight = np.array([point.weight for point in self.points])
        each = np.exp(-_rising_means(-np.log(total / count), weight))
        return np.maximum.accumulate(each * count) / count

    @cached_property
    def _costs(self) -> tuple[float, float, float]:
        """Cost of a record alone, by contention and by coherence: the law's ``1 / X * n = a + b (n-1) + c n (n-1)``.

        Least squares of relative errors with no cost below zero. One parallelism determines the first cost, two two
        of them, three all. A cost that the observations do not settle (few, or close together) is thought to be small.
        """
        count = np.array([point.instances for point in self.points], dtype=np.float64)
        cost = 1.0 / self._each
        if len(count) == 1:
            alone = cost[0] / (1.0 + self.contention * (count[0] - 1.0))
            return float(alone), float(alone * self.contention), 0.0
        middle, typical = float(count.mean()), float(cost.mean())
        certain = np.sqrt(np.array([point.weight for point in self.points])) / max(self.noise, 1e-3)
        rows = np.column_stack([np.ones_like(count), count - 1.0, count * (count - 1.0)]) * (certain / cost)[:, None]
        doubts = [
            [0.0, (middle - 1.0) / typical / CONTENTION, 0.0],
            [0.0, 0.0, middle * (middle - 1.0) / typical / COHERENCE],
        ]
        if len(count) == 2:
            rows[:, 2] = 0.0
        # Costs are fitted as multiples of the typical one: squares of tiny numbers vanish.
        found, _ = nnls(np.vstack([rows, doubts]) * typical, np.concatenate([certain, [0.0, 0.0]]))
        a, b, c = (found * typical).tolist()
        return float(a), float(b), float(c)

    def _law(self, count: Values) -> Values:
        """Return records/s of an instance by the law."""
        alone, contention, coherence = self._costs
        more = count - 1.0
        return np.asarray(1.0 / (alone + contention * more + coherence * count * more))

    def _table(self, most: int) -> Values:
        """Return records/s at 0 to ``most`` instances, shape ``(most + 1,)``: rising, and at most linearly.

        The law is made to go through what was observed: its ratio to the law is interpolated, and kept beyond the
        ends. Between two observations an instance is worth no more than at the first, no less than at the second, and
        all together the same the other way round. Beyond the ends it keeps within ``WILDEST``.
        """
        count = np.arange(1.0, max(most, 1) + 1.0)
        known = np.array([point.instances for point in self.points], dtype=np.float64)
        each = self._law(count) * np.interp(count, known, self._each / self._law(known))
        left = np.searchsorted(known, count, side="right") - 1  # -1: before the first
        right = np.searchsorted(known, count, side="left")  # len(known): beyond the last
        least = np.append(self._each, self._each[-1] / WILDEST)
        greatest = np.concatenate([[WILDEST * self._each[0]], self._each])
        each = np.clip(each, least[right], greatest[left + 1])
        together = np.append(self._each * known, np.inf)[right]
        total = np.minimum(np.minimum.accumulate(each) * count, together)
        return np.concatenate([[0.0], np.maximum.accumulate(total)])


def _rising_means(values: Values, weights: Values) -> Values:
    """Return the rising sequence that is nearest to ``values`` (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (v1, w1, n1), (v2, w2, n2) = blocks[-2:]
            blocks[-2:] = [((v1 * w1 + v2 * w2) / (w1 + w2), w1 + w2, n1 + n2)]
    result = np.concatenate([np.full(n, value) for value, _, n in blocks])
    assert all(sooner <= later for sooner, later in pairwise(result))
    return np.asarray(result)
