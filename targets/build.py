"""From a job's settings to its target: the only place that knows every kind."""

from __future__ import annotations

from settings.stream_job import StreamJob
from targets.advisory import AdvisoryTarget
from targets.contract import Target
from targets.twin import TIMEOUT_S, TwinTarget


def build_target(job: StreamJob, *, scale_out: int | None = None, timeout_s: float = TIMEOUT_S) -> Target:
    """Return the target that ``job.target`` names.

    Parameters
    ----------
    scale_out
        Workers that the metrics show; an advisory target has no other way to know.
    timeout_s
        For targets that are asked over a network.
    """
    if job.target.kind == "twin":
        return TwinTarget(str(job.target.url), job.name, timeout_s)
    return AdvisoryTarget(scale_out)
