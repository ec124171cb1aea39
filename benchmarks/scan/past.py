"""A week of a zoo's job as a Prometheus keeps it: the answers to all that a scan asks, from the twin's raw series.

The job runs as somebody had it before: at one size that is rather too large, at two by day and night, or rescaled now
and then. What a scan asks is recorded from the scan itself, and answered by the twin's PromQL, a day at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.zoo.jobs import ZooJob, draw, twin_seed
from perdix.replay.case import START_S
from perdix.scan.finding import FoundJob, find_jobs
from perdix.scan.reading import read_past
from perdix.scan.scanning import with_partitions
from perdix.scan.topics import with_topics
from perdix.telemetry.prometheus import Asked, Prometheus, Pulled
from perdix.telemetry.queries import EngineQueries, load_queries
from perdix.telemetry.series import Series
from perdix.telemetry.window import Values
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.promql import parse
from perdix.twin.promql_evaluation import evaluate
from perdix.twin.workloads import arrivals_from

DAY_S = 86_400
HOUR_S = 3_600
BEGIN_S = START_S // HOUR_S * HOUR_S  # the zoo's jobs begin at a whole hour
SCRAPED_S = 15.0
ROOM = (1.1, 2.0)  # times the peak, that somebody made the job for
STREAM = 61
ENGINE = "flink"


@dataclass(frozen=True)
class Answer:
    """One series of the answer to one query: values at ``first_s + step_s * k``, NaN where there is none."""

    promql: str
    labels: dict[str, str]
    first_s: float
    step_s: float
    values: Values


@dataclass
class Recorder(Prometheus):
    """A client that notes what it is asked, and answers nothing."""

    asked: list[tuple[str, float, float, float, float | None]] = field(default_factory=list)

    def query_range(
        self, promql: str, start_s: float, end_s: float, step_s: float, *, lookback_s: float | None = None
    ) -> list[Series]:
        self.asked.append((promql, start_s, end_s, step_s, lookback_s))
        return []

    def pull_jobs(self, queries: EngineQueries, asked: Asked) -> dict[str, Any]:
        lookback_s = max(2.0 * asked.scrape_interval_s, asked.step_s)
        for question in asked.questions(queries)[0]:
            self.query_range(question.promql, asked.start_s, asked.end_s, asked.step_s, lookback_s=lookback_s)
        return {job: Pulled((), ()) for job in asked.wanted}


class Finder(Recorder):
    """Answers as if the job were there, so that the questions that follow are asked as well."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.labels = {"namespace": name, "job_name": name}

    def query_range(
        self, promql: str, start_s: float, end_s: float, step_s: float, *, lookback_s: float | None = None
    ) -> list[Series]:
        """Note a query, and answer with one series of the job, or of its topic."""
        super().query_range(promql, start_s, end_s, step_s, lookback_s=lookback_s)
        labels = {"topic": self.labels["job_name"]} if "(topic)" in promql else self.labels
        samples = np.full(1, 40.0)
        return [Series("", None, np.array([round(1_000 * end_s)]), samples, labels)]


def asked_of(name: str, days: float, now_s: float) -> list[tuple[str, float, float, float, float | None]]:
    """Return all that a scan asks of a server where a job of that name runs."""
    queries, finder = load_queries(ENGINE), Finder(name)
    find_jobs(finder, {ENGINE: queries}, now_s, days)
    job = FoundJob(name, ENGINE, finder.labels, now_s - days * DAY_S, now_s, SCRAPED_S, topic=name)
    with_topics(finder, queries, [job], now_s, days)
    with_partitions(finder, queries, [job], now_s)
    recorder = Recorder()
    read_past(recorder, queries, job, now_s, days)
    return [*finder.asked, *recorder.asked]


def job_of(seed: int, number: int, days: float) -> ZooJob:
    return draw(seed, number, 24.0 * days)


