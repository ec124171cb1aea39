"""An operator's sizes sampled on live traffic (QEScalor, 2.2), as an asset.

Belongs here: which operator is sampled, progress, and what the asset's page shows. Does not belong here: the sampling
itself (:mod:`perdix.profiling.sampling`), and what is learned of it (:mod:`perdix.models.performance`).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from perdix.assets.metadata import picture, records
from perdix.assets.partitions import one_run, stream_jobs
from perdix.assets.resources import Workspace
from perdix.control.clock import WallClock
from perdix.settings.stream_job import NAME
from perdix.settings.yaml_files import SettingsError

if TYPE_CHECKING:
    from perdix.models.sampling.contract import SamplingRule
    from perdix.models.sampling.samples import OperatorSamples
    from perdix.twin.operators.parameters import OperatorTwinParameters

COLUMNS = ("cpu_cores", "memory_mb", "per_s", "took_s", "why_failed")


class SampleConfig(dg.Config):
    """How operators are sampled; as the options of ``perdix sample``."""

    operator: str = Field(
        "", description="Operator's twin: a name in conf/operators; empty: the one called as the stream job."
    )
    method: str = Field("dsa", description="dsa, or fssa-1, fssa-2, ...: how the next size is chosen.")
    seed: int = Field(0, ge=0, description="Of the twin's luck.")


@dg.asset(
    group_name="sample",
    partitions_def=stream_jobs,
    backfill_policy=one_run,
    kinds={"parquet"},
    pool="profiling",
    description="What instances of some sizes (cores, memory) process at most, sampled beside the normal instances.",
)
def operator_samples(
    context: dg.AssetExecutionContext, workspace: Workspace, config: SampleConfig
) -> dg.MaterializeResult:
    """Sample the jobs of the run, one after the other; the samples of each are kept under their digest."""
    jobs, told = list(context.partition_keys), {}
    for job in jobs:
        try:
            found, path, operator = sample_job(context, workspace, config, job)
        except (SettingsError, RuntimeError) as error:
            raise dg.Failure(f"{job}: {error}") from error
        for one in found.failed:
            context.log.warning(f"{job}: {one.cpu_cores:g} cores, {one.memory_mb:g} MB: {one.why}")
        for note in found.notes:
            context.log.warning(f"{job}: {note}")
        told[job] = samples_metadata(found, path, operator)
        if len(jobs) > 1:
            context.add_asset_metadata(told[job], partition_key=job)
    return dg.MaterializeResult(metadata=told[jobs[0]] if len(jobs) == 1 else {"jobs": ", ".join(jobs)})


def sample_job(
    context: dg.AssetExecutionContext, workspace: Workspace, config: SampleConfig, job: str
) -> "tuple[OperatorSamples, Path, OperatorTwinParameters]":
    """Sample one job's operator on its twin and keep the samples; return them, where they are, and the twin.

    Raises
    ------
    SettingsError
        When there is no such operator or method.
    perdix.profiling.sampling_instance.SamplingError
        When not one size could be sampled.
    """
    from perdix.models.sampling.rows import write_samples
    from perdix.profiling.sampling import sample_operator
    from perdix.profiling.twin_sampling import TwinSamplingInstances

    operator, rule = what_is_sampled(config, job, workspace.conf_part("operators"))
    found = sample_operator(
        job,
        rule,
        operator.sizes,
        TwinSamplingInstances(operator, config.seed, start_s=int(WallClock().now_s())),
        on_progress=lambda progress: context.log.info(f"{job}: {progress}"),
    )
    return found, write_samples(found, workspace.paths().operator_samples), operator


def what_is_sampled(config: SampleConfig, job: str, operators: Path) -> "tuple[OperatorTwinParameters, SamplingRule]":
    """Return the operator's twin and the rule.

    Raises
    ------
    SettingsError
        When there is no such operator or method, or the job cannot be called so.
    """
    from perdix.models.sampling.course import rule_called
    from perdix.twin.operators.parameters import load_operator

    if not NAME.fullmatch(job):
        raise SettingsError(f"'{job}' is no name of a stream job: letters, digits, '.', '_' and '-', 63 at most")
    try:
        rule = rule_called(config.method)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    return load_operator(config.operator or job, operators), rule


def samples_metadata(found: "OperatorSamples", path: Path, operator: "OperatorTwinParameters") -> dict[str, Any]:
    """Return what the asset's page shows of samples."""
    from perdix.assets.sample_pictures import samples_picture
    from perdix.models.sampling.rows import rows_of

    return {
        "sampled": picture(samples_picture(found, operator), f"{found.operator}: performance over cores and memory"),
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
