"""DSA: the step follows the gradient of the performance, with re-sampling where it fluctuates (QEScalor, 2.2).

The paper gives the idea in words and leaves its rule out: "we dynamically adjust the sampling step according to the
gradient of the performance", "use the re-sampling method to add sampling points when the operator performance
fluctuates", "until the operator performance no longer increases with the growth of resources". Rule and constants are
ours; why they are as they are: docs/decisions/0017-sampling.md.
"""

from collections.abc import Generator
from dataclasses import dataclass, field

from perdix.models.sampling.contract import Sweep, Wanted

_Between = Generator[Wanted, float | None, None]


@dataclass(frozen=True)
class DynamicStep:
    """Steps grow where performance is flat and shrink where it is steep; gaps are filled where it fluctuates.

    All shares are of the scale: the best performance that is known; from the start on, that of the largest size.
    """

    longest: int = 16  # largest step, in units
    # Gradient (share of the scale per unit) at which a step has one unit. At a gradient ``g``, taken over the last two
    # steps because each sample is noisy, the next step has ``(evenness / g)^(2/3)`` units, at least half and at most
    # twice as many as the last. Then all intervals add the same to the squared error of a model that is constant
    # between samples, as a forest is: an interval of ``h`` units adds ``h (g h)^2``
    evenness: float = 0.22
    # A new point that misses the line through the last two by more, or falls by more, makes midpoints be sampled
    fluctuation: float = 0.3
    # gain, patience: the sweep ends after ``patience`` steps that each gained less than the share ``gain``
    gain: float = 0.05
    patience: int = 2
    near: float = 0.95  # it does not end below this share of what the largest size makes possible

    @property
    def largest_first(self) -> bool:
        """It does: a gradient needs a scale, and an end a proof."""
        return True

    @property
    def name(self) -> str:
        """``dsa``."""
        return "dsa"

    def sweep(self, last: int, *, reaches_per_s: float | None = None) -> Sweep:
        """Return a new sweep; see :class:`perdix.models.sampling.contract.SamplingRule`."""
        course = _Course(self, reaches_per_s or 0.0)
        index, step, why = 0, 1, "the smallest size"
        while True:
            per_s = yield Wanted(index, step, why)
            yield from course.enter(index, per_s)
            if course.idle_steps >= self.patience and course.best >= self.near * course.scale:
                return f"performance no longer grows: {self.patience} steps gained less than {self.gain:.0%} each"
            if index == last:
                return "the end of the range"
            step, why = course.next_step(step)
            step = min(step, last - index)
            index += step


@dataclass
class _Course:
    """What a sweep knows: ``known`` are the points reached by steps, ``(index, records/s)``, ascending."""

    rule: DynamicStep
    scale: float  # the best performance that is known, records/s
    known: list[tuple[int, float]] = field(default_factory=list)
    reached: int = -1  # the last index that a step reached, whether it failed or not
    best: float = 0.0
    idle_steps: int = 0
    gradient: float | None = None  # over the last two steps, share of the scale per unit; None with less than two
    failed: bool = False  # whether a size that a step reached did: beside it lies a cliff
    fluctuates: bool = False

    def enter(self, index: int, per_s: float | None) -> _Between:
        """Take note of a step's point, and sample between it and the one before where that is called for."""
        before, self.reached = self.reached, index
        self.gradient, self.fluctuates = None, False
        if per_s is None:
            self.failed = True
            return
        if not self.known:
            self._note(per_s)
            self.known.append((index, per_s))
            yield from self._smallest_that_works(before, index)
            return
        last, last_per_s = self.known[-1]
        self.idle_steps = self.idle_steps + 1 if per_s < self.best + self.rule.gain * self.scale else 0
        self._note(per_s)
        self.fluctuates = self._misses_the_line(index, per_s)
        self.known.append((index, per_s))
        since, since_per_s = self.known[-3:][0]
        self.gradient = abs(per_s - since_per_s) / (index - since) / self.scale
        if self.fluctuates:
            yield from self._midpoints(last, last_per_s, index, per_s)

    def next_step(self, step: int) -> tuple[int, str]:
        """Return the next step, and why it is so long."""
        if self.gradient is None and self.known and self.failed:
            return 1, "the smallest step after a failure"
        if self.gradient is None:
            why = "no slope is known yet" if self.known else "nothing works yet"
            return min(2 * step, self.rule.longest), f"{why}: a longer step"
        if self.fluctuates:
            return max(step // 2, 1), "it fluctuates: a shorter step"
        even = (self.rule.evenness / max(self.gradient, 1e-12)) ** (2.0 / 3.0)
        found = min(max(round(even), step // 2, 1), 2 * step, self.rule.longest)
        if found == step:
            return step, "as steep as before"
        return found, "flat: a longer step" if found > step else "steep: a shorter step"

    def _note(self, per_s: float) -> None:
        self.best = max(self.best, per_s)
        self.scale = max(self.scale, self.best, 1e-12)

    def _misses_the_line(self, index: int, per_s: float) -> bool:
        last, last_per_s = self.known[-1]
        if last_per_s - per_s > self.rule.fluctuation * self.scale:
            return True
        if len(self.known) < 2:
            return False
        older, older_per_s = self.known[-2]
        line = last_per_s + (last_per_s - older_per_s) / (last - older) * (index - last)
        return abs(per_s - line) > self.rule.fluctuation * self.scale

    def _midpoints(self, low: int, low_per_s: float, high: int, high_per_s: float) -> _Between:
        """Sample the middle of an interval, and of each half over which performance changes much, down to one unit."""
        middle = (low + high) // 2
        if middle == low:
            return
        per_s = yield Wanted(middle, high - middle, "re-sampling where it fluctuates")
        if per_s is None:
            return
        self._note(per_s)
        if abs(per_s - low_per_s) > self.rule.fluctuation * self.scale:
            yield from self._midpoints(low, low_per_s, middle, per_s)
        if abs(high_per_s - per_s) > self.rule.fluctuation * self.scale:
            yield from self._midpoints(middle, per_s, high, high_per_s)

    def _smallest_that_works(self, failed: int, works: int) -> _Between:
        """Halve the interval between a size that failed and one that works, down to one unit."""
        while works - failed > 1 and failed >= 0:
            middle = (failed + works) // 2
            per_s = yield Wanted(middle, works - middle, "between a size that failed and one that works")
            if per_s is None:
                failed = middle
            else:
                self._note(per_s)
                works = middle
