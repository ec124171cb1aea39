"""Until when what a tick found of a job is news."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdix.control.state.journal import Journal
from perdix.settings.counting import named
from perdix.settings.durations import in_minutes

STALE_INTERVALS = 3.0  # after this many without a tick, what a tick found is no longer shown
LEAST_STALE_S = 90.0  # however short the interval: clocks differ, and a fleet takes its time
INTERVAL = "interval_s"  # of a tick's summary: seconds until its loop ticks again
SILENT_S = 300.0  # least age at which it is said that nobody looks: a tick may be late, and looks come by cron, too


@dataclass(frozen=True)
class Freshness:
    """When a job's numbers stop being news."""

    tick_interval_s: float = 60.0  # seconds between the ticks of whoever ticks

    @property
    def stale_s(self) -> float:
        """Age in seconds above which what a tick found is no longer shown."""
        return max(STALE_INTERVALS * self.tick_interval_s, LEAST_STALE_S)

    def is_fresh(self, at_s: float, now_s: float) -> bool:
        """Whether something from ``at_s`` is news at ``now_s`` (epoch seconds)."""
        return now_s - at_s <= self.stale_s

    def is_silent(self, at_s: float, now_s: float) -> bool:
        """Whether nobody seems to look at a job any more that was looked at last at ``at_s`` (epoch seconds)."""
        return now_s - at_s > max(self.stale_s, SILENT_S)


def freshness_of(journal: Journal, usual_s: float) -> Freshness:
    """Return until when a tick is news: by the interval of the loop that made the newest, else by the usual one."""
    summaries = [tick.summary for tick in journal.ticks(limit=1)]
    return Freshness(summaries[0].get(INTERVAL, usual_s) if summaries else usual_s)


def silence(jobs: Sequence[str], past_s: float) -> str:
    """Return that no tick looked at jobs for ``past_s`` seconds, and what to do."""
    return (
        f"No tick looked at {named(jobs)} for {in_minutes(past_s)}: does perdix controller run, or Dagster's sensor "
        "control_loop? perdix tick looks once."
    )
