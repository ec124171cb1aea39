"""What the shipped policy would make of a job: played through the real tick, on the job's own load and capacity.

A tick costs milliseconds, and a week has ten thousand minutes. So by default the policy is played over the busiest day
of the job, looking every ten minutes, and the rest of the time is reckoned by proportion: workers that it needed on
that day over those of a size that follows the load with hindsight, times that size's workers over all of the time.
Played thoroughly, it looks every minute of all of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from replay.case import TICK_INTERVAL_S, Contender
from replay.run import play
from scan.own_physics import OwnPhysics
from settings.stream_job import PolicySettings
from telemetry.window import Values
from twin.emission import Scraping

DAY_S: Final = 86_400
HOUR_S: Final = 3_600
FOLLOWED_MIN: Final = 15  # minutes for which a size that follows the load is kept
LOOKS_EVERY_S: Final = 600
TWIN_STEP_S: Final = 10
SCRAPED_S: Final = 30.0
WORTH: Final = 0.9  # of the fixed size: who follows the load and needs more than that share gains too little

Method = Literal["played", "sampled", "not needed"]
SENTENCES: Final[dict[Method, str]] = {
    "played": "the shipped policy, played every minute over all of the time",
    "sampled": (
        "an estimate: the shipped policy was played over the busiest day, looking every 10 minutes; the rest of the "
        "time is reckoned by proportion to a size that follows the load (--thorough plays all of it)"
    ),
    "not needed": "not played: even a size that follows the load with hindsight would save less than 10 %",
}


@dataclass(frozen=True)
class WithPerdix:
    """What the shipped policy comes to.

    Attributes
    ----------
    average_workers, peak_workers
        Over all of the time, and the most of what was played.
    late_share
        Share of the seconds that were late in what was played, 0 to 1.
    rescales_per_day
        In what was played.
    method
        How it is known.
    workers
        Of each minute that was played, shape ``(minutes,)``; empty where nothing was.
    from_s
        Seconds after the start at which :attr:`workers` begin.
    """

    average_workers: float
    peak_workers: int
    late_share: float
    rescales_per_day: float
    method: Method
    workers: Values
    from_s: int = 0
    held: bool = True


def with_perdix(
    job: OwnPhysics,
    fixed: int,
    fixed_late: float,
    *,
    thorough: bool = False,
    on_progress: Callable[[float], None] = lambda _: None,
) -> WithPerdix:
    """Return what the shipped policy makes of a job.

    Parameters
    ----------
    fixed, fixed_late
        The best fixed size, and the share of the seconds in which it is late.
    thorough
        Play all of the time, every minute; the job takes minutes then.
    on_progress
        Called with the share that is done, 0 to 1.
    """
    followed = following(job.minutes, job.capacities)
    all_of_it = float(followed.mean())
    if all_of_it > WORTH * fixed and not thorough:
        return WithPerdix(float(fixed), fixed, fixed_late, 0.0, "not needed", np.empty(0))
    begin_s, hours = (0, job.hours) if thorough else (busiest_day_s(job.minutes), min(job.hours, 24.0))
    part = job.part(begin_s, int(HOUR_S * hours))
    looks_s = TICK_INTERVAL_S if thorough else LOOKS_EVERY_S
    contender = Contender("perdix", PolicySettings(), looks_s)
    case = replace(part.case(contender), step_s=TWIN_STEP_S, scraping=Scraping(interval_s=SCRAPED_S))
    ticks = int(HOUR_S * hours / looks_s)
    played = play(case, on_tick=lambda number: on_progress(number / ticks))
    outcome, workers = played.outcome, _minutes(played.course.workers)
    first = begin_s // 60
    of_part = float(followed[first : first + len(workers)].mean())
    average = outcome.average_workers if thorough else all_of_it * outcome.average_workers / of_part
    return WithPerdix(
        average,
        int(workers.max()),
        outcome.share_above_objective,
        outcome.rescales * 24.0 / outcome.hours,
        "played" if thorough else "sampled",
        workers,
        begin_s,
        outcome.held,
    )


def following(minutes: Values, capacities: Values) -> Values:
    """Return the workers of a size that follows the load with hindsight, shape of ``minutes``.

    For each quarter of an hour the fewest that carry its highest minute, for rescales that cost nothing.
    """
    width = FOLLOWED_MIN
    padded = np.pad(minutes, (0, -len(minutes) % width), mode="edge").reshape(-1, width)
    least = np.searchsorted(np.maximum.accumulate(capacities), padded.max(axis=1)) + 1
    return np.asarray(np.minimum(np.repeat(least, width)[: len(minutes)], len(capacities)), dtype=np.float64)


def busiest_day_s(minutes: Values) -> int:
    """Return where the 24 hours with the most records begin, by the hour; seconds after the start."""
    hours = minutes[: len(minutes) // 60 * 60].reshape(-1, 60).sum(axis=1)
    if len(hours) <= 24:
        return 0
    sums = np.convolve(hours, np.ones(24), mode="valid")
    return int(np.argmax(sums)) * HOUR_S


def _minutes(workers: Values) -> Values:
    """Return the most workers in each minute, of a value for each step of the twin."""
    each = 60 // TWIN_STEP_S
    return np.asarray(workers[: len(workers) // each * each].reshape(-1, each).max(axis=1))
