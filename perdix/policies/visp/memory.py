"""What the policy ``visp`` remembers from tick to tick, made to agree with the workers that really run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perdix.policies.contract import Situation
from perdix.policies.hosts.btu import AGAIN
from perdix.policies.hosts.plan import LEASED
from perdix.policies.remembering import finite_or_null, number, parts_by_name, parts_of
from perdix.policies.visp.hosts import Placement
from perdix.policies.visp.options import VispOptions


@dataclass(frozen=True)
class Remembered:
    """What travels with the decisions."""

    placed: Placement  # hosts and workers as they are, and
    # as they will be once what was decided last has happened: a guard may refuse it, and a rescale takes a while
    planned: Placement | None = None
    latencies_s: tuple[float, ...] = ()  # the last p95 latencies outside the grace of rescales, oldest first
    scalings: int = 0  # rescales that were decided and happened
    # again, leased: as the policies of hosts remember them
    again: Mapping[str, float] = field(default_factory=dict)
    leased: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-serialisable values."""
        return {
            "hosts": self.placed.to_json(),
            "planned": None if self.planned is None else self.planned.to_json(),
            "latencies_s": finite_or_null(self.latencies_s),
            "scalings": self.scalings,
            AGAIN: dict(self.again),
            LEASED: self.leased,
        }

    @classmethod
    def of(cls, situation: Situation, options: VispOptions) -> Remembered:
        """Return what was remembered, made to agree with the workers that really run."""
        found, now_s = situation.memory, situation.now_s
        placed = Placement.read(found.get("hosts"), options, now_s)
        planned = Placement.read(found.get("planned"), options, now_s)
        happened = planned is not None and planned.workers == situation.scale_out
        base = (planned if happened else placed) or Placement()
        return cls(
            base.matched(situation.scale_out, options, now_s),
            None,
            tuple(parts_of(found.get("latencies_s"), number)),
            count_of(found.get("scalings")) + happened,
            parts_by_name(found.get(AGAIN), number),
            count_of(found.get(LEASED)),
        )


def count_of(value: Any) -> int:
    """Return a number that was remembered; 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
