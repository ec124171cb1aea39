"""The contract of a policy: a situation in, a decision out, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.models.forecasting.foresight import Foresight
from perdix.models.profiling.profiled import Profiled
from perdix.models.recovery.downtime import UNCHECKPOINTED_S, Downtimes
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.lateness import SeenLate
from perdix.telemetry.window import Values

TINY_PER_S = 1e-6  # records/s: less is no load
LITTLE_WAITS_S = 5.0  # of the load in the consumer lag: what flickers, and no backlog


class Reason(StrEnum):
    """Why a decision came out as it did; stable names for dashboards and ledgers."""

    HOLD_GOOD = "hold_good"  # the current scale-out is the smallest that holds
    HOLD_RECENT_RESCALE = "hold_recent_rescale"  # rescaled lately and still able to carry the load
    HOLD_GRACE = "hold_grace"  # within the grace period after a rescale
    HOLD_BLIND = "hold_blind"  # metrics missing or stale
    HOLD_PAUSED = "hold_paused"  # an operator paused the job
    HOLD_BUDGET = "hold_budget"  # the rescale budget of the day is spent
    HOLD_UNKNOWN = "hold_unknown"  # nothing is known of the capacity yet
    HOLD_UNSETTLED = "hold_unsettled"  # what runs is not yet what was asked for
    HOLD_MEMORY = "hold_memory"  # what the workers hold in memory would not fit onto fewer
    HOLD_AVOIDED = "hold_avoided"  # the scale-out turned out badly not long ago, or the target cannot give it
    HOLD_UNFORESEEABLE = "hold_unforeseeable"  # the load cannot be foreseen: the job stands still
    HOLD_FIXED = "hold_fixed"  # a fixed size did better over the last hours: nothing below it is planned
    HOLD_IDLE = "hold_idle"  # a scale-out that neither CPU, lag, latency nor the forecast gives a reason for
    HOLD_INVALID = "hold_invalid"  # the policy failed, or answered what cannot be
    SCALE_OUT = "scale_out"
    SCALE_IN = "scale_in"
    SCALE_MAXIMUM = "scale_maximum"  # no candidate holds; the largest useful scale-out is taken
    ROLLBACK = "rollback"  # the effect of the last rescale was checked and failed

    @property
    def finds_enough(self) -> bool:
        """Whether a policy that holds for this reason has judged the load, and found that what runs is right."""
        return self in {self.HOLD_GOOD, self.HOLD_RECENT_RESCALE, self.HOLD_UNFORESEEABLE, self.HOLD_FIXED}

    @classmethod
    def of_change(cls, current: int, chosen: int) -> Reason:
        """Return the reason of going from ``current`` to ``chosen`` workers; equal numbers mean that all is good."""
        if chosen == current:
            return cls.HOLD_GOOD
        return cls.SCALE_OUT if chosen > current else cls.SCALE_IN


@dataclass(frozen=True)
class SizedWorker:
    """A worker of one size: what it is given, costs, and is expected to process."""

    cpu_cores: float
    memory_mb: float
    price_per_h: float
    per_s: float  # records/s that one such worker processes at most
    extrapolated: bool = False  # whether ``per_s`` lies beyond what was sampled: it is then no more than a guess


@dataclass(frozen=True)
class Situation:
    """All that a policy may know at one tick."""

    now_s: float  # epoch seconds: the tick's one read of the clock
    scale_out: int  # workers that really run
    workload_per_s: float  # mean workload since the last tick, records/s
    # Mean workload over the last checkpoint interval, records/s: what a restart must replay at worst
    recent_workload_per_s: float
    lag_records: float | None  # consumer lag, records; ``None`` when it is not measured
    cpu_load: float | None  # mean CPU load over workers, ratio; ``None`` when it is not measured
    forecast: Forecast
    # Scale-out -> estimate, for every scale-out within the bounds; empty when nothing is known
    capacities: Mapping[int, Estimate]
    downtimes: Downtimes
    bounds: Bounds
    objectives: Objectives
    since_rescale_s: float = float("inf")  # seconds since the last rescale was applied; infinite when there was none
    rescales_today: int = 0  # rescales that were applied within the last 24 hours
    tick_interval_s: float = 60.0
    memory: Mapping[str, Any] = field(default_factory=dict)  # what the policy asked to remember with its last decision
    # Mean records/s since the last tick, summed over workers; ``None`` when it is not known
    throughput_per_s: float | None = None
    # worker_cpu, worker_busy: mean CPU load, and share of time in which the busiest task worked, since the last tick,
    # of each worker that reports now (ratios); empty when they are not measured
    worker_cpu: tuple[float, ...] = ()
    worker_busy: tuple[float, ...] = ()
    uptime_s: float | None = None  # seconds since the job last started; ``None`` when it is not measured
    # Mean of the p95 end-to-end latency since the last tick, ms; ``None`` when it is not measured
    latency_p95_ms: float | None = None
    # When in the last minutes it was above its objective, or the job stood still
    seen_late: SeenLate = field(default_factory=SeenLate)
    profiled: Profiled | None = None  # what the job's profile taught; ``None`` when it has none
    # Size -> worker of that size, for a job whose workers may differ and whose performance is known
    sizes: Mapping[str, SizedWorker] = field(default_factory=dict)
    # Size -> workers that run, zeros left out; they sum to ``scale_out``. Empty where workers are equal
    mix: Mapping[str, int] = field(default_factory=dict)
    # Mean workload of the last minutes, records/s, shape ``(n,)``, the newest last, NaN where it was not measured
    minutes: Values = field(default_factory=lambda: np.zeros(0))
    # How far ahead the load can be foreseen at all; ``None`` while that is not known
    foresight: Foresight | None = None
    events: tuple[str, ...] = ()  # names of the known events that the forecast reckons with
    idle_cpu: float = 0.0  # CPU load, as a ratio, that a worker of this job was found to use at least, whatever it does
    # A forecast in longer steps of more than the other one covers, for a policy that looks so far, where such forecasts
    # came true on this job; ``None`` where they did not, or not yet
    further: Forecast | None = None
    checkpointed: bool = False  # whether a checkpoint is to be made for each rescale, so that little is done again

    @property
    def again_s(self) -> float:
        """Seconds of work that a rescale does again at worst: of a checkpoint interval, or next to none.

        Where rescales lost far more than what comes during a checkpoint, those that are made for them fail, or are not
        waited for.
        """
        little = self.checkpointed and self.downtimes.lost_s < UNCHECKPOINTED_S
        return 0.0 if little else self.objectives.checkpoint_interval_s

    @property
    def lost_s(self) -> float:
        """Seconds of full capacity that a rescale costs beyond its downtime."""
        return max(self.downtimes.lost_s, 0.5 * self.again_s)

    @cached_property
    def measured(self) -> Values:
        """Mean workload of those of the last minutes that were measured, records/s."""
        return self.minutes[np.isfinite(self.minutes)]

    @property
    def known_minutes(self) -> int:
        """How many of the last minutes' workload were measured."""
        return len(self.measured)

    @cached_property
    def usable(self) -> tuple[Estimate, ...]:
        """The capacities that are known well enough to count on, from the fewest workers to the most."""
        return tuple(estimate for _, estimate in sorted(self.capacities.items()) if estimate.usable)

    @property
    def behind(self) -> bool:
        """Whether more waits than what flickers: a backlog that is worked off."""
        return self.lag_records is not None and self.lag_records > LITTLE_WAITS_S * max(self.workload_per_s, 1.0)

    @property
    def hottest_cpu(self) -> float | None:
        """CPU load of the busiest worker, else of all in the mean; ``None`` where it is not measured."""
        return max(self.worker_cpu, default=self.cpu_load)

    @property
    def late(self) -> bool:
        """Whether the p95 latency is above the objective, where it is measured."""
        return self.latency_p95_ms is not None and self.latency_p95_ms > self.objectives.latency_p95_ms

    def mix_per_s(self, mix: Mapping[str, int]) -> float | None:
        """Return what workers of these sizes process together, records/s; ``None`` where a size is not known."""
        if not mix or any(size not in self.sizes for size in mix):
            return None
        return sum(count * self.sizes[size].per_s for size, count in mix.items())

    def is_more(self, scale_out: int, mix: Mapping[str, int]) -> bool:
        """Whether these workers process more than those that run, or are more where a size is not known."""
        before, after = self.mix_per_s(self.mix), self.mix_per_s(mix)
        return scale_out > self.scale_out if before is None or after is None else after > before


