"""What the Flink Autoscaler keeps of a job graph from interval to interval, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from perdix.policies.flink_autoscaler.delay import PendingScaleDown
from perdix.policies.flink_autoscaler.graph import Measured, Sample, Samples
from perdix.policies.flink_autoscaler.history import Rescale, Restart
from perdix.policies.flink_autoscaler.job import JobState
from perdix.policies.remembering import counts, finite_or_null, null_as_nan, number, part_of, parts_by_name, parts_of


class Asked(NamedTuple):
    """A rescale that was decided and not yet seen to have happened."""

    at_s: float
    parallelism: Mapping[str, int]


@dataclass(frozen=True)
class Memory:
    """``parallelism`` is what ran at the last interval (empty before the first), ``first_s`` when that was."""

    samples: Samples = ()
    state: JobState = field(default_factory=JobState)
    parallelism: Mapping[str, int] = field(default_factory=dict)
    first_s: float | None = None
    asked: Asked | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-serialisable values; what is not finite becomes null, and is not known afterwards."""
        return {
            "parallelism": dict(self.parallelism),
            "first_s": self.first_s,
            "asked": self.asked and [self.asked.at_s, dict(self.asked.parallelism)],
            "samples": [
                [sample.at_s, {name: _of_measured(m) for name, m in sample.vertices.items()}] for sample in self.samples
            ],
            "history": {
                name: [finite_or_null(value) for value in several] for name, several in self.state.history.items()
            },
            "restarts": [finite_or_null(restart) for restart in self.state.restarts],
            "pending": {name: waiting.to_json() for name, waiting in self.state.pending.items()},
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any], now_s: float, names: Sequence[str]) -> Memory:
        """Rebuild it for the operators ``names``; a part that cannot be read, or lies in the future, is left out."""
        parallelism = part_of(found.get("parallelism"), counts) or {}
        samples = [sample for sample in parts_of(found.get("samples"), _sample) if set(names) <= set(sample.vertices)]
        pending = {
            name: waiting
            for name, waiting in parts_by_name(found.get("pending"), PendingScaleDown.of_json).items()
            if waiting.first_s <= now_s and waiting.below(parallelism.get(name, 0))
        }
        history = parts_by_name(found.get("history"), lambda several: tuple(parts_of(several, Rescale.of_json)))
        known = {
            name: tuple(entry for entry in history[name] if entry.at_s <= now_s) for name in names if name in history
        }
        return cls(
            tuple(sample for sample in samples if sample.at_s < now_s),
            JobState(known, pending, tuple(parts_of(found.get("restarts"), Restart.of_json))),
            parallelism,
            part_of(found.get("first_s"), number),
            part_of(found.get("asked"), lambda values: Asked(number(values[0]), counts(values[1]))),
        )


def _of_measured(measured: Measured) -> list[float | None]:
    values = (
        measured.records_in,
        measured.records_out,
        measured.load,
        measured.in_per_s,
        measured.busy_ms,
        measured.lag,
        measured.observed_per_s,
    )
    return finite_or_null(values)


def _sample(values: Sequence[Any]) -> Sample:
    return Sample(number(values[0]), {str(name): _measured(measured) for name, measured in values[1].items()})


def _measured(values: Sequence[Any]) -> Measured:
    records_in, records_out, load, in_per_s, busy_ms, lag, observed_per_s = (null_as_nan(value) for value in values)
    return Measured(records_in, records_out, load, in_per_s, busy_ms, lag, observed_per_s)


def counters_of(sample: Sample | None, name: str) -> tuple[float, float, float]:
    """Return what a vertex had counted at a sample: records in, records out, busy milliseconds; zeros where unknown."""
    if sample is None:
        return 0.0, 0.0, 0.0
    one = sample.vertices[name]
    counters = (one.records_in, one.records_out, one.busy_ms)
    return counters if all(math.isfinite(value) for value in counters) else (0.0, 0.0, 0.0)
