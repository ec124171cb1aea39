"""What the answers of a job's queries are worth: each by itself, and all held against each other.

By the rules that a tick goes by: its ranges, its alignment, its judgement of what contradicts itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from perdix.control.checkup import units
from perdix.control.checkup.facts import QueryFact, Verdict
from perdix.control.checkup.selectors import TOPIC, Server, fitting_topic, raw_series
from perdix.control.observe import Observation, mean_of_known, observe, total_throughput
from perdix.control.sources import LONGEST_READ_S, Reading
from perdix.settings.durations import in_words
from perdix.settings.stream_job import StreamJob
from perdix.telemetry import metrics
from perdix.telemetry.agreement import APART
from perdix.telemetry.alignment import align
from perdix.telemetry.joining import REPLICA_LABELS
from perdix.telemetry.plausible import Plausible, plausible_ranges, screened
from perdix.telemetry.quality import STALE_AFTER_INTERVALS
from perdix.telemetry.series import Series
from perdix.telemetry.window import Values, Window

TICK_S = 60.0
NEWEST_S = 300.0  # over which latency, lag and rates are looked at together
SUMMED = frozenset({metrics.THROUGHPUT.name, metrics.WORKLOAD.name, metrics.LAG.name})
NOT_SCRAPED = "look at Prometheus' targets page: is each worker scraped?"
CLOCK_AHEAD = "a clock is ahead: compare this machine's time with the server's"
ONE_OF_THEM = "scrape it once, or choose one of them by that label in prometheus.selector"
BATCHES: Final = "spark-structured-streaming"  # the engine that counts in batches
# Pauses within the hour, and the share of its steps in them, from which a throughput is counted in batches
PAUSES: Final = 4
LEAST_IDLE: Final = 0.2
SCRAPE_LABELS: Final = REPLICA_LABELS | {"job", "endpoint", "service", "container", "instance"}
Labels = Mapping[str, str]


@dataclass(frozen=True)
class _Seen:
    """One job's answers, aligned."""

    job: StreamJob
    server: Server
    series: Mapping[str, Sequence[Series]]
    window: Window
    ranges: Mapping[str, Plausible]
    now_s: float

    @property
    def step_s(self) -> float:
        return self.window.step_s

    @property
    def allowed_s(self) -> float:
        """How old the newest value may be: the grid may still owe a step."""
        return STALE_AFTER_INTERVALS * self.step_s + self.step_s

    @property
    def queries(self) -> str:
        return f"conf/queries/{self.server.queries.engine}.yaml"

    @property
    def where(self) -> str:
        return f"beside its promql in {self.queries}"

    @property
    def once_a_trigger(self) -> str:
        # A rate sees from its first sample to its last: one interval less than the four that it is asked over.
        longer = f"Where that is longer than {0.75 * self.server.window_s:.0f} s"
        return f"is it counted once a trigger? {longer}, set prometheus.scrape_interval_s to a third of it"


def judged(
    job: StreamJob, server: Server, facts: Mapping[str, QueryFact], series: Mapping[str, Sequence[Series]], now_s: float
) -> tuple[tuple[QueryFact, ...], tuple[str, str]]:
    """Return the facts with their verdicts, and what is wrong with all of them together (in words, and its fix)."""
    step_s, since_s = server.step_s, now_s - LONGEST_READ_S
    ranges = plausible_ranges(job.bounds)
    aligned = align(job.name, (stream for found in series.values() for stream in found), since_s, now_s, step_s)
    seen = _Seen(job, server, series, screened(aligned, ranges), ranges, now_s)
    each = {metric: _judged(seen, fact) for metric, fact in facts.items()}
    if all(fact.verdict in {Verdict.MISSING, Verdict.UNANSWERABLE} for fact in each.values()):
        nothing = "no query finds a series: does the job run, and is this the Prometheus that scrapes it?"
        unfixed = [replace(fact, fix="") if fact.verdict is Verdict.MISSING else fact for fact in each.values()]
        fix = f"start the job, correct prometheus.selector, or the queries in {seen.queries}"
        return tuple(unfixed), (nothing, fix)
    shown = observe(job, _Given(Reading(aligned)), now_s, since_s, TICK_S, ranges=ranges)
    each = _held_together(seen, each, shown)
    unexplained = shown.quality.blind and all(fact.ok for fact in each.values())
    if unexplained:
        return tuple(each.values()), ("; ".join(shown.quality.problems), NOT_SCRAPED)
    if aligned.ahead:
        return tuple(each.values()), (f"{aligned.ahead} samples lie in the future", CLOCK_AHEAD)
    return tuple(each.values()), ("", "")