@dataclass(frozen=True)
class Candidate:
    """One scale-out that was examined, and the rule that rejected it (``None``: it was accepted)."""

    scale_out: int
    capacity_per_s: float
    recovery_s: float | None
    rejected_by: str | None
    mix: Mapping[str, int] = field(default_factory=dict)  # size -> workers, where a mix of sizes was examined

    @classmethod
    def believed(cls, situation: Situation, scale_out: int, rejected_by: str | None = None) -> Candidate:
        """Return one with the capacity that is believed of it (NaN: unknown), of a policy that decides by another."""
        estimate = situation.capacities.get(scale_out)
        return cls(scale_out, math.nan if estimate is None else estimate.per_s, None, rejected_by)


@dataclass(frozen=True)
class Planned:
    """One stage of a plan over time."""

    after_s: float  # seconds from the decision to the stage's beginning
    load_per_s: float  # what is expected to arrive, records/s
    scale_out: int  # workers that the plan runs then
    late_share: float  # share of the stage's seconds that are expected to be late
    worker_s: float  # what the stage costs in worker-seconds, with the price of what is late and of a rescale
    lasts_s: float = 60.0  # seconds that the stage lasts


@dataclass(frozen=True)
class AgainstFixed:
    """What ran over the last hours against the best fixed size of the same hours; newer hours weigh more."""

    # workers, late_share: mean that ran, and the share of the time that was late
    workers: float
    late_share: float
    # fixed_workers, fixed_late_share: of the fewest workers that, kept, would have stayed within the error budget
    fixed_workers: float
    fixed_late_share: float
    loses: bool  # whether what ran needed clearly more, and was not late less often


