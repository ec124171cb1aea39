"""What Dagster's pages show of a training: a few figures of the run on every partition, and each job's own on its own.

Every partition's event is never deleted, so what is said on all of them must be short: with a thousand jobs a table
or a picture would be a thousand of them.
"""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from perdix.assets.metadata import MOST_ROWS, picture, records
from perdix.assets.training.record import Trained

if TYPE_CHECKING:
    from perdix.models.registry import Published

MOST_REASONS = 10
MOST_FAILURES = 50  # listed one by one; the rest are in their partitions


def tell_of_failures(context: dg.AssetExecutionContext, trained: Sequence[Trained]) -> None:
    """Log the jobs that failed, and why; tell of the run as a whole when there are too many for a table."""
    failed = [one for one in trained if one.error]
    for one in failed[:MOST_FAILURES]:
        context.log.warning(f"{one.job}: {one.error}")
    if len(failed) > MOST_FAILURES:
        context.log.warning(f"{len(failed) - MOST_FAILURES} more jobs failed; see their partitions, key 'error'")
    if len(trained) <= MOST_ROWS:
        for one in trained:
            if not one.error:
                context.log.info(f"{one.job}: {one.why}")
        return
    rows = [{"job": one.job, "error": one.error} for one in failed]
    context.log_event(
        dg.AssetObservation(
            context.asset_key,
            description=f"{len(trained)} jobs trained together, {len(failed)} failed",
            metadata={"jobs_failed": len(failed), "failed": records(rows, ("job", "error"))},
        )
    )


def each_job(context: dg.AssetExecutionContext, trained: Sequence[Trained], score: str) -> None:
    """Put each job's own figures on its partition."""
    for one in trained:
        value = one.score(score)
        own = {
            "winner": one.winner or "none",
            "verdict": one.why,
            **({} if value is None else {score: value}),
            "job_seconds": round(one.seconds, 3),
            **({"error": one.error} if one.error else {}),
        }
        context.add_asset_metadata(own, partition_key=one.job)


def candidate_metadata(trained: Sequence[Trained], score: str, clock_s: Mapping[str, float]) -> dict[str, Any]:
    """Return the figures of a run of candidates; ``clock_s`` is what the parts of the run took."""
    scores = sorted(value for one in trained if (value := one.score(score)) is not None)
    stages_s: Counter[str] = Counter()
    for one in trained:
        stages_s.update(one.result.get("stages_s", {}))
    return {
        "jobs_trained": sum(1 for one in trained if not one.error),
        "jobs_failed": sum(1 for one in trained if one.error),
        "seconds": round(sum(one.seconds for one in trained), 3),
        "cpu_seconds": round(sum(one.cpu_s for one in trained), 3),
        "clock_s": _rounded(clock_s),
        "stages_s": _rounded(stages_s),
        **({f"{score}_median": scores[len(scores) // 2]} if scores else {}),
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
    promoted = sum(1 for one in trained if one.promoted)
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
    said = [f"* {one.job}: {one.result['why']}" for one in trained[:MOST_REASONS] if not one.error]
    return {"why": dg.MetadataValue.md("\n".join(said))} if said else {}


def some_jobs(trained: Sequence[Trained], score: str) -> dict[str, Any]:
    """Return a table of the jobs of a small run, those that failed first; nothing for a large one."""
    if len(trained) > MOST_ROWS:
        return {}
    rows = [
        {
            "job": one.job,
            "winner": one.winner,
            score: one.score(score),
            "verdict": one.result.get("verdict"),
            "seconds": round(one.seconds, 2),
            "error": one.error,
        }
        for one in sorted(trained, key=lambda one: not one.error)
    ]
    return {"jobs": records(rows, ("job", "winner", score, "verdict", "seconds", "error"))}


def _rounded(seconds: Mapping[str, float]) -> dg.JsonMetadataValue:
    return dg.MetadataValue.json({name: round(value, 3) for name, value in seconds.items()})


def _first_picture(trained: Sequence[Trained]) -> dict[str, Any]:
    for one in trained:
        for name, text in one.result.get("pictures", {}).items():
            if name.endswith(".png"):
                return {name.removesuffix(".png"): picture(base64.b64decode(text), f"{one.job}: {name}")}
    return {}
