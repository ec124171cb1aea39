"""What came of replays on leased hosts: a document for machines, a Parquet file per replay, and MLflow runs."""

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
from perdix.replay.hosts.outcome import HostsOutcome, HostsPlayed
from perdix.replay.hosts.run import HostsCampaign, HostsSetup
from perdix.replay.tracking import EXPERIMENT, NO_TAGS, markdown, peaks
from perdix.settings.json_values import plain

SCHEMA = "perdix.replay-hosts/1"
FIGURES = (
    "items", "unprocessed", "compliance", "delayed", "penalties", "time_to_adapt_s", "upscalings", "downscalings",
    "migrations", "hosts_leased", "hosts_mean", "most_hosts", "instances_mean", "lost_instances", "dead_hosts",
    "failed_starts", "went_on", "refused", "wall_s",
)  # fmt: skip


def hosts_document(campaign: HostsCampaign) -> dict[str, Any]:
    """Return everything but the seconds; keys are described in ``docs/json.md``."""
    setup = campaign.setup
    results = [result(replay.outcome) for replay in campaign.played]
    found = {
        "results": results,
        "summary": [
            _summary(pattern, contender.label, results) for pattern in setup.patterns for contender in setup.contenders
        ],
    }
    return dict(plain(enveloped(SCHEMA, question(setup), found, campaign)))


def question(setup: HostsSetup) -> dict[str, Any]:
    """Return what is replayed: the same question gives the same results."""
    topology = setup.topology
    return {
        "topology": {
            "name": topology.name,
            "digest": digest(topology.model_dump(mode="json")),
            "operators": list(topology.operators),
            "price_per_h": topology.hosts.price_per_h,
            "penalty": topology.costs.penalty,
            "levels": dict(topology.costs.levels),
        },
        "patterns": list(setup.patterns),
        "seconds": setup.length_s,
        "seeds": list(setup.seeds),
        "injected_failures": setup.failures,
        "forecaster": setup.forecaster,
        "policies": [
            {
                "label": contender.label,
                "policy": contender.policy,
                "options": dict(contender.options),
                "unit_min": contender.unit_min,
                "interval_s": contender.interval_s or topology.measuring.look_every_s,
            }
            for contender in setup.contenders
        ],
    }


def result(outcome: HostsOutcome) -> dict[str, Any]:
    """Return one policy's figures with one pattern and seed; ``bills`` by billing time unit in minutes."""
    found = {name: getattr(outcome, name) for name in FIGURES}
    return {
        "policy": outcome.policy,
        "topology": outcome.topology,
        "pattern": outcome.pattern,
        "seed": outcome.seed,
        "seconds": outcome.seconds,
        "looks": outcome.looks,
        **found,
        "bills": {
            str(bill.unit_min): {name: value for name, value in asdict(bill).items() if name != "unit_min"}
            for bill in outcome.bills
        },
        "leases": [asdict(lease) for lease in outcome.leases],
        "steps": [asdict(step) for step in outcome.steps],
        "decisions": [{"at_s": at_s, "sentence": sentence} for at_s, sentence in outcome.sentences],
        "problems": list(outcome.problems),
    }


def write_hosts_series(played: Sequence[HostsPlayed], folder: Path) -> list[Path]:
    """Write each replay's course to ``<pattern>-<policy>-seed-<seed>.parquet``: a row per second and operator."""
    names = (
        f"{slug(replay.outcome.pattern)}-{slug(replay.outcome.policy)}-seed-{replay.outcome.seed}" for replay in played
    )
    return write_tables(zip(names, map(_columns, played), strict=True), folder)


def _columns(played: HostsPlayed) -> dict[str, Any]:
    course, operators, outcome = played.course, played.operators, played.outcome
    each = len(operators)
    return {
        **same_in_all(len(course) * each, outcome.seed, policy=outcome.policy, pattern=outcome.pattern),
        **by_operator(len(course), operators),
        "machines": np.repeat(course.machines, each),
        "hosts": np.repeat(course.hosts.astype(np.int32), each),
        "instances": course.instances.astype(np.int32).ravel(),
        "working": course.working.astype(np.int32).ravel(),
        "arrived": np.diff(course.arrived, axis=0).ravel(),
        "processed": course.processed.ravel(),
        "waiting": course.queue.ravel(),
    }


def hosts_folder_name(setup: HostsSetup) -> str:
    """Return a folder's name for the setup; another question has another name, the same one the same."""
    return f"replay-{slug(setup.topology.name)}-{digest(question(setup))[:8]}"


def _summary(pattern: str, policy: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return mean, sd, min and max over seeds of every figure and of every bill."""
    mine = [row for row in results if row["pattern"] == pattern and row["policy"] == policy]
    return {"pattern": pattern, "policy": policy, "seeds": len(mine), **known_spreads(mine, (*FIGURES, "bills"))}


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
