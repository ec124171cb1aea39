"""What training does for one profiled stream job: judge every latency family, and challenge the champion.

Knows no Dagster and no MLflow. Takes seconds, most of them in growing the published model's trees once per point that
is left out; so it runs in the asset's own process, without Spark.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from perdix.assets.training.tasks import Stopwatch, champion_of, drawn, gated
from perdix.models.latency.contract import LatencyModel
from perdix.models.latency.selection import NOTES, LatencyCandidate, TrainedLatency, challenge, select_latency
from perdix.models.latency.state import latency_from_state
from perdix.models.profiling.profile import Profile
from perdix.models.profiling.rows import newest_profile
from perdix.models.registry.fleet_table import to_text


def train_latency(key: Mapping[str, Any]) -> dict[str, Any]:
    """Train one job's latency models on its newest profile and challenge its champion on the same points.

    Raises ``ValueError`` when the job was never profiled, or its profile holds nothing to learn from.

    ``key``: ``profiles`` (folder), ``job``, ``seed``, ``champions`` (fleet table, or null), and whether ``pictures``
    are wanted.
    Returns candidates with their figures, the winner with its state (JSON text), the verdict, and ``stages_s``.
    """
    watch = Stopwatch()
    with watch.stage("read"):
        found = newest_profile(Path(key["profiles"]), key["job"])
        if found is None:
            raise ValueError(f"{key['job']} was never profiled; profile it first")
        path, profile = found
    with watch.stage("fit and judge"):
        trained = select_latency(profile, key["seed"])
    with watch.stage("challenge"):
        champion, challenged = champion_of(key, lambda state, _: (latency_from_state(state), state.get("profile")))
        model, digest = champion or (None, None)
        verdict = challenge(model, digest, trained)
    return {
        "candidates": [_candidate(candidate, trained) for candidate in trained.candidates],
        "winner": trained.winner,
        "why": trained.sentence,
        **gated(verdict, challenged),
        "state": to_text(trained.to_state()),
        "rows": len(profile.points),
        "data_digest": trained.digest,
        "profile": str(path),
        "stages_s": watch.seconds,
        "pictures": drawn(key, lambda: _pictures(profile, trained)),
    }


def _candidate(candidate: LatencyCandidate, trained: TrainedLatency) -> dict[str, Any]:
    metrics = candidate.metrics()
    for name, errors in trained.rates_errors.items():
        metrics[f"tmax_{name}_mape"] = errors.mape if math.isfinite(errors.mape) else None
    if (model := trained.fitted.get(candidate.family)) is not None:
        metrics["state_bytes"] = float(len(orjson.dumps(model.to_state())))
    return {
        "family": candidate.family,
        "error": candidate.error,
        "notes": NOTES.get(candidate.family, ""),
        "metrics": metrics,
    }


def _pictures(profile: Profile, trained: TrainedLatency) -> dict[str, bytes]:
    from perdix.assets.latency.pictures import highest_rates, latency_surface

    def surface(model: LatencyModel) -> bytes:
        return latency_surface(profile.job, model, trained.points, trained.overloaded, trained.rates)

    return {
        "latency_surface.png": surface(trained.model),
        "highest_rates.png": highest_rates(profile.job, profile.maximum_per_s),
        **{f"latency_surface_{family}.png": surface(model) for family, model in trained.fitted.items()},
    }
