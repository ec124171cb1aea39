"""The stream job of a twin that runs in this process, as the loop would see it."""

from perdix.settings.stream_job import Bounds, StreamJob
from perdix.settings.targets import TwinSettings
from perdix.twin.job import JobTwin


def job_of(twin: JobTwin, name: str, url: str = "http://in.process") -> StreamJob:
    """Return a job that may have all workers of the twin."""
    bounds = Bounds(minimum=1, maximum=twin.parameters.workers.maximum)
    return StreamJob(name=name, bounds=bounds, target=TwinSettings(url=url), mode="act")
