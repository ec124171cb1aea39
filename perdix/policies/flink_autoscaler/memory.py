"""What the policy keeps from tick to tick, as JSON: samples, timers, and what past rescales taught."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from perdix.policies.flink_autoscaler.delay import PendingScaleDown, Wanted
from perdix.policies.flink_autoscaler.graph import Measured, Sample, Samples
from perdix.policies.flink_autoscaler.history import Rescale, Restart
from perdix.policies.flink_autoscaler.job import JobState

JOB = "job"  # the one vertex, where the rule is applied to a job as a whole
MOST_SAMPLES = 256  # a window of 20 min at one sample every 5 s; faster ticks replace the newest sample instead
DIGITS = 6
Part = TypeVar("Part")


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
            "asked": self.asked and _finite(self.asked),
            "samples": [_of_sample(sample) for sample in self.samples],
            "history": [_finite(one) for one in self.state.history.get(JOB, ())],
            "restarts": [_finite(one) for one in self.state.restarts],
            "pending": pending and [pending.first_s, [[w.at_s, w.parallelism, w.outside] for w in pending.wanted]],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any], now_s: float) -> Memory:
        """Rebuild it; a part that cannot be read, or lies in the future, is left out."""
        history = _each(found.get("history"), lambda v: Rescale(_number(v[0]), int(v[1]), int(v[2]), *_numbers(v[3:5])))
        pending, scale_out = _part(found.get("pending"), _pending), _part(found.get("scale_out"), int) or 0
        due_below = pending is not None and pending.first_s <= now_s and pending.below(scale_out)
        return cls(
            tuple(one for one in _each(found.get("samples"), _sample) if one.at_s < now_s),
            JobState(
                {JOB: tuple(one for one in history if one.at_s <= now_s)} if history else {},
                {JOB: pending} if pending is not None and due_below else {},
                tuple(_each(found.get("restarts"), lambda values: Restart(*_numbers(values, 2)))),
            ),
            scale_out,
            _part(found.get("asked"), lambda values: Asked(_number(values[0]), int(values[1]))),
        )


def appended(samples: Samples, new: Sample, span_s: float) -> Samples:
    """Return the samples with a new one. Over ``span_s`` seconds they stay fewer than :data:`MOST_SAMPLES`."""
    spacing_s = span_s / (MOST_SAMPLES - 2)
    crowded = len(samples) > 1 and new.at_s - samples[-2].at_s < spacing_s
    return (*(samples[:-1] if crowded else samples), new)[-MOST_SAMPLES:]


def _of_sample(sample: Sample) -> list[float | None]:
    one = sample.vertices[JOB]
    return _finite([sample.at_s, one.records_in, one.load, one.in_per_s, one.busy_ms, one.lag, one.observed_per_s])


def _sample(values: Sequence[Any]) -> Sample:
    at_s, records_in, load, in_per_s, busy_ms, lag, observed_per_s = _numbers(values, 7)
    measured = Measured(records_in, math.nan, load, in_per_s, busy_ms, lag, observed_per_s)
    return Sample(_number(values[0]) if math.isfinite(at_s) else math.inf, {JOB: measured})


def _pending(values: Sequence[Any]) -> PendingScaleDown:
    wanted = tuple(Wanted(_number(at_s), int(n), bool(outside)) for at_s, n, outside in values[1])
    if any(before.parallelism <= after.parallelism for before, after in pairwise(wanted)):
        raise ValueError("not a monotonic deque")
    return PendingScaleDown(_number(values[0]), wanted)


def _finite(values: Sequence[float]) -> list[float | None]:
    return [round(value, DIGITS) if math.isfinite(value) else None for value in values]


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _numbers(values: Sequence[Any], count: int | None = None) -> list[float]:
    if count is not None and len(values) != count:
        raise ValueError(f"expected {count} numbers, found {len(values)}")
    return [_number(value) for value in values]


def _each(values: Any, read: Callable[[Any], Part]) -> list[Part]:
    found = (_part(value, read) for value in values) if isinstance(values, Sequence) else ()
    return [one for one in found if one is not None]


def _part(value: Any, read: Callable[[Any], Part]) -> Part | None:
    if value is None:
        return None
    try:
        return read(value)
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        return None
