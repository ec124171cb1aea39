"""Which queries of several jobs of one server are one query.

Belongs here: what is asked together, and whose an answer is; without any network.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from perdix.telemetry.queries import EngineQueries, UnanswerableError
from perdix.telemetry.query_text import QueryText, differing

JOBS_AT_ONCE: Final = 64
STEPS_AT_ONCE: Final = 8_000  # of all jobs: an hour of many is an answer of dozens of MB, which takes a server too long
CHARACTERS_AT_ONCE: Final = 3_000  # of the values in one query: proxies refuse addresses of more than 8 kB

Kept = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Question:
    """One query of one metric."""

    metric: str
    promql: str
    labels: tuple[str, ...] = ()  # whose values say of which job a result is; empty when every result is of every job
    # Their values -> the jobs that are meant
    jobs: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """Return the jobs that are asked for."""
        return tuple(name for names in self.jobs.values() for name in names)

    def jobs_of(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the jobs that a result belongs to."""
        return self.jobs.get(tuple(labels.get(label, "") for label in self.labels), ())


def questions(
    queries: EngineQueries,
    wanted: Mapping[str, Iterable[str]],
    selectors: Mapping[str, Mapping[str, str]],
    window_s: float,
    steps: int = 1,
) -> tuple[list[Question], dict[str, list[str]]]:
    """Return what to ask for some jobs, and for each job what cannot be asked, in words.

    ``wanted``: job -> canonical metrics.
    ``selectors``: job -> labels.
    ``window_s``: range of ``rate()``.
    ``steps``: points that each series will have: a long range is asked for fewer jobs at once.
    """
    most = max(1, min(JOBS_AT_ONCE, STEPS_AT_ONCE // max(steps, 1)))
    unanswerable: dict[str, list[str]] = {job: [] for job in wanted}
    alike: dict[tuple[str, int, tuple[str, ...]], dict[Kept, list[str]]] = {}
    texts: dict[int, QueryText] = {}
    for job, metrics in wanted.items():
        for metric in metrics:
            try:
                text = queries.text(metric, selectors[job])
            except UnanswerableError as error:
                unanswerable[job].append(str(error))
                continue
            texts[id(text)] = text
            kept = text.kept(selectors[job])
            bucket = alike.setdefault((metric, id(text), tuple(sorted(kept))), {})
            bucket.setdefault(tuple(sorted(kept.items())), []).append(job)
    asked = []
    for (metric, which, _), bucket in alike.items():
        text = texts[which]
        for part in _together(bucket, most if _tells_apart(bucket, text, queries.worker.labels) else 1):
            asked.append(_question(queries, metric, text, part, window_s))
    return asked, unanswerable


def _tells_apart(bucket: Mapping[Kept, list[str]], text: QueryText, workers: Iterable[str]) -> bool:
    """Whether one query can ask for all: a label that tells workers apart cannot tell jobs apart as well."""
    return text.tells_jobs_apart and not set(_varying(bucket)) & set(workers)


def _together(bucket: Mapping[Kept, list[str]], most: int) -> Iterator[dict[Kept, list[str]]]:
    """Cut what is asked alike into what one query may ask for."""
    part: dict[Kept, list[str]] = {}
    characters = 0
    for kept, jobs in bucket.items():
        more = sum(len(value) for _, value in kept)
        if part and (len(part) == most or characters + more > CHARACTERS_AT_ONCE):
            yield part
            part, characters = {}, 0
        part[kept] = jobs
        characters += more
    yield part


def _varying(bucket: Mapping[Kept, list[str]]) -> tuple[str, ...]:
    columns = zip(*bucket, strict=True)
    return tuple(column[0][0] for column in columns if len(set(column)) > 1)


def _question(
    queries: EngineQueries, metric: str, text: QueryText, part: Mapping[Kept, list[str]], window_s: float
) -> Question:
    varying = set(_varying(part))
    values: dict[str, list[str]] = {}
    for kept in part:
        for label, value in kept:
            values.setdefault(label, []).append(value)
    selector = {label: tuple(dict.fromkeys(found)) if label in varying else found[0] for label, found in values.items()}
    labels = differing(selector)
    jobs = {tuple(dict(kept)[label] for label in labels): tuple(names) for kept, names in part.items()}
    return Question(metric, queries.rendered(text, selector, window_s), labels, jobs)
