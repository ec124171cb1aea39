"""The metrics that perdix publishes: the one list of their names, labels and meanings.

``docs/metrics.md`` holds the same table, and a test holds the two together. Names follow the conventions of Prometheus:
base units, points in time as epoch seconds (an age is ``time() - x``), ``_total`` for counters. The label is
``stream_job``, not ``job``: Prometheus keeps ``job`` for its own scrape job, and would rename ours to ``exported_job``.
"""

from dataclasses import dataclass
from enum import StrEnum

JOB = "stream_job"


class Kind(StrEnum):
    """What Prometheus takes a metric for."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"  # always 1; its labels hold the information


class Shown(StrEnum):
    """How long a value is published."""

    ALWAYS = "always"  # once known, whatever happens afterwards
    FRESH = "while fresh"  # until three tick intervals after the tick that found it
    PROCESS = "process"  # of this process, from its start


@dataclass(frozen=True)
class Metric:
    """One metric: ``name`` as it is queried, so with ``_total`` or ``_info`` where its kind has them."""

    name: str
    help: str
    labels: tuple[str, ...] = (JOB,)
    kind: Kind = Kind.GAUGE
    shown: Shown = Shown.FRESH


def _of_job(name: str, text: str, *labels: str, shown: Shown = Shown.FRESH, kind: Kind = Kind.GAUGE) -> Metric:
    return Metric(f"perdix_{name}", text, (JOB, *labels), kind, shown)


def _of_process(name: str, text: str, *labels: str, kind: Kind = Kind.GAUGE) -> Metric:
    return Metric(f"perdix_{name}", text, labels, kind, Shown.PROCESS)


ALWAYS = Shown.ALWAYS

DESIRED = _of_job("desired_scale_out", "Workers that perdix wants; never lowered for want of metrics.", shown=ALWAYS)
DESIRED_WORKERS = _of_job(
    "desired_workers", "Workers of each size that perdix wants, of a job whose workers differ.", "size", shown=ALWAYS
)
DESIRED_AT = _of_job(
    "desired_timestamp_seconds", "When the desired scale-out was last decided with metrics at hand.", shown=ALWAYS
)
DESIRED_UNTIL = _of_job(
    "desired_valid_until_timestamp_seconds", "Until when that decision is fresh; later it is only the last known.",
    shown=ALWAYS,
)  # fmt: skip
CURRENT = _of_job("current_scale_out", "Workers that run.")
CURRENT_WORKERS = _of_job("current_workers", "Workers of each size that run, of a job whose workers differ.", "size")

STATUS = _of_job(
    "status_info",
    "How the job stands: acting, advise, paused, blind, unreachable or broken; silent when ticks stay away.",
    "status",
    shown=ALWAYS,
    kind=Kind.INFO,
)
STATUS_SINCE = _of_job("status_since_timestamp_seconds", "Since when the job stands so.", shown=ALWAYS)
LAST_TICK = _of_job("last_tick_timestamp_seconds", "When a tick last looked at the job.", shown=ALWAYS)
DECISION = _of_job("decision_info", "Why the last decision came out as it did.", "reason", kind=Kind.INFO)

WORKLOAD = _of_job("workload_records_per_second", "Mean workload between the last two ticks.")
THROUGHPUT = _of_job("throughput_records_per_second", "Mean throughput between the last two ticks.")
LAG = _of_job("consumer_lag_records", "Consumer lag.")
LATENCY = _of_job("latency_p95_seconds", "Mean p95 of the end-to-end latency between the last two ticks.")
CPU = _of_job("cpu_load_ratio", "Mean CPU load of the workers, 0 to 1.")
FORECAST = _of_job(
    "forecast_mean_records_per_second", "Mean forecast for the minute that ends so long after its origin.", "horizon"
)
FORECAST_UPPER = _of_job(
    "forecast_p95_records_per_second", "What the workload of that minute stays below with 95 %.", "horizon"
)
FORECAST_AT = _of_job("forecast_origin_timestamp_seconds", "Origin of the forecast that is acted on.")
WAPE = _of_job("forecast_wape_ratio", "WAPE of the newest forecast whose first minute has come true (1 = 100 %).")
HORIZON_WAPE = _of_job(
    "forecast_horizon_wape_ratio", "WAPE of the newest forecast whose whole horizon has come true (1 = 100 %)."
)
CAPACITY = _of_job("capacity_records_per_second", "What the workers that run can take.")
CAPACITY_LOW = _of_job("capacity_low_records_per_second", "Lower end of the 90 % interval of the capacity.")
CAPACITY_HIGH = _of_job("capacity_high_records_per_second", "Upper end of the 90 % interval of the capacity.")
PREDICTED = _of_job("predicted_recovery_seconds", "Recovery that the last decision expects of its rescale.")
FAILURE = _of_job("failure_recovery_seconds", "Recovery to expect if a worker failed now.")
BUDGET_LEFT = _of_job(
    "error_budget_left_ratio",
    "Error budget left of the last hours, fading over 8 h: 1 all of it, below 0 overspent, -10 or more.",
)

REJECTED = _of_job(
    "rejected_samples_total", "Values of the job's metrics that cannot be, by metric; they are not used.", "metric",
    shown=ALWAYS, kind=Kind.COUNTER,
)  # fmt: skip
RESCALES = _of_job(
    "rescales_per_day",
    "Rescales within the last 24 hours: those that perdix asked for, else those that the metrics show.",
    shown=ALWAYS,
)
BUDGET = _of_job("rescale_budget_per_day", "How many of them the job file allows.", shown=ALWAYS)
RETRAINS = _of_job("retrain_requests_open", "Retrainings that were asked for and not answered.", shown=ALWAYS)
RETRAIN_AT = _of_job(
    "retrain_oldest_request_timestamp_seconds",
    "When the open request was made, or the first unanswered one whose place it has taken; absent when none is open.",
    shown=ALWAYS,
)  # fmt: skip
FAILURES = _of_job(
    "target_failures",
    "Requests that the job's target failed or refused one after the other; 0 once 90 minutes have passed without.",
    shown=ALWAYS,
)
LEASE = _of_job(
    "lease_held",
    "1 while a controller holds the job's lease; free for a tenth of each interval. Of operators at any time: 0 where "
    "their loop died, absent where it ended.",
)

JOB_INFO = _of_job(
    "job_info", "What the job file says.", "engine", "mode", "policy", "target", shown=ALWAYS, kind=Kind.INFO
)
MINIMUM = _of_job("scale_out_minimum", "Smallest scale-out that may be chosen.", shown=ALWAYS)
MAXIMUM = _of_job("scale_out_maximum", "Largest scale-out that may be chosen.", shown=ALWAYS)
LATENCY_OBJECTIVE = _of_job("latency_objective_seconds", "Objective of the p95 latency.", shown=ALWAYS)
RECOVERY_OBJECTIVE = _of_job("recovery_objective_seconds", "Objective of the recovery time.", shown=ALWAYS)
ERROR_BUDGET = _of_job(
    "error_budget_ratio", "Share of the seconds that may be above the latency objective.", shown=ALWAYS
)

UP = _of_process("up", "1 when this scrape could read the state store, else 0.")
READ_AT = _of_process("state_read_timestamp_seconds", "When the state store was last read.")
ERRORS = _of_process(
    "scrape_errors_total", "Scrapes that could not read the state store, by cause.", "cause", kind=Kind.COUNTER
)
SCRAPE = _of_process("scrape_duration_seconds", "How long this scrape took to read and reckon.")
FAULTS = _of_process(
    "loop_faults_total", "Ticks of the fleet that lacked something of perdix's own, by what.", "what", kind=Kind.COUNTER
)
UNREADABLE = _of_process("job_files_unreadable", "Job files that cannot be used.")
INTERVAL = _of_process("tick_interval_seconds", "The tick interval that freshness is measured by.")
TICKS = _of_process("ticks_total", "Ticks of the fleet, by any controller, by outcome.", "outcome", kind=Kind.COUNTER)
DURATION = _of_process("tick_duration_seconds", "How long ticks of the fleet took.", kind=Kind.HISTOGRAM)
EVENTS = _of_process("target_events_total", "What happened between perdix and its targets.", "event", kind=Kind.COUNTER)
LEASES = _of_process("process_leases", "Jobs whose lease was last taken by this process.")
BUILD = _of_process("build_info", "The perdix that serves this.", "version", "state_schema", kind=Kind.INFO)

METRICS = tuple(metric for metric in tuple(globals().values()) if isinstance(metric, Metric))  # in their order