@dataclass(frozen=True)
class _Given:
    """A source that was read already."""

    reading: Reading

    def read(self, *_: object) -> Reading:
        return self.reading


def _judged(seen: _Seen, fact: QueryFact) -> QueryFact:
    """Return a fact by its own series alone."""
    if fact.verdict is not Verdict.OK:
        return fact
    found = [stream for stream in seen.series[fact.metric] if np.isfinite(stream.values).any()]
    if not found:
        publish = f"publish it, or correct the query of {fact.metric} in {seen.queries}"
        needed = "nothing is decided without it" if fact.needed else "perdix can do without it"
        return replace(fact, verdict=Verdict.MISSING, found=f"no series; {needed}", fix=publish)
    newest_s = max(_last_s(stream) for stream in found)
    fresh = [stream for stream in found if _last_s(stream) > seen.now_s - seen.allowed_s]
    age_s = max(0.0, seen.now_s - newest_s)
    dated = replace(fact, series=len(fresh or found), newest=_newest(fact.metric, fresh or found), age_s=age_s)
    if not fresh:
        old = in_words(60 * round(age_s / 60) if age_s > NEWEST_S else age_s)
        words = f"newest value is {old} old, {seen.allowed_s:.0f} s are allowed"
        stopped = "look at Prometheus' targets page: is the exporter scraped, and does the job run?"
        return replace(dated, verdict=Verdict.STALE, found=words, fix=stopped)
    rejected = sum(rejection.values.size for rejection in seen.window.rejected if rejection.metric == fact.metric)
    if rejected:
        return _implausible(seen, replace(dated, rejected=rejected))
    return _counted(seen, dated, fresh) or _doubted(seen, dated)


def _counted(seen: _Seen, fact: QueryFact, fresh: Sequence[Series]) -> QueryFact | None:
    """Return a fact of series that count too much; ``None`` where none do."""
    twice = _repeated(fact.metric, fresh)
    if twice:
        verdict = Verdict.DUPLICATED if fact.metric in SUMMED else Verdict.DOUBTFUL
        return replace(fact, verdict=verdict, found=twice, fix=ONE_OF_THEM)
    if fact.metric != metrics.THROUGHPUT.name or seen.job.prometheus is None:
        return None
    counted = _counted_twice(seen.server, seen.job.prometheus.selector)
    return None if counted is None else replace(fact, verdict=Verdict.DUPLICATED, found=counted.found, fix=counted.fix)


def _repeated(metric: str, fresh: Sequence[Series]) -> str:
    """Return in words that a query's own results count a worker (or the job) more than once; empty where none does."""
    by_worker: dict[str, list[Labels]] = {}
    for stream in fresh:
        own = {name: value for name, value in stream.labels.items() if name not in REPLICA_LABELS}  # alignment averages
        if own not in (seen := by_worker.setdefault(stream.worker or "", [])):
            seen.append(own)
    most = max(by_worker.values(), key=len)
    if len(most) < 2:
        return ""
    of = f"each of {len(by_worker)} workers" if metrics.CANONICAL[metric].scope is metrics.Scope.WORKER else "the job"
    return f"{len(most)} series for {of}, which differ in {_apart(most)}: counted {len(most)} times"


