"""Do metrics of one job tell the same story? What arrives is worked, or it waits: nothing else can become of it.

Belongs here: metrics held against each other. Does not belong here: one metric by itself
(:mod:`perdix.telemetry.plausible`), and what is decided where they do not agree (``control``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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


def contradicting(
    step_s: float, workload: Values, throughput: Values, lag: Values, *, interrupted: Mask, checkpoint_interval_s: float
) -> Mask:
    """Return where workload, throughput and consumer lag cannot all be true, shape ``(n,)``.

    Each step is judged by the minute before it (longer where checkpoints are far apart) and by the newer half of that.
    What is not measured contradicts nothing. The lag may have moved up to a minute earlier: rates are often means.

    ``workload``, ``throughput``: records/s over all workers, shape ``(n,)``.
    ``lag``: consumer lag in records, shape ``(n,)``.
    ``interrupted``: where the job stands still or has just been restarted, shape ``(n,)``: it then reads again what it
    had read, so a minute with such a step in it is not judged.
    """
    if len(workload) < 2 or not np.isfinite(lag).any():
        return np.zeros(len(workload), dtype=np.bool_)
    found = [
        _over(span, step_s, workload, throughput, lag) & _whole(interrupted, span)
        for span in _spans(step_s, checkpoint_interval_s)
    ]
    return np.asarray(np.logical_or.reduce(found))


def understated(
    step_s: float, workload: Values, throughput: Values, lag: Values, *, interrupted: Mask, checkpoint_interval_s: float
) -> Mask:
    """Return where a backlog is worked off so slowly that far more must arrive than the workload tells, shape ``(n,)``.

    :func:`contradicting` takes a lag that falls by half of what is worked beyond the workload for an explanation, since
    exporters tell of lags late. So a workload that is reported as half may hide behind a backlog. This is stricter:
    enough to keep workers, too much to learn by. Parameters as there.
    """
    if len(workload) < 2 or not np.isfinite(lag).any():
        return np.zeros(len(workload), dtype=np.bool_)
    found = []
    for span in _spans(step_s, checkpoint_interval_s):
        seen = _Seen.over(span, step_s, workload, throughput, lag)
        falls = seen.drained & (seen.worked > seen.arrived)
        besides = seen.worked - seen.arrived + np.minimum(seen.least, 0.0)
        found.append(seen.judged & falls & (besides > UNTOLD * seen.arrived) & _whole(interrupted, span))
    return np.asarray(np.logical_or.reduce(found))


def unexplained(
    step_s: float, workload: Values, throughput: Values, lag: Values, *, interrupted: Mask, checkpoint_interval_s: float
) -> Mask:
    """Return where workload and throughput are apart and the lag does not say why at the same time, shape ``(n,)``.

    Stricter than :func:`contradicting`, which judges nothing without a lag, and lets it have moved a minute earlier: so
    throughput reported at double hides behind a backlog that was just worked off. The newer half of a span is judged
    where the job was interrupted in its older one. Parameters as there.
    """
    found = np.zeros(len(workload), dtype=np.bool_)
    if len(workload) < 2:
        return found
    for span in reversed(_spans(step_s, checkpoint_interval_s)):
        seen, whole = _Seen.over(span, step_s, workload, throughput, lag, late_s=0.0), _whole(interrupted, span)
        found = np.where(whole, seen.apart & ~seen.explained, found)
    return found


def unjudged(step_s: float, lag: Values, *, interrupted: Mask, checkpoint_interval_s: float) -> Mask:
    """Return where :func:`contradicting` judges nothing because the job has just been interrupted, shape ``(n,)``.

    Where no lag is measured nothing is ever judged, so there is nothing to wait for: False.
    """
    if not np.isfinite(lag).any():
        return np.zeros(len(lag), dtype=np.bool_)
    return ~_whole(interrupted, min(_spans(step_s, checkpoint_interval_s)))


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
    return np.asarray(_trailing_sums(interrupted.astype(np.float64), span + 2) == 0)


def _steps(step_s: float, checkpoint_interval_s: float) -> int:
    span_s = float(np.clip(COMMITS * checkpoint_interval_s, SPAN_S, LONGEST_SPAN_S))
    return max(2, round(span_s / step_s))


@dataclass(frozen=True)
class _Seen:
    """What arrived and was worked in the span before each step, in records, and how the lag moved; shape ``(n,)``."""

    apart: Mask  # enough is measured of the two, and they are apart by more than chance
    arrived: Values
    worked: Values
    least: Values
    most: Values

    @classmethod
    def over(
        cls, steps: int, step_s: float, workload: Values, throughput: Values, lag: Values, *, late_s: float = SPAN_S
    ) -> _Seen:
        both = np.isfinite(workload) & np.isfinite(throughput)
        counts = _trailing_sums(both.astype(np.float64), steps)
        # Seconds that a step which is known stands for: those that are missing were like the others.
        each_s = step_s * np.minimum(np.arange(1, len(both) + 1), steps) / np.maximum(counts, 1.0)
        arrived = each_s * _trailing_sums(np.where(both, workload, 0.0), steps)
        worked = each_s * _trailing_sums(np.where(both, throughput, 0.0), steps)
        gap = np.abs(arrived - worked)
        apart = counts >= MEASURED * steps
        apart &= gap > (APART - 1.0) * np.minimum(arrived, worked)
        apart &= gap > CHANCE * np.sqrt(arrived + worked)
        if not (apart.any() and np.isfinite(lag).any()):
            return cls(apart, arrived, worked, *np.full((2, len(lag)), np.nan))
        return cls(apart, arrived, worked, *_moves(lag, steps, max(1, round(late_s / step_s)) if late_s else 0))

    @property
    def judged(self) -> Mask:
        return np.asarray(self.apart & np.isfinite(self.least))

    @property
    def drained(self) -> Mask:
        return np.asarray(-self.least >= EXPLAINED * (self.worked - self.arrived))

    @property
    def explained(self) -> Mask:
        """Whether the lag took or gave what is apart; not where it is unknown."""
        piled_up = self.most >= EXPLAINED * (self.arrived - self.worked)
        return np.asarray(np.where(self.worked > self.arrived, self.drained, piled_up))


def _over(steps: int, step_s: float, workload: Values, throughput: Values, lag: Values) -> Mask:
    seen = _Seen.over(steps, step_s, workload, throughput, lag)
    return np.asarray(seen.judged & ~seen.explained)


def _trailing_sums(values: Values, steps: int) -> Values:
    sums = values.cumsum()
    if len(values) > steps:
        return np.concatenate([sums[:steps], sums[steps:] - sums[:-steps]])
    return sums


def _moves(lag: Values, steps: int, earlier: int) -> tuple[Values, Values]:
    """Return the least and the largest move of the lag over ``steps``, of those that ended up to ``earlier`` steps ago.

    Shape ``(n,)`` both, NaN where it was not measured.
    """
    n = len(lag)
    known = np.flatnonzero(np.isfinite(lag))
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
