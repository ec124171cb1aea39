"""Whether a job is paused, by whom, and until when: of a pause by an operator and one in the job file, the later."""

from datetime import datetime

from perdix.control.state.journal import Pause
from perdix.settings.moments import in_utc
from perdix.settings.stream_job import StreamJob

REMOVE_IT = "its job file says so: remove paused_until"


def why_paused(job: StreamJob, pause: Pause | None, now_s: float) -> str | None:
    """Return why and until when a job is paused, in words, or ``None``; a pause ends by itself.

    ``pause``: what was asked for with ``perdix pause``, where it still holds.
    """
    later = later_pause(pause, job.paused_until, now_s)
    if later is None:
        return None
    if later is not pause:
        return f"by its job file until {in_utc(later.until_s)}"
    why = f" ({later.why})" if later.why else ""
    return f"by an operator until {in_utc(later.until_s)}{why}"


def later_pause(pause: Pause | None, job_file_until: datetime | None, now_s: float) -> Pause | None:
    """Return the pause that ends last: ``pause``, or that of the job file where that still holds."""
    until_s = pause_of_file_s(job_file_until, now_s)
    if until_s is None or (pause is not None and pause.until_s >= until_s):
        return pause
    return Pause(until_s, REMOVE_IT)


def pause_of_file_s(job_file_until: datetime | None, now_s: float) -> float | None:
    """Return until when a job file pauses its job, epoch seconds; ``None`` where it does not, or no longer does."""
    until_s = None if job_file_until is None else job_file_until.timestamp()
    return until_s if until_s is not None and now_s < until_s else None
