"""What was found of each query of a job, as values."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a query's answer is worth; stable names for programs."""

    OK = "ok"
    DOUBTFUL = "doubtful"  # it may be right, and most often is not
    MISSING = "missing"  # no series
    STALE = "stale"  # no sample that is new enough to decide by
    IMPLAUSIBLE = "implausible"  # values outside what the metric can be
    DUPLICATED = "duplicated"  # series that count the same twice
    CONTRADICTORY = "contradictory"  # not true together with another metric
    REFUSED = "refused"  # the server does not take the query
    UNANSWERABLE = "unanswerable"  # the selector lacks a label
    NOT_ASKED = "not_asked"  # the server did not answer before


HARMLESS = frozenset({Verdict.OK, Verdict.DOUBTFUL})
OPTIONAL = frozenset({Verdict.MISSING, Verdict.STALE, Verdict.UNANSWERABLE})  # of a metric that nothing needs


@dataclass(frozen=True)
class QueryFact:
    """One query of one job."""

    job: str
    metric: str
    query: str  # PromQL as it was asked; empty where it cannot be asked
    needed: bool  # whether nothing is decided without it
    unit: str
    # How many series have a sample that is new enough; of a stale query, how many there were within the hour
    series: int = 0
    # Newest value in ``unit``: of workers' series the sum of their throughput, else their mean. ``None``: none
    newest: float | None = None
    age_s: float | None = None  # seconds since the newest value
    rejected: int = 0  # samples of the last hour outside what the metric can be
    verdict: Verdict = Verdict.OK
    # found, fix: in words; both empty where all is well
    found: str = ""
    fix: str = ""

    @property
    def ok(self) -> bool:
        """Whether perdix can work with it: it is well, doubtful, or a metric that is missed but not needed."""
        return self.verdict in HARMLESS or (not self.needed and self.verdict in OPTIONAL)


@dataclass(frozen=True)
class JobCheckup:
    """A job's metrics, looked over."""

    job: str
    server: str  # address without secrets
    queries: tuple[QueryFact, ...]
    answers: bool = True  # whether the server answers queries at all
    # problem, fix: what is wrong with the server or with the metrics as a whole, in words; empty where nothing is
    problem: str = ""
    fix: str = ""

    @property
    def ok(self) -> bool:
        """Whether a tick can decide by these metrics."""
        return not self.problem and all(query.ok for query in self.queries)
