"""Options of the Flink Autoscaler's rule; the defaults are the original's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from perdix.settings.strict import Strict

Alignment = Literal["BALANCED", "EVENLY_SPREAD", "OFF", "LEGACY_EVENLY_SPREAD", "LEGACY_MAXIMISE_UTILISATION"]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=604_800)]
Factor = Annotated[float, Field(ge=0)]

# What its operators turn first: a shorter memory, head-room before saturation, and quicker scaling in.
PRESETS: Mapping[str, Mapping[str, float]] = {
    "default": {},
    "tuned": {"window_s": 180.0, "utilisation_max": 0.8, "scale_down_interval_s": 600.0},
}


class FlinkAutoscalerOptions(Strict):
    """Options of the rule. In brackets, what the original calls them after ``job.autoscaler.``.

    ``preset``: which defaults to begin with; any option that is given counts more.
    ``window_s``, ``stabilisation_s``: how long metrics are gathered before a decision (``metrics.window``), and how
    long after a start before that (``stabilization.interval``).
    ``utilisation_target``: share of its true rate that a vertex is sized for (``utilization.target``).
    ``utilisation_max``, ``utilisation_min``: nothing happens while every vertex lies between them;
    ``utilisation_boundary`` from the target when absent (``utilization.max``, ``.min``,
    ``target.utilization.boundary``).
    ``scale_down_interval_s``: for so long scaling in must have been wanted; then the most that was wanted in that time
    is taken (``scale-down.interval``).
    ``vertex_min``, ``vertex_max``: bounds of a vertex; what runs is never outside (``vertex.min-parallelism``,
    ``.max-parallelism``).
    ``max_down_factor``, ``max_up_factor``: what one decision may change, as a share of the present parallelism
    (``scale-down.max-factor``, ``scale-up``).
    ``catch_up_s``: in how long a backlog should be worked off; 0 leaves it out of account (``catch-up.duration``).
    ``restart_s``, ``track_restarts``, ``restart_limit_s``: how long a restart is assumed to take, whether observed
    restarts are taken instead, and at most how long (``restart.time``, ``restart.time-tracking.enabled``, ``.limit``).
    ``backlog_after_s``: a lag worth this many seconds of input makes it a job that works off a backlog: it is not
    scaled in (``backlog-processing.lag-threshold``).
    ``observed_lag_s``, ``observed_switch``, ``observed_least``: the rate observed while catching up (lag above this
    many seconds of input) replaces the one from busy time where that is greater by this share and so often observed
    (``observed-true-processing-rate.*``).
    ``detect_ineffective``, ``least_gain``: whether a scale-out that follows one which brought less than this share of
    what was expected is blocked (``scaling.effectiveness.detection.enabled``, ``scaling.effectiveness.threshold``).
    ``busy_aggregator``: which busy time stands for all subtasks (``metrics.busy-time.aggregator``).
    ``learn_scalability``, ``scalability_least``, ``scalability_min``: whether past rescales show what a further
    instance is worth, from how many on, and the least that it is taken for (``observed-scalability.*``).
    ``history_count``, ``history_age_s``: how many rescales are remembered, and for how long (``history.max.count``,
    ``.age``).
    ``alignment``: how the parallelism is fitted to partitions or key groups (``scaling.parallelism-alignment.mode``);
    the legacy modes are those of the deprecated ``scaling.key-group.partitions.adjust.mode``.
    ``partitions``, ``max_parallelism``: partitions of the source and key groups of the job, where this is applied to a
    job as a whole; without partitions nothing is aligned, without key groups the job's upper bound counts.
    """

    preset: Literal["default", "tuned"] = "default"
    window_s: Annotated[float, Field(gt=0, le=86_400)] = 900.0
    stabilisation_s: Seconds = 300.0
    utilisation_target: Annotated[float, Field(gt=0, le=1)] = 0.7
    utilisation_max: Annotated[float, Field(gt=0, le=2)] | None = None
    utilisation_min: Share | None = None
    utilisation_boundary: Share = 0.3
    scale_down_interval_s: Seconds = 3_600.0
    vertex_min: Annotated[int, Field(ge=1)] = 1
    vertex_max: Annotated[int, Field(ge=1)] = 200
    max_down_factor: Share = 0.6
    max_up_factor: Factor = 100_000.0
    catch_up_s: Seconds = 1_800.0
    restart_s: Seconds = 300.0
    track_restarts: bool = False
    restart_limit_s: Seconds = 900.0
    backlog_after_s: Seconds = 300.0
    observed_lag_s: Seconds = 30.0
    observed_switch: Factor = 0.15
    observed_least: Annotated[int, Field(ge=1)] = 2
    detect_ineffective: bool = False
    least_gain: Share = 0.1
    busy_aggregator: Literal["MAX", "MIN", "AVG"] = "MAX"
    learn_scalability: bool = False
    scalability_least: Annotated[int, Field(ge=1)] = 3
    scalability_min: Annotated[float, Field(gt=0, le=1)] = 0.5
    history_count: Annotated[int, Field(ge=1, le=1_000)] = 3
    history_age_s: Seconds = 86_400.0
    alignment: Alignment = "BALANCED"
    partitions: Annotated[int, Field(ge=1)] | None = None
    max_parallelism: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        name = given.get("preset", "default")
        return {**(PRESETS.get(name, {}) if isinstance(name, str) else {}), **given}

    @model_validator(mode="after")
    def _ordered(self) -> FlinkAutoscalerOptions:
        low, high = self.utilisation_bounds()
        if not low <= self.utilisation_target <= high:
            raise ValueError(
                f"utilisation_target {self.utilisation_target} is not between utilisation_min {low} and "
                f"utilisation_max {high}; move one of them"
            )
        if self.vertex_min > self.vertex_max:
            raise ValueError(f"vertex_min {self.vertex_min} is above vertex_max {self.vertex_max}; swap or widen them")
        return self

    def utilisation_bounds(self) -> tuple[float, float]:
        """Return the least and the greatest utilisation at which nothing happens."""
        target, boundary = self.utilisation_target, self.utilisation_boundary
        low = target - boundary if self.utilisation_min is None else self.utilisation_min
        high = target + boundary if self.utilisation_max is None else self.utilisation_max
        return round(low, 9), round(high, 9)  # 0.7 - 0.3 is 0.4