@dataclass(frozen=True)
class Decision:
    """What a policy chose, and why.

    ``scale_out``: workers to run.
    ``sentence``: the binding constraint in one sentence, with its numbers.
    ``recovery_s``: predicted recovery time of the chosen scale-out in seconds; ``None`` where the policy predicts none.
    ``mix``: size -> workers to run, zeros left out; they sum to ``scale_out``. Empty: the policy knows no sizes.
    ``plan``: the coming stages as the policy expects them, the first one first; empty where it does not plan over time.
    ``budget_left``: what is left of the error budget of the last hours, fading over 8 h (1: all of it, below 0:
    overspent); ``None`` where the policy does not reckon with it.
    ``against_fixed``: what ran against a fixed size; ``None`` where the policy does not compare, or has not seen an
    hour yet.
    """

    policy: str
    scale_out: int
    reason: Reason
    sentence: str
    candidates: tuple[Candidate, ...] = ()
    recovery_s: float | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    mix: Mapping[str, int] = field(default_factory=dict)
    plan: tuple[Planned, ...] = ()
    budget_left: float | None = None
    against_fixed: AgainstFixed | None = None

    def rescales(self, situation: Situation) -> bool:
        """Whether other workers are wanted than run; a decision without a mix means the number alone."""
        swaps = bool(self.mix) and dict(self.mix) != dict(situation.mix)
        return swaps or self.scale_out != situation.scale_out

    def adds(self, situation: Situation) -> bool:
        """Whether more is wanted than runs."""
        return situation.is_more(self.scale_out, self.mix)

    def recovery_at(self, scale_out: int) -> float | None:
        """Return the predicted recovery time of a candidate in seconds, ``None`` where there is none."""
        return next((item.recovery_s for item in self.candidates if item.scale_out == scale_out), None)


class Policy(Protocol):
    """Pure and deterministic: the same situation gives the same decision.

    One that plans further ahead than the 15 minutes of the papers, where the load can be foreseen so far, has a
    ``horizon_s``: how far, seconds.
    """

    name: str
    # Whether it decides by what was learned of the job, which may be wrong, and not by what is measured alone
    learns: bool

    def decide(self, situation: Situation) -> Decision:
        """Choose a scale-out within the bounds."""
