"""Capacity that is estimated for each scale-out, from what some took: the curve through them, key skew, key groups.

Of each estimate it is said in words how it is known.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perdix.models.capacity.contract import Estimate
from perdix.models.capacity.evidence import OBSERVED, OFF_CURVE, REDRAWN_SKEW, Curve, Evidence, as_workers_add
from perdix.models.capacity.key_groups import KeyGroups
from perdix.models.capacity.partitions import (
    READERS_SD,
    evenness,
    if_read_evenly,
    read_shares,
    read_unevenly,
    slowest_reader,
)
from perdix.models.capacity.skew import CONTENTIONS, Skew
from perdix.settings.counting import counted
from perdix.settings.moments import moment
from perdix.telemetry.window import Values

EXTRAPOLATED = "extrapolated: never ran at this size"


def of_evidence(evidence: Evidence, now_s: float | None, notes: tuple[str, ...] = ()) -> str:
    """Return the basis of a scale-out that was observed, or that a regressor spoke of.

    ``now_s``: epoch seconds of the decision, from which its age counts; ``None``: its date stands there instead, as
    exports may be of any year.
    """
    if evidence.source != OBSERVED:
        return f"learnt by {evidence.source} from other scale-outs, {EXTRAPOLATED}"
    reach = f"CPU up to about {min(evidence.cpu_reach, 1.0):.2f}"
    when = f"until {moment(evidence.at_s)}" if now_s is None else age(now_s - evidence.at_s)
    return "; ".join([f"observed {when} at {counted(evidence.scale_out, 'worker')}, {reach}", *notes])


LITTLE_LOST = 0.02


def of_curve(curve: Curve, scale_out: int) -> str:
    """Return the basis of a scale-out that was not seen: the average per worker, and what being many costs."""
    mean = math.exp(curve.log_value(scale_out)) / scale_out
    text = f"{scale_out} x mean worker of {mean:,.0f}/s, {EXTRAPOLATED}"
    if curve.points > 1 and curve.exponent < -0.005:
        text += f" (workers lose {100 * (1 - 2**curve.exponent):.0f} % per doubling)"
    return text


def of_fewer(per_s: float, scale_out: int, smallest: int) -> str:
    """Return the basis of a scale-out below the smallest one that was seen."""
    each = f"{scale_out} x mean worker of {per_s / scale_out:,.0f}/s"
    return f"{each}, extrapolated from {smallest} workers: never ran at this size"


def of_key_groups(per_s: float, scale_out: int) -> str:
    """Return the basis of a scale-out that was not seen, by the key groups of its hottest subtask."""
    return f"by the loads of its key groups, {per_s / scale_out:,.0f}/s per worker, {EXTRAPOLATED}"


def less_of(text: str, lost: float) -> str:
    """Return a basis with what the busiest worker costs, where that is ``lost`` of the logarithm of the capacity."""
    if lost < LITTLE_LOST:
        return text
    return f"{text}; {1 - math.exp(-lost):.0%} less, because a key group or partition is one worker's"


def age(seconds: float) -> str:
    """Return how long before a decision something was, in the unit that a reader would choose."""
    if seconds < 90:
        return "in the minute before"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min before"
    return f"{seconds / 3600:.0f} h before" if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days before"


MOSTLY = 0.5  # likelihood of key groups from which an estimate is said to rest on them
LIKE_THE_OTHERS = 0.04  # relative sd of what the hottest worker takes at one scale-out, beside what contention explains


@dataclass(frozen=True)
class Expectation:
    """The capacity of every scale-out. The key skew of the stay that goes on says nothing of other scale-outs."""

    typical: Mapping[int, Evidence]  # scale-out -> what it leads to expect of any stay; at least one
    current: Evidence | None  # what is known of the stay that goes on; ``None`` where nothing is
    now_s: float  # epoch seconds that ages count from
    partitions: int | None = None  # of the source, where that is known: a worker reads whole ones
    warnings: tuple[str, ...] = ()  # what the reader should know of the stay that goes on
    # What is known of how key groups share the work. As far as they are behind what was seen, they say what the hottest
    # subtask has at any scale-out; then what runs there again is dealt alike, and more workers may take less
    groups: KeyGroups = field(default_factory=KeyGroups)

    def estimates(self, scale_outs: range, *, dated: bool = False) -> dict[int, Estimate]:
        """Return the estimate of each scale-out with a 90 % interval; ``dated``: its basis names dates, not ages."""
        logs, variances = self._answers(scale_outs)
        lost = np.zeros(len(logs))
        largest = max((item.scale_out for item in self._ran_evenly if item.hottest_share is not None), default=None)
        if largest is not None and scale_outs.stop - 1 > largest and (skew := Skew.seen(self._ran_evenly)) is not None:
            beyond = max(largest + 1 - scale_outs.start, 0)
            limited, doubt = skew.limited(np.arange(scale_outs[beyond], scale_outs.stop), logs[beyond:])
            limited = np.maximum(limited, self._of_any_stay[0][largest - 1])  # more workers are never a loss
            lost[beyond:] = logs[beyond:] - limited
            logs[beyond:] = limited
            variances[beyond:] += doubt
        if self.partitions is not None:
            lost += logs
            logs, variances = self._as_read(self.partitions, scale_outs, logs, variances)
            lost -= logs
        if self.groups.likely > 0.0 and not self._measured(scale_outs):
            logs, variances = self._with_key_groups(scale_outs, logs, variances)
        if self.groups.likely > MOSTLY:
            lost[:] = 0.0
        answers = zip(scale_outs, logs.tolist(), variances.tolist(), lost.tolist(), strict=True)
        return {
            n: self._estimate(n, log_value, variance, less, dated=dated) for n, log_value, variance, less in answers
        }

    def _measured(self, scale_outs: range) -> bool:
        """Whether only what runs is asked for, of which nothing else says more."""
        return self.current is not None and scale_outs == range(self.current.scale_out, self.current.scale_out + 1)

    def _as_read(self, partitions: int, scale_outs: range, logs: Values, variances: Values) -> tuple[Values, Values]:
        """Return answers as far as workers that read whole partitions allow them; what ran is as it was."""
        tried = np.arange(scale_outs.start, scale_outs.stop)
        sizes = np.array(list(self.typical))
        readers = np.array([self._log_reader(partitions, known) for known in self.typical.values()])
        nearest = np.abs(np.log(tried[:, None] / sizes)).argmin(axis=1)
        limits = logs + readers[nearest] + np.log(evenness(partitions, tried))
        limits += slowest_reader(partitions, tried)
        for n, known in self._known_among(scale_outs):
            at = n - scale_outs.start
            limits[at] = logs[at] + math.log(known.per_s / if_read_evenly(known, partitions).per_s)
        return np.minimum(logs, limits), variances + (limits < logs) * READERS_SD**2

    def _log_reader(self, partitions: int, known: Evidence) -> float:
        """Return the log of what the mean worker takes, over its part of what workers that read evenly would take."""
        even = self._even[known.scale_out]
        hottest = math.log(max((even.hottest_share or 0.0) * even.scale_out, 1.0))
        return hottest + self._log_mean_worker(partitions, known)

    def _log_mean_worker(self, partitions: int, known: Evidence) -> float:
        """Return the log of what the mean worker takes, over what the one does that is full first."""
        if read_unevenly(known, partitions):
            return -float(slowest_reader(partitions, known.scale_out))
        return -known.log_speed

    def _with_key_groups(self, scale_outs: range, logs: Values, variances: Values) -> tuple[Values, Values]:
        """Return answers as far as key groups are not behind what was seen, and what these say as far as they are."""
        at = np.minimum(np.arange(scale_outs.start, scale_outs.stop), self.groups.count) - 1
        found = self._by_key_groups(int(at[-1]) + 1)
        if found is None:
            return logs, variances
        theirs, their_variances = found[0][at], found[1][at]
        likely = np.full(len(at), self.groups.likely)
        if self.current is not None and self.current.scale_out in scale_outs:
            likely[self.current.scale_out - scale_outs.start] = 0.0  # that one is measured
        mean = likely * theirs + (1.0 - likely) * logs
        apart = likely * (theirs - mean) ** 2 + (1.0 - likely) * (logs - mean) ** 2
        return mean, likely * their_variances + (1.0 - likely) * variances + apart

    def _by_key_groups(self, most: int) -> tuple[Values, Values] | None:
        """Return log capacity and its variance at 1 .. ``most`` or more, as key groups have it; ``None``: not known.

        The job is full when its hottest subtask is: what that takes is alike at all scale-outs, but for contention.
        """
        ran = [item for item in self._observed if item.scale_out <= self.groups.count]
        if not ran:
            return None
        sizes = np.array([item.scale_out for item in ran])
        shares, doubts = self.groups.hottest(max(most, int(sizes.max())))
        own = np.array([self._of_this_stay(item) for item in ran])
        takes = np.log([item.per_s for item in ran]) + [self._log_share(item, shares) for item in ran]
        precision = 1.0 / (own + doubts[sizes - 1] + LIKE_THE_OTHERS**2)
        tried = np.arange(1, len(shares) + 1)
        held_up = np.log1p(CONTENTIONS[:, None] * (tried - 1.0))
        alone = takes + held_up[:, sizes - 1]
        mean = alone @ precision / precision.sum()
        misfit = (alone - mean[:, None]) ** 2 @ precision
        likely = np.exp(0.5 * (misfit.min() - misfit))
        likely /= likely.sum()
        worker = mean[:, None] - held_up
        expected = likely @ worker
        variance = likely @ (worker - expected) ** 2 + 1.0 / precision.sum() + LIKE_THE_OTHERS**2
        logs, variances = expected - shares, variance + doubts
        if self.partitions is not None:
            reader = expected + np.mean([self._log_mean_worker(self.partitions, item) for item in ran])
            reads = slowest_reader(self.partitions, tried) - np.log(read_shares(self.partitions, tried))
            logs = np.minimum(logs, reader + reads)
        there = 1.0 / own  # where a scale-out ran itself, that counts as well: it is dealt alike whenever it runs
        both = there + 1.0 / variances[sizes - 1]
        logs[sizes - 1] = (there * np.log([item.per_s for item in ran]) + logs[sizes - 1] / variances[sizes - 1]) / both
        variances[sizes - 1] = 1.0 / both
        return logs, variances

    def _log_share(self, ran: Evidence, shares: Values) -> float:
        """Return the logarithm of the share of the records of the worker that was full first."""
        if self.partitions is not None and read_unevenly(ran, self.partitions):
            return math.log(read_shares(self.partitions, ran.scale_out))
        return float(shares[ran.scale_out - 1])

    def _of_this_stay(self, evidence: Evidence) -> float:
        """Return the variance of evidence without that of keys that are dealt anew."""
        return max(evidence.variance(self.now_s) - REDRAWN_SKEW**2, (0.25 * REDRAWN_SKEW) ** 2)

    def _estimate(self, scale_out: int, log_value: float, variance: float, lost: float, *, dated: bool) -> Estimate:
        known = self._known(scale_out)
        seen = known is not None and known.source == OBSERVED
        basis = less_of(self._basis(known, scale_out, log_value, dated=dated), lost)
        return Estimate.about(scale_out, log_value, math.sqrt(variance), seen=seen, basis=basis)

    def _known(self, scale_out: int) -> Evidence | None:
        """Return the stay that goes on, else what earlier ones lead to expect."""
        runs = self.current is not None and scale_out == self.current.scale_out
        return self.current if runs else self.typical.get(scale_out)

    def _answers(self, scale_outs: range) -> tuple[Values, Values]:
        """Return log capacities and their variances: of the stay that goes on, else of any; shape ``(n,)`` each."""
        found = np.array(self._of_any_stay)
        largest, last = found.shape[1], float(found[0, -1])
        further = [self._further(n, largest, last) for n in range(max(scale_outs.start, largest + 1), scale_outs.stop)]
        found = found[:, scale_outs.start - 1 : scale_outs.stop - 1]
        if further:
            found = np.concatenate([found, np.array(further).T], axis=1)
        if self.current is not None and (n := self.current.scale_out) in scale_outs:
            found[:, n - scale_outs.start] = self._blended(n, self._current, stays_on=True)
        return found[0], found[1]

    def _further(self, scale_out: int, largest: int, last: float) -> tuple[float, float]:
        """Return log capacity and its variance beyond the largest scale-out known, of which ``last`` is expected."""
        most = last + math.log(scale_out / largest)  # no worker adds more than those before it
        log_value = min(max(last, self.curve.log_value(scale_out)), most)
        return log_value, self.curve.variance(scale_out) + REDRAWN_SKEW**2

    @cached_property
    def _of_any_stay(self) -> tuple[Values, Values]:
        """Log capacity and its variance, of any stay at 1 .. the largest scale-out known; shape ``(largest,)`` each.

        The total does not fall with more workers; of a scale-out that never ran, the average per worker does not rise.
        """
        blended = [self._blended(n, self._even.get(n)) for n in range(1, max(self.typical) + 1)]
        values, variances = np.array(blended).T
        tried = np.arange(1, len(values) + 1)
        seen = np.zeros(len(values), dtype=np.bool_)
        seen[[n - 1 for n in self.typical]] = True
        skew = self._of_fewest
        if skew is not None:
            below = slice(skew.of - 1)
            fewer, doubt = skew.fewer(tried[below])
            values[below] = values[skew.of - 1] + fewer
            variances[below] = variances[skew.of - 1] + doubt + OFF_CURVE**2
        return as_workers_add(values, 1.0 / variances, seen), variances

    def _blended(self, scale_out: int, evidence: Evidence | None, *, stays_on: bool = False) -> tuple[float, float]:
        """Return log capacity and variance from the curve and from what is known of this very scale-out."""
        curve, variance = self.curve.log_value(scale_out), self.curve.variance(scale_out)
        redrawn = REDRAWN_SKEW**2
        if evidence is None:
            return curve, variance + redrawn
        # A stay that goes on is not an average over stays: the curve, which is one, says less of it.
        own = 1.0 / evidence.variance(self.now_s)
        # With a single scale-out the curve is that evidence: adding it again would feign precision.
        other = 1.0 / (variance + redrawn * stays_on) if self.curve.points > 1 else 0.0
        log_value = (own * math.log(evidence.per_s) + other * curve) / (own + other)
        shared = (own * evidence.shared_sd + other * self.curve.shared_sd) / (own + other)
        return log_value, max(1.0 / (own + other), shared**2) + redrawn * (not stays_on)

    @property
    def _observed(self) -> list[Evidence]:
        """What scale-outs that ran lead to expect."""
        return [item for item in self.typical.values() if item.source == OBSERVED]

    @cached_property
    def curve(self) -> Curve:
        """Through what is typical, had each worker read equally much."""
        return Curve.through(self._even.values(), self.now_s)

    @cached_property
    def _even(self) -> dict[int, Evidence]:
        """What every scale-out leads to expect of any stay, had each worker read equally much."""
        return {n: self._if_read_evenly(item) for n, item in self.typical.items()}

    @cached_property
    def _current(self) -> Evidence | None:
        return None if self.current is None else self._if_read_evenly(self.current)

    def _if_read_evenly(self, evidence: Evidence) -> Evidence:
        return evidence if self.partitions is None else if_read_evenly(evidence, self.partitions)

    def _known_among(self, scale_outs: range) -> list[tuple[int, Evidence]]:
        known = {n: self._known(n) for n in scale_outs}
        return [(n, item) for n, item in known.items() if item is not None]

    @property
    def _ran_evenly(self) -> list[Evidence]:
        return [item for item in self._even.values() if item.source == OBSERVED]

    @cached_property
    def _of_fewest(self) -> Skew | None:
        """The hottest worker's share below the smallest: the curve does not know that fewer share keys more evenly."""
        smallest = min(self.typical)
        known = self._even[smallest]
        if smallest == 1 or known.source != OBSERVED or known.hottest_share is None:
            return None
        return Skew.seen(self._ran_evenly, fewest=True)

    def _basis(self, evidence: Evidence | None, scale_out: int, log_value: float, *, dated: bool) -> str:
        if evidence is not None:
            warnings = self.warnings if evidence is self.current else ()
            return of_evidence(evidence, None if dated else self.now_s, warnings)
        if self.groups.likely > MOSTLY:
            return of_key_groups(math.exp(log_value), scale_out)
        skew = self._of_fewest
        if skew is not None and scale_out < skew.of:
            return of_fewer(math.exp(log_value), scale_out, skew.of)
        return of_curve(self.curve, scale_out)
