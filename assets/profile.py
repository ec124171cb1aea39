"""A stream job profiled: deployments side by side at rising rates (Phoebe, 3.3), as an asset.

Belongs here: which target is profiled, progress, and what the asset's page shows. Does not belong here: the profiling
itself (:mod:`perdix.profiling`), and what is learned of it (:mod:`perdix.assets.latency`).
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
from pydantic import Field

from perdix.assets.metadata import picture, records
from perdix.assets.partitions import one_run, stream_jobs
from perdix.assets.resources import Workspace
from perdix.control.clock import WallClock
from perdix.profiling.recording import Recording
from perdix.settings.yaml_files import SettingsError

if TYPE_CHECKING:
    from perdix.models.profiling.profile import Profile
    from perdix.profiling.plan import Plan
    from perdix.twin.parameters import TwinParameters

RECORDED_S = 600
RATES = 20
COLUMNS = ("scale_out", "highest_per_s", "per_worker_per_s", "rates_held", "latency_ms")


class ProfileConfig(dg.Config):
    """How jobs are profiled; as the options of ``perdix profile``."""

    twin: str = Field("", description="Twin to deploy: a name in conf/twins; empty: the one called as the stream job.")
    minimum: int = Field(2, ge=1, description="Smallest scale-out that is deployed.")
    maximum: int = Field(0, ge=0, description="Largest; 0: as many workers as the twin has.")
    deployments: int = Field(8, ge=1, le=100, description="How many, at equal distances of the scale-out.")
    step_per_s: float = Field(
        0.0, ge=0, description="First rate and distance of rates, records/s; 0: twenty rates up to the most that fits."
    )
    settle_s: int = Field(300, ge=0, description="Seconds for conditions to become normal after a change of the rate.")
    measure_s: int = Field(120, ge=1, description="Seconds that are measured then.")
    fail: bool = Field(True, description="Let a worker of each deployment fail once, to learn the downtime.")
    seed: int = Field(0, ge=0, description="Of the twin's luck.")


@dg.asset(
    group_name="profile",
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    kinds={"parquet"},
    pool="profiling",
    description="Latency and highest rate of some scale-outs at rising rates, and how long a failure stops the job.",
)
def profiles(context: dg.AssetExecutionContext, workspace: Workspace, config: ProfileConfig) -> dg.MaterializeResult:
    """Profile the jobs of the run, one after the other; each profile is kept under its digest."""
    jobs, told = list(context.partition_keys), {}
    for job in jobs:
        try:
            found, path = profile_job(context, workspace, config, job)
        except (SettingsError, ValueError, RuntimeError) as error:
            raise dg.Failure(f"{job}: {error}") from error
        for note in found.notes:
            context.log.warning(f"{job}: {note}")
        told[job] = found_metadata(found, path)
        if len(jobs) > 1:
            context.add_asset_metadata(told[job], partition_key=job)
    return dg.MaterializeResult(metadata=told[jobs[0]] if len(jobs) == 1 else {"jobs": ", ".join(jobs)})


def profile_job(
    context: dg.AssetExecutionContext, workspace: Workspace, config: ProfileConfig, job: str
) -> "tuple[Profile, Path]":
    """Profile one job on its twin and keep the profile; return it, and where it is.

    Raises
    ------
    SettingsError
        When there is no such twin, or more workers are asked for than it has.
    ValueError
        When the plan makes no sense.
    perdix.profiling.deployment.DeploymentError
        When nothing could be measured.
    """
    from perdix.models.profiling.rows import write_profile
    from perdix.profiling import campaign
    from perdix.profiling.twin_deployments import TwinDeployments
    from perdix.twin.job import JobTwin
    from perdix.twin.parameters import load_twin

    parameters = load_twin(config.twin or job, workspace.conf_part("twins"))
    now_s, twin = int(WallClock().now_s()), JobTwin(parameters, config.seed)
    found = campaign.profile(
        job,
        plan_of(config, parameters),
        TwinDeployments(parameters, config.seed, start_s=now_s),
        recorded(context, workspace, job, now_s) or Recording(np.asarray(twin.arrivals(0, RECORDED_S))),
        on_progress=lambda progress: context.log.info(f"{job}: {progress}"),
    )
    return found, write_profile(found, workspace.paths().profiles)


def plan_of(config: ProfileConfig, parameters: "TwinParameters") -> "Plan":
    """Return what is profiled of a twin.

    Raises
    ------
    SettingsError
        When more workers are asked for than it has, or the range is empty.
    """
    from perdix.profiling.plan import plan_for
    from perdix.twin.job import JobTwin

    most = parameters.workers.maximum
    if config.maximum > most:
        raise SettingsError(f"maximum {config.maximum}: the twin '{parameters.name}' has {most} workers; ask for fewer")
    maximum = config.maximum or most
    if config.minimum > maximum and config.maximum:
        raise SettingsError(f"minimum {config.minimum} is above maximum {maximum}; swap or widen them")
    most_per_s = RATES * config.step_per_s or JobTwin(parameters, config.seed).true_capacity(maximum)
    plan = plan_for(min(config.minimum, maximum), maximum, most_per_s, count=config.deployments, steps_to_peak=RATES)
    return replace(plan, settle_s=config.settle_s, measure_s=config.measure_s, fail=config.fail)


def recorded(context: dg.AssetExecutionContext, workspace: Workspace, job: str, now_s: int) -> "Recording | None":
    """Record the live workload of a stream job; ``None`` where it has no Prometheus, or nothing can be read there."""
    from perdix.control.observe import workload_of
    from perdix.control.sources import LiveSource, SourceError

    known = workspace.stream_jobs().jobs.get(job)
    if known is None or known.prometheus is None:
        return None
    source = LiveSource()
    try:
        window = source.read(known, float(now_s), float(now_s - RECORDED_S)).window
        found = Recording.of(workload_of(window))
    except (SourceError, ValueError) as error:
        context.log.warning(f"{job}: the live workload could not be recorded ({error}); the twin's own is replayed")
        return None
    finally:
        source.close()
    context.log.info(f"{job}: replaying {len(window)} live samples of its workload")
    return found


def found_metadata(found: "Profile", path: Path) -> dict[str, Any]:
    """Return what the asset's page shows of a profile."""
    from perdix.assets.profile_pictures import profile_picture

    known: dict[str, Any] = {} if found.downtime_s is None else {"downtime_s": found.downtime_s}
    return {
        **known,
        "profile": picture(profile_picture(found), f"{found.job}: latency over the rate, and the highest rates"),
        "deployments": records(rows_of_deployments(found), COLUMNS),
        "points": len(found.points),
        "cost_worker_h": found.worker_s / 3600.0,
        "simulated_h": (found.ended_s - found.began_s) / 3600.0,
        "file": dg.MetadataValue.path(str(path)),
        "notes": dg.MetadataValue.text("; ".join(found.notes)),
    }


def rows_of_deployments(found: "Profile") -> list[dict[str, Any]]:
    """Return a row per scale-out: what it takes at most, and the mean latency at the rates that it held."""
    rows = []
    for scale_out in sorted({point.scale_out for point in found.points}):
        held = [point for point in found.points if point.scale_out == scale_out and point.valid]
        highest = found.maximum_per_s.get(scale_out)
        rows.append(
            {
                "scale_out": scale_out,
                "highest_per_s": highest,
                "per_worker_per_s": None if highest is None else highest / scale_out,
                "rates_held": len(held),
                "latency_ms": float(np.mean([point.latency_ms for point in held])) if held else None,
            }
        )
    return rows
