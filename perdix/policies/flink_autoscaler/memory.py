"""What the policy keeps from tick to tick, as JSON: samples, timers, and what past rescales taught."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from perdix.policies.flink_autoscaler.delay import PendingScaleDown
from perdix.policies.flink_autoscaler.graph import Measured, Sample, Samples
from perdix.policies.flink_autoscaler.history import Rescale, Restart
from perdix.policies.flink_autoscaler.job import JobState
from perdix.policies.remembering import finite_or_null, null_as_nan, number, part_of, parts_of

JOB = "job"  # the one vertex, where the rule is applied to a job as a whole
MOST_SAMPLES = 256  # a window of 20 min at one sample every 5 s; faster ticks replace the newest sample instead


class Asked(NamedTuple):
    """A rescale that was decided and not yet seen to have happened."""

    at_s: float
    scale_out: int


@dataclass(frozen=True)
class Memory:
    """``scale_out`` is what ran at the last tick: 0 before the first."""

    samples: Samples = ()
    state: JobState = field(default_factory=JobState)
    scale_out: int = 0
    asked: Asked | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-serialisable values; what is not finite becomes null, and is not known afterwards."""
        pending = self.state.pending.get(JOB)
        return {
            "scale_out": self.scale_out,
            "asked": self.asked and finite_or_null(self.asked),
            "samples": [_of_sample(sample) for sample in self.samples],
            "history": [finite_or_null(value) for value in self.state.history.get(JOB, ())],
            "restarts": [finite_or_null(restart) for restart in self.state.restarts],
            "pending": pending and pending.to_json(),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any], now_s: float) -> Memory:
        """Rebuild it; a part that cannot be read, or lies in the future, is left out."""
        history = parts_of(found.get("history"), Rescale.of_json)
        pending = part_of(found.get("pending"), PendingScaleDown.of_json)
        scale_out = part_of(found.get("scale_out"), int) or 0
        due_below = pending is not None and pending.first_s <= now_s and pending.below(scale_out)
        return cls(
            tuple(sample for sample in parts_of(found.get("samples"), _sample) if sample.at_s < now_s),
            JobState(
                {JOB: tuple(rescale for rescale in history if rescale.at_s <= now_s)} if history else {},
                {JOB: pending} if pending is not None and due_below else {},
                tuple(parts_of(found.get("restarts"), Restart.of_json)),
            ),
            scale_out,
            part_of(found.get("asked"), lambda values: Asked(number(values[0]), int(values[1]))),
        )


def appended(samples: Samples, new: Sample, span_s: float) -> Samples:
    """Return the samples with a new one. Over ``span_s`` seconds they stay fewer than :data:`MOST_SAMPLES`."""
    spacing_s = span_s / (MOST_SAMPLES - 2)
    crowded = len(samples) > 1 and new.at_s - samples[-2].at_s < spacing_s
    return (*(samples[:-1] if crowded else samples), new)[-MOST_SAMPLES:]


def _of_sample(sample: Sample) -> list[float | None]:
    one = sample.vertices[JOB]
    values = (sample.at_s, one.records_in, one.load, one.in_per_s, one.busy_ms, one.lag, one.observed_per_s)
    return finite_or_null(values)


def _sample(values: Sequence[Any]) -> Sample:
    at_s, records_in, load, in_per_s, busy_ms, lag, observed_per_s = (null_as_nan(value) for value in values)
    measured = Measured(records_in, math.nan, load, in_per_s, busy_ms, lag, observed_per_s)
    return Sample(number(at_s), {JOB: measured})
