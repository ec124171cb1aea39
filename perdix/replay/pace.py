"""How fine time is in a replay: every second and every look, but coarser over months. Pure.

A trace with a row every half hour says nothing of its minutes, and 200 days have 18 million seconds. So in a long
replay of a trace with long steps the twin goes in steps of seconds, and policies look a few times per row of the trace
instead of hundreds of times. It is the same twin and the same tick.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perdix.replay.case import Contender
from perdix.settings.durations import in_words

LONG_S = 14 * 86_400
STEPS_S = (10, 5, 2)
ROWS_PER_STEP = 60  # steps of the twin in a row of the trace, at least
LOOKS_PER_ROW = 2
LONGEST_TICK_S = 900  # as far as forecasts reach: what happens until the next look can be foreseen
SCRAPED_S = 5
TICK = "tick_s="


@dataclass(frozen=True)
class Pace:
    """How fine time is."""

    step_s: int = 1  # of the twin: within a step nothing changes, and standstills are whole ones
    tick_s: int | None = None  # least time between two looks of a policy; ``None``: every policy's own
    scraped_s: float = SCRAPED_S  # between two samples of the metrics
    trace_step_s: float = 1.0  # of the trace, for which it was chosen

    @property
    def coarse(self) -> bool:
        """Whether anything is coarser than in a short replay."""
        return self.tick_s is not None

    def in_words(self) -> str:
        """Return what a reader must know of it."""
        return (
            f"coarse time, because it is long and the trace has a row every {in_words(self.trace_step_s)}: policies "
            f"look every {in_words(self.tick_s or 0)} at metrics of every {self.scraped_s:g} s, the twin goes in steps "
            f"of {self.step_s} s; --exact plays every second"
        )

    def paced(self, contenders: Sequence[Contender]) -> tuple[Contender, ...]:
        """Return the contenders as often as they look; what was asked for with ``tick_s`` stays."""
        least_s = self.tick_s or 0
        return tuple(
            contender
            if TICK in contender.label
            else replace(contender, tick_interval_s=max(contender.tick_interval_s, least_s))
            for contender in contenders
        )


EVERY_SECOND = Pace()


def pace_of(trace_step_s: float, seconds: float, *, exact: bool = False) -> Pace:
    """Return how fine time is in a replay of ``seconds`` of a trace whose rows are ``trace_step_s`` apart."""
    tick_s = int(min(trace_step_s / LOOKS_PER_ROW, LONGEST_TICK_S) // 60 * 60)
    step_s = next((step for step in STEPS_S if step * ROWS_PER_STEP <= trace_step_s and tick_s % step == 0), 1)
    if exact or seconds <= LONG_S or tick_s <= 60:
        return EVERY_SECOND
    return Pace(step_s, tick_s, float(max(SCRAPED_S, 3 * step_s)), trace_step_s)
