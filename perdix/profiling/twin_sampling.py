"""Sampling against the digital twin of an operator: each instance has luck of its own, the live workload is one."""

from __future__ import annotations

from perdix.profiling.sampling_instance import Observed, SamplingError
from perdix.telemetry.window import Values
from perdix.twin.operators.instance import Live, OperatorInstance
from perdix.twin.operators.parameters import OperatorTwinParameters


class TwinSamplingInstances:
    """A :class:`perdix.profiling.sampling_instance.SamplingInstances` of twins, one after the other on one clock.

    ``seed``: of the live workload, and with its number of the luck of each instance.
    ``start_s``: epoch second at which the first is started.
    """

    def __init__(self, operator: OperatorTwinParameters, seed: int = 0, start_s: int = 0) -> None:
        self._operator = operator
        self._seed = seed
        self._live = Live(operator.workload, (seed,))
        self._started = 0
        self.now_s = float(start_s)

    def start(self, cpu_cores: float, memory_mb: float) -> TwinSamplingInstance:
        """Start an instance; time passes only while it is given something to process."""
        if not (cpu_cores > 0 and memory_mb > 0):
            raise SamplingError(f"it needs cores and memory above 0, found {cpu_cores:g} cores and {memory_mb:g} MB")
        self._started += 1
        luck = (self._seed, self._started)
        return TwinSamplingInstance(OperatorInstance(self._operator, cpu_cores, memory_mb, luck), self)

    def restore(self) -> None:
        """Nothing was there before."""

    def live_per_s(self, for_s: int) -> Values:
        """Let ``for_s`` seconds pass and return the live workload in each of them, records/s."""
        drawn = self._live.draw(self.now_s, for_s)
        self.now_s += for_s
        return drawn


class TwinSamplingInstance:
    """One twin of an operator instance."""

    def __init__(self, twin: OperatorInstance, started_by: TwinSamplingInstances) -> None:
        self._twin = twin
        self._started_by = started_by
        self._stopped = False

    @property
    def now_s(self) -> float:
        """Epoch seconds of the simulation."""
        return self._started_by.now_s

    def process(self, share: float, for_s: int) -> Observed:
        """Let time pass with a share of the live workload. Raises ``SamplingError`` when it dies meanwhile."""
        if self._stopped:
            raise SamplingError("it was stopped")
        offered_per_s = share * self._started_by.live_per_s(for_s)
        done_per_s = self._twin.step(offered_per_s)
        if self._twin.died_because is not None:
            raise SamplingError(self._twin.died_because)
        return Observed(float(offered_per_s.mean()), float(done_per_s.mean()))

    def stop(self) -> None:
        """Nothing is left behind by a twin."""
        self._stopped = True
