"""Policies that lease hosts, compared on the twin of a topology: a campaign of replays as an asset."""

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from perdix.assets.metadata import records
from perdix.assets.replays.campaigns import carry_out
from perdix.assets.resources import Workspace
from perdix.replay.labels import HOSTS_DEFAULT, HOSTS_FORECASTER

if TYPE_CHECKING:
    from perdix.replay.hosts.run import HostsSetup


class HostsReplayConfig(dg.Config):
    """What is replayed; as the options of ``perdix replay hosts``."""

    topology: str = Field("manufacturing", description="Name in conf/topologies, or a YAML file.")
    patterns: str = Field("", description="Of arrivals, separated by commas; empty: all of the topology's.")
    policies: str = Field(HOSTS_DEFAULT, description="Separated by commas, options after colons.")
    seeds: int = Field(1, ge=1, le=1_000, description="How many; the first one is 1.")
    hours: float | None = Field(None, gt=0, le=720, description="Length of each replay; by default the topology's own.")
    failures: int = Field(0, ge=0, description="Hosts that die in each replay.")
    forecaster: str = Field(HOSTS_FORECASTER, description="Family of the forecast of arrivals; empty: none.")
    processes: int = Field(0, ge=0, description="Replays at a time; 0: as many as there are cores.")


@dg.asset(group_name="replay", kinds={"mlflow", "parquet"}, code_version="1")
def hosts_comparison(
    context: dg.AssetExecutionContext, workspace: Workspace, config: HostsReplayConfig
) -> dg.MaterializeResult:
    """Every policy that leases hosts, with every pattern of arrivals: figures, pictures and an MLflow run each."""
    from perdix.replay.hosts.document import flat_means
    from perdix.replay.kinds import HOSTS

    carried = carry_out(context, workspace, HOSTS, lambda: _setup(config, workspace), processes=config.processes)
    rows = [
        {"pattern": row["pattern"], "policy": row["policy"], **flat_means(row)}
        for row in carried.found["summary"]
        if row["seeds"]
    ]
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    return dg.MaterializeResult(
        metadata={
            **carried.metadata(f"{config.topology}: arrivals, instances and hosts"),
            "policies": records(rows, columns),
        }
    )


def _setup(config: HostsReplayConfig, workspace: Workspace) -> "HostsSetup":
    from perdix.replay.hosts.run import HostsSetup, hosts_contenders
    from perdix.twin.hosts.parameters import load_topology

    topology = load_topology(config.topology, workspace.conf_part("topologies"))
    named = tuple(word.strip() for word in config.patterns.split(",") if word.strip())
    return HostsSetup(
        hosts_contenders(config.policies),
        topology,
        named or tuple(topology.patterns),
        tuple(range(1, config.seeds + 1)),
        None if config.hours is None else round(3600 * config.hours),
        config.failures,
        config.forecaster or None,
    )
