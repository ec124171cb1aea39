"""Judging many jobs: each read, learned and replayed by itself, in several processes; one that fails stops no other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from perdix.replay.pace import LONGEST_TICK_S
from perdix.replay.side_by_side import Raised, Task, Tell, side_by_side
from perdix.scan.advice import Advice, advise
from perdix.scan.finding import FoundJob
from perdix.scan.learning import LEAST_S, CannotJudgeError, Learned, learn
from perdix.scan.reading import read_past
from perdix.settings.access import HttpAccess
from perdix.settings.durations import HOUR_S, in_words
from perdix.settings.plain_error import presentable
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import load_queries
from perdix.telemetry.window import Values

GONE_S: Final = 2 * 3_600.0  # without metrics: the job does not run any more
BIN_S: Final = 900.0  # of the courses that are drawn
READ_SHARE: Final = 0.5  # of a job's work, for progress
READS: Final = 3
GIVEN_UP_AFTER: Final = 2  # jobs in a row that the server failed


@dataclass(frozen=True)
class Wanted:
    """What is asked of each job."""

    access: HttpAccess
    now_s: float
    days: float
    latency_ms: float | None = None  # objective for the p95 latency; ``None``: assumed from what is usual
    error_budget: float = 0.05  # share of the seconds that may be above it, 0 to 1
    # How often the shipped policy looks at each job's busiest day, seconds; ``None``: all of the time is played, every
    # minute
    looks_s: int | None = LONGEST_TICK_S


@dataclass(frozen=True)
class Course:
    """How a job went, in quarters of an hour; shape ``(n,)`` each."""

    times_s: Values  # epoch seconds at which each begins
    load_per_s: Values  # its highest minute, records/s; NaN where nothing was measured
    workers: Values  # most workers that ran
    # perdix_from_s, perdix_workers: epoch seconds at which each minute begins in which the policy was played, and its
    # workers
    perdix_from_s: Values
    perdix_workers: Values


@dataclass(frozen=True)
class Judged:
    """One job: what is advised, or why nothing can be."""

    job: FoundJob
    advice: Advice | None = None  # ``None`` where nothing can be advised; :attr:`reason` then says why
    reason: str = ""
    course: Course | None = field(default=None, compare=False)
    # Scale-out -> low end, estimate and high end of what it takes, records/s
    capacities: dict[int, tuple[float, float, float]] = field(default_factory=dict)


def judge_jobs(
    wanted: Wanted,
    jobs: Sequence[FoundJob],
    *,
    processes: int | None = None,
    on_progress: Callable[[float, int], None] | None = None,
) -> list[Judged]:
    """Return what is advised for each job, in their order.

    ``processes``: how many at a time; by default as many as there are cores. 1: all in this process.
    ``on_progress``: called with how many jobs are done, parts of jobs counted, and with how many came to their end.
    """
    _failed.clear()
    tasks = [Task(_judged, (wanted, job)) for job in jobs]
    found = side_by_side(tasks, processes=processes, on_progress=on_progress)
    return [
        ended if isinstance(ended, Judged) else Judged(job, reason=_defect(ended))
        for job, ended in zip(jobs, found, strict=True)
    ]


def _defect(raised: object) -> str:
    reason = raised.reason if isinstance(raised, Raised) else "it did not come to its end"
    return f"a defect of perdix, please report it: {presentable(reason)}"


def _judged(asked: tuple[Wanted, FoundJob], tell: Tell) -> Judged:
    wanted, job = asked
    gone_s = wanted.now_s - job.newest_s
    if gone_s > GONE_S:
        return Judged(job, reason=f"it has had no metrics for {in_words(gone_s // 3_600 * 3_600)}: it does not run now")
    known_for_s = wanted.now_s - job.first_s + HOUR_S  # at most: it was looked for by the hour
    if known_for_s < LEAST_S:
        reason = f"it has had metrics for less than {in_words(known_for_s // 60 * 60)}"
        return Judged(job, reason=f"{reason}; at least {in_words(LEAST_S)} of its load are needed")
    if len(_failed) >= GIVEN_UP_AFTER:
        return Judged(job, reason=f"{_failed[-1]} (not asked again)")
    try:
        learned = _learned(wanted, job, tell)
        return _advised(wanted, job, learned, tell)
    except CannotJudgeError as error:
        return Judged(job, reason=str(error))
    except PrometheusError as error:
        if error.of_the_server:
            _failed.append(str(error))
        return Judged(job, reason=str(error))


_failed: list[str] = []  # of this process: why the server failed jobs in a row


def _learned(wanted: Wanted, job: FoundJob, tell: Tell) -> Learned:
    done = iter(range(1, READS + 1))
    with connected(wanted.access) as client:
        past = read_past(
            client,
            load_queries(job.engine),
            job,
            wanted.now_s,
            wanted.days,
            on_read=lambda: tell(READ_SHARE * next(done) / READS),
        )
    _failed.clear()
    return learn(past, job.partitions)


def _advised(wanted: Wanted, job: FoundJob, learned: Learned, tell: Tell) -> Judged:
    advice = advise(
        job.name,
        learned,
        latency_ms=wanted.latency_ms,
        error_budget=wanted.error_budget,
        looks_s=wanted.looks_s,
        on_progress=lambda share: tell(READ_SHARE + (1.0 - READ_SHARE) * share),
    )
    tell(1.0)
    table = {n: (estimate.low_per_s, estimate.per_s, estimate.high_per_s) for n, estimate in learned.capacities.items()}
    return Judged(job, advice, course=_course(learned, advice), capacities=table)


def _course(learned: Learned, advice: Advice) -> Course:
    load = learned.load
    width = max(1, round(BIN_S / load.step_s))
    missing = -len(load) % width

    def highest(values: Values) -> Values:
        padded = np.pad(values, (0, missing), constant_values=np.nan).reshape(-1, width)
        known = np.isfinite(padded)
        return np.where(known.any(axis=1), np.where(known, padded, -np.inf).max(axis=1), np.nan)

    load_per_s = highest(load.per_s)
    first_s = load.start_s + np.flatnonzero(np.isfinite(load.per_s))[0] * load.step_s  # replays begin there
    played = advice.perdix.workers
    return Course(
        np.asarray(load.start_s + load.step_s * width * np.arange(len(load_per_s)), dtype=np.float64),
        load_per_s,
        highest(learned.workers),
        np.asarray(first_s + advice.perdix.from_s + 60.0 * np.arange(len(played)), dtype=np.float64),
        played,
    )


def connected(access: HttpAccess) -> Prometheus:
    """Return a client with time-outs for long ranges: an answer of a week may take its time."""
    return Prometheus(access, timeout_s=20.0, deadline_s=60.0, attempts=2)
