"""What the shipped policy would make of a job: played through the real tick, on the job's own load and capacity.

A tick costs milliseconds, and a week has ten thousand minutes. So by default the policy is played over the busiest day
of the job, looking every few minutes, and the rest of the time is reckoned by proportion: the workers that it
needed on that day over those of a size that follows the load with hindsight, times the workers of that size over all of
the time. Played thoroughly, it looks every minute of all of the time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from perdix.replay.case import TICK_INTERVAL_S, Contender
from perdix.replay.figures import late
from perdix.replay.outcome import Course
from perdix.replay.pace import LONGEST_TICK_S
from perdix.replay.run import play
from perdix.scan.own_physics import OwnPhysics
from perdix.settings.durations import DAY_S, in_words
from perdix.settings.stream_job import Bounds, PolicySettings
from perdix.telemetry.window import Values
from perdix.twin.emission import Scraping

HOUR_S: Final = 3_600
FOLLOWED_MIN: Final = 15  # minutes for which a size that follows the load is kept
LOOKS_EVERY_S: Final = ((10, 300), (20, 600))  # where this many jobs are judged at most; else every LONGEST_TICK_S
TWIN_STEP_S: Final = 10
WARM_S: Final = 3 * HOUR_S  # before what is counted
SCRAPED_S: Final = 30.0
WORTH: Final = 0.9  # of the fixed size's workers: who follows the load and needs a larger share gains too little

Method = Literal["played", "sampled", "not needed"]


@dataclass(frozen=True)
class WithPerdix:
    """What the shipped policy comes to."""

    # average_workers, peak_workers: over all of the time, and the most of what was played
    average_workers: float
    peak_workers: int
    late_share: float  # share of the seconds that were late in what was played, 0 to 1
    rescales_per_day: float  # in what was played
    method: Method  # how it is known
    workers: Values  # of each minute that was played, shape ``(minutes,)``; empty where nothing was
    from_s: int = 0  # seconds after the start at which :attr:`workers` begin
    held: bool = True
    looks_s: int = TICK_INTERVAL_S  # how often the policy looked, seconds

    @property
    def about(self) -> str:
        """How it is known, in a sentence."""
        if self.method == "not needed":
            return "not played: even a size that follows the load with hindsight would save less than 10 %"
        if self.method == "played":
            return "the shipped policy, played every minute over all of the time"
        return (
            f"an estimate: the shipped policy was played over the busiest day, looking every {in_words(self.looks_s)}; "
            "the rest is reckoned by proportion to a size that follows the load (--thorough plays all of the time)"
        )


def with_perdix(
    job: OwnPhysics,
    fixed: int,
    fixed_late: float,
    bounds: Bounds,
    *,
    looks_s: int | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> WithPerdix:
    """Return what the shipped policy makes of a job.

    ``fixed``, ``fixed_late``: the best fixed size, and the share of the seconds in which it is late.
    ``bounds``: between which it may choose.
    ``looks_s``: how often the policy looks at the busiest day, seconds; ``None``: every minute of all of the time is
    played, and the job takes minutes then.
    ``on_progress``: called with the share that is done, 0 to 1.
    """
    thorough = looks_s is None
    looks_s = looks_s or TICK_INTERVAL_S
    followed = following(job.minutes, job.capacities[: bounds.maximum])
    all_of_it = float(followed.mean())
    if all_of_it > WORTH * fixed and not thorough:
        return WithPerdix(float(fixed), fixed, fixed_late, 0.0, "not needed", np.empty(0))
    from_s, until_s = 0, job.seconds
    if not thorough:
        from_s = busiest_day_s(job.minutes)
        until_s = min(from_s + round(DAY_S), until_s)
    begin_s = max(from_s - WARM_S, 0)  # a loop that has just been started knows nothing yet
    course = _played(job.part(begin_s, until_s - begin_s), bounds, looks_s, on_progress)
    kept = course.times_s >= course.times_s[0] + from_s - begin_s
    workers, latency_ms, lag = course.workers[kept], course.latency_p95_ms[kept], course.lag_records[kept]
    of_part = float(followed[from_s // 60 : until_s // 60].mean())
    average, most = float(workers.mean()), float(workers.max())
    if not thorough:  # no day needs more than the busiest one
        average = min(max(all_of_it * average / of_part, float(bounds.minimum)), most)
    late_share = float(late(latency_ms, lag, job.objectives.latency_p95_ms).mean())
    return WithPerdix(
        average,
        int(most),
        late_share,
        np.count_nonzero(np.diff(workers)) * DAY_S / (until_s - from_s),
        "played" if thorough else "sampled",
        _minutes(workers),
        from_s,
        late_share <= job.objectives.error_budget,
        looks_s,
    )


def looks_every_s(jobs: int) -> int:
    """Return how often the policy may look where this many jobs are judged in about a minute, seconds."""
    return next((looks_s for most, looks_s in LOOKS_EVERY_S if jobs <= most), LONGEST_TICK_S)


def _played(job: OwnPhysics, bounds: Bounds, looks_s: int, on_progress: Callable[[float], None]) -> Course:
    """Return the course of a job under the shipped policy."""
    case = job.case(Contender("perdix", PolicySettings(), looks_s))
    case = replace(case, bounds=bounds, step_s=TWIN_STEP_S, scraping=Scraping(interval_s=SCRAPED_S))
    return play(case, on_tick=lambda number: on_progress(number / case.ticks)).course


def following(minutes: Values, capacities: Values) -> Values:
    """Return the workers of a size that follows the load with hindsight, shape of ``minutes``.

    For each quarter of an hour the fewest that carry its highest minute, for rescales that cost nothing.
    """
    width = FOLLOWED_MIN
    padded = np.pad(minutes, (0, -len(minutes) % width), mode="edge").reshape(-1, width)
    least = np.searchsorted(np.maximum.accumulate(capacities), padded.max(axis=1)) + 1
    return np.asarray(np.minimum(np.repeat(least, width)[: len(minutes)], len(capacities)), dtype=np.float64)


def busiest_day_s(minutes: Values) -> int:
    """Return where the 24 hours with the most records begin, by the hour before the end; seconds after the start."""
    day = round(DAY_S / 60)
    if len(minutes) <= day:
        return 0
    before = np.concatenate(([0.0], np.cumsum(minutes)))  # what arrived before each minute
    begins = np.arange(len(minutes) % 60, len(minutes) - day + 1, 60)
    return 60 * int(begins[np.argmax(before[begins + day] - before[begins])])


def _minutes(workers: Values) -> Values:
    """Return the most workers in each minute, of a value for each step of the twin."""
    each = 60 // TWIN_STEP_S
    return np.asarray(workers[: len(workers) // each * each].reshape(-1, each).max(axis=1))
