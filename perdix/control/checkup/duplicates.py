"""Series that count the same worker twice: a job scraped by two jobs of Prometheus, or seen by two replicas of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from perdix.control.checkup.selectors import Server, raw_series
from perdix.telemetry.joining import REPLICA_LABELS
from perdix.telemetry.metrics import CANONICAL, Scope
from perdix.telemetry.series import Series

ONE_OF_THEM: Final = "scrape it once, or choose one of them by that label in prometheus.selector"
SCRAPE_LABELS: Final = REPLICA_LABELS | {"job", "endpoint", "service", "container", "instance"}
Labels = Mapping[str, str]


def told_twice(metric: str, fresh: Sequence[Series]) -> str:
    """Return in words that a query's own results count a worker (or the job) more than once; empty where none does."""
    by_worker: dict[str, list[Labels]] = {}
    for one in fresh:
        own = {name: value for name, value in one.labels.items() if name not in REPLICA_LABELS}  # alignment averages
        if own not in (seen := by_worker.setdefault(one.worker or "", [])):
            seen.append(own)
    most = max(by_worker.values(), key=len)
    if len(most) < 2:
        return ""
    of = f"each of {len(by_worker)} workers" if CANONICAL[metric].scope is Scope.WORKER else "the job"
    return f"{len(most)} series for {of}, which differ in {_apart(most)}: counted {len(most)} times"


@dataclass(frozen=True)
class Counted:
    """What is wrong with the engine's own series where a sum of them hides it, and its fix, in words."""

    found: str
    fix: str


def counted_twice(server: Server, selector: Labels) -> Counted | None:
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
        return Counted(found, ONE_OF_THEM)
    jobs = {tuple(labels.get(name, "") for name in naming.labels) for labels in series}
    if len(jobs) < 2:
        return None
    apart = [name for at, name in enumerate(naming.labels) if len({one[at] for one in jobs}) > 1]
    found = f"the selector matches {len(jobs)} jobs, which differ in {_listed(apart)}"
    return Counted(found, f"add {' and '.join(apart)} to prometheus.selector")


def _named_without_scrape(server: Server, labels: Labels) -> bool:
    """Whether something names the worker besides what the scrape adds, such as its address."""
    return any(labels.get(name) for name in server.queries.worker.labels if name not in SCRAPE_LABELS)


def _apart(series: Sequence[Labels]) -> str:
    names = sorted({name for one in series for name in one if len({other.get(name) for other in series}) > 1})
    return _listed(names)


def _listed(names: Sequence[str]) -> str:
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"label {quoted}" if len(names) == 1 else f"labels {quoted}"
