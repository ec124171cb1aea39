"""What training does for one sampled stream job: judge every performance family, and challenge the champion.

Knows no Dagster and no MLflow, because Spark's workers import it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdix.assets.training.tasks import Stopwatch, champion_of, drawn, gated
from perdix.models.performance.families import family_of
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.performance.selection import PerformanceCandidate, TrainedPerformance, challenge, select_performance
from perdix.models.registry.fleet_table import to_text
from perdix.models.sampling.rows import newest_samples


def train_performance(key: Mapping[str, Any]) -> dict[str, Any]:
    """Train one job's performance models on its newest samples and challenge its champion on them.

    Raises ``ValueError`` when the job was never sampled, or its samples cannot be learned from.

    ``key``: ``samples`` (folder), ``job``, ``seed``, ``repeats``, ``champions`` (fleet table, or null), and whether
    ``pictures`` are wanted.
    Returns candidates with their figures, the winner with its state (JSON text), the verdict, and ``stages_s``.
    """
    watch = Stopwatch()
    with watch.stage("read"):
        found = newest_samples(Path(key["samples"]), key["job"])
        if found is None:
            raise ValueError(
                f"{key['job']} was never sampled; sample it first: perdix sample OPERATOR --job {key['job']}"
            )
        path, sampled = found
    with watch.stage("fit and judge"):
        trained = select_performance(sampled.samples, key["seed"], repeats=key["repeats"])
    with watch.stage("challenge"):
        champion, challenged = champion_of(key, lambda state, _: FittedPerformance.from_state(state))
        verdict = challenge(champion, trained)
    return {
        "candidates": [_candidate(candidate, len(trained.samples)) for candidate in trained.candidates],
        "winner": trained.winner,
        "why": trained.sentence,
        **gated(verdict, challenged),
        "state": to_text(trained.model.to_state()),
        "rows": len(trained.samples),
        "data_digest": trained.digest,
        "samples": str(path),
        "stages_s": watch.seconds,
        "pictures": drawn(key, lambda: _pictures(key["job"], trained)),
    }


def _candidate(candidate: PerformanceCandidate, samples: int) -> dict[str, Any]:
    return {
        "family": candidate.family,
        "error": candidate.error,
        "notes": family_of(candidate.family).note,
        "parameters": dict(candidate.parameters),
        "metrics": {**candidate.metrics(), "samples": float(samples)},
    }


def _pictures(job: str, trained: TrainedPerformance) -> dict[str, bytes]:
    from perdix.assets.performance.pictures import performance_curves

    return {
        "performance.png": performance_curves(job, trained.model, trained.held_out[trained.winner]),
        **{
            f"performance_{family}.png": performance_curves(job, model, trained.held_out[family])
            for family, model in trained.fitted.items()
        },
    }
