"""Every query of one job asked and judged, within a bounded time."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

from perdix.control.checkup.facts import JobCheckup, QueryFact, Verdict
from perdix.control.checkup.judging import judged
from perdix.control.checkup.selectors import Server, unreported_topics, wrong_interval, wrong_label
from perdix.control.sources import LONGEST_READ_S, NEEDED_TO_DECIDE, connected
from perdix.settings.access import HttpAccess
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.telemetry.http_access import shown
from perdix.telemetry.metrics import CANONICAL, SCALE_OUT
from perdix.telemetry.prometheus import Asked, Prometheus, Pulled
from perdix.telemetry.prometheus_answers import ErrorKind, PrometheusError
from perdix.telemetry.queries import EngineQueries, UnanswerableError, load_queries
from perdix.telemetry.query_text import rate_window_s
from perdix.telemetry.series import Series

MOST_S: Final = 20.0  # of one job: after that no other query begins
HINT_STEPS: Final = 5  # of the scrape interval, over which a server is asked what would fit
UNRESOLVED: Final = ("Name or service not known", "nodename nor servname", "Temporary failure in name resolution")


@dataclass
class _Reading:
    """What was read so far of one job, by metric."""

    facts: dict[str, QueryFact] = field(default_factory=dict)
    series: dict[str, tuple[Series, ...]] = field(default_factory=dict)


def check_job(
    job: StreamJob,
    now_s: float,
    *,
    connect: Callable[[PrometheusSource], Prometheus] = connected,
    queries_of: Callable[[str], EngineQueries] = load_queries,
    stopwatch_s: Callable[[], float] = time.monotonic,
    most_s: float = MOST_S,
) -> JobCheckup:
    """Ask every query of a job's engine over the last hour, as a first tick does, and judge what it found.

    Raises ``ValueError`` when the job has no Prometheus; ``SettingsError`` when the queries of its engine cannot be
    read.

    ``now_s``: epoch seconds.
    ``most_s``: after this many seconds no other query begins.
    Returns whatever is wrong with the server or a query is in it, and not raised.
    """
    source = job.prometheus
    if source is None:
        raise ValueError(f"job '{job.name}' has no 'prometheus' in its file; add its url and selector")
    queries = queries_of(job.engine)
    reading = _Reading({fact.metric: fact for fact in _unasked(job, source, queries)})
    began_s, address = stopwatch_s(), shown(source)

    def late() -> bool:
        return stopwatch_s() - began_s > most_s

    try:
        with closing(connect(source)) as client:
            client.query_range("time()", now_s - 1.0, now_s, 1.0)
            asking = _Asking(job, source, queries, client, now_s, late)
            trouble = asking.ask_all(reading)
            server = asking.server(hints=trouble is None)
            facts, overall = judged(job, server, reading.facts, reading.series, now_s)
            facts = tuple(asking.explained(fact, server) for fact in facts)
    except PrometheusError as error:  # it does not answer at all
        return JobCheckup(job.name, address, tuple(reading.facts.values()), False, str(error), fix_of(error, source))
    if trouble is not None:
        return JobCheckup(job.name, address, facts, True, str(trouble), fix_of(trouble, source))
    if len(reading.series) < sum(bool(fact.query) for fact in facts):
        problem = f"{address} took more than {most_s:.0f} s for {len(reading.series)} of {len(facts)} queries"
        return JobCheckup(job.name, address, facts, True, problem, "look at its load, or at how many series it holds")
    return JobCheckup(job.name, address, facts, True, *overall)


def _unasked(job: StreamJob, source: PrometheusSource, queries: EngineQueries) -> Iterator[QueryFact]:
    """Yield a fact for each metric that a tick may use, as it is before anything was asked."""
    needed = {*NEEDED_TO_DECIDE, *((SCALE_OUT.name,) if job.target.kind == "advisory" else ())}
    for metric in dict.fromkeys((*NEEDED_TO_DECIDE, *queries.queries)):
        fact = QueryFact(job.name, metric, "", metric in needed, CANONICAL[metric].unit, verdict=Verdict.NOT_ASKED)
        try:
            promql = queries.promql(metric, source.selector, rate_window_s(source.scrape_interval_s))
        except UnanswerableError as error:
            texts = queries.queries.get(metric, [])
            fix = f"add {' or '.join(', '.join(text.needs) for text in texts)} to prometheus.selector"
            fix = fix if texts else f"add a query of {metric} to conf/queries/{queries.engine}.yaml"
            yield replace(fact, verdict=Verdict.UNANSWERABLE, found=str(error), fix=fix)
        else:
            yield replace(fact, query=promql)


@dataclass(frozen=True)
class _Asking:
    job: StreamJob
    source: PrometheusSource
    queries: EngineQueries
    client: Prometheus
    now_s: float
    late: Callable[[], bool]

    @property
    def end_s(self) -> float:
        step_s = self.source.scrape_interval_s
        return math.floor(self.now_s / step_s) * step_s

    def server(self, *, hints: bool) -> Server:
        """Return whom to ask for hints; nobody any more where there was trouble."""
        step_s = self.source.scrape_interval_s
        late = self.late if hints else lambda: True
        return Server(self.client, self.queries, self.end_s - HINT_STEPS * step_s, self.end_s, step_s, late)

    def ask_all(self, reading: _Reading) -> PrometheusError | None:
        """Ask every query for which there is time; return how the server failed meanwhile, or ``None``."""
        for metric in reading.facts:
            if self.late():
                break
            try:
                self.ask(metric, reading)
            except PrometheusError as error:
                return error
        return None

    def ask(self, metric: str, reading: _Reading) -> None:
        """Ask one query; raises ``PrometheusError`` where the server, and not the query, failed."""
        fact = reading.facts[metric]
        if not fact.query:
            return
        job, step_s = self.job.name, self.source.scrape_interval_s
        start_s = math.floor((self.now_s - LONGEST_READ_S) / step_s) * step_s
        asked = Asked({job: (metric,)}, {job: self.source.selector}, start_s, self.end_s, step_s, step_s)
        found = self.client.pull_jobs(self.queries, asked)[job]
        if isinstance(found, Pulled):
            reading.series[metric] = found.series
            reading.facts[metric] = replace(fact, verdict=Verdict.OK, found="; ".join(found.warnings))
            return
        reading.series[metric] = ()
        where = f"correct the query of {metric} in conf/queries/{self.queries.engine}.yaml"
        reading.facts[metric] = replace(fact, verdict=Verdict.REFUSED, found=str(found), fix=where)

    def explained(self, fact: QueryFact, server: Server) -> QueryFact:
        """Return a fact of a query that found nothing with the label or scrape interval that is wrong, if one is."""
        if fact.verdict is not Verdict.MISSING:
            return fact
        selector = self.source.selector
        fix = (
            wrong_label(server, fact.metric, selector)
            or wrong_interval(server, selector)
            or unreported_topics(server, fact.metric, selector)
        )
        return replace(fact, fix=fix) if fix else fact


def fix_of(error: PrometheusError, access: HttpAccess) -> str:
    """Return the fix of a server that does not answer, in words; keys are those of the job file."""
    fix = _FIXES_OF.get(error.kind)
    return _FIXES[error.kind] if fix is None else fix(str(error), access)


def _unreachable(text: str, access: HttpAccess) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        trusted = "name its authority in prometheus.ca_file"
        return trusted if access.ca_file is None else f"is {access.ca_file} the authority that signed its certificate?"
    if "SSL" in text:
        return "does it speak plain HTTP? Then write http:// in prometheus.url"
    if any(words in text for words in UNRESOLVED):
        return "the name in prometheus.url cannot be resolved here: correct it"
    return "start it, or correct prometheus.url"


def _unauthorised(text: str, access: HttpAccess) -> str:
    if text.startswith("ca_file"):
        return "let prometheus.ca_file name the certificates of your authority (PEM)"
    if access.token_file is not None:
        return f"put a token that it takes into {access.token_file} (prometheus.token_file)"
    if access.token_env is not None:
        return f"put a token that it takes into the environment variable {access.token_env} (prometheus.token_env)"
    return "set prometheus.token_file or token_env to where a token is"


def _rejected(text: str, access: HttpAccess) -> str:
    if access.url.scheme == "http" and "HTTPS" in text:
        return "write https:// in prometheus.url"
    return "correct prometheus.url: it must lead to Prometheus itself, with the path before /api/v1 if there is one"


_FIXES: Mapping[ErrorKind, str] = {
    "timeout": "is it overloaded, or behind a firewall? Ask it from this machine: curl prometheus.url/-/ready",
    "overloaded": "look at its log and its load, or correct prometheus.url if a proxy answers for it",
    "malformed": "correct prometheus.url: it must lead to Prometheus itself, without a login page before it",
}
_FIXES_OF: Mapping[ErrorKind, Callable[[str, HttpAccess], str]] = {
    "unreachable": _unreachable,
    "unauthorised": _unauthorised,
    "rejected": _rejected,
}
