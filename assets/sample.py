"""Sizes of an operator's worker sampled (QEScalor, 2.2), as an asset: of its twin, or of a running job.

Belongs here: what is sampled, progress, and what the asset's page shows. Does not belong here: the sampling
itself (:mod:`perdix.profiling.sampling`), and what is learned of it (:mod:`perdix.models.performance`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from perdix.assets.measured_jobs import each_measured, measured_spec
from perdix.assets.metadata import picture, records
from perdix.assets.partitions import one_run, stream_jobs
from perdix.assets.resources import Workspace
from perdix.assets.running_job import profilable_job, require_name, running_job
from perdix.control.clock import WallClock
from perdix.settings.profiling import Profiling
from perdix.settings.size_grid import Grid
from perdix.settings.stream_job import StreamJob
from perdix.settings.yaml_files import SettingsError

if TYPE_CHECKING:
    from perdix.models.sampling.contract import SamplingRule
    from perdix.models.sampling.rows import OperatorSamples
    from perdix.profiling.sampling import SamplingPlan
    from perdix.profiling.sampling_instance import SamplingInstances
    from perdix.twin.operators.parameters import OperatorTwinParameters

COLUMNS = ("cpu_cores", "memory_mb", "per_s", "took_s", "why_failed")


class SampleConfig(dg.Config):
    """How operators are sampled; as the options of ``perdix sample``."""

    operator: str = Field(
        "", description="Operator's twin: a name in conf/operators; empty: the one called as the stream job."
    )
    live: bool = Field(False, description="Sample the running job itself, as its file allows.")
    method: str = Field("dsa", description="dsa, or fssa-1, fssa-2, ...: how the next size is chosen.")
    window_s: int = Field(30, ge=1, le=2_400, description="Seconds for which a share of the load is kept and watched.")
    first_share: float = Field(0.01, gt=0, le=1, description="Share of the load that a size begins with.")
    seed: int = Field(0, ge=0, description="Of the twin's luck.")


@dataclass(frozen=True)
class Sampled:
    """What is sampled: by which rule, which sizes, and of what: the twin of an operator, or a running job."""

    rule: "SamplingRule"
    sizes: Grid
    plan: "SamplingPlan"
    of: "OperatorTwinParameters | tuple[StreamJob, Profiling]"

    @property
    def twin(self) -> "OperatorTwinParameters | None":
        """The twin, whose truth is known."""
        return None if isinstance(self.of, tuple) else self.of


@dg.asset(
    group_name="sample",
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    kinds={"parquet"},
    pool="profiling",
    check_specs=[measured_spec("operator_samples")],
    description="What instances of some sizes (cores, memory) process at most, sampled beside the normal instances.",
)
def operator_samples(
    context: dg.AssetExecutionContext, workspace: Workspace, config: SampleConfig
) -> dg.MaterializeResult:
    """Sample the jobs of the run, one after the other; the samples of each are kept under their digest."""

    def measure(job: str) -> dict[str, Any]:
        found, path, sampled, left = sample_job(context, workspace, config, job)
        for size in found.failed:
            context.log.warning(f"{job}: {size.cpu_cores:g} cores, {size.memory_mb:g} MB: {size.why}")
        for note in found.notes:
            if note != left:
                context.log.warning(f"{job}: {note}")
        return samples_metadata(found, path, sampled) | {"left": dg.MetadataValue.text(left)}

    return each_measured(context, measure)


def sample_job(
    context: dg.AssetExecutionContext, workspace: Workspace, config: SampleConfig, job: str
) -> "tuple[OperatorSamples, Path, Sampled, str]":
    """Sample one job's operator and keep the samples.

    Raises ``SettingsError`` when there is no such operator, job or method, or the job may not be sampled;
    ``SamplingError`` when not one size could be sampled.

    Returns ``found``, ``path``, ``sampled``, ``left``: the samples, where they are, what was sampled, and what the job
    was not given back, in words.
    """
    from perdix.models.sampling.rows import write_samples
    from perdix.profiling.sampling import sample_operator

    left: list[str] = []

    def on_left(what: str) -> None:
        left.append(what)
        context.log.error(f"{job}: {what}")

    sampled = what_is_sampled(config, job, workspace)
    with _instances(sampled, config) as instances:
        found = sample_operator(
            job,
            sampled.rule,
            sampled.sizes,
            instances,
            sampled.plan,
            on_progress=lambda progress: context.log.info(f"{job}: {progress}"),
            on_left=on_left,
        )
    return found, write_samples(found, workspace.paths().operator_samples), sampled, "; ".join(left)


@contextmanager
def _instances(sampled: Sampled, config: SampleConfig) -> "Iterator[SamplingInstances]":
    from perdix.profiling.live.sampling import LiveSamplingInstances
    from perdix.profiling.twin_sampling import TwinSamplingInstances

    if not isinstance(sampled.of, tuple):
        yield TwinSamplingInstances(sampled.of, config.seed, start_s=int(WallClock().now_s()))
        return
    settings, profiling = sampled.of
    with running_job(settings, profiling) as live:
        yield LiveSamplingInstances(live, profiling)


def what_is_sampled(config: SampleConfig, job: str, workspace: Workspace) -> Sampled:
    """Return what is sampled.

    Raises ``SettingsError`` when there is no such operator, job or method, when the job cannot be called so, or may not
    be sampled, and when windows are so long that no size would converge.
    """
    from perdix.models.sampling.course import rule_called
    from perdix.profiling.sampling import SamplingPlan
    from perdix.twin.operators.parameters import load_operator

    require_name(job)
    try:
        rule = rule_called(config.method)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    plan = SamplingPlan(config.window_s, config.first_share)
    if plan.window_s > plan.longest_window_s:
        raise SettingsError(
            f"window of {plan.window_s} s: no size would converge within {plan.most_s} s; {plan.longest_window_s} s at "
            f"most, where the share begins with {plan.first_share:g}"
        )
    if not config.live:
        operator = load_operator(config.operator or job, workspace.conf_part("operators"))
        return Sampled(rule, operator.sizes, plan, operator)
    settings, profiling = profilable_job(workspace, job)
    if profiling.sizes is None or None in (profiling.resize, profiling.restore, profiling.most_per_s):
        raise SettingsError(
            f"job '{job}': to sample it, 'profiling' in its file needs 'resize', 'restore', 'sizes' and 'most_per_s', "
            f"as {workspace.conf_part('jobs/README.md')} shows"
        )
    return Sampled(rule, profiling.sizes, plan, (settings, profiling))


def samples_metadata(found: "OperatorSamples", path: Path, sampled: Sampled) -> dict[str, Any]:
    """Return what the asset's page shows of samples."""
    from perdix.assets.performance.pictures import samples_picture
    from perdix.models.sampling.rows import rows_of

    return {
        "sampled": picture(
            samples_picture(found, sampled.sizes, sampled.twin), f"{found.operator}: performance over cores and memory"
        ),
        "sizes": records(rows_of(found).to_dict("records"), COLUMNS),
        "method": found.method,
        "samples": len(found.samples),
        "failed": len(found.failed),
        "cost_core_h": found.core_s / 3600.0,
        "cost_worker_h": found.worker_s / 3600.0,
        "digest": path.stem,
        "file": dg.MetadataValue.path(str(path)),
        "notes": dg.MetadataValue.text("; ".join(found.notes)),
        "ended_because": dg.MetadataValue.text(found.ended_because),
    }
