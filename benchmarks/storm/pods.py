"""The pods of a Deployment: those that are new may be ready late, crash again and again, or never be ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.storm.faults import Fault
from perdix.settings.targets import KubernetesSettings, TargetSettings

CRASHES_S = 240  # from one start of a pod that crashes to the next; it is ready for half of that


@dataclass
class Pods:
    """``active`` finds a fault of this job that goes on now; what is no Deployment has no pods."""

    target: TargetSettings
    active: Callable[[str], Fault | None]
    settled: int  # how many were ready, and stayed so
    _asked: int = 0
    _since_s: int = 0  # when as many were asked for

    def ready(self, asked: int, now_s: int) -> int:
        """Return how many of those that are asked for are ready."""
        if asked != self._asked:
            self._asked, self._since_s = asked, now_s
        self.settled = min(self.settled, asked)  # those that are not ready go first
        fault = self._fault()
        lasts_s = now_s - self._since_s
        if fault is None or (fault.what == "late" and lasts_s >= 60.0 * fault.amount):
            self.settled = asked
        up = fault is not None and fault.what == "crash" and lasts_s % CRASHES_S < CRASHES_S // 2
        return asked if up else self.settled

    def made(self, asked: int, running: int) -> int:
        """Return how many exist; while pods start anew, as many as before are counted."""
        return running if self._fault() is None else max(asked, running)

    def _fault(self) -> Fault | None:
        return self.active("pods unready") if isinstance(self.target, KubernetesSettings) else None