def answers(seed: int, number: int, days: float, tell: Callable[[float], None]) -> list[Answer]:
    """Return what a Prometheus would answer to a scan of this job."""
    job = job_of(seed, number, days)
    name = job.parameters.name
    end_s = BEGIN_S + int(days * DAY_S)
    asked: dict[str, tuple[str, float, float, float, float | None]] = {}
    for question in asked_of(name, days, float(end_s)):
        asked.setdefault(question[0], question)  # which jobs run is asked of the hours, and then of this moment
    plan = sizes(job, seed, number)
    twin = JobTwin(
        job.parameters,
        twin_seed(seed, number),
        start_s=BEGIN_S,
        scale_out=plan[0][1],
        arrivals=arrivals_from(job.arrivals, BEGIN_S),
    )
    clock = SimulatedClock(float(BEGIN_S))
    # Exporters that restart would have to remember what they had counted for all of the week: they only fall silent.
    silences = tuple(replace(silence, restarted=False) for silence in job.scraping.silences)
    scraping = Scraping(interval_s=SCRAPED_S, loss=job.scraping.loss, silences=silences)
    living = LivingTwin({name: twin}, clock, scraping=scraping, keep_s=10**9)
    parts: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[Values, Values]]] = {}
    for day_s in range(BEGIN_S, end_s, DAY_S):
        until_s = min(day_s + DAY_S, end_s)
        _live(living, clock, name, plan, until_s)
        for promql, start_s, _, step_s, lookback_s in asked.values():
            steps_s = _steps(start_s, step_s, day_s, until_s)
            if not len(steps_s):
                continue
            found = evaluate(parse(promql), steps_s, living.series, lookback_s or 300.0)
            for result in found:
                key = promql, tuple(sorted(result.labels.items()))
                parts.setdefault(key, []).append((steps_s, result.values))
        twin.history.forget_workers_before(until_s - HOUR_S)
        tell((until_s - BEGIN_S) / (end_s - BEGIN_S))
    return [_answer(promql, dict(labels), asked[promql][3], pieces) for (promql, labels), pieces in parts.items()]


def sizes(job: ZooJob, seed: int, number: int) -> list[tuple[int, int]]:
    """Return the sizes that the job had: epoch second from which on, and workers."""
    rng = np.random.default_rng([seed, STREAM, number])
    twin = JobTwin(job.parameters, twin_seed(seed, number))
    seconds = int(HOUR_S * job.hours)
    peak = float(job.arrivals[: seconds // 60 * 60].reshape(-1, 60).mean(axis=1).max()) * float(rng.uniform(*ROOM))
    most = next((n for n in range(1, job.maximum + 1) if twin.true_capacity(n) >= peak), job.maximum)
    how = rng.choice(["fixed", "day and night", "now and then"], p=[0.4, 0.4, 0.2])
    if how == "fixed" or most < 3:
        return [(BEGIN_S, most)]
    if how == "day and night":
        less = max(1, round(most * float(rng.uniform(0.5, 0.8))))
        return [(BEGIN_S + k * 12 * HOUR_S, less if k % 2 else most) for k in range(int(seconds / HOUR_S / 12))]
    moments = np.cumsum(rng.exponential(8.0 * HOUR_S, 200)).astype(int)
    least = max(1, most // 2)
    later = [(BEGIN_S + int(at_s), int(rng.integers(least, most + 1))) for at_s in moments if at_s < seconds]
    return [(BEGIN_S, most), *later]


def _live(living: LivingTwin, clock: SimulatedClock, name: str, plan: list[tuple[int, int]], until_s: int) -> None:
    for at_s, workers in _between(plan, clock.now_s(), until_s):
        clock.advance(at_s - clock.now_s())
        living.rescale(name, workers, str(at_s))
    clock.advance(until_s - clock.now_s())
    living.advance()


def _between(plan: list[tuple[int, int]], now_s: float, until_s: int) -> Iterator[tuple[int, int]]:
    return ((at_s, workers) for at_s, workers in plan[1:] if now_s <= at_s < until_s)


def _steps(start_s: float, step_s: float, from_s: int, until_s: int) -> Values:
    """Return the steps ``start_s + k step_s`` within ``(from_s, until_s]``, and the very first one."""
    first = np.ceil((from_s - start_s) / step_s)
    steps = start_s + step_s * np.arange(max(first, 0.0), np.floor((until_s - start_s) / step_s) + 1)
    return np.asarray(steps[steps > from_s])


def _answer(promql: str, labels: dict[str, str], step_s: float, pieces: list[tuple[Values, Values]]) -> Answer:
    first_s, last_s = pieces[0][0][0], pieces[-1][0][-1]
    values = np.full(round((last_s - first_s) / step_s) + 1, np.nan)
    for steps_s, part in pieces:
        values[np.round((steps_s - first_s) / step_s).astype(np.int64)] = part
    return Answer(promql, labels, float(first_s), step_s, values)
