"""What time it is in an episode, what goes wrong then, and what clocks say that are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.storm.climate import MINUTE_S, START_S
from benchmarks.storm.faults import KINDS, Fault

LYING = frozenset(
    {
        *("stale read", "absurd read", "forgotten write", "late write", "garbage", "lost answer", "never settles"),
        *("forgets", "by hand"),
    }
)


@dataclass
class Weather:
    """The time and the faults of one episode."""

    faults: tuple[Fault, ...]
    now_s: float = float(START_S)
    struck: set[Fault] = field(default_factory=set)  # faults that somebody met
    _stepped: dict[float, float] = field(default_factory=dict)  # what a clock that was wrong said -> when that was

    @property
    def minute(self) -> float:
        """Minutes since the episode began."""
        return self.minute_of(self.now_s)

    def minute_of(self, at_s: float) -> float:
        """Return epoch seconds as minutes since the episode began."""
        return (at_s - START_S) / MINUTE_S

    def clock_s(self, controller: str) -> float:
        """Return what the clock of a controller says."""
        step = self.active("clock step", controller)
        if step is None:
            self._stepped.pop(self.now_s, None)
            return self.now_s
        clock_s = self.now_s + step.amount
        self._stepped[clock_s] = self.now_s
        return clock_s

    def true_s(self, clock_s: float) -> float:
        """Return when a controller's clock last said this."""
        return self._stepped.get(clock_s, clock_s)

    def active(self, kind: str, *where: str) -> Fault | None:
        """Return a fault of a kind that goes on now."""
        for fault in self.faults:
            if fault.kind == kind and fault.where in where and fault.during(self.minute):
                self.struck.add(fault)
                return fault
        return None

    def of_metrics(self, job: str) -> list[tuple[Fault, float]]:
        """Return what is wrong now with a job's metrics, and the epoch seconds since when."""
        minute = self.minute
        found = [
            fault
            for fault in self.faults
            if fault.where == job and KINDS[fault.kind].scope == "metrics" and fault.during(minute)
        ]
        self.struck.update(found)
        return [(fault, START_S + fault.from_min * float(MINUTE_S)) for fault in found]

    def lying(self, job: str, *, ever: bool = False) -> bool:
        """Whether a job's target says or does what it should not, now or ever in this episode."""
        return any(
            fault.kind in LYING and fault.where == job and (ever or fault.during(self.minute)) for fault in self.faults
        )


def concerned(faults: Sequence[Fault], jobs: Sequence[str]) -> set[str]:
    """Return the jobs that a fault concerns: all of them where it is not a job's own, or takes time."""
    found: set[str] = set()
    for fault in faults:
        own = KINDS[fault.kind].scope in {"target", "metrics"} and not KINDS[fault.kind].takes_time
        found |= {fault.where} if own else set(jobs)
    return found


def quiet_since(faults: Sequence[Fault], job: str, minute: float) -> float:
    """Return since which minute nothing goes wrong that concerns a job; now, while something does."""
    ends = [
        min(fault.gone_min, minute)
        for fault in faults
        if fault.from_min <= minute and not KINDS[fault.kind].harmless and job in concerned([fault], [job])
    ]
    return max(ends, default=0.0)
