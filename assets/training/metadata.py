"""What Dagster's pages show of a training: a few figures of the run on every partition, and each job's own on its own.

Every partition's event is never deleted, so what is said on all of them must be short: with a thousand jobs a table
or a picture would be a thousand of them.
"""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import dagster as dg

from perdix.assets.metadata import MOST_ROWS, picture, records
from perdix.assets.training.record import Trained
from perdix.settings.counting import counted

if TYPE_CHECKING:
    from perdix.models.registry import Published

MOST_REASONS = 10
MOST_FAILURES = 50  # listed one by one; the rest are in their partitions


def tell_of_failures(context: dg.AssetExecutionContext, trained: Sequence[Trained]) -> None:
    """Log the jobs that failed, and why; tell of the run as a whole when there are too many for a table."""
    failed = [outcome for outcome in trained if outcome.error]
    for outcome in failed[:MOST_FAILURES]:
        context.log.warning(f"{outcome.job}: {outcome.error}")
    if len(failed) > MOST_FAILURES:
        more = counted(len(failed) - MOST_FAILURES, "more job")
        context.log.warning(f"{more} failed; see their partitions, key 'error'")
    if len(trained) <= MOST_ROWS:
        for outcome in trained:
            if not outcome.error:
                context.log.info(f"{outcome.job}: {outcome.why}")
        return
    rows = [{"job": outcome.job, "error": outcome.error} for outcome in failed]
    context.log_event(
        dg.AssetObservation(
            context.asset_key,
            description=f"{len(trained)} jobs trained together, {len(failed)} failed",
            metadata={"jobs_failed": len(failed), "failed": records(rows, ("job", "error"))},
        )
    )


def each_job(context: dg.AssetExecutionContext, trained: Sequence[Trained], score: str) -> None:
    """Put each job's own figures on its partition."""
    for outcome in trained:
        value = outcome.score(score)
        own = {
            "winner": outcome.winner or "none",
            "verdict": outcome.why,
            **({} if value is None else {score: value}),
            "job_seconds": round(outcome.seconds, 3),
            **({"error": outcome.error} if outcome.error else {}),
        }
        context.add_asset_metadata(own, partition_key=outcome.job)


def candidate_metadata(trained: Sequence[Trained], score: str, clock_s: Mapping[str, float]) -> dict[str, Any]:
    """Return the figures of a run of candidates; ``clock_s`` is what the parts of the run took."""
    scores = [value for outcome in trained if (value := outcome.score(score)) is not None]
    stages_s: Counter[str] = Counter()
    for outcome in trained:
        stages_s.update(outcome.result.get("stages_s", {}))
    return {
        "jobs_trained": sum(1 for outcome in trained if not outcome.error),
        "jobs_failed": sum(1 for outcome in trained if outcome.error),
        "seconds": round(sum(outcome.seconds for outcome in trained), 3),
        "cpu_seconds": round(sum(outcome.cpu_s for outcome in trained), 3),
        "clock_s": _rounded(clock_s),
        "stages_s": _rounded(stages_s),
        **({f"{score}_median": median(scores)} if scores else {}),
        **some_jobs(trained, score),
    }


def champion_metadata(
    trained: Sequence[Trained],
    score: str,
    published: "Published",
    pictures: Mapping[str, bytes],
    *,
    stages_s: Mapping[str, float],
) -> dict[str, Any]:
    """Return what became of a training in the registry."""
    promoted = sum(1 for outcome in trained if outcome.promoted)
    shown: dict[str, Any] = {}
    if len(trained) <= MOST_ROWS:
        shown = {name.removesuffix(".png"): picture(png, "all candidates") for name, png in pictures.items()}
        shown |= _first_picture(trained)
    return {
        "version": published.version,
        "promoted": promoted,
        "kept": len(trained) - promoted,
        "mlflow_run": dg.MetadataValue.url(published.run_url),
        **some_jobs(trained, score),
        **shown,
        "stages_s": _rounded(stages_s),
    }


def reasons(trained: Sequence[Trained]) -> dict[str, Any]:
    """Return why each job of a small run has the family that it has, in words."""
    said = [f"* {outcome.job}: {outcome.result['why']}" for outcome in trained[:MOST_REASONS] if not outcome.error]
    return {"why": dg.MetadataValue.md("\n".join(said))} if said else {}


def some_jobs(trained: Sequence[Trained], score: str) -> dict[str, Any]:
    """Return a table of the jobs of a small run, those that failed first; nothing for a large one."""
    if len(trained) > MOST_ROWS:
        return {}
    rows = [
        {
            "job": outcome.job,
            "winner": outcome.winner,
            score: outcome.score(score),
            "verdict": outcome.result.get("verdict"),
            "seconds": round(outcome.seconds, 2),
            "error": outcome.error,
        }
        for outcome in sorted(trained, key=lambda outcome: not outcome.error)
    ]
    return {"jobs": records(rows, ("job", "winner", score, "verdict", "seconds", "error"))}


def _rounded(seconds: Mapping[str, float]) -> dg.JsonMetadataValue:
    return dg.MetadataValue.json({name: round(value, 3) for name, value in seconds.items()})


def _first_picture(trained: Sequence[Trained]) -> dict[str, Any]:
    for outcome in trained:
        for name, text in outcome.result.get("pictures", {}).items():
            if name.endswith(".png"):
                return {name.removesuffix(".png"): picture(base64.b64decode(text), f"{outcome.job}: {name}")}
    return {}
