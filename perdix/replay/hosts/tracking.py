"""Replays on leased hosts as MLflow shows them: a parent run, and a run per pattern and policy, side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perdix.models.registry import Compared, Comparison, TrainingData
from perdix.replay.hosts.campaign import HostsCampaign
from perdix.replay.hosts.document import FIGURES, hosts_document
from perdix.replay.hosts.outcome import HostsPlayed
from perdix.replay.tracking import EXPERIMENT, NO_TAGS, markdown, peaks


def hosts_comparison(
    campaign: HostsCampaign, started_at_s: float, files: Sequence[Path] = (), tags: Mapping[str, str] = NO_TAGS
) -> Comparison:
    """Return what is recorded of a campaign; raises ``ValueError`` when no replay came to its end."""
    if not campaign.played:
        raise ValueError("no replay came to its end, so there is nothing to record")
    found, setup = hosts_document(campaign), campaign.setup
    ended = [row for row in found["summary"] if row["seeds"]]
    return Comparison(
        experiment=EXPERIMENT,
        kind="replay-hosts",
        name=f"{setup.topology.name}, {', '.join(setup.patterns)}",
        compared=[_compared(replay, found, campaign) for replay in ended],
        data=TrainingData(
            name=setup.topology.name,
            location=f"conf/topologies/{setup.topology.name}.yaml",
            digest=found["topology"]["digest"],
            rows=setup.length_s,
            columns={"second": "integer", "operator": "string", "instances": "integer", "hosts": "integer"},
        ),
        started_at_s=started_at_s,
        parameters={
            "topology": setup.topology.name,
            "topology_digest": found["topology"]["digest"],
            "patterns": ",".join(setup.patterns),
            "seconds": setup.length_s,
            "seeds": ",".join(map(str, setup.seeds)),
            "injected_failures": setup.failures,
            "forecaster": setup.forecaster or "none",
        },
        note=_table(ended),
        tags={**tags, "perdix.failed": str(len(campaign.failed))},
        files=files,
    )


def flat_means(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the means of a summary's figures by flat names: ``compliance_near``, ``resource_cost_10``."""
    found: dict[str, float] = {}
    for name in FIGURES:
        found |= _means(name, summary.get(name))
    for unit, bill in summary.get("bills", {}).items():
        for name, spread in bill.items():
            found |= {f"{key}_{unit}": value for key, value in _means(name, spread).items()}
    return found


def _means(name: str, spread: Mapping[str, Any] | None) -> dict[str, float]:
    if not spread:
        return {}
    if "mean" in spread:
        return {name: float(spread["mean"])}
    return {key: value for part, inner in spread.items() for key, value in _means(f"{name}_{part}", inner).items()}


def _compared(summary: Mapping[str, Any], found: Mapping[str, Any], campaign: HostsCampaign) -> Compared:
    policy, pattern = summary["policy"], summary["pattern"]
    asked = next(entry for entry in found["policies"] if entry["label"] == policy)
    mine = [
        replay for replay in campaign.played if (replay.outcome.policy, replay.outcome.pattern) == (policy, pattern)
    ]
    return Compared(
        name=f"{pattern}: {policy}",
        metrics=flat_means(summary),
        parameters={
            "policy": policy,
            "pattern": pattern,
            "interval_s": asked["interval_s"],
            "unit_min": asked["unit_min"] or "all",
            "options": str(asked["options"]),
        },
        tags={"perdix.policy": policy, "perdix.rule": asked["policy"], "perdix.pattern": pattern},
        series=_series(mine[0]),
        document={
            "results": [
                result for result in found["results"] if (result["policy"], result["pattern"]) == (policy, pattern)
            ]
        },
    )


def _series(played: HostsPlayed) -> dict[str, list[tuple[int, float]]]:
    """Return hosts, instances and machines in the first seed, as MLflow draws them."""
    course = played.course
    lines = {"hosts": course.hosts, "instances": course.instances.sum(axis=1), "machines": course.machines}
    lines |= {f"instances/{name}": course.instances[:, k] for k, name in enumerate(played.operators)}
    return peaks(lines)


def _table(summaries: Sequence[Mapping[str, Any]]) -> str:
    levels = list(summaries[0]["compliance"])
    heads = ("pattern", "policy", *levels, "unit, min", "resource cost", *(f"total, {level}" for level in levels))
    rows = []
    for summary in summaries:
        shares = [f"{summary['compliance'][level]['mean']:.0%}" for level in levels]
        for unit, bill in summary["bills"].items():
            totals = [f"{bill['total_cost'][level]['mean']:.4g}" for level in levels]
            cost = f"{bill['resource_cost']['mean']:.4g}"
            rows.append((summary["pattern"], summary["policy"], *shares, unit, cost, *totals))
    return markdown(heads, rows, text_columns=2)
