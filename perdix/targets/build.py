"""From a job's settings to its target: the only place that knows every kind."""

from perdix.settings.stream_job import StreamJob
from perdix.settings.targets import AdvisorySettings, FlinkSettings, KubernetesSettings, TwinSettings
from perdix.targets.advisory import AdvisoryTarget
from perdix.targets.contract import Target
from perdix.targets.flink.target import FlinkTarget, Pace
from perdix.targets.http import TIMEOUT_S
from perdix.targets.twin import TwinTarget


def build_target(
    job: StreamJob, *, scale_out: int | None = None, timeout_s: float = TIMEOUT_S, pace: Pace | None = None
) -> Target:
    """Return the target that ``job.target`` names.

    ``scale_out``: workers that the metrics show; an advisory target has no other way to know.
    ``timeout_s``: for targets that are asked over a network.
    ``pace``: how time passes for targets that wait for something; as it really does when left out.
    """
    match job.target:
        case TwinSettings(url=url):
            return TwinTarget(str(url), job.name, timeout_s)
        case FlinkSettings():
            return FlinkTarget(job.target, job.name, timeout_s, pace)
        case KubernetesSettings():
            from perdix.targets.kubernetes.target import KubernetesTarget  # noqa: PLC0415 - the client takes its time to import

            return KubernetesTarget(job.target, job.name, timeout_s)
        case AdvisorySettings():
            return AdvisoryTarget(scale_out)
