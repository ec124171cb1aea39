"""What came of replays on a dataflow: a document for machines, a Parquet file per replay, MLflow runs side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from perdix.models.registry import Compared, Comparison, TrainingData
from perdix.replay.document import (
    by_operator,
    digest,
    enveloped,
    known_spreads,
    same_in_all,
    slug,
    write_tables,
)
from perdix.replay.operators.campaign import DataflowCampaign, DataflowSetup
from perdix.replay.operators.outcome import DataflowOutcome, DataflowPlayed, scalable
from perdix.replay.tracking import EXPERIMENT, NO_TAGS, markdown, peaks
from perdix.settings.json_values import plain

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
    return dict(plain(enveloped(SCHEMA, question(setup), found, campaign)))


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


HEADS = ("steps", "oscillations", "converged_s", "instance_ratio", "achieved")


def dataflow_comparison(
    campaign: DataflowCampaign, started_at_s: float, files: Sequence[Path] = (), tags: Mapping[str, str] = NO_TAGS
) -> Comparison:
    """Return what is recorded of a campaign; raises ``ValueError`` when no replay came to its end."""
    if not campaign.played:
        raise ValueError("no replay came to its end, so there is nothing to record")
    found, parameters = dataflow_document(campaign), campaign.setup.parameters
    ended = [row for row in found["summary"] if row["seeds"]]
    return Comparison(
        experiment=EXPERIMENT,
        kind="replay-dataflow",
        name=f"{parameters.name}, {campaign.setup.length_s} s",
        compared=[_compared(replay, found, campaign) for replay in ended],
        data=TrainingData(
            name=parameters.name,
            location=f"conf/dataflows/{parameters.name}.yaml",
            digest=found["dataflow"]["digest"],
            rows=campaign.setup.length_s,
            columns={"second": "integer", "operator": "string", "instances": "integer"},
        ),
        started_at_s=started_at_s,
        parameters={
            "dataflow": parameters.name,
            "dataflow_digest": found["dataflow"]["digest"],
            "seconds": campaign.setup.length_s,
            "seeds": ",".join(map(str, campaign.setup.seeds)),
        },
        note=_table(ended),
        tags={**tags, "perdix.failed": str(len(campaign.failed))},
        files=files,
    )


def _compared(summary: Mapping[str, Any], found: Mapping[str, Any], campaign: DataflowCampaign) -> Compared:
    policy = summary["policy"]
    asked = next(entry for entry in found["policies"] if entry["label"] == policy)
    mine = [replay for replay in campaign.played if replay.outcome.policy == policy]
    metrics = {name: summary[name]["mean"] for name in FIGURES if summary.get(name)}
    return Compared(
        name=policy,
        metrics={**metrics, "converged": float(summary["converged"])},
        parameters={"policy": policy, "interval_s": asked["interval_s"], "options": str(asked["options"])},
        tags={"perdix.policy": policy, "perdix.rule": asked["policy"]},
        series=_series(mine[0], scalable(campaign.setup.parameters)),
        document={"results": [result for result in found["results"] if result["policy"] == policy]},
    )


def _series(played: DataflowPlayed, operators: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
    """Return the instances of each operator in the first seed, as MLflow draws them."""
    instances = played.course.stretch.instances
    return peaks({f"instances/{name}": instances[:, played.course.of(name)] for name in operators})


def _table(summaries: Sequence[Mapping[str, Any]]) -> str:
    heads = ("policy", *(name.replace("_s", ", s") if name == "converged_s" else name for name in HEADS))
    rows = [
        (summary["policy"], *("-" if not summary.get(name) else f"{summary[name]['mean']:.3g}" for name in HEADS))
        for summary in summaries
    ]
    return markdown(heads, rows)
