"""A stream job profiled: deployments at rising rates (Phoebe, 3.3), as an asset; twins, or the running job itself.

Belongs here: what is profiled, progress, and what the asset's page shows. Does not belong here: the profiling
itself (:mod:`perdix.profiling`), and what is learned of it (:mod:`perdix.assets.latency`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
from pydantic import Field

from perdix.assets.measured_jobs import each_measured, measured_spec
from perdix.assets.metadata import picture, records
from perdix.assets.partitions import one_run, stream_jobs
from perdix.assets.resources import Workspace
from perdix.assets.running_job import profilable_job, require_name, require_target, running_job
from perdix.control.clock import WallClock
from perdix.profiling.recording import Recording
from perdix.settings.durations import DAY_S
from perdix.settings.profiling import Profiling
from perdix.settings.stream_job import StreamJob
from perdix.settings.yaml_files import SettingsError

if TYPE_CHECKING:
    from perdix.models.profiling.profile import Profile
    from perdix.profiling.deployment import Deployments
    from perdix.profiling.plan import Plan
    from perdix.twin.parameters import TwinParameters

RECORDED_S = 600
RATES = 20
LEAST_WORKERS = 2  # a job or a twin that may have fewer is profiled at what it has
COLUMNS = ("scale_out", "highest_per_s", "per_worker_per_s", "rates_held", "latency_ms")


class ProfileConfig(dg.Config):
    """How jobs are profiled; as the options of ``perdix profile``."""

    twin: str = Field("", description="Twin to deploy: a name in conf/twins; empty: the one called as the stream job.")
    minimum: int = Field(LEAST_WORKERS, ge=1, description="Smallest scale-out that is deployed.")
    live: bool = Field(
        False, description="Profile the running job itself, one scale-out after the other, as its file allows."
    )
    maximum: int = Field(0, ge=0, description="Largest; 0: as many workers as the twin has, or the job may have.")
    deployments: int = Field(8, ge=1, le=100, description="How many, at equal distances of the scale-out.")
    step_per_s: float = Field(
        0.0,
        ge=0,
        le=1e12,
        allow_inf_nan=False,
        description="First rate and distance of rates, records/s; 0: twenty rates up to the most that the twin takes.",
    )
    settle_s: int = Field(
        300, ge=0, le=DAY_S, description="Seconds for conditions to become normal after a change of the rate."
    )
    measure_s: int = Field(120, ge=1, le=DAY_S, description="Seconds that are measured then.")
    fail: bool = Field(True, description="Let a worker of each deployment fail once, to learn the downtime.")
    seed: int = Field(0, ge=0, description="Of the twin's luck.")


@dg.asset(
    group_name="profile",
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    kinds={"parquet"},
    pool="profiling",
    check_specs=[measured_spec("profiles")],
    description="Latency and highest rate of some scale-outs at rising rates, and how long a failure stops the job.",
)
def profiles(context: dg.AssetExecutionContext, workspace: Workspace, config: ProfileConfig) -> dg.MaterializeResult:
    """Profile the jobs of the run, one after the other; each profile is kept under its digest."""

    def measure(job: str) -> dict[str, Any]:
        found, path, left = profile_job(context, workspace, config, job)
        for note in found.notes:
            if note != left:
                context.log.warning(f"{job}: {note}")
        return found_metadata(found, path) | {"left": dg.MetadataValue.text(left)}

    return each_measured(context, measure)


def profile_job(
    context: dg.AssetExecutionContext, workspace: Workspace, config: ProfileConfig, job: str
) -> "tuple[Profile, Path, str]":
    """Profile one job and keep the profile; return it, where it is, and what the job was not given back, in words.

    Raises ``SettingsError`` when there is no such twin or job, the job cannot be called so, or it may not be profiled
    so; ``ValueError`` when the plan makes no sense; ``DeploymentError`` when nothing could be measured.
    """
    from perdix.models.profiling.rows import write_profile
    from perdix.profiling import campaign

    left: list[str] = []

    def on_left(what: str) -> None:
        left.append(what)
        context.log.error(f"{job}: {what}")

    require_name(job)
    with (_the_running_job if config.live else _twins)(context, workspace, config, job) as (plan, deployments):
        found = campaign.profile(
            job, plan, deployments, on_progress=lambda progress: context.log.info(f"{job}: {progress}"), on_left=on_left
        )
    return found, write_profile(found, workspace.paths().profiles), "; ".join(left)


@contextmanager
def _twins(
    context: dg.AssetExecutionContext, workspace: Workspace, config: ProfileConfig, job: str
) -> "Iterator[tuple[Plan, Deployments]]":
    from perdix.profiling.twin_deployments import TwinDeployments
    from perdix.twin.job import JobTwin
    from perdix.twin.parameters import load_twin

    parameters = load_twin(config.twin or job, workspace.conf_part("twins"))
    now_s, twin = int(WallClock().now_s()), JobTwin(parameters, config.seed)
    recording = recorded(context, workspace, job, now_s) or Recording(np.asarray(twin.arrivals(0, RECORDED_S)))
    yield plan_of(config, parameters), TwinDeployments(parameters, recording, config.seed, start_s=now_s)


@contextmanager
def _the_running_job(
    context: dg.AssetExecutionContext, workspace: Workspace, config: ProfileConfig, job: str
) -> "Iterator[tuple[Plan, Deployments]]":
    from perdix.profiling.live.deployments import LiveDeployments

    settings, profiling = profilable_job(workspace, job)
    plan = live_plan_of(config, settings, profiling)
    if config.fail and not plan.fail:
        context.log.warning(f"{job}: no worker is made to fail: its file names no command 'profiling.fail'")
    with running_job(settings, profiling) as live:
        yield plan, LiveDeployments(live, plan.first_per_s, profiling.fail or ())


def live_plan_of(config: ProfileConfig, settings: StreamJob, profiling: Profiling) -> "Plan":
    """Return what is profiled of a running job.

    Raises ``SettingsError`` when nothing rescales it, no distance of rates is given, or more workers are asked for than
    it may have.
    """
    from perdix.profiling.plan import plan_for

    require_target(settings)
    if not config.step_per_s:
        raise SettingsError(
            "the rates are not known: give their distance, records/s, half of what the fewest workers take: --step"
        )
    bounds = settings.bounds
    minimum, maximum = _scale_outs(config, bounds.maximum, f"job '{settings.name}' may have {bounds.maximum} workers")
    if maximum < bounds.minimum:
        raise SettingsError(f"maximum {maximum}: job '{settings.name}' has {bounds.minimum} workers at least; raise it")
    plan = plan_for(max(minimum, bounds.minimum), maximum, config.step_per_s, count=config.deployments, steps_to_peak=1)
    assert settings.prometheus is not None  # as who lets itself be profiled has
    fail = config.fail and profiling.fail is not None
    return _as_configured(plan, config, settings.prometheus.scrape_interval_s, fail=fail)


def plan_of(config: ProfileConfig, parameters: "TwinParameters") -> "Plan":
    """Return what is profiled of a twin. Raises ``SettingsError`` for more workers than it has, or an empty range."""
    from perdix.profiling.plan import plan_for
    from perdix.profiling.twin_deployments import SCRAPE_S
    from perdix.twin.job import JobTwin

    most = parameters.workers.maximum
    minimum, maximum = _scale_outs(config, most, f"the twin '{parameters.name}' has {most} workers")
    most_per_s = RATES * config.step_per_s or JobTwin(parameters, config.seed).true_capacity(maximum)
    plan = plan_for(minimum, maximum, most_per_s, count=config.deployments, steps_to_peak=RATES)
    return _as_configured(plan, config, SCRAPE_S, fail=config.fail)


def _scale_outs(config: ProfileConfig, most: int, has: str) -> tuple[int, int]:
    """Return the smallest and the largest scale-out."""
    if config.maximum > most:
        raise SettingsError(f"maximum {config.maximum}: {has}; ask for fewer")
    if config.minimum > max(most, LEAST_WORKERS):
        raise SettingsError(f"minimum {config.minimum}: {has}; ask for fewer")
    if config.minimum > config.maximum > 0:
        raise SettingsError(f"minimum {config.minimum} is above maximum {config.maximum}; swap or widen them")
    maximum = config.maximum or most
    return min(config.minimum, maximum), maximum


def _as_configured(plan: "Plan", config: ProfileConfig, scrape_s: float, *, fail: bool) -> "Plan":
    if config.measure_s < 2 * scrape_s:  # a rate takes two samples
        raise SettingsError(
            f"measure_s {config.measure_s}: less than two scrape intervals of {scrape_s:g} s; "
            f"measure {2 * scrape_s:g} s at least"
        )
    return replace(plan, settle_s=config.settle_s, measure_s=config.measure_s, fail=fail)


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
    from perdix.assets.latency.pictures import profile_picture

    known: dict[str, Any] = {} if found.downtime_s is None else {"downtime_s": found.downtime_s}
    return {
        **known,
        "profile": picture(profile_picture(found), f"{found.job}: latency over the rate, and the highest rates"),
        "deployments": records(rows_of_deployments(found), COLUMNS),
        "points": len(found.points),
        "cost_worker_h": found.worker_s / 3600.0,
        "took_h": (found.ended_s - found.began_s) / 3600.0,
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
