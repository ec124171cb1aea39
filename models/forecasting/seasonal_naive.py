"""The naive forecasters: the workload stays as it was last measured, or is that of the same time of another day."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.member import Member, lead_s, stretched
from perdix.models.forecasting.regrid import mean_preserving
from perdix.models.forecasting.tail import NEEDED_COVERAGE, Tail
from perdix.telemetry.window import Values

KEEP_S = 600.0


@dataclass(frozen=True)
class LastValue(Member):
    """Repeats the newest finite rate: the bar that every other family must clear."""

    family: ClassVar[str] = "last-value"

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history. Raises ``ValueError`` when it has no finite rate."""
        cell_s = Tail.of(history, stretched(1.0, horizon_s)).cell_s
        return cls(cell_s, stretched(KEEP_S, horizon_s))

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the newest finite rate at every step."""
        return np.full(len(edges_s) - 1, tail.newest_per_s)


@dataclass(frozen=True)
class SeasonalNaive(Member):
    """Repeats what was measured one season earlier; it needs two seasons, so that it can be judged on one."""

    family: ClassVar[str] = "seasonal-naive"
    season_s: ClassVar[float] = 86_400.0

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history. Raises ``ValueError`` when it spans less than two seasons or is mostly missing."""
        span_s = history.step_s * len(history)
        if span_s < 2 * cls.season_s:
            raise ValueError(
                f"{cls.family} needs two seasons of {cls.season_s / 3600:g} h; the history spans {span_s / 3600:.1f} h"
            )
        tail = Tail.of(history, lead_s(history.step_s, horizon_s))
        share = np.isfinite(tail.per_s).mean()
        if share < NEEDED_COVERAGE:
            raise ValueError(f"{cls.family} needs values in half of the history; {share:.0%} of it has one")
        return cls(tail.cell_s, cls.season_s + 2.0 * horizon_s)

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the rates of one season earlier."""
        at_s = edges_s + tail.measured_end_s - self.season_s * np.ceil(max(edges_s[-1], 1.0) / self.season_s)
        first = max(0, int(np.floor((at_s[0] - tail.start_s) / tail.cell_s)) - 1)
        last = min(len(tail.per_s), int(np.ceil((at_s[-1] - tail.start_s) / tail.cell_s)) + 1)
        means = tail.per_s[first:last]
        finite = np.flatnonzero(np.isfinite(means))
        if at_s[0] < tail.start_s - 1e-6 or len(finite) < NEEDED_COVERAGE * max(len(means), 1):
            raise ValueError(f"{self.family}: the season before was not measured; use another family until it is")
        knots_s = tail.start_s + tail.cell_s * np.arange(first, last + 1, dtype=np.float64)
        filled = np.interp(np.arange(len(means)), finite, means[finite])
        return mean_preserving(knots_s, filled, at_s)

    def parameters(self) -> dict[str, Any]:
        """Return the season, for readers of the state."""
        return {"season_s": self.season_s}

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        """Rebuild. Raises ``ValueError`` when the state was fitted to another season."""
        if float(parameters["season_s"]) != cls.season_s:
            raise ValueError(f"the state has a season of {parameters['season_s']} s, not {cls.season_s} s; train again")
        return cls(cell_s, keep_s)


@dataclass(frozen=True)
class WeeklyNaive(SeasonalNaive):
    """Repeats what was measured a week earlier; it needs two weeks, so that it can be judged on one."""

    family: ClassVar[str] = "weekly-naive"
    season_s: ClassVar[float] = 7 * 86_400.0
