"""What a replay came to: figures, every recovery, and the course step by step."""

from dataclasses import asdict, dataclass, field
from typing import Any

from perdix.control.tick_io import TickReport
from perdix.models.billing.bill import Bill
from perdix.settings.stream_job import ERROR_BUDGET
from perdix.telemetry.window import Values
from perdix.twin.job import Deployed
from perdix.twin.outages import Cause


@dataclass(frozen=True)
class Recovery:
    """One rescale or failure: predicted, as perdix observed it, and as it truly was; seconds, ``None`` without one."""

    at_s: float
    cause: Cause  # ``out``, ``in`` or ``failure``
    from_scale_out: int
    scale_out: int
    predicted_s: float | None
    observed_s: float | None
    true_s: float | None
    # Another rescale or failure began before the job had caught up: no single prediction can be held against it
    interrupted: bool = False

    @property
    def error(self) -> float | None:
        """``|predicted - true| / true``; ``None`` where either is missing or the recovery was interrupted."""
        if self.predicted_s is None or not self.true_s or self.interrupted:
            return None
        return abs(self.predicted_s - self.true_s) / self.true_s


@dataclass(frozen=True)
class Latency:
    """The p95 end-to-end latency of each second in ms, every record counting once."""

    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Course:
    """The run step by step of the twin, which is a second but over months; all of shape ``(rows,)``."""

    times_s: Values  # epoch second in which each row begins
    # workload_per_s, throughput_per_s: records that arrived and that were processed in the second
    workload_per_s: Values
    throughput_per_s: Values
    workers: Values  # workers deployed
    lag_records: Values  # records waiting at the end of the second
    latency_p95_ms: Values  # naN where nothing came out
    cpu_load: Values  # mean over workers, ratio; NaN where none runs
    capacity_per_s: Values  # true capacity of the deployment; 0 while the job stands still
    forecast_per_s: Values  # what was forecast for this second by the newest tick before it; NaN where there was none
    price_per_h: Values  # what the deployed workers cost per hour by their sizes; NaN where they have none

    def columns(self) -> dict[str, Values]:
        """Return the columns by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class Outcome:
    """What one policy came to on one trace with one seed.

    ``average_workers``, ``worker_s``: workers on average, and their sum over time in worker-seconds.
    ``sizes_cost``: what the workers cost by the prices of their sizes; ``None`` where they have none.
    ``rescales``, ``failures``: how often the scale-out was changed, and how often a worker crashed.
    ``latency_ms``: of the p95 end-to-end latency.
    ``share_above_objective``: share of the seconds in which the p95 latency was above the job's objective, or nothing
    came out although records waited (1.0 = 100 %).
    ``error_budget``: the share up to which the objective still counts as held.
    ``lag_maximum_records``, ``lag_at_end_records``: consumer lag: the highest, and that of the last second.
    ``unprocessed``: records that had arrived by the end and that the loop, going on for the recovery time objective,
    did not get processed either.
    ``recovery_error``: mean of ``|predicted - true| / true`` over recoveries that were predicted and not interrupted
    (1.0 = 100 %).
    ``forecast_wape``, ``first_minute_wape``: means over the forecasts that were acted on and came true, over their
    whole horizon and their first minute.
    ``capacity_error``, ``capacity_error_all``: mean over ticks of ``|estimate - truth| / truth`` at the scale-out that
    ran, and over all within the bounds.
    ``clairvoyant_worker_s``, ``clairvoyant_ratio``: the least worker-seconds of any plan that knows the trace
    (:mod:`perdix.replay.clairvoyant.bound`), and ``worker_s`` as a multiple of it; ``None`` where no plan holds the
    objectives or it was not asked for.
    ``frontier_worker_s``, ``of_frontier``: the fewest worker-seconds of any plan that is late in the same share of the
    seconds (:mod:`perdix.replay.frontier`), and ``worker_s`` as a multiple of it; ``None`` where it was not asked for.
    ``best_static_ratio``: ``worker_s`` as a multiple of what the best fixed size needs
    (:mod:`perdix.replay.best_static`); ``None`` where no size holds the objective or it was not asked for.
    ``profiling_worker_s``: what profiling the job, or sampling its sizes, cost before the run, in worker-seconds; not
    part of ``worker_s``. ``None``: neither was done.
    ``bill``: what its hosts would have cost; ``None``: it was not priced (:mod:`perdix.replay.pricing`).
    ``scale_out``: of the best fixed size: the workers that were kept all the time (:mod:`perdix.replay.best_static`);
    ``None`` otherwise.
    ``retrains``, ``notes``: champions that were fitted on the way, and in words what went wrong with that.
    ``wall_s``: how long the replay took to compute, and ``twin_s`` of it in the twin's physics.
    """

    policy: str
    trace: str
    seed: int
    hours: float
    ticks: int
    average_workers: float
    worker_s: float
    rescales: int
    failures: int
    latency_ms: Latency
    share_above_objective: float
    lag_maximum_records: float
    lag_at_end_records: float
    unprocessed: float
    recovery_error: float | None = None
    forecast_wape: float | None = None
    first_minute_wape: float | None = None
    capacity_error: float | None = None
    capacity_error_all: float | None = None
    clairvoyant_worker_s: float | None = None
    clairvoyant_ratio: float | None = None
    wall_s: float = 0.0
    twin_s: float = 0.0
    profiling_worker_s: float | None = None
    bill: Bill | None = None
    sizes_cost: float | None = None
    error_budget: float = ERROR_BUDGET
    scale_out: int | None = None
    best_static_ratio: float | None = None
    frontier_worker_s: float | None = None
    of_frontier: float | None = None
    retrains: int = 0
    recoveries: tuple[Recovery, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """Whether the objective was held: late within the budget of errors, and nothing left unprocessed."""
        return self.share_above_objective <= self.error_budget and self.unprocessed <= 0.0

    def figures(self) -> dict[str, Any]:
        """Return everything as JSON-serialisable values, by the names above."""
        return asdict(self)


@dataclass(frozen=True)
class Played:
    """A replay that was played to its end."""

    outcome: Outcome
    course: Course
    reports: tuple[TickReport, ...] = field(default=(), repr=False, compare=False)
    # What ran from when on, oldest first, where workers may differ in size; else it may be left empty
    deployments: tuple[Deployed, ...] = ()
    # Hosts that were leased in each second, where the replay was priced; shape ``(seconds,)``
    hosts: Values | None = field(default=None, repr=False, compare=False)
