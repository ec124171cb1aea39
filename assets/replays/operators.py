"""Policies that size the operators of a dataflow, compared on its twin: a campaign of replays as an asset."""

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from perdix.assets.metadata import records
from perdix.assets.replays.campaigns import carry_out
from perdix.assets.resources import Workspace
from perdix.replay.labels import OPERATORS_DEFAULT

if TYPE_CHECKING:
    from perdix.replay.operators.campaign import DataflowSetup

COLUMNS = ("policy", "converged", "steps", "oscillations", "converged_s", "instance_ratio", "achieved")


class OperatorsReplayConfig(dg.Config):
    """What is replayed; as the options of ``perdix replay operators``."""

    dataflow: str = Field("heron-wordcount", description="Name in conf/dataflows, or a YAML file.")
    policies: str = Field(OPERATORS_DEFAULT, description="Separated by commas, options after colons.")
    seeds: int = Field(1, ge=1, le=1_000, description="How many; the first one is 1.")
    hours: float | None = Field(None, gt=0, le=720, description="Length of each replay; by default the dataflow's own.")
    processes: int = Field(0, ge=0, description="Replays at a time; 0: as many as there are cores.")


@dg.asset(group_name="replay", kinds={"mlflow", "parquet"}, code_version="1")
def operators_comparison(
    context: dg.AssetExecutionContext, workspace: Workspace, config: OperatorsReplayConfig
) -> dg.MaterializeResult:
    """Every policy that sizes operators, on the twin of a dataflow: figures, pictures and an MLflow run each."""
    from perdix.replay.kinds import OPERATORS

    carried = carry_out(context, workspace, OPERATORS, lambda: _setup(config, workspace), processes=config.processes)
    rows = [
        {"policy": row["policy"], "converged": row["converged"]}
        | {name: row[name]["mean"] for name in COLUMNS if isinstance(row.get(name), dict)}
        for row in carried.found["summary"]
        if row["seeds"]
    ]
    return dg.MaterializeResult(
        metadata={
            **carried.metadata(f"{config.dataflow}: what arrives, what is processed, and instances per operator"),
            "policies": records(rows, COLUMNS),
            **{f"{name}_{row['policy']}": row[name] for row in rows for name in COLUMNS[1:] if name in row},
        }
    )


def _setup(config: OperatorsReplayConfig, workspace: Workspace) -> "DataflowSetup":
    from perdix.replay.operators.campaign import DataflowSetup, dataflow_contenders
    from perdix.twin.dataflow.parameters import load_dataflow

    parameters = load_dataflow(config.dataflow, workspace.conf_part("dataflows"))
    seconds = None if config.hours is None else round(3600 * config.hours)
    seeds = tuple(range(1, config.seeds + 1))
    return DataflowSetup(dataflow_contenders(config.policies), parameters, seeds, seconds)
