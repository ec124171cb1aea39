"""Whether a job is paused, and until when."""

from __future__ import annotations

from datetime import UTC, datetime

from perdix.control.state.journal import Pause
from perdix.settings.stream_job import StreamJob


def why_paused(job: StreamJob, pause: Pause | None, now_s: float) -> str | None:
    """Return why and until when a job is paused, in words, or ``None``; a pause ends by itself.

    Parameters
    ----------
    pause
        What was asked for with ``perdix pause``, where it still holds.
    """
    if pause is not None:
        why = f" ({pause.why})" if pause.why else ""
        return f"by an operator until {_utc(pause.until_s)}{why}"
    if job.paused_until is not None and now_s < job.paused_until.timestamp():
        return f"by the job file until {_utc(job.paused_until.timestamp())}"
    return None


def _utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
