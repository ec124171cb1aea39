"""Workloads of the zoo: the shape of a day's load, drawn from a generator, before it is scaled to a job.

Each function takes a generator and a length in seconds and returns relative rates, not negative, shape ``(seconds,)``.
Only their shape counts. Noise of single seconds and of single records is added later, to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.signal import lfilter

from perdix.telemetry.window import Values

Draw = Callable[[np.random.Generator, int], Values]

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
DAYS_OF_A_WEEK = 7


def idle(rng: np.random.Generator, seconds: int) -> Values:
    """Return a low level with bursts that come at once and fade: counts of mentions in social media."""
    level = 1.0 + rng.uniform(0.0, 0.5) * _wave(seconds, DAY_S, rng)
    height = np.minimum(rng.uniform(1.0, 4.0) * (1.0 + rng.pareto(1.5, _count(rng, seconds, 0.3, 3.0))), 30.0)
    return level * (1.0 + _fading(seconds, height, rng, fades_s=(60.0, 600.0)))


def near_idle(rng: np.random.Generator, seconds: int) -> Values:
    """Return a low level that wanders a little."""
    return _positive(1.0 + rng.uniform(0.05, 0.2) * wandering(rng, seconds, rng.uniform(5.0, 120.0) * MINUTE_S))


def white_noise(rng: np.random.Generator, seconds: int) -> Values:
    """Return minutes that have next to nothing to do with each other: correlation at a lag of one minute below 0.15."""
    kept, deviation = rng.uniform(0.0, 0.12), rng.uniform(0.1, 0.6)
    minutes = _autoregressive(rng, seconds // MINUTE_S + 2, kept)
    held = np.repeat(np.exp(deviation * minutes - 0.5 * deviation**2), MINUTE_S)
    return np.asarray(held[:seconds])


def noise(rng: np.random.Generator, seconds: int) -> Values:
    """Return a level with autocorrelated noise of 5 to 30 %."""
    return _positive(1.0 + rng.uniform(0.05, 0.3) * wandering(rng, seconds, rng.uniform(2.0, 120.0) * MINUTE_S))


def heavy_tail(rng: np.random.Generator, seconds: int) -> Values:
    """Return a level with bursts whose sizes and lengths have heavy tails."""
    number = _count(rng, seconds, 2.0, 12.0)
    height = np.minimum(0.3 * (1.0 + rng.pareto(rng.uniform(1.1, 1.8), number)), 12.0)
    length_s = np.minimum(20.0 * (1.0 + rng.pareto(1.2, number)), 900.0)
    found = np.ones(seconds)
    for at, tall, long_s in zip(rng.integers(0, seconds, number), height, length_s, strict=True):
        found[at : at + int(long_s)] += tall
    return found


def daily(rng: np.random.Generator, seconds: int) -> Values:
    """Return one or two peaks a day with some noise; a run of less than a day has a whole day in it."""
    return _days(rng, seconds, min(DAY_S, seconds))


def weekly(rng: np.random.Generator, seconds: int) -> Values:
    """Return a week with a quieter weekend; a run of less than a week has a whole week in it."""
    week_s = min(DAYS_OF_A_WEEK * DAY_S, seconds)
    days = _days(rng, seconds, max(week_s // DAYS_OF_A_WEEK, 1))
    day = ((np.arange(seconds) + rng.integers(week_s)) * DAYS_OF_A_WEEK // week_s) % DAYS_OF_A_WEEK
    return np.where(day >= 5, rng.uniform(0.3, 0.7), 1.0) * days


def growth(rng: np.random.Generator, seconds: int) -> Values:
    """Return a level that grows to two to seven times what it was: in a line, exponentially, or along an S."""
    passed, low = np.linspace(0.0, 1.0, seconds), rng.uniform(0.15, 0.5)
    risen = [
        passed,
        (low**-passed - 1.0) / (1.0 / low - 1.0),
        1.0 / (1.0 + np.exp(-12.0 * (passed - rng.uniform(0.3, 0.7)))),
    ][rng.integers(3)]
    return (low + (1.0 - low) * risen) * _positive(1.0 + 0.05 * wandering(rng, seconds, 20.0 * MINUTE_S))


def steps(rng: np.random.Generator, seconds: int) -> Values:
    """Return levels that change at once, up and down, 3 to 12 times."""
    changes = np.sort(rng.integers(0, seconds, rng.integers(3, 13)))
    levels = rng.uniform(0.1, 1.0, len(changes) + 1)
    return np.asarray(levels[np.searchsorted(changes, np.arange(seconds), side="right")])


def saw_teeth(rng: np.random.Generator, seconds: int) -> Values:
    """Return teeth of an upstream batch job every 10 to 120 minutes, which fall in a line, fade, or rise to a drop."""
    period_s, low = int(rng.uniform(10.0, 120.0) * MINUTE_S), rng.uniform(0.02, 0.4)
    which, since_s = np.divmod(np.arange(seconds) + rng.integers(period_s), period_s)
    passed = since_s / period_s
    tooth = [1.0 - passed, np.exp(-5.0 * passed), passed][rng.integers(3)]
    tall = rng.uniform(0.7, 1.0, seconds // period_s + 2)  # no two batches are equally large
    return np.asarray((low + (1.0 - low) * tooth) * tall[which])


def flash_crowd(rng: np.random.Generator, seconds: int) -> Values:
    """Return a level that becomes ten times as high within a minute, once to four times a day."""
    level = _positive(1.0 + 0.1 * wandering(rng, seconds, 30.0 * MINUTE_S))
    crowds = max(1, round(rng.integers(1, 5) * seconds / DAY_S))
    extra, times_s = np.zeros(seconds), np.arange(seconds)
    for at_s in rng.uniform(0.1, 0.9, crowds) * seconds:
        comes_s, stays_s, fades_s = rng.uniform(20.0, 60.0), rng.uniform(3.0, 40.0) * 60, rng.uniform(5.0, 40.0) * 60
        since_s = times_s - at_s
        shape = np.clip(since_s / comes_s, 0.0, 1.0) * np.exp(-np.maximum(since_s - comes_s - stays_s, 0.0) / fades_s)
        extra = np.maximum(extra, 9.0 * shape)
    return level * (1.0 + extra)


def on_off(rng: np.random.Generator, seconds: int) -> Values:
    """Return work that is there or is not, for 10 minutes to 3 hours on average."""
    on, off = rng.uniform(0.7, 1.0), rng.choice([0.0, rng.uniform(0.0, 0.03)])
    mean_s = np.exp(rng.uniform(np.log(10.0), np.log(180.0), 2)) * MINUTE_S
    found, at_s, state = np.empty(seconds), 0, int(rng.integers(2))
    while at_s < seconds:
        until_s = at_s + max(int(rng.exponential(mean_s[state])), 30)
        found[at_s:until_s] = off if state else on
        at_s, state = until_s, 1 - state
    return found


def regime_change(rng: np.random.Generator, seconds: int) -> Values:
    """Return one shape up to the middle and another, at another level, after it."""
    names = rng.choice(list(_REGIMES), 2, replace=False)
    middle = int(rng.uniform(0.4, 0.6) * seconds)
    parts = [_REGIMES[str(names[0])](rng, middle), _REGIMES[str(names[1])](rng, seconds - middle)]
    levels = [1.0, np.exp(rng.uniform(np.log(0.25), np.log(4.0)))]
    return np.concatenate([level * part / part.mean() for level, part in zip(levels, parts, strict=True)])


def metric_gaps(rng: np.random.Generator, seconds: int) -> Values:
    """Return any of some shapes: what is special about the job are gaps and restarts of its metrics."""
    return _REGIMES[str(rng.choice(["daily", "noise", "steps"]))](rng, seconds)


def wandering(rng: np.random.Generator, seconds: int, correlated_s: float) -> Values:
    """Return noise of mean 0 and deviation 1 whose correlation fades over ``correlated_s``; a line between minutes."""
    minutes = _autoregressive(rng, seconds // MINUTE_S + 2, float(np.exp(-MINUTE_S / correlated_s)))
    return np.interp(np.arange(seconds), MINUTE_S * np.arange(len(minutes)), minutes)


_REGIMES: Mapping[str, Draw] = {
    "daily": daily,
    "noise": noise,
    "white-noise": white_noise,
    "saw-teeth": saw_teeth,
    "steps": steps,
    "heavy-tail": heavy_tail,
}

SHAPES: Mapping[str, Draw] = {
    "idle": idle,
    "near-idle": near_idle,
    "white-noise": white_noise,
    "noise": noise,
    "heavy-tail": heavy_tail,
    "daily": daily,
    "weekly": weekly,
    "growth": growth,
    "steps": steps,
    "saw-teeth": saw_teeth,
    "flash-crowd": flash_crowd,
    "on-off": on_off,
    "regime-change": regime_change,
    "metric-gaps": metric_gaps,
}


def _days(rng: np.random.Generator, seconds: int, day_s: int) -> Values:
    low, height = rng.uniform(0.1, 0.5), rng.uniform(0.0, 0.9)
    phase = ((np.arange(seconds) + rng.integers(day_s)) % day_s) / day_s
    peaks = np.maximum(_bump(phase, 0.80, rng.uniform(0.06, 0.14)), height * _bump(phase, 0.40, rng.uniform(0.06, 0.2)))
    rough = rng.uniform(0.02, 0.08) * wandering(rng, seconds, rng.uniform(3.0, 40.0) * MINUTE_S)
    return (low + (1.0 - low) * peaks) * _positive(1.0 + rough)


def _bump(phase: Values, centre: float, width: float) -> Values:
    distance = np.abs(phase - centre)
    return np.asarray(np.exp(-0.5 * (np.minimum(distance, 1.0 - distance) / width) ** 2))


def _wave(seconds: int, period_s: int, rng: np.random.Generator) -> Values:
    return np.asarray(np.sin(2.0 * np.pi * (np.arange(seconds) / period_s + rng.random())))


def _count(rng: np.random.Generator, seconds: int, least_per_h: float, most_per_h: float) -> int:
    return int(rng.poisson(rng.uniform(least_per_h, most_per_h) * seconds / HOUR_S))


def _fading(seconds: int, heights: Values, rng: np.random.Generator, fades_s: tuple[float, float]) -> Values:
    found = np.zeros(seconds)
    for at, height in zip(rng.integers(0, seconds, len(heights)), heights, strict=True):
        found[at:] += height * np.exp(-np.arange(seconds - at) / rng.uniform(*fades_s))
    return found


def _autoregressive(rng: np.random.Generator, count: int, kept: float) -> Values:
    shocks, before = rng.standard_normal(count) * np.sqrt(1.0 - kept**2), rng.standard_normal()
    return np.asarray(lfilter([1.0], [1.0, -kept], shocks, zi=[kept * before])[0])


def _positive(values: Values) -> Values:
    return np.maximum(values, 0.02)
