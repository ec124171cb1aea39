"""Profiling on a real cluster: the running job itself, at one scale-out after the other.

Phoebe (3.3) deploys all scale-outs side by side, which takes a cluster with room for all of them. Here one deployment
is there: the job is rescaled, drained, and driven by a load that its operator can make.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from perdix.profiling.deployment import DeploymentError, Measured
from perdix.profiling.live.commands import beside
from perdix.profiling.live.job import LiveError, LiveJob, offered_per_s, turned_into
from perdix.profiling.measuring import measured
from perdix.targets.contract import Running, TargetError

MISSES = 0.1  # of its rate, by which a load may miss it
FAILS_S = 120.0  # that the command may take once the job works again


class LiveDeployments:
    """A :class:`perdix.profiling.deployment.Deployments` of one running job.

    ``live``: the job.
    ``first_per_s``: rate that it is driven with first, records/s: as much as arrives in a second of it may wait
    beforehand.
    ``fail``: command that lets one worker fail; empty where none may.
    """

    side_by_side = False

    def __init__(self, live: LiveJob, first_per_s: float, fail: tuple[str, ...] = ()) -> None:
        self._live = live
        self._fail = fail
        self._before: tuple[Running, Mapping[str, int]] | None = None
        self.driven_per_s = first_per_s

    def deploy(self, scale_out: int) -> LiveDeployment:
        """Rescale the job, and let it work off what an earlier one has left."""
        with turned_into(DeploymentError):
            if self._before is None:
                before = self._live.target.read()
                if not before.settled:
                    raise DeploymentError("a rescale of the job is under way; profile it when that has ended")
                self._before = before, self._live.asked_of_operators()
            self._live.rescaled(scale_out)
            self._live.drained(self.driven_per_s)
        return LiveDeployment(self, self._live, scale_out, self._fail)

    def restore(self) -> None:
        """Ask for the workers again that were asked for before, of which as many ran as there was room for."""
        if self._before is None:
            return  # not one was deployed, so there was no load either
        with turned_into(DeploymentError), ExitStack() as ends:
            ends.callback(self._give_back, *self._before)
            self._live.load.stop()

    def _give_back(self, before: Running, operators: Mapping[str, int]) -> None:
        wanted = before.requested or before.scale_out
        try:
            if not self._live.is_as(before, operators):
                self._live.rescaled(wanted, enough=before.scale_out, operators=operators)
        except (LiveError, TargetError) as error:
            raise LiveError(f"{error} (it had {wanted} workers)") from error


class LiveDeployment:
    """The job at one scale-out."""

    def __init__(self, made_by: LiveDeployments, live: LiveJob, scale_out: int, fail: tuple[str, ...]) -> None:
        self._made_by = made_by
        self._live = live
        self._fail = fail
        self.scale_out = scale_out

    @property
    def now_s(self) -> float:
        """Epoch seconds."""
        return self._live.now_s

    def measure(self, rate_per_s: float, settle_s: int, measure_s: int) -> Measured:
        """Put the job under load, wait, and read what its metrics show of the last ``measure_s``."""
        live = self._live
        with turned_into(DeploymentError):
            live.load.at(rate_per_s)
            self._made_by.driven_per_s = rate_per_s
            live.wait(settle_s)
            since_s = live.now_s
            live.wait(measure_s)
            window = live.window(since_s)
            live.require(self.scale_out)
            offered_per_s(window, rate_per_s, MISSES)
        return measured(window)

    def fail(self, within_s: int) -> float | None:
        """Let a worker fail, and wait until the cluster has seen it and the job works again."""
        live = self._live
        with turned_into(DeploymentError):
            began_s = live.now_s
            with beside(self._fail, FAILS_S) as check:  # it may bring the worker back itself
                if not live.comes_to(lambda now: not now.settled, within_s, check):
                    raise DeploymentError(f"the cluster noticed no failure within {within_s} s of {self._fail[0]}")
                back = live.comes_to(lambda now: now.settled and now.is_at(self.scale_out, {}), within_s, check)
                downtime_s = live.now_s - began_s
        return downtime_s if back else None

    def delete(self) -> None:
        """End the load; the job stays for the next scale-out."""
        with turned_into(DeploymentError):
            self._live.load.stop()
