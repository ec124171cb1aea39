"""Is a window good enough to decide on? Pure rules for the hot path; Great Expectations guards the lake instead.

Belongs here: staleness, coverage, clock skew, missing workers. Does not belong here: what to do about it (``control``).
"""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perdix.settings.counting import counted
from perdix.telemetry.metrics import CPU, SCALE_OUT, THROUGHPUT
from perdix.telemetry.window import Window

Mask = NDArray[np.bool_]

STALE_AFTER_INTERVALS: Final = 2.0
NEEDED: Final[Mapping[str, float]] = {THROUGHPUT.name: 0.8, CPU.name: 0.8}


@dataclass(frozen=True)
class Quality:
    """What can be said of a window."""

    ok: bool  # a decision may be made
    blind: bool  # what is needed is absent or stale: nothing is known of the job now. Implies not ``ok``
    # One sentence per finding, for the ledger and for ``perdix explain``. Empty when all is well
    problems: tuple[str, ...]
    # Needed metric -> share (0..1) of the grid that has a value
    coverage: Mapping[str, float] = field(default_factory=dict)
    age_s: float = float("inf")  # age of the newest sample; infinite when there was none
    missing_workers: int = 0  # how many workers fewer report than are registered; 0 where that is not known
    silent_workers: tuple[str, ...] = ()  # workers of the window that stopped reporting


def assess(
    window: Window,
    now_s: float,
    scrape_interval_s: float,
    needed: Mapping[str, float] | None = None,
    running: int | None = None,
) -> Quality:
    """Judge a window.

    ``window``: as aligned; its end should be ``now_s`` (epoch seconds), so that samples from the future show as
    ``window.ahead``.
    ``scrape_interval_s``: newest samples older than two of these are stale.
    ``needed``: canonical metric -> smallest coverage (0..1) without which no decision is made; throughput and CPU of
    the workers at 80 % when left out. The coverage of workers counts from when each was first seen to when it was
    released, so that a rescale inside the window does not forbid every decision.
    ``running``: workers that the target says run; ``None`` where that is not known.

    Blind: no sample, or none newer than two intervals (plus the step that the grid may still owe), or a needed metric
    that is absent or stale, or no more than half of the workers report. No decision, but not blind: low coverage, fewer
    workers reporting than registered, or a clock that is ahead.
    """
    needed = NEEDED if needed is None else needed
    allowed_s = STALE_AFTER_INTERVALS * scrape_interval_s
    age_s = window.age_s(now_s)
    known = {name: ~window.missing(name) for name in {*needed, *window.worker_metrics}}
    blindness = [*_staleness(age_s, allowed_s), *_stale_metrics(window, now_s, allowed_s, needed, known)]
    coverage = {name: _coverage(known[name]) for name in needed}
    silent = _silent_workers(window, now_s, allowed_s, needed, known)
    missing = _missing_workers(window, silent)
    reporting = len(window.workers) - len(silent)
    problems = [
        f"{name} covers {math.floor(100.0 * coverage[name])}% of the window, {least:.0%} is needed"
        for name, least in needed.items()
        if 0 < coverage[name] < least
    ]
    if missing > 0:
        names = f" (silent: {', '.join(silent)})" if silent else ""
        found = blindness if missing >= reporting > 0 else problems
        found.append(f"{reporting} of {reporting + missing} workers report{names}")
    elif running is not None and running >= 2 * reporting > 0:
        blindness.append(f"{reporting} of {running} workers report, by the target's count")
    if window.ahead:
        problems.append(f"clock skew: {counted(window.ahead, 'sample')} more than a scrape interval in the future")
    return Quality(
        ok=not blindness and not problems,
        blind=bool(blindness),
        problems=(*blindness, *problems),
        coverage=coverage,
        age_s=age_s,
        missing_workers=max(missing, 0),
        silent_workers=silent,
    )


def _staleness(age_s: float, allowed_s: float) -> list[str]:
    if np.isinf(age_s):
        return ["no sample at all"]
    return [f"newest sample is {math.ceil(age_s)} s old, {allowed_s:.0f} s are allowed"] if age_s > allowed_s else []


def _stale_metrics(
    window: Window, now_s: float, allowed_s: float, needed: Iterable[str], known: Mapping[str, Mask]
) -> list[str]:
    problems = []
    for name in needed:
        found = known[name]
        rows = np.flatnonzero(found if found.ndim == 1 else found.any(axis=1))
        if not len(rows):
            rejected = next((item for item in window.rejected if item.metric == name), None)
            why = "is absent" if rejected is None else f"has no usable sample: {rejected.sentence()}"
            problems.append(f"{name} {why}")
        elif (age_s := now_s - window.times_s[rows[-1]]) > allowed_s + window.step_s:
            problems.append(f"{name} is {age_s:.0f} s old, {allowed_s:.0f} s are allowed")
    return problems


def _coverage(known: Mask) -> float:
    """Share of steps with a value; for workers, of the steps between each worker's first and last one."""
    if not known.any():
        return 0.0
    if known.all() or known.ndim == 1:
        return 1.0 - int(np.count_nonzero(~known)) / known.size
    # An outage at either end of the window is no rescale: it counts against those who report beside it.
    first, last = np.flatnonzero(known.any(axis=1))[[0, -1]]
    present = known.copy()
    present[:first], present[last:] = known[first], known[last]
    begun = np.logical_or.accumulate(present, axis=0)
    unfinished = np.logical_or.accumulate(present[::-1], axis=0)[::-1]
    return float(known[begun & unfinished].mean())


def _silent_workers(
    window: Window, now_s: float, allowed_s: float, needed: Container[str], known: Mapping[str, Mask]
) -> tuple[str, ...]:
    """Name the workers with no fresh value at all, or none of a needed metric that they did report in this window.

    A worker that never had a source task (a spare one) is not silent for want of throughput.
    """
    first = window.times_s.searchsorted(now_s - allowed_s - window.step_s)
    mute = np.ones(len(window.workers), dtype=np.bool_)
    fell_silent = np.zeros(len(window.workers), dtype=np.bool_)
    for name in window.worker_metrics:
        fresh = known[name][first:].any(axis=0)
        mute &= ~fresh
        if name in needed:
            fell_silent |= known[name].any(axis=0) & ~fresh
    return tuple(np.array(window.workers, dtype=object)[mute | fell_silent].tolist())


def _missing_workers(window: Window, silent: tuple[str, ...]) -> int:
    """Registered workers minus those that report; 0 where no worker metric or no scale-out was read."""
    scale_out = window.job_metric(SCALE_OUT.name)
    known = scale_out[~np.isnan(scale_out)]
    if not window.workers or not len(known):
        return 0
    return round(float(known[-1])) - (len(window.workers) - len(silent))
