"""Options of the policy ``visp``: what a worker takes, what a host has, and how it is billed."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from perdix.policies.forecast_quantile import ForecastQuantile
from perdix.policies.hosts.billing_unit import UNIT_SHARE
from perdix.policies.hosts.host_selection import Need, Room, empty_room, fits
from perdix.policies.hosts.scale_out_trigger import DURATIONS
from perdix.settings.prices import Billing
from perdix.settings.strict import Strict

Positive = Annotated[float, Field(gt=0)]


class VispOptions(Strict):
    """A job of equal workers on leased hosts of one type.

    ``worker_cpu_cores``, ``worker_memory_mb``, ``host_cores``, ``host_memory_mb``: what a worker is given, and what a
    host has for workers.
    ``unit_s``, ``minimum_s``: billing time unit of a host, and the shortest lease that is paid, seconds.
    ``most_hosts``: how many may be leased at once; ``None``: no limit but the job's bounds.
    ``latency_ms``: objective of the p95 latency; the job's own when absent.
    ``durations``: how many of the last latencies make the trend (N of Algorithm 1).
    ``lag_s``: algorithm 1 asks for more workers only when more waits than arrives in this many seconds. The paper
    counts items (50); what of a stream of records that is depends on its rate.
    ``out_step``: workers that Algorithm 1 adds at once.
    ``fill_hosts``: whether scaling out fills the hosts that are leased: their room is paid for, and each rescale stops
    the job.
    ``most_dropped``: share of the workers that may go at the end of a unit: the paper's 20 %, or as many as a host has
    where the learned capacity of the rest carries the load; with ``forecast``, all that the forecast does not need.
    ``unit_share``, ``settle_s``: a host is decided about within the last share of its unit, or at the last tick that
    leaves ``settle_s`` seconds for a rescale, whichever is earlier.
    ``grace_s``: for so long after a rescale latencies reflect the restart: they are neither kept nor acted on.
    ``forecast``: decide by the forecast and the learned capacities: on what may go at the end of a unit, and what must
    come.
    ``use``, ``drain_s``: the share of a learned capacity to plan with, and the seconds within which a lag must be
    worked off.
    ``quantile``, ``lead_s``: with ``forecast``: the quantile decided on (the mean when ``None``), and how far ahead
    workers are added.
    """

    worker_cpu_cores: Positive = 1.0
    worker_memory_mb: Positive = 1_792.0
    host_cores: Positive = 4.0
    host_memory_mb: Positive = 7_168.0
    unit_s: Annotated[int, Field(ge=1, le=31 * 86_400)] = 3_600
    minimum_s: Annotated[int, Field(ge=0, le=31 * 86_400)] = 0
    most_hosts: Annotated[int, Field(ge=1, le=10_000)] | None = None
    latency_ms: Positive | None = None
    durations: Annotated[int, Field(ge=1, le=1_000)] = DURATIONS
    lag_s: Annotated[float, Field(ge=0)] = 5.0
    out_step: Annotated[int, Field(ge=1, le=1_000)] = 1
    fill_hosts: bool = True
    most_dropped: Annotated[float, Field(ge=0, le=1)] | None = None
    unit_share: Annotated[float, Field(ge=0, le=1)] = UNIT_SHARE
    settle_s: Annotated[float, Field(ge=0)] = 60.0
    grace_s: Annotated[float, Field(ge=0)] = 300.0
    forecast: bool = False
    quantile: ForecastQuantile | None = 0.9
    use: Annotated[float, Field(gt=0, le=1)] = 0.85
    drain_s: Positive = 300.0
    lead_s: Positive = 300.0

    @model_validator(mode="after")
    def _a_worker_fits(self) -> Self:
        if not fits(self.host, self.need):
            raise ValueError(
                f"a worker needs {self.worker_cpu_cores:g} cores and {self.worker_memory_mb:,.0f} MB, but a host has "
                f"{self.host_cores:g} cores and {self.host_memory_mb:,.0f} MB; take larger hosts or smaller workers"
            )
        Billing(unit_s=self.unit_s, minimum_s=self.minimum_s)
        return self

    @property
    def host(self) -> Room:
        """The room of a host without a worker."""
        return empty_room(self.host_cores, self.host_memory_mb)

    @property
    def need(self) -> Need:
        """What a worker takes of a host."""
        return Need(self.worker_cpu_cores, self.worker_memory_mb)
