"""Jobs that are measured in one run, one after the other: profiled, or sampled. Each has a page of its own."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from perdix.assets.metadata import records
from perdix.settings.yaml_files import SettingsError

Measure = Callable[[str], Mapping[str, Any]]


def each_measured(context: dg.AssetExecutionContext, measure: Measure) -> dg.MaterializeResult:
    """Measure the jobs of a run; one that cannot be measured fails alone, and its page says why.

    Raises ``Failure`` where none could be measured.

    ``measure``: measures a job and returns what its page shows; raises ``SettingsError``, ``ValueError`` ``OSError`` or
    ``RuntimeError``, in words, where that cannot be.
    """
    jobs, metadata, failed = list(context.partition_keys), dict[str, Mapping[str, Any]](), dict[str, str]()
    for job in jobs:
        try:
            metadata[job] = measure(job)
        except (SettingsError, ValueError, OSError, RuntimeError) as error:
            failed[job] = f"{job}: {error}"
            context.log.error(failed[job])
    if not metadata:
        raise dg.Failure("\n".join(failed.values()))
    if len(jobs) == 1:
        return dg.MaterializeResult(metadata=metadata[jobs[0]])
    for job in jobs:
        context.add_asset_metadata(metadata.get(job) or {"error": failed[job]}, partition_key=job)
    rows = [{"job": job, "error": why} for job, why in failed.items()]
    shown = {"failed": records(rows, ("job", "error"))} if rows else {}
    return dg.MaterializeResult(metadata={"jobs": ", ".join(metadata), "jobs_failed": len(failed), **shown})
