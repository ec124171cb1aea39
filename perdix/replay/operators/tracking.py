"""Replays on a dataflow as MLflow shows them: a parent run, and a run per policy, side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perdix.models.registry import Compared, Comparison, TrainingData
from perdix.replay.operators.campaign import DataflowCampaign
from perdix.replay.operators.document import FIGURES, dataflow_document
from perdix.replay.operators.outcome import DataflowPlayed, scalable
from perdix.replay.tracking import EXPERIMENT, NO_TAGS, markdown, peaks

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
