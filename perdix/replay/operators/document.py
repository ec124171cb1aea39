"""What came of replays on a dataflow, for machines: one JSON-serialisable document, and a Parquet file per replay."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from perdix.replay.document import (
    by_operator,
    digest,
    enveloped,
    finite,
    known_spreads,
    same_in_all,
    slug,
    write_tables,
)
from perdix.replay.operators.campaign import DataflowCampaign, DataflowSetup
from perdix.replay.operators.outcome import DataflowOutcome, DataflowPlayed

SCHEMA = "perdix.replay-dataflow/1"
FIGURES = (
    "steps", "oscillations", "converged_s", "instance_seconds", "instance_ratio", "achieved", "back_pressured",
    "lag_maximum", "lag_at_end", "wall_s",
)  # fmt: skip
PHASE = (
    "from_s", "until_s", "target_per_s", "steps", "path", "optimum", "overshoot", "converged_s", "achieved",
    "back_pressured", "oscillations",
)  # fmt: skip


def dataflow_document(campaign: DataflowCampaign) -> dict[str, Any]:
    """Return everything but the seconds; keys are described in ``docs/json.md``."""
    setup = campaign.setup
    results = [result(replay.outcome) for replay in campaign.played]
    found = {
        "results": results,
        "summary": [
            _summary(contender.label, [found for found in results if found["policy"] == contender.label])
            for contender in setup.contenders
        ],
    }
    return dict(finite(enveloped(SCHEMA, question(setup), found, campaign)))


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
                "label": contender.label,
                "policy": contender.policy,
                "options": dict(contender.options),
                "interval_s": contender.interval_s or parameters.interval_s,
            }
            for contender in setup.contenders
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
        "optimum": last.optimum,
        "balanced_optimum": last.balanced_optimum,
        "overshoot": last.overshoot,
        "converged_s": outcome.converged_s,
        "oscillations": outcome.oscillations,
        "instance_seconds": outcome.instance_s,
        "bound_instance_seconds": outcome.bound_instance_s,
        "instance_ratio": outcome.instance_ratio,
        "achieved": outcome.achieved,
        "back_pressured": outcome.back_pressured,
        "lag_maximum": outcome.lag_maximum_records,
        "lag_at_end": outcome.lag_at_end_records,
        "phases": [{name: getattr(phase, name) for name in PHASE} for phase in outcome.phases],
        "decisions": [
            {name: value for name, value in asdict(decision).items() if name != "changed"}
            for decision in outcome.decisions
            if decision.changed
        ],
        "looks": len(outcome.decisions),
        "problems": list(outcome.problems),
        "wall_s": outcome.wall_s,
    }


def write_dataflow_series(played: Sequence[DataflowPlayed], folder: Path) -> list[Path]:
    """Write each replay's course to ``<policy>-seed-<seed>.parquet``: a row per second and operator."""
    return write_tables(
        ((f"{slug(replay.outcome.policy)}-seed-{replay.outcome.seed}", _columns(replay)) for replay in played), folder
    )


def _columns(played: DataflowPlayed) -> dict[str, Any]:
    stretch, operators = played.course.stretch, played.course.operators
    return {
        **same_in_all(len(stretch) * len(operators), played.outcome.seed, policy=played.outcome.policy),
        **by_operator(len(stretch), operators),
        "instances": stretch.instances.astype(np.int32).ravel(),
        "processed": stretch.processed.ravel(),
        "back_pressured_s": stretch.back_pressured_s.ravel(),
        "target": stretch.target.ravel(),
        "lag": stretch.lag.ravel(),
    }


def dataflow_folder_name(setup: DataflowSetup) -> str:
    """Return a folder's name for the setup; another question has another name, the same one the same."""
    return f"replay-{slug(setup.parameters.name)}-{digest(question(setup))[:8]}"


def _summary(policy: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return mean, sd, min and max over seeds of every figure, and what was run at the end how often."""
    ends: dict[str, int] = {}
    for row in results:
        key = ", ".join(f"{name} {count}" for name, count in row["parallelism"].items())
        ends[key] = ends.get(key, 0) + 1
    return {
        "policy": policy,
        "seeds": len(results),
        "converged": sum(row["converged_s"] is not None for row in results),
        "ends": ends,
        **known_spreads(results, FIGURES),
    }
