"""Profiling against the digital twin: each deployment is a twin of its own, with other workers and keys."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdix.profiling.deployment import Measured
from perdix.profiling.measuring import measured
from perdix.profiling.recording import Recording
from perdix.telemetry.window import Values
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters
from perdix.twin.scraped import scraped

SCRAPE_S = 5.0  # between two scrapes of a twin
_LUCK = 7_919  # a deployment's seed lies so far from that of the job: other machines, other keys


@dataclass(frozen=True)
class TwinDeployments:
    """A :class:`perdix.profiling.deployment.Deployments` of twins."""

    parameters: TwinParameters
    recording: Recording  # what they replay
    seed: int = 0  # of the job in production. Deployments have other workers and another fall of the keys
    start_s: int = 0  # epoch second at which they are deployed
    scraping: Scraping = field(default_factory=lambda: Scraping(interval_s=SCRAPE_S))
    side_by_side: bool = True

    def deploy(self, scale_out: int) -> TwinDeployment:
        """Return a twin that runs with ``scale_out`` workers and has nothing to do yet."""
        return TwinDeployment(self, scale_out)

    def restore(self) -> None:
        """Nothing was there before."""


class TwinDeployment:
    """One twin; time passes only while it is measured or made to fail."""

    def __init__(self, made_by: TwinDeployments, scale_out: int) -> None:
        self._made_by = made_by
        self._rate_per_s = 0.0
        self._twin = JobTwin(
            made_by.parameters,
            _LUCK * (scale_out + 1) + made_by.seed,
            start_s=made_by.start_s,
            scale_out=scale_out,
            arrivals=self._arrivals,
        )

    @property
    def scale_out(self) -> int:
        """Workers."""
        return self._twin.scale_out

    @property
    def now_s(self) -> float:
        """Epoch seconds of the simulation."""
        return float(self._twin.now_s)

    def measure(self, rate_per_s: float, settle_s: int, measure_s: int) -> Measured:
        """Let time pass at ``rate_per_s``, and read what a scrape of the twin shows of the last ``measure_s``."""
        self._rate_per_s = rate_per_s
        self._twin.step(settle_s + measure_s)
        window = scraped(
            self._twin, self._made_by.scraping, self._made_by.parameters.name, self.now_s - measure_s, self.now_s
        )
        return measured(window)

    def fail(self, within_s: int) -> float | None:
        """Crash a worker and wait until the job works again."""
        began_s = self._twin.now_s
        self._twin.fail(0)
        while self._twin.now_s < began_s + within_s:
            self._twin.step(1)
            if self._twin.settled:
                return float(self._twin.now_s - began_s)
        return None

    def delete(self) -> None:
        """Nothing is left behind by a twin."""

    def _arrivals(self, second: int, count: int) -> Values:
        return self._made_by.recording.at(self._rate_per_s, second, count)
