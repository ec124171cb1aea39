"""Do metrics of one job tell the same story? What arrives is worked, or it waits: nothing else can become of it.

Belongs here: metrics held against each other. Does not belong here: one metric by itself
(:mod:`perdix.telemetry.plausible`), and what is decided where they do not agree (``control``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.window import Values

Mask = NDArray[np.bool_]

APART: Final = 1.4  # workload over throughput, or the other way round, from which the lag must tell why
EXPLAINED: Final = 0.5  # share of the difference that the lag must have taken or given
SPAN_S: Final = 60.0
LONGEST_SPAN_S: Final = 180.0
COMMITS: Final = 3.0  # checkpoint intervals in a span: some exporters see the lag fall only when offsets are committed
MEASURED: Final = 0.5  # share of a span's samples without which it is not judged: who decides knows 0.8 of each metric
UNTOLD: Final = 0.6  # of the workload: what must arrive besides, by the pace of a backlog, until that is too much
CHANCE: Final = 3.0  # standard deviations of a count of records


@dataclass(frozen=True, eq=False)
class Agreement:
    """Workload, throughput and consumer lag of a job's window, held against each other.

    Each step is judged by the minute before it (longer where checkpoints are far apart) and by the newer half of that.

    ``workload``, ``throughput``: records/s over all workers, shape ``(n,)``.
    ``lag``: consumer lag in records, shape ``(n,)``.
    ``interrupted``: where the job stands still or has just been restarted, shape ``(n,)``: it then reads again what it
    had read, so a minute with such a step in it is not judged.
    """

    step_s: float
    workload: Values
    throughput: Values
    lag: Values
    interrupted: Mask = field(kw_only=True)
    checkpoint_interval_s: float = field(kw_only=True)

    def contradicting(self) -> Mask:
        """Return where the three cannot all be true, shape ``(n,)``.

        What is not measured contradicts nothing. The lag may have moved up to a minute earlier: rates are often means.
        """
        return self._anywhere(seen.judged & ~seen.explained for seen in self._seen_late)

    def understated(self) -> Mask:
        """Return where a backlog falls so slowly that far more must arrive than the workload tells, shape ``(n,)``.

        :meth:`contradicting` takes a lag that falls by half of what is worked beyond the workload for an explanation,
        since exporters tell of lags late. So a workload that is reported as half may hide behind a backlog. This is
        stricter: enough to keep workers, too much to learn by.
        """
        found = []
        for seen in self._seen_late:
            falls = seen.drained & (seen.worked > seen.arrived)
            besides = seen.worked - seen.arrived + np.minimum(seen.least, 0.0)
            found.append(seen.judged & falls & (besides > UNTOLD * seen.arrived))
        return self._anywhere(found)

    def unexplained(self) -> Mask:
        """Return where workload and throughput are apart and the lag does not say why at the same time, shape ``(n,)``.

        Stricter than :meth:`contradicting`, which judges nothing without a lag, and lets it have moved a minute
        earlier: so throughput reported at double hides behind a backlog that was just worked off. The newer half of a
        span is judged where the job was interrupted in its older one.
        """
        found = self._nowhere
        for seen in reversed(self._seen(late_s=0.0)):
            found = np.where(seen.whole, seen.apart & ~seen.explained, found)
        return found

    def unjudged(self) -> Mask:
        """Return where nothing is judged because the job has just been interrupted, shape ``(n,)``.

        Where no lag is measured nothing is ever judged, so there is nothing to wait for: False.
        """
        if not self.interrupted.any() or not np.isfinite(self.lag).any():
            return self._nowhere
        return ~_whole(self.interrupted, min(_spans(self.step_s, self.checkpoint_interval_s)))

    @property
    def _nowhere(self) -> Mask:
        return np.zeros(len(self.workload), dtype=np.bool_)

    def _anywhere(self, found: Iterable[Mask]) -> Mask:
        return reduce(np.logical_or, found, self._nowhere)

    @cached_property
    def _seen_late(self) -> tuple[_Seen, ...]:
        return self._seen(late_s=SPAN_S)

    def _seen(self, late_s: float) -> tuple[_Seen, ...]:
        """Return what was seen in each span, the longest first, with a lag that is up to ``late_s`` seconds late."""
        earlier = max(1, round(late_s / self.step_s)) if late_s else 0
        return tuple(
            _Seen(*sums, *_moves(self.lag, steps, earlier), _whole(self.interrupted, steps))
            for steps, sums in self._apart.items()
        )

    @cached_property
    def _apart(self) -> Mapping[int, tuple[Mask, Values, Values]]:
        """Steps of a span -> ``apart``, ``arrived`` and ``worked`` of a :class:`_Seen`; empty where none is apart."""
        both = np.isfinite(self.workload) & np.isfinite(self.throughput)
        sums = np.cumsum([both, np.where(both, self.workload, 0.0), np.where(both, self.throughput, 0.0)], axis=1)
        found = {}
        for steps in _spans(self.step_s, self.checkpoint_interval_s) if len(both) > 1 else ():
            counts, arrived, worked = _trailing(sums, steps)
            # Seconds that a step which is known stands for: those that are missing were like the others.
            each_s = self.step_s * np.minimum(np.arange(1, len(both) + 1), steps) / np.maximum(counts, 1.0)
            arrived, worked = each_s * arrived, each_s * worked
            gap = np.abs(arrived - worked)
            apart = counts >= MEASURED * steps
            apart &= gap > (APART - 1.0) * np.minimum(arrived, worked)
            apart &= gap > CHANCE * np.sqrt(arrived + worked)
            found[steps] = apart, arrived, worked
        return found if any(apart.any() for apart, _, _ in found.values()) else {}


def surroundings(mask: Mask, step_s: float, checkpoint_interval_s: float) -> Mask:
    """Return the mask with the steps that a judgement rested on: any of them may be what is wrong."""
    if not mask.any():
        return mask
    steps = _steps(step_s, checkpoint_interval_s)
    ahead = np.concatenate([mask, np.zeros(steps - 1, dtype=np.bool_)])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(ahead, steps).any(axis=1))


def _spans(step_s: float, checkpoint_interval_s: float) -> tuple[int, ...]:
    steps = _steps(step_s, checkpoint_interval_s)
    return (steps, steps // 2) if steps >= 4 else (steps,)


def _whole(interrupted: Mask, span: int) -> Mask:
    """Return where nothing interrupted the job within a span, shape ``(n,)``.

    The lag is compared with that of the step before the span, and may be scraped a step later than the rest.
    """
    return np.asarray(_trailing(interrupted.cumsum(), span + 2) == 0)


def _steps(step_s: float, checkpoint_interval_s: float) -> int:
    span_s = min(max(COMMITS * checkpoint_interval_s, SPAN_S), LONGEST_SPAN_S)
    return max(2, round(span_s / step_s))


@dataclass(frozen=True, eq=False)
class _Seen:
    """What arrived and was worked in the span before each step, in records, and how the lag moved; shape ``(n,)``."""

    apart: Mask  # enough is measured of the two, and they are apart by more than chance
    arrived: Values
    worked: Values
    # least, most: moves of the lag; NaN where it was not measured
    least: Values
    most: Values
    whole: Mask  # nothing interrupted the job within the span

    @property
    def judged(self) -> Mask:
        return np.asarray(self.apart & self.whole & np.isfinite(self.least))

    @property
    def drained(self) -> Mask:
        return np.asarray(-self.least >= EXPLAINED * (self.worked - self.arrived))

    @property
    def explained(self) -> Mask:
        """Whether the lag took or gave what is apart; not where it is unknown."""
        piled_up = self.most >= EXPLAINED * (self.arrived - self.worked)
        return np.asarray(np.where(self.worked > self.arrived, self.drained, piled_up))


def _trailing(sums: NDArray[Any], steps: int) -> NDArray[Any]:
    """Return of running sums along the last axis those of the last ``steps`` each."""
    trailing = sums.copy()
    trailing[..., steps:] -= sums[..., :-steps]
    return trailing


def _moves(lag: Values, steps: int, earlier: int) -> tuple[Values, Values]:
    """Return the least and the largest move of the lag over ``steps``, of those that ended up to ``earlier`` steps ago.

    Shape ``(n,)`` both, NaN where it was not measured.
    """
    n = len(lag)
    known = np.flatnonzero(np.isfinite(lag))
    if not len(known):
        return np.full(n, np.nan), np.full(n, np.nan)
    filled = np.interp(np.arange(n), known, lag[known])
    filled[: known[0]] = np.nan
    filled[known[-1] + 3 :] = np.nan
    moved = np.full(n, np.nan)
    moved[steps:] = filled[steps:] - filled[:-steps]
    padded = np.concatenate([np.full(earlier, np.nan), moved])
    views = np.lib.stride_tricks.sliding_window_view(padded, earlier + 1)
    least = np.where(np.isfinite(views), views, np.inf).min(axis=1)
    most = np.where(np.isfinite(views), views, -np.inf).max(axis=1)
    unknown = ~np.isfinite(views).any(axis=1)
    return np.where(unknown, np.nan, least), np.where(unknown, np.nan, most)
