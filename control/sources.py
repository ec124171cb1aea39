"""Where a tick reads a job's metrics from."""

from __future__ import annotations

from typing import Protocol

from settings.stream_job import StreamJob
from telemetry.window import Window

LONGEST_READ_S = 3_600.0
BESIDE_THE_TICK_S = 120.0  # one-minute means reach a minute back, and the newest steps may still be owed


class SourceError(Exception):
    """The metrics of a job could not be read now. The message says where and why."""


class MetricsSource(Protocol):
    """Raises nothing but :class:`SourceError`."""

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Window:
        """Return the window ``(since_s, now_s]`` up to its newest complete step; the step is the scrape interval."""
        ...


def since_s(now_s: float, newest_s: float | None, tick_interval_s: float, checkpoint_interval_s: float) -> float:
    """Return from when a tick must read: what is new, and what its means and the capacity model need before that.

    Parameters
    ----------
    newest_s
        End of what earlier ticks have seen (epoch seconds); ``None`` on a first tick, which reads an hour, so that the
        loop starts with a forecast and a capacity instead of learning them in front of the user.
    """
    usual_s = now_s - tick_interval_s - max(BESIDE_THE_TICK_S, checkpoint_interval_s)
    earliest_s = now_s - LONGEST_READ_S
    return earliest_s if newest_s is None else max(min(usual_s, newest_s), earliest_s)
