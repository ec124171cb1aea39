"""Sampling on a real cluster: a job of one worker, which an operator's commands resize and put under load.

QEScalor (2.2) hands a part of the live workload to a sampling instance. No stream processor hands a part of a running
job's records to a worker of another size; a job of its own, with one worker and a load of its own, shows the same.
"""

from __future__ import annotations

import math
from contextlib import ExitStack

from perdix.profiling.live.commands import CommandError, run_to_end
from perdix.profiling.live.job import LiveJob, offered_per_s, turned_into
from perdix.profiling.measuring import mean, measured
from perdix.profiling.sampling_instance import Observed, SamplingError
from perdix.settings.profiling import CPU_CORES, MEMORY_MB, Profiling
from perdix.telemetry import metrics

RESIZED_S = 600.0  # that the command may take: a pod is replaced
STEPS = 5  # of the scrapes, that a new rate takes to be seen: rates are those of four
MISSES = 0.5  # of its rate, by which a load may miss it; what arrived is measured


class LiveSamplingInstances:
    """A :class:`perdix.profiling.sampling_instance.SamplingInstances` of one running job.

    Raises ``ValueError`` when they cannot resize it.

    ``live``: the job.
    ``commands``: those that give its worker another size, and the one that it had; ``most_per_s`` stands for the live
    workload.
    """

    def __init__(self, live: LiveJob, commands: Profiling) -> None:
        if commands.resize is None or commands.restore is None or commands.most_per_s is None:
            raise ValueError("sampling needs commands 'resize' and 'restore', and 'most_per_s'")
        self.live, self.most_per_s = live, commands.most_per_s
        self._resize, self._restore = commands.resize, commands.restore
        self._resized = False

    def start(self, cpu_cores: float, memory_mb: float) -> LiveSamplingInstance:
        """Give the worker its size, and wait until nothing of an earlier load waits any more."""
        size = {CPU_CORES: cpu_cores, MEMORY_MB: memory_mb}
        with turned_into(SamplingError):
            self._resized = True
            run_to_end(self._resize, size, RESIZED_S)
            self.live.drained(self.most_per_s)
        return LiveSamplingInstance(self)

    def restore(self) -> None:
        """Give the worker the size that it had."""
        if not self._resized:
            return  # and there was no load either
        with turned_into(SamplingError), ExitStack() as ends:
            ends.callback(self._give_back)
            self.live.load.stop()

    def _give_back(self) -> None:
        try:
            run_to_end(self._restore, {}, RESIZED_S)
        except CommandError as error:
            raise CommandError(f"{error} (the command 'profiling.restore' gives it its size)") from error


class LiveSamplingInstance:
    """The job's worker at one size."""

    def __init__(self, started_by: LiveSamplingInstances) -> None:
        self._live = started_by.live
        self._most_per_s = started_by.most_per_s
        self._rate_per_s = 0.0

    @property
    def now_s(self) -> float:
        """Epoch seconds."""
        return self._live.now_s

    def process(self, share: float, for_s: int) -> Observed:
        """Put the worker under a share of the load, and read what its metrics show."""
        live, rate_per_s = self._live, share * self._most_per_s
        with turned_into(SamplingError):
            if rate_per_s != self._rate_per_s:
                live.load.at(rate_per_s)
                self._rate_per_s = rate_per_s
                live.wait(STEPS * self._scrapes_s())
            since_s = live.now_s
            live.wait(for_s)
            window = live.window(since_s)
            arrived_per_s = offered_per_s(window, rate_per_s, MISSES)
        run = mean(window.job_metric(metrics.SCALE_OUT.name))
        if run > 1.5:  # NaN is not
            raise SamplingError(
                f"the job has {run:.0f} workers; sample a job of one, whose performance is the worker's"
            )
        throughput_per_s = measured(window).throughput_per_s
        return Observed(arrived_per_s, 0.0 if math.isnan(throughput_per_s) else throughput_per_s)

    def stop(self) -> None:
        """End the load; the worker stays for the next size."""
        with turned_into(SamplingError):
            self._live.load.stop()

    def _scrapes_s(self) -> float:
        source = self._live.job.prometheus
        return source.scrape_interval_s if source else 0.0
