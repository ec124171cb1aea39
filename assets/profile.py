"""A stream job profiled: deployments side by side at rising rates, as an asset that a latency model is trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
from pydantic import Field

from assets.metadata import picture, records
from assets.partitions import one_run, stream_jobs
from assets.profile_pictures import profile_picture
from assets.resources import Workspace
from settings.yaml_files import SettingsError

if TYPE_CHECKING:
    from models.profiling.profile import Profile
    from profiling.plan import Plan
    from twin.parameters import TwinParameters

RECORDED_S = 600
STEPS = 20
COLUMNS = ("scale_out", "highest_per_s", "per_worker_per_s", "rates_held", "latency_ms")


class ProfileConfig(dg.Config):
    """How a job is profiled; as the options of ``perdix profile``."""

    twin: str = Field("", description="Twin that is deployed: name in conf/twins; empty: that of the job's name.")
    minimum: int = Field(2, ge=1, description="Smallest scale-out that is deployed.")
    maximum: int = Field(0, ge=0, description="Largest; 0: the most that the twin has.")
    deployments: int = Field(8, ge=1, le=100, description="How many scale-outs, at equal distances.")
    first_per_s: float = Field(0.0, ge=0, description="First rate, records/s; 0: as the step.")
    step_per_s: float = Field(
        0.0, ge=0, description="Between rates, records/s; 0: a twentieth of what the largest twin can take."
    )
    settle_s: int = Field(300, ge=0, description="For conditions to become normal after a change of the rate.")
    measure_s: int = Field(120, ge=1, description="That are measured then.")
    fail: bool = Field(True, description="Make a worker of each deployment fail once, to learn the downtime.")
    seed: int = Field(0, ge=0, description="Of the twin's luck.")


@dg.asset(
    group_name="latency",
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    kinds={"parquet"},
    description="Latency and highest rate of some scale-outs at rising rates, and what a failure costs (Phoebe, 3.3).",
)
def job_profile(
    context: dg.AssetExecutionContext, workspace: Workspace, config: ProfileConfig
) -> dg.MaterializeResult:
    """Profile each job of the run, one after the other; each profile is kept under its digest."""
    metadata: dict[str, Any] = {}
    for job in context.partition_keys:
        try:
            found, path = profile_job(context, workspace, config, job)
        except (SettingsError, ValueError, RuntimeError) as error:
            raise dg.Failure(f"{job}: {error}") from error
        for note in found.notes:
            context.log.warning(f"{job}: {note}")
        metadata = _metadata(found, path)
        if len(context.partition_keys) > 1:
            context.log_event(dg.AssetMaterialization("job_profile", partition=job, metadata=metadata))
    return dg.MaterializeResult(metadata=metadata if len(context.partition_keys) == 1 else {})


def profile_job(
    context: dg.AssetExecutionContext, workspace: Workspace, config: ProfileConfig, job: str
) -> "tuple[Profile, Path]":
    """Profile one job and keep the profile; return it, and where it is."""
    from models.profiling.rows import write_profile
    from profiling.campaign import profile
    from profiling.recording import Recording
    from profiling.twin_deployments import TwinDeployments
    from twin.job import JobTwin
    from twin.parameters import load_twin

    parameters = load_twin(config.twin or job, workspace.conf_folder() / "twins")
    twin = JobTwin(parameters, config.seed)
    found = profile(
        job,
        plan_of(config, parameters, twin.true_capacity),
        TwinDeployments(parameters, config.seed),
        Recording(np.asarray(twin.arrivals(0, RECORDED_S))),
        on_progress=lambda progress: context.log.info(f"{job}: {progress}"),
    )
    return found, write_profile(found, workspace.paths().profiles)
