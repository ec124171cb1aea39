"""What came of replays on leased hosts, for machines: one JSON-serialisable document, and a Parquet file per replay."""

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
from perdix.replay.hosts.campaign import HostsCampaign, HostsSetup
from perdix.replay.hosts.outcome import HostsOutcome, HostsPlayed

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
    return dict(finite(enveloped(SCHEMA, question(setup), found, campaign)))


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
