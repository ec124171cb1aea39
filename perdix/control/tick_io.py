"""What one tick of one job is given, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from perdix.control.champions import ChampionSource
from perdix.control.clock import Moment
from perdix.control.memories import Memories
from perdix.control.reconcile import Event
from perdix.control.sources import MetricsSource
from perdix.control.state.journal import JobStatus, Status
from perdix.control.state.store import StateStore
from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.policies.build import build_policy
from perdix.policies.contract import Decision, Policy
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Target

if TYPE_CHECKING:
    from perdix.control.read_ahead import ReadAhead
    from perdix.control.serving import FleetCrew

OUTLOOKS_S = (60.0, 300.0, 900.0)  # horizons of which the journal keeps the forecast
OUTLOOK_S = 60.0  # mean over the minute that ends there: a single second of a forecast is nobody's plan
UPPER = 0.95


def policy_of(job: StreamJob) -> Policy:
    """Return the policy that a job's settings name."""
    return build_policy(job.policy.name, job.policy.options)


@dataclass(frozen=True)
class Ready:
    """A job of which all was asked that its tick asks first, with the answers in ``io``; ``at`` is when."""

    job: StreamJob
    io: TickIO
    at: Moment


@dataclass(frozen=True)
class TickIO:
    """All that a tick touches."""

    source: MetricsSource
    store: StateStore
    champions: ChampionSource
    target_of: Callable[[StreamJob], Target]
    policy_of: Callable[[StreamJob], Policy] = policy_of
    # Closes the targets of all but these jobs, which are served; ``None``: they are nobody's to close
    keep_targets: Callable[[Container[str]], None] | None = None
    tick_interval_s: float = 60.0  # seconds between ticks
    memories: Memories = field(default_factory=Memories)  # what this process remembers from its own ticks
    # Whether the load is foreseen and the capacity of every scale-out worked out. ``False`` in replays of policies that
    # decide by what is measured alone: only the guards then ask what was learned
    believes: bool = True
    # Asks for many jobs at once; ``None``: each job's tick asks for itself, one after the other
    ahead: ReadAhead | None = None
    # Serves large fleets in processes of their own; ``None``: this one serves them all
    crew: FleetCrew | None = None


