"""What came of replays on a dataflow, for machines: one JSON-serialisable document, and a Parquet file per replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perdix.replay.document import digest, finite, slug, spreads, versions
from perdix.replay.operators.campaign import DataflowCampaign, DataflowSetup
from perdix.replay.operators.outcome import Asked, DataflowOutcome, DataflowPlayed, Phase

SCHEMA = "perdix.replay-dataflow/1"
FIGURES = (
    "steps",
    "oscillations",
    "converged_s",
    "instance_seconds",
    "instance_ratio",
    "achieved",
    "back_pressured",
    "lag_maximum",
    "lag_at_end",
    "wall_s",
)


def dataflow_document(campaign: DataflowCampaign) -> dict[str, Any]:
    """Return everything but the seconds; keys are described in ``docs/json.md``."""
    setup = campaign.setup
    results = [result(one.outcome) for one in campaign.played]
    found = {
        "schema": SCHEMA,
        **question(setup),
        "results": results,
        "summary": [
            _summary(one.label, [found for found in results if found["policy"] == one.label])
            for one in setup.contenders
        ],
        "failed": [{"policy": one.policy, "seed": one.seed, "reason": one.reason} for one in campaign.failed],
        "wall_s": campaign.wall_s,
        "versions": versions(),
    }
    return dict(finite(found))


def question(setup: DataflowSetup) -> dict[str, Any]:
    """Return what is replayed: the same question gives the same results."""
    parameters = setup.parameters
    return {
        "dataflow": {
            "name": parameters.name,
            "digest": digest(parameters.model_dump(mode="json")),
            "operators": list(parameters.operators),
            "main": parameters.shown,
            "start": dict(parameters.start),
        },
        "seconds": setup.length_s,
        "seeds": list(setup.seeds),
        "policies": [
            {
                "label": one.label,
                "policy": one.policy,
                "options": dict(one.options),
                "interval_s": one.interval_s or parameters.interval_s,
            }
            for one in setup.contenders
        ],
    }


def result(outcome: DataflowOutcome) -> dict[str, Any]:
    """Return one policy's figures with one seed."""
    last = outcome.phases[-1]
    return {
        "policy": outcome.policy,
        "dataflow": outcome.dataflow,
        "seed": outcome.seed,
        "seconds": outcome.seconds,
        "steps": outcome.steps,
        "start": dict(outcome.start),
        "parallelism": dict(outcome.parallelism),
        "optimum": _plain(last.optimum),
        "balanced_optimum": _plain(last.balanced_optimum),
        "overshoot": _plain(last.overshoot),
        "converged_s": outcome.converged_s,
        "oscillations": outcome.oscillations,
        "instance_seconds": outcome.instance_s,
        "bound_instance_seconds": outcome.bound_instance_s,
        "instance_ratio": outcome.instance_ratio,
        "achieved": outcome.achieved,
        "back_pressured": outcome.back_pressured,
        "lag_maximum": outcome.lag_maximum_records,
        "lag_at_end": outcome.lag_at_end_records,
        "phases": [_phase(phase) for phase in outcome.phases],
        "decisions": [_asked(one) for one in outcome.decisions if one.changed],
        "looks": len(outcome.decisions),
        "problems": list(outcome.problems),
        "wall_s": outcome.wall_s,
    }


def write_dataflow_series(played: Sequence[DataflowPlayed], folder: Path) -> list[Path]:
    """Write each replay's course to ``<policy>-seed-<seed>.parquet``: a row per second and operator."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for one in played:
        stretch, names = one.course.stretch, one.course.operators
        seconds = len(stretch)
        columns = {
            "policy": pa.array([one.outcome.policy] * seconds * len(names)).dictionary_encode(),
            "seed": pa.array(np.full(seconds * len(names), one.outcome.seed, dtype=np.int32)),
            "second": pa.array(np.repeat(np.arange(seconds, dtype=np.int32), len(names))),
            "operator": pa.array(list(names) * seconds).dictionary_encode(),
            "instances": pa.array(stretch.instances.astype(np.int32).ravel()),
            "processed": pa.array(stretch.processed.ravel()),
            "back_pressured_s": pa.array(stretch.back_pressured_s.ravel()),
            "target": pa.array(stretch.target.ravel()),
            "lag": pa.array(stretch.lag.ravel()),
        }
        path = folder / f"{slug(one.outcome.policy)}-seed-{one.outcome.seed}.parquet"
        pq.write_table(pa.table(columns), path, compression="zstd")
        paths.append(path)
    return paths


def dataflow_folder_name(setup: DataflowSetup) -> str:
    """Return a folder's name for the setup; another question has another name, the same one the same."""
    return f"replay-{slug(setup.parameters.name)}-{digest(question(setup))[:8]}"


def _summary(policy: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return mean, sd, min and max over seeds of every figure, and what was run at the end how often."""
    found = {name: spreads([one[name] for one in results]) for name in FIGURES if results}
    ends: dict[str, int] = {}
    for one in results:
        key = ", ".join(f"{name} {count}" for name, count in one["parallelism"].items())
        ends[key] = ends.get(key, 0) + 1
    return {
        "policy": policy,
        "seeds": len(results),
        "converged": sum(one["converged_s"] is not None for one in results),
        "ends": ends,
        **{name: spread for name, spread in found.items() if spread is not None},
    }


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "from_s": phase.from_s,
        "until_s": phase.until_s,
        "target_per_s": dict(phase.target_per_s),
        "steps": phase.steps,
        "path": [dict(one) for one in phase.path],
        "optimum": _plain(phase.optimum),
        "overshoot": _plain(phase.overshoot),
        "converged_s": phase.converged_s,
        "achieved": phase.achieved,
        "back_pressured": phase.back_pressured,
        "oscillations": phase.oscillations,
    }


def _asked(one: Asked) -> dict[str, Any]:
    return {
        "at_s": one.at_s,
        "parallelism": dict(one.parallelism),
        "reason": one.reason,
        "sentence": one.sentence,
    }


def _plain(parallelism: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if parallelism is None else dict(parallelism)
