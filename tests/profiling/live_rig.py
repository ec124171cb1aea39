"""A running job for profiling and sampling: a twin with its metrics and its cluster, a load, and simulated time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from perdix.profiling.live.commands import CommandError
from perdix.profiling.live.job import LiveJob
from perdix.replay.run import TwinSource
from perdix.settings.profiling import Profiling
from perdix.settings.size_grid import Axis, Grid
from perdix.settings.stream_job import PrometheusSource
from perdix.telemetry import metrics
from perdix.telemetry.window import Window
from perdix.twin.job import JobTwin
from tests.control.rig import START_S, FaultySource, FaultyTarget, a_job, parameters

PER_CORE, MOST_PER_S = 10_000.0, 60_000.0
GRID = Grid(cpu=Axis(least=1.0, most=3.0, unit=1.0), memory=Axis(least=512.0, most=512.0, unit=1.0))
PROMETHEUS = PrometheusSource.model_validate({"url": "http://in.process", "scrape_interval_s": 5})


@dataclass
class SimulatedLoad:
    """Lets arrive what it is asked for, times ``factor``."""

    factor: float = 1.0
    others_per_s: float = 0.0
    rate_per_s: float = 0.0
    rates_per_s: list[float] = field(default_factory=list)
    ends_at: float = float("inf")

    def at(self, rate_per_s: float) -> None:
        self.rate_per_s = rate_per_s
        self.rates_per_s.append(rate_per_s)

    def check(self) -> None:
        if self.rate_per_s >= self.ends_at:
            raise CommandError("the load ended by itself: load.sh, exit code 1")

    def stop(self) -> None:
        self.rate_per_s = 0.0

    def arrivals(self, second: int, count: int) -> np.ndarray:
        return np.full(count, self.factor * self.rate_per_s + self.others_per_s)


class Running:
    """The job; ``meanwhile`` is called whenever time passes."""

    def __init__(self, scale_out: int = 4, seed: int = 4) -> None:
        self.load = SimulatedLoad()
        self.twin = JobTwin(parameters(), seed, start_s=START_S, scale_out=scale_out, arrivals=self.load.arrivals)
        self.source = FaultySource(TwinSource(self.twin))
        self.target = FaultyTarget(self.twin)
        self.meanwhile: Callable[[], None] = lambda: None
        self.twin.step(120)
        self.live = LiveJob(
            a_job(prometheus=PROMETHEUS, mode="advise"), self.source, self.target, self.load, self, self.pause
        )

    def now_s(self) -> float:
        return float(self.twin.now_s)

    def pause(self, seconds: float) -> None:
        self.twin.step(max(round(seconds), 1))
        self.meanwhile()

    def with_worker_of(self, capacity_per_s: float, scale_out: int | None = None) -> None:
        """Replace the job by one whose workers are faster or slower."""
        self.twin = JobTwin(
            parameters(capacity_per_s=capacity_per_s),
            start_s=self.twin.now_s,
            scale_out=scale_out or self.twin.scale_out,
            arrivals=self.load.arrivals,
        )
        self.source.inner, self.target.twin = TwinSource(self.twin), self.twin

    def lag(self) -> float:
        """Records that wait now."""
        window = self.source.read(self.live.job, self.now_s(), self.now_s() - 60.0).window
        return float(window.job_metric(metrics.LAG.name)[-1])

    def without(self, metric: str) -> None:
        """Let a metric be measured no more."""

        def change(window: Window) -> Window:
            return replace(
                window,
                job_metrics={name: values for name, values in window.job_metrics.items() if name != metric},
                worker_metrics={name: values for name, values in window.worker_metrics.items() if name != metric},
            )

        self.source.change = change


class OneWorker(Running):
    """A job whose worker gets as many cores as a file says, which the command writes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(scale_out=1)
        self.file = folder / "size"
        self.sizes: list[str] = []
        self.meanwhile = self._noticed
        self.resize = self.writing("{cpu_cores} {memory_mb}")
        self.restore = self.writing("2 512")

    def writing(self, text: str) -> tuple[str, ...]:
        return (sys.executable, "-c", f"import sys; open({str(self.file)!r}, 'w').write(sys.argv[1])", text)

    def _noticed(self) -> None:
        if self.file.exists():
            self.sizes.append(self.file.read_text())
            self.file.unlink()
            self.with_worker_of(PER_CORE * float(self.sizes[-1].split()[0]))

    def commands(self) -> Profiling:
        """What its file says."""
        return Profiling(
            load=("load", "{per_s}"), resize=self.resize, restore=self.restore, most_per_s=MOST_PER_S, sizes=GRID
        )
