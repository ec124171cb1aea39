"""DS2's scaling manager: from the results of several intervals to what is worth doing (OSDI '18, section 4.2).

Belongs here: pure functions from results and what earlier rescales did to what is done next. Does not belong here: the
results themselves (:mod:`perdix.models.dataflow.optimal`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

Combine = Literal["last", "max", "median"]
Parallelism = Mapping[str, int]

MET = 1.0 - 1e-6  # share of its target rate from which on a source is taken to emit all of it
MANY = 36  # instances that the paper's Flink holds (5.1), of which one or two are minor (4.2.2); of more, in proportion
MINOR = 0.2  # share of what runs: a change by more than that is not minor, unless it is by one


@dataclass(frozen=True)
class Emitted:
    """What the sources emit, and should, records/s; of several sources: of the one that falls short most."""

    per_s: float
    target_per_s: float
    # Whether all that was emitted was also processed: while a queue fills or empties, what the sources emit is not what
    # the dataflow can take
    settled: bool = True

    @property
    def share(self) -> float:
        """What is emitted of what should be; 1 where it is all, or more while a backlog is worked off."""
        return min(self.per_s / self.target_per_s, 1.0) if self.target_per_s > 0 else 1.0

    @classmethod
    def mean(cls, several: Sequence[Emitted]) -> Emitted | None:
        """Return the mean of several intervals; ``None`` of none."""
        if not several:
            return None
        settled = all(measured.settled for measured in several)
        return cls(
            fmean(measured.per_s for measured in several), fmean(measured.target_per_s for measured in several), settled
        )

    @property
    def sustained(self) -> bool:
        """Whether all that should be emitted is, and is processed."""
        return self.settled and self.share >= MET


@dataclass(frozen=True)
class Result:
    """The rule's result of one interval: operator -> instances; operators that could not be sized are missing."""

    wanted: Parallelism
    emitted: Emitted | None = None


@dataclass(frozen=True)
class Rescale:
    """A rescale that was asked for, and what the sources emitted before it."""

    before: Parallelism
    after: Parallelism
    emitted: Emitted | None

    @property
    def scaled_out(self) -> bool:
        """Whether any operator was given more instances."""
        return any(count > self.before.get(name, count) for name, count in self.after.items())


def combined(results: Sequence[Result], how: Combine) -> dict[str, int]:
    """Return operator -> instances over the results of several intervals (activation time).

    Of an operator that the newest result does not size nothing is wanted: what it needs now is not known.
    """
    wanted = {}
    for name in results[-1].wanted:
        known = [result.wanted[name] for result in results if name in result.wanted]
        if how == "last":
            wanted[name] = known[-1]
        else:
            wanted[name] = max(known) if how == "max" else math.ceil(median(known))
    return wanted


def agree(results: Sequence[Result]) -> bool:
    """Whether all results are the same."""
    return all(result.wanted == results[-1].wanted for result in results)


def shortfall(emitted: Emitted | None, ratio: float | None, tolerance: float) -> float:
    """Return by how many times the target exceeds what is emitted, where that is more than ``ratio``; else 1."""
    if emitted is None or ratio is None or emitted.per_s <= 0:
        return 1.0
    short = emitted.target_per_s / emitted.per_s
    return short if short > ratio * (1.0 + tolerance) else 1.0


def worthwhile(running: int, wanted: int, ignored_out: int, ignored_in: int) -> int:
    """Return ``wanted``, or what runs where the change is minor: few instances, and few of those that run.

    Beyond ``MANY`` instances the ignored ones grow in proportion: noise is a share of what is measured.
    """
    ignored = (ignored_out if wanted > running else ignored_in) * max(1.0, running / MANY)
    return running if abs(wanted - running) <= min(ignored, max(1.0, MINOR * running)) else wanted


def made_worse(rescale: Rescale, now: Emitted | None, tolerance: float) -> bool:
    """Whether the sources emit less than before the rescale, and less of what they should: not just less load.

    Only settled rates are compared: before the sources of a dataflow that is too small feel it, its queues fill.
    """
    if now is None or rescale.emitted is None or not (now.settled and rescale.emitted.settled):
        return False
    before, least = rescale.emitted, 1.0 - tolerance
    return now.per_s < before.per_s * least and now.share < before.share * least


def to_take_back(rescale: Rescale, now: Emitted | None, tolerance: float, wanted: Parallelism) -> bool:
    """Whether to go back to what ran before: only where the rule does not know why it turned out worse.

    Where the rule now wants more of an operator, it has found what to fix and does so, as in the paper's run on Flink
    (5.3). What it holds to be too small it never goes back to: it would want to leave that again at once.
    """
    small = any(
        count > min(rescale.after.get(name, count), rescale.before.get(name, count)) for name, count in wanted.items()
    )
    return made_worse(rescale, now, tolerance) and not small


def in_vain(rescale: Rescale, now: Emitted | None, least_gain: float) -> bool | None:
    """Whether a scale-out closed less than ``least_gain`` of the gap between what the sources emit and should.

    ``None``: it says nothing, for nothing was lacking before. Against the gap and not against what is emitted, since
    the last steps of a rule that converges are small too.
    """
    if now is None or rescale.emitted is None or not rescale.scaled_out:
        return None
    if now.share >= MET:
        return False
    if rescale.emitted.share >= MET:
        return None
    before_per_s = rescale.emitted.per_s
    return now.per_s - before_per_s < least_gain * (now.target_per_s - before_per_s)