@dataclass(frozen=True)
class _Counted:
    """What is wrong with the engine's own series where a sum of them hides it, and its fix, in words."""

    found: str
    fix: str


def _counted_twice(server: Server, selector: Labels) -> _Counted | None:
    """Return why a sum over a job's series counts too much: scraped twice, or of several jobs, or ``None``."""
    raw, naming = raw_series(server, selector), server.queries.jobs
    if raw is None or naming is None:
        return None
    series = [labels for labels, _ in server.series(raw)]
    alike: dict[frozenset[tuple[str, str]], list[Labels]] = {}
    for labels in series:
        dropped = SCRAPE_LABELS if _named_without_scrape(server, labels) else REPLICA_LABELS
        alike.setdefault(frozenset((k, v) for k, v in labels.items() if k not in dropped), []).append(labels)
    most = max(alike.values(), key=len, default=[])
    if len(most) > 1:
        found = f"its series are there {len(most)} times and differ in {_apart(most)}: counted {len(most)} times"
        return _Counted(found, ONE_OF_THEM)
    jobs = {tuple(labels.get(name, "") for name in naming.labels) for labels in series}
    runs = {labels.get(naming.run, "") for labels in series} if naming.run is not None else set()
    if len(jobs) < 2 and len(runs) > 1:
        found = f"{len(runs)} jobs of that name run, which differ in {_listed([str(naming.run)])}"
        return _Counted(found, "give each job a name of its own")
    if len(jobs) < 2:
        return None
    apart = [name for at, name in enumerate(naming.labels) if len({job[at] for job in jobs}) > 1]
    found = f"the selector matches {len(jobs)} jobs, which differ in {_listed(apart)}"
    return _Counted(found, f"add {' and '.join(apart)} to prometheus.selector")


def _named_without_scrape(server: Server, labels: Labels) -> bool:
    """Whether something names the worker besides what the scrape adds, such as its address."""
    return any(labels.get(name) for name in server.queries.worker.labels if name not in SCRAPE_LABELS)


def _apart(series: Sequence[Labels]) -> str:
    names = sorted({name for labels in series for name in labels if len({other.get(name) for other in series}) > 1})
    return _listed(names)


def _listed(names: Sequence[str]) -> str:
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"label {quoted}" if len(names) == 1 else f"labels {quoted}"


def _implausible(seen: _Seen, fact: QueryFact) -> QueryFact:
    rejected = max(
        (rejection for rejection in seen.window.rejected if rejection.metric == fact.metric),
        key=lambda rejection: float(rejection.times_s.max()),
    )
    in_batches = fact.metric == metrics.CPU.name and _idle_share(seen) > 0.0
    unit = units.of_value(fact.metric, float(np.median(rejected.values)), seen.ranges[fact.metric])
    many = f" ({fact.rejected:,} values of the last hour are)" if fact.rejected > 1 else ""
    fix = f"correct the query of {fact.metric} in {seen.queries}"
    return replace(
        fact,
        verdict=Verdict.IMPLAUSIBLE,
        found=f"{rejected.sentence().removeprefix(f'{fact.metric} ')}{many}",
        fix=seen.once_a_trigger if in_batches else fix if unit is None else unit.question(seen.where),
    )


def _idle_share(seen: _Seen) -> float:
    """Return the share of the steps with a load in which nothing was done, of a job that counts in batches; else 0.

    Counters of Spark's executors move with the end of a batch: where its trigger is longer than a rate reaches back,
    nothing and too much is read by turns. A job of another engine that often does nothing may rather restart.
    """
    if seen.server.queries.engine != BATCHES:
        return 0.0
    done, arrives = total_throughput(seen.window), seen.window.job_metric(metrics.WORKLOAD.name)
    idle = done[np.isfinite(done) & (arrives > 0)] == 0.0
    pauses = np.count_nonzero(np.diff(idle.astype(np.int8)) == 1)
    return float(idle.mean()) if pauses >= PAUSES and idle.mean() >= LEAST_IDLE else 0.0


