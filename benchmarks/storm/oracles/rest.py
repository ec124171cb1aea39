"""What must hold once nothing goes wrong any more: a job rests, at the size that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.storm.climate import END_MIN, IDLE_MIN, STORM_MIN
from benchmarks.storm.oracles.judge import Judge
from perdix.control.state.ledger import Entry
from perdix.policies.contract import Reason

if TYPE_CHECKING:
    from benchmarks.storm.deployment import Deployment
    from benchmarks.storm.world import Run

HEALED_MIN = STORM_MIN + 30  # since when nothing that went wrong counts any more, in an episode of a day
TO_REST_MIN = 15  # from the begin of idleness on
# Rescales: of a day whose load is steady, of one whose load rises and falls once, and of the rest of idleness. Twice
# what was ever seen
STEADY_RESCALES, SLOW_RESCALES, IDLE_RESCALES = 4, 24, 2
MORE = 1.0  # workers on average than without faults


class Rest(Judge):
    """The oracles of a day after its faults, and of idleness."""

    @property
    def kept(self) -> dict[str, float]:
        """Workers of each job on average in a day's quiet hours; none where there were no such hours."""
        return {name: sum(ran) / len(ran) for name, ran in self._ran.items()}

    def _kept(self, name: str, workers: int) -> None:
        """Note what runs after a tick of a day's quiet hours."""
        if self.remembers and HEALED_MIN <= self._weather.minute < self._world.minutes - END_MIN:
            self._ran.setdefault(name, []).append(workers)

    def _rests(self, deployment: Deployment, entries: Sequence[Entry], calm: Run | None) -> None:
        """Find a job that is rescaled again and again, or that keeps for hours what only a fault asked for."""
        name, load = deployment.place.job.name, deployment.place.load
        until_min = self._world.idle_until_min
        idle_min = until_min - IDLE_MIN
        steady = load.low_per_s == load.high_per_s
        for from_min, to_min, most in (
            (HEALED_MIN, idle_min, STEADY_RESCALES if steady else SLOW_RESCALES),
            (idle_min + TO_REST_MIN, until_min, IDLE_RESCALES),
        ):
            to = [
                entry.intent.scale_out
                for entry in reversed(entries)
                if entry.applied_s is not None and from_min <= self._weather.minute_of(entry.applied_s) < to_min
                if entry.intent.reason != Reason.ROLLBACK  # of a rescale that is counted, or came before
            ]
            if len(to) > most:
                self._tell("rest", f"{name}: rescaled to {to} from minute {from_min} to {to_min}, at most {most} times")
        kept = self.kept.get(name)
        if calm is not None and kept is not None and kept > calm.kept[name] + MORE:
            ran = f"{kept:.1f} workers ran on average after the faults, {calm.kept[name]:.1f} without any"
            self._tell("no more than needed", f"{name}: {ran}")
