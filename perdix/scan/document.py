"""What a scan came to, for machines: one JSON-serialisable document, from which table, page and message are made."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from perdix.scan.advice import Advice
from perdix.scan.judging import Judged, Wanted
from perdix.scan.saving import WorkerPrice, cost_per_month, worker_h_per_month
from perdix.settings.durations import DAY_S
from perdix.telemetry.http_access import shown

WELL_KNOWN: Final = ("A", "B")  # grades
ASSUMPTIONS: Final = (
    "each job's own recorded load is replayed on its own capacity, which is learned from CPU and throughput of its "
    "workers; no other job's physics stands in",
    "the load is known by the minute: what happens within a minute is not seen",
    "a fixed size is the fewest workers that, kept all the time, hold the objective; it is known only afterwards",
    "nothing limits the workers of a job but what was learned and, where they are known, the partitions of its source; "
    "memory is not looked at",
)


@dataclass(frozen=True)
class Scan:
    """A scan that came to its end."""

    wanted: Wanted
    jobs: tuple[Judged, ...]
    price: WorkerPrice | None
    notes: tuple[str, ...]  # what could not be asked of the whole server, in words
    seconds: float  # how long it took


def document(scan: Scan) -> dict[str, Any]:
    """Return everything but the courses; keys are described in ``docs/json.md``. What is not known is ``None``."""
    wanted = scan.wanted
    rows = [_row(judged, scan.price) for judged in by_saving(scan.jobs)]
    return {
        "url": shown(wanted.access),
        "from_s": wanted.now_s - wanted.days * DAY_S,
        "until_s": wanted.now_s,
        "days": wanted.days,
        "error_budget": wanted.error_budget,
        "price": None if scan.price is None else asdict(scan.price),
        "summary": _summary(scan),
        "jobs": rows,
        "assumptions": list(ASSUMPTIONS),
        "notes": list(scan.notes),
        "seconds": scan.seconds,
    }


def by_saving(jobs: Sequence[Judged]) -> list[Judged]:
    """Return the jobs with what saves most first, and those that cannot be judged last."""

    def place(judged: Judged) -> tuple[bool, float, str]:
        return judged.advice is None, -judged.advice.saved_workers if judged.advice else 0.0, judged.job.name

    return sorted(jobs, key=place)


def _row(judged: Judged, price: WorkerPrice | None) -> dict[str, Any]:
    job, advice = judged.job, judged.advice
    found: dict[str, Any] = {
        "job": job.name,
        "engine": job.engine,
        "selector": job.labels,
        "advice": None if advice is None else advice.kind,
        "why": judged.reason if advice is None else advice.why,
    }
    return found | (_unknown() if advice is None else _known(advice, price))


def _known(advice: Advice, price: WorkerPrice | None) -> dict[str, Any]:
    perdix, fixed = advice.perdix, advice.fixed
    return {
        "now": {
            "average_workers": advice.average_workers_now,
            "peak_workers": advice.peak_workers_now,
            "late_share": advice.late_share_now,
        },
        "fixed": asdict(fixed) | _saved(advice.average_workers_now - fixed.workers, price),
        "perdix": {
            "average_workers": perdix.average_workers,
            "peak_workers": perdix.peak_workers,
            "late_share": perdix.late_share,
            "rescales_per_day": perdix.rescales_per_day,
            "held": perdix.held,
            "method": perdix.method,
            "about": perdix.about,
            **_saved(advice.average_workers_now - perdix.average_workers, price),
        },
        "workers": advice.workers,
        "late_share": advice.late_share,
        **_saved(advice.saved_workers, price),
        "confidence": asdict(advice.confidence),
        "objective": {
            "latency_p95_ms": advice.objectives.latency_p95_ms,
            "error_budget": advice.objectives.error_budget,
        },
        "notes": list(advice.notes),
    }


def _unknown() -> dict[str, Any]:
    names = ("now", "fixed", "perdix", "workers", "late_share", *_saved(0.0, None), "confidence", "objective")
    return {**dict.fromkeys(names), "notes": []}


def _saved(workers: float, price: WorkerPrice | None) -> dict[str, float | None]:
    return {
        "saved_worker_h_per_month": worker_h_per_month(workers),
        "saved_cost_per_month": cost_per_month(workers, price),
    }


def _summary(scan: Scan) -> dict[str, Any]:
    """Return sums over the jobs that were judged."""
    advised = [judged.advice for judged in scan.jobs if judged.advice is not None]
    now, then = sum(advice.average_workers_now for advice in advised), sum(advice.workers for advice in advised)
    return {
        "jobs": len(scan.jobs),
        "judged": len(advised),
        "workers_now": now,
        "workers_advised": then,
        "cost_now_per_month": cost_per_month(now, scan.price),
        "too_small": sum(advice.too_small for advice in advised),
        **_saved(now - then, scan.price),
        "well_known": _saved(
            sum(advice.saved_workers for advice in advised if advice.confidence.grade in WELL_KNOWN), scan.price
        ),
    }
