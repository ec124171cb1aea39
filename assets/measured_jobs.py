"""Jobs that are measured in one run, one after the other: profiled, or sampled. Each has a page of its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from perdix.assets.checks import of_each_partition
from perdix.assets.partitions import partitions_of, stream_jobs
from perdix.settings.yaml_files import SettingsError

MEASURED = "every_job_was_measured"
Measure = Callable[[str], Mapping[str, Any]]


def measured_spec(asset: str) -> dg.AssetCheckSpec:
    """Return the check that warns of jobs that could not be measured."""
    why = "A job that could not be measured keeps what was measured of it before; its page says why."
    return dg.AssetCheckSpec(MEASURED, asset=asset, partitions_def=stream_jobs, description=why)


def each_measured(context: dg.AssetExecutionContext, measure: Measure) -> dg.MaterializeResult:
    """Measure the jobs of a run; one that cannot be measured fails alone: its page says why, and the check warns.

    Raises ``Failure`` where none could be measured.

    ``measure``: measures a job and returns what its page shows; raises ``SettingsError``, ``ValueError``, ``OSError``
    or ``RuntimeError``, in words, where that cannot be.
    """
    jobs, metadata, failed = partitions_of(context), dict[str, Mapping[str, Any]](), dict[str, str]()
    for job in jobs:
        try:
            metadata[job] = measure(job)
        except (SettingsError, ValueError, OSError, RuntimeError) as error:
            failed[job] = f"{job}: {error}"
            context.log.error(failed[job])
    if not metadata:
        raise dg.Failure("\n".join(failed.values()))

    def judge(some: Sequence[str]) -> list[dg.AssetCheckResult]:
        why = {job: failed[job] for job in some if job in failed}
        return [
            dg.AssetCheckResult(check_name=MEASURED, passed=not why, severity=dg.AssetCheckSeverity.WARN, metadata=why)
        ]

    for job in jobs if len(jobs) > 1 else ():
        context.add_asset_metadata(metadata.get(job) or {"error": failed[job]}, partition_key=job)
    return dg.MaterializeResult(
        metadata=metadata[jobs[0]] if len(jobs) == 1 else {"jobs": ", ".join(metadata)},
        check_results=of_each_partition(context, context.asset_key, judge),
    )