@dataclass(frozen=True)
class TickReport:
    """What one tick of one job did."""

    job: str
    status: Status
    sentence: str
    decision: Decision | None = None  # ``None`` where none could be made
    decision_id: str | None = None
    event: Event = Event.NOTHING  # what happened between perdix and the target
    # running, wanted: workers that run, and that are to run; ``None`` where not known, and where nothing is under way
    running: int | None = None
    wanted: int | None = None
    # forecast, capacities: what was believed: the forecast that was acted on, and the capacity of every scale-out that
    # may be chosen
    forecast: Forecast | None = None
    capacities: Mapping[int, Estimate] = field(default_factory=dict)
    # wape, horizon_wape: WAPE (1.0 = 100 %) of the champion's newest forecast whose first minute has come true, and of
    # its newest whose whole horizon has
    wape: float | None = None
    horizon_wape: float | None = None
    predicted_recovery_s: float | None = None  # of what was decided, as it stands on record
    followed: int = 0  # rescales of the last 24 hours, where others carry them out
    # How long the recovery would take if a worker failed now, in seconds; ``None`` where it cannot be said
    failure_recovery_s: float | None = None
    retrain: str | None = None  # run key of a retraining that was asked for in this tick
    drifting: bool = False  # whether one was asked for since its forecasts became poor, and they are still
    notes: tuple[str, ...] = ()
    stages_ms: Mapping[str, float] = field(default_factory=dict)  # stage -> milliseconds
    running_mix: Mapping[str, int] = field(default_factory=dict)  # size -> workers that run; empty where they are equal
    # Canonical metric -> values so far that cannot be, and were not used
    rejected: Mapping[str, int] = field(default_factory=dict)

    @property
    def advised(self) -> int | None:
        """Of how many workers other ones are advised than run; ``None`` where none are, or perdix acts."""
        decision = self.decision
        if decision is None or self.status is not Status.ADVISE:
            return None
        other_sizes = bool(decision.mix) and dict(decision.mix) != dict(self.running_mix)
        return decision.scale_out if other_sizes or decision.scale_out != self.running else None

    def in_short(self) -> TickReport:
        """Return the report with only the parts of forecast, capacities and decision that are journalled or shown."""
        forecast, decision = self.forecast, self.decision
        capacities = {n: estimate for n, estimate in self.capacities.items() if n == self.running}
        if decision is not None:
            decision = replace(decision, candidates=(), plan=(), memory={})
        if forecast is not None:
            upper = {UPPER: forecast.quantiles[UPPER]} if UPPER in forecast.quantiles else {}
            forecast = replace(forecast, quantiles=upper).over(OUTLOOK_S)
        return replace(self, capacities=capacities, decision=decision, forecast=forecast)

    def job_status(self, now_s: float) -> JobStatus:
        """Return the status that the journal keeps."""
        details = {
            "event": self.event,
            "scale_out": self.running,
            "wanted": self.wanted,
            "advised": self.advised,
            "wape": self.wape,
            "horizon_wape": self.horizon_wape,
            "notes": list(self.notes),
            "decision_id": self.decision_id,
            "reason": None if self.decision is None else self.decision.reason,
            "mix": dict(self.running_mix),
            "capacity": _bounds(self.capacities.get(self.running or 0)),
            "forecast": _outlook(self.forecast),
            "predicted_recovery_s": self.predicted_recovery_s,
            "failure_recovery_s": self.failure_recovery_s,
            "error_budget_left": None if self.decision is None else self.decision.budget_left,
            "rejected": dict(self.rejected),
            "followed": self.followed,
        }
        return JobStatus(self.job, self.status, now_s, self.sentence, details)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-serialisable values; stable names."""
        decision = self.decision
        return {
            "job": self.job,
            "status": self.status.value,
            "sentence": self.sentence,
            "reason": None if decision is None else decision.reason.value,
            "scale_out": None if decision is None else decision.scale_out,
            "predicted_recovery_s": self.predicted_recovery_s,
            "decision_id": self.decision_id,
            "event": self.event.value,
            "mix": {} if decision is None else dict(decision.mix),
            "running": self.running,
            "running_mix": dict(self.running_mix),
            "wanted": self.wanted,
            "forecast_family": None if self.forecast is None else self.forecast.family,
            "forecast_version": None if self.forecast is None else self.forecast.version,
            "wape": self.wape,
            "horizon_wape": self.horizon_wape,
            "failure_recovery_s": self.failure_recovery_s,
            "error_budget_left": None if decision is None else decision.budget_left,
            "retrain": self.retrain,
            "notes": list(self.notes),
            "stages_ms": {name: round(value, 3) for name, value in self.stages_ms.items()},
        }


def _bounds(capacity: Estimate | None) -> dict[str, float] | None:
    if capacity is None:
        return None
    return {"per_s": capacity.per_s, "low_per_s": capacity.low_per_s, "high_per_s": capacity.high_per_s}


def _outlook(forecast: Forecast | None) -> dict[str, Any] | None:
    """Return the forecast in a few numbers: for each horizon, seconds -> means over the minute that ends there."""
    if forecast is None:
        return None
    paths = {"mean_per_s": forecast.mean}
    if UPPER in forecast.quantiles:
        paths["upper_per_s"] = forecast.quantiles[UPPER]
    width = max(1, round(OUTLOOK_S / forecast.step_s))
    ends = {at_s: round(at_s / forecast.step_s) for at_s in OUTLOOKS_S}
    outlook: dict[str, Any] = {"origin_s": forecast.origin_s}
    for name, path in paths.items():
        means = {f"{at_s:.0f}": path[max(end - width, 0) : end] for at_s, end in ends.items() if 0 < end <= len(path)}
        outlook[name] = {at: float(values.mean()) for at, values in means.items()}
    return outlook
