"""Live pulls over Prometheus' HTTP API: paging, retries, and errors in plain words.

Belongs here: the conversation. Does not belong here: what to ask (``perdix.telemetry.queries``) and what to make of the
answer (``perdix.telemetry.alignment``, ``perdix.telemetry.quality``).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_exponential

from perdix.settings.access import AccessError, HttpAccess
from perdix.telemetry.http_client import MIB, HttpClient, HttpError, Limits, Trouble
from perdix.telemetry.prometheus_answers import ErrorKind, PrometheusError, document_of, joined, results, warnings_of
from perdix.telemetry.queries import EngineQueries
from perdix.telemetry.query_text import rate_window_s
from perdix.telemetry.questions import Question, questions
from perdix.telemetry.series import Series

POINTS_PER_PAGE: Final = 11_000  # what Prometheus allows per series and range query
LARGEST_ANSWER_BYTES: Final = 512 * MIB
_PATH: Final = "/api/v1/query_range"
_PASSING: Final = frozenset({"unreachable", "timeout", "overloaded"})
_KINDS: Final[Mapping[Trouble, ErrorKind]] = {
    "unreachable": "unreachable",
    "broken off": "unreachable",
    "no answer": "timeout",
    "too slow": "timeout",
    "unreadable": "malformed",
    "too large": "rejected",
    "unaskable": "rejected",
}


@dataclass(frozen=True)
class Asked:
    """What is asked for some jobs of one engine."""

    # wanted, selectors: job -> canonical metrics, and its labels
    wanted: Mapping[str, tuple[str, ...]]
    selectors: Mapping[str, Mapping[str, str]]
    # start_s, end_s, step_s: as for :meth:`Prometheus.query_range`
    start_s: float
    end_s: float
    step_s: float
    scrape_interval_s: float  # of the server; ``rate()`` looks back over four of these

    def questions(self, queries: EngineQueries) -> tuple[list[Question], dict[str, list[str]]]:
        """Return what to ask, and for each job what cannot be asked."""
        steps = round((self.end_s - self.start_s) / self.step_s) + 1
        return questions(queries, self.wanted, self.selectors, rate_window_s(self.scrape_interval_s), steps)

    def alone(self, queries: EngineQueries, together: Question) -> list[Question]:
        """Return the questions that ask for each job of ``together`` by itself."""
        ones = [replace(self, wanted={job: (together.metric,)}) for job in together.names()]
        return [question for query in ones for question in query.questions(queries)[0]]


@dataclass(frozen=True)
class Pulled:
    """What was read of one job, canonical and named by worker, and what was warned of."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...]


class _Found:
    """What has been read so far, by job."""

    def __init__(self, asked: Asked) -> None:
        self._wanted = asked.wanted
        self.series: dict[str, list[Series]] = {job: [] for job in asked.wanted}
        self.warnings: dict[str, list[str]] = {job: [] for job in asked.wanted}
        self._refused: dict[str, list[PrometheusError]] = {job: [] for job in asked.wanted}

    def refuse(self, question: Question, error: PrometheusError) -> None:
        for job in question.names():
            self.warnings[job].append(f"{question.metric}: {error}")
            self._refused[job].append(error)

    def pulled(self) -> dict[str, Pulled | PrometheusError]:
        return {
            job: refused[0]
            if (refused := self._refused[job]) and len(refused) == len(wanted)
            else Pulled(tuple(self.series[job]), tuple(dict.fromkeys(self.warnings[job])))
            for job, wanted in self._wanted.items()
        }