def _doubted(seen: _Seen, fact: QueryFact) -> QueryFact:
    """Return a fact with the doubt that its values are in another unit, or counted in batches."""
    idle = _idle_share(seen) if fact.metric == metrics.THROUGHPUT.name else 0.0
    if idle:
        found = f"0 in {idle:.0%} of the steps in which records arrive"
        return replace(fact, verdict=Verdict.DOUBTFUL, found=found, fix=seen.once_a_trigger)
    if fact.metric == metrics.UPTIME.name:
        paced = units.of_uptime(seen.window.times_s, seen.window.job_metric(fact.metric))
        if paced is not None:
            found = f"it rises by {paced[1]:,.3g} a second".replace("1e+03", "1,000")
            return replace(fact, verdict=Verdict.IMPLAUSIBLE, found=found, fix=paced[0].question(seen.where))
    if fact.metric == metrics.LATENCY.name and fact.newest is not None:
        lag = _recent_mean(seen, seen.window.job_metric(metrics.LAG.name))
        done = _recent_mean(seen, total_throughput(seen.window))
        waits_s = None if lag is None or not done else lag / done
        doubt = units.of_latency(fact.newest, seen.job.objectives.latency_p95_ms, waits_s)
        if doubt is not None:
            return replace(fact, verdict=Verdict.DOUBTFUL, found=doubt[1], fix=doubt[0].question(seen.where))
    return fact


def _held_together(seen: _Seen, facts: Mapping[str, QueryFact], shown: Observation) -> dict[str, QueryFact]:
    """Return the facts with what workload and throughput say of each other."""
    found = dict(facts)
    workload, throughput = (found.get(metric.name) for metric in (metrics.WORKLOAD, metrics.THROUGHPUT))
    if workload is None or throughput is None or {workload.verdict, throughput.verdict} != {Verdict.OK}:
        return found  # what is wrong with one of them explains the other
    if shown.contradiction is not None:
        fix = _of_topic(seen, shown)
        found[workload.metric] = replace(workload, verdict=Verdict.CONTRADICTORY, found=shown.contradiction, fix=fix)
        return found
    arrives, done = shown.workload_per_s, shown.throughput_per_s
    if shown.lag_records is not None or not arrives or done is None:
        return found
    if min(arrives, done) * APART <= max(arrives, done):
        apart = f"{arrives:,.0f}/s arrive and {done:,.0f}/s are read; without a consumer lag the reason is unknown"
        found[workload.metric] = replace(
            workload, verdict=Verdict.DOUBTFUL, found=apart, fix="publish the consumer lag, and look at the topic"
        )
    return found


def _of_topic(seen: _Seen, shown: Observation) -> str:
    selector = {} if seen.job.prometheus is None else seen.job.prometheus.selector
    present = selector.get(TOPIC)
    if present is None:
        return "do both count the same records? Correct their queries or prometheus.selector"
    fitting = fitting_topic(seen.server, shown.throughput_per_s or 0.0, present)
    if fitting:
        return f"topic '{fitting}' has the rate that the job reads: set prometheus.selector.topic to it"
    return f"is '{present}' the topic that the job reads, and all that it reads? Correct prometheus.selector.topic"


def _last_s(series: Series) -> float:
    return float(series.times_ms[np.flatnonzero(np.isfinite(series.values))[-1]]) / 1_000.0


def _newest(metric: str, found: Iterable[Series]) -> float:
    values = [float(stream.values[np.flatnonzero(np.isfinite(stream.values))[-1]]) for stream in found]
    return float(np.sum(values) if metric == metrics.THROUGHPUT.name else np.mean(values))


def _recent_mean(seen: _Seen, values: Values) -> float | None:
    return mean_of_known(values[seen.window.times_s > seen.now_s - NEWEST_S])
