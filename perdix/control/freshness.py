"""Until when what a tick found of a job is news."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdix.settings.durations import in_words

STALE_INTERVALS = 3.0  # after this many without a tick, what a tick found is no longer shown
LEAST_STALE_S = 90.0  # however short the interval: clocks differ, and a fleet takes its time
MOST_NAMED = 3  # of jobs of which the same is said


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


def named(jobs: Sequence[str]) -> str:
    """Return the first of some jobs by name, and how many more there are."""
    more = f" and {len(jobs) - MOST_NAMED} more" if len(jobs) > MOST_NAMED else ""
    return f"{', '.join(jobs[:MOST_NAMED])}{more}"


def silence(jobs: Sequence[str], past_s: float) -> str:
    """Return that no tick looked at jobs for ``past_s`` seconds, 90 or more, and what to do."""
    return (
        f"No tick looked at {named(jobs)} for {in_words(60.0 * round(past_s / 60.0))}: start perdix controller, "
        "or Dagster's sensor control_loop; perdix tick looks once."
    )