class Prometheus:
    """Client of one server (or of Thanos, Mimir, VictoriaMetrics, the twin: all that answer ``query_range``).

    ``access``: base URL (a path prefix is kept), token and certificates.
    ``timeout_s``: for connecting and between two reads.
    ``deadline_s``: for one whole answer, so that a server that drips bytes cannot hold a tick; after as long, no other
    try begins.
    ``attempts``: tries per page.
    ``largest_bytes``: of one answer, unpacked.
    ``sleep``: injected by tests.
    """

    def __init__(
        self,
        access: HttpAccess,
        *,
        timeout_s: float = 5.0,
        deadline_s: float = 20.0,
        attempts: int = 3,
        largest_bytes: int = LARGEST_ANSWER_BYTES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            self._client = HttpClient(access, Limits(timeout_s, deadline_s, largest_bytes))
        except AccessError as error:
            raise PrometheusError("unauthorised", str(error)) from None
        self.name = self._client.address
        self._warnings: list[str] = []
        self._retrying = Retrying(
            stop=stop_after_attempt(attempts) | stop_after_delay(deadline_s),
            wait=wait_exponential(multiplier=0.2, max=2.0),
            retry=retry_if_exception(lambda error: isinstance(error, PrometheusError) and error.kind in _PASSING),
            sleep=sleep,
            reraise=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def drain_warnings(self) -> tuple[str, ...]:
        """Return what the server (or a query that could not be asked) warned of since the last call."""
        found, self._warnings = tuple(dict.fromkeys(self._warnings)), []
        return found

    def query_range(
        self, promql: str, start_s: float, end_s: float, step_s: float, *, lookback_s: float | None = None
    ) -> list[Series]:
        """Evaluate a query at ``start_s``, ``start_s + step_s``, ... up to ``end_s``.

        Raises ``PrometheusError`` after the retries.

        Returns one per label set, in the server's order; ``metric`` is the result's ``__name__`` (empty after an
        aggregation).

        ``promql``: the query.
        ``start_s``, ``end_s``: epoch seconds, both included.
        ``step_s``: seconds, at least a millisecond.
        ``lookback_s``: how old a sample may be and still count, where the server lets us say (else its own: five
        minutes, over which a series that nobody marked stale is repeated).
        """
        series, warnings = self._range(promql, start_s, end_s, step_s, lookback_s)
        self._warnings += warnings
        return series

    def pull(
        self,
        queries: EngineQueries,
        selector: Mapping[str, str],
        start_s: float,
        end_s: float,
        step_s: float,
        *,
        metrics: Iterable[str] | None = None,
        scrape_interval_s: float | None = None,
    ) -> list[Series]:
        """Read the canonical metrics of one job.

        Raises ``PrometheusError`` when the server cannot be reached or lets nobody in, or when every query failed.

        Returns series under canonical names, named by worker, ready for :func:`perdix.telemetry.alignment.align`. A
        metric whose query the server refuses (or that cannot be asked) is left out, with a warning.

        ``queries``: of the job's engine.
        ``selector``: the job's labels.
        ``start_s``, ``end_s``, ``step_s``: as for :meth:`query_range`.
        ``metrics``: canonical names; all that the selector can answer when left out.
        ``scrape_interval_s``: of the server; ``step_s`` when left out. ``rate()`` looks back over four of these.
        """
        wanted = tuple(queries.metrics(selector) if metrics is None else metrics)
        asked = Asked({"": wanted}, {"": selector}, start_s, end_s, step_s, scrape_interval_s or step_s)
        found = self.pull_jobs(queries, asked)[""]
        if isinstance(found, PrometheusError):
            raise found
        self._warnings += found.warnings
        return list(found.series)

    def pull_jobs(self, queries: EngineQueries, asked: Asked) -> dict[str, Pulled | PrometheusError]:
        """Read the canonical metrics of several jobs of one engine, with as few queries as there can be.

        A query that the server refuses for several jobs is asked for each of them, so that one job's labels cost no
        other job a metric. Thread-safe. Raises ``PrometheusError`` when the server cannot be reached or lets nobody in.

        Returns job -> what :meth:`pull` returns of it, or the error of a job whose every query failed.
        """
        found = _Found(asked)
        together, unanswerable = asked.questions(queries)
        for job, warnings in unanswerable.items():
            found.warnings[job] += warnings
        for question in together:
            try:
                self._answer(question, queries, asked, found)
            except PrometheusError as error:
                if error.of_the_server:
                    raise
                if len(question.names()) == 1:
                    found.refuse(question, error)
                    continue
                for question_of in asked.alone(queries, question):
                    try:
                        self._answer(question_of, queries, asked, found)
                    except PrometheusError as refused:
                        if refused.of_the_server:
                            raise
                        found.refuse(question_of, refused)
        return found.pulled()

    def _answer(self, question: Question, queries: EngineQueries, asked: Asked, found: _Found) -> None:
        lookback_s = max(2.0 * asked.scrape_interval_s, asked.step_s)
        rows, warnings = self._range(question.promql, asked.start_s, asked.end_s, asked.step_s, lookback_s)
        for row in rows:
            worker = queries.worker_of(question.metric, row.labels)
            for job in question.jobs_of(row.labels):
                found.series[job].append(Series(question.metric, worker, row.times_ms, row.values, row.labels))
        for job in question.names():
            found.warnings[job] += warnings

    def _range(
        self, promql: str, start_s: float, end_s: float, step_s: float, lookback_s: float | None
    ) -> tuple[list[Series], list[str]]:
        warnings: list[str] = []
        found: dict[tuple[tuple[str, str], ...], list[tuple[list[float], list[float]]]] = {}
        for first_ms, last_ms, step_ms in pages(start_s, end_s, step_s):
            asked = {"query": promql, "start": _seconds(first_ms), "end": _seconds(last_ms), "step": _seconds(step_ms)}
            if lookback_s is not None:
                asked["lookback_delta"] = _seconds(round(lookback_s * 1000))
            document, secrets = self._retrying(self._ask, asked)
            warnings += warnings_of(document, secrets, self.name)
            for labels, times, values in results(document, secrets, self.name):
                found.setdefault(tuple(sorted(labels.items())), []).append((times, values))
        return [joined(dict(labels), parts, self.name) for labels, parts in found.items()], warnings

    def _ask(self, asked: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the JSON of a success, and the secrets that its request carried."""
        try:
            answer = self._client.ask("GET", _PATH, params=asked)
        except AccessError as error:
            raise PrometheusError("unauthorised", str(error)) from None
        except HttpError as error:
            raise PrometheusError(_KINDS[error.trouble], f"{self.name} {error}") from None
        return document_of(answer, self.name), answer.secrets


def pages(start_s: float, end_s: float, step_s: float) -> Iterator[tuple[int, int, int]]:
    """Cut a range into ``(first_ms, last_ms, step_ms)`` of at most 11,000 points that neither overlap nor leave a gap.

    Raises ``ValueError`` when the step is below a millisecond or the range is inverted.
    """
    first_ms, end_ms, step_ms = round(start_s * 1000), round(end_s * 1000), round(step_s * 1000)
    if step_ms < 1:
        raise ValueError(f"a step of {step_s} s is shorter than a millisecond")
    if end_ms < first_ms:
        raise ValueError(f"the range ends at {end_s} before it starts at {start_s}")
    while first_ms <= end_ms:
        last_ms = min(first_ms + (POINTS_PER_PAGE - 1) * step_ms, end_ms)
        yield first_ms, last_ms, step_ms
        first_ms += POINTS_PER_PAGE * step_ms


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"
