"""What all forecasters here share: a tail of the workload, the spread of their errors, and the way to a forecast."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from models.forecasting.contract import Forecast, Forecaster, Values, Workload
from models.forecasting.spread import Spread
from models.forecasting.tail import Tail

STATE_FORMAT = 1


@dataclass(frozen=True)
class TailForecaster(Forecaster):
    """A forecaster whose forecast is a function of its parameters and of the newest part of the workload.

    Subclasses give the parameters as further fields, :meth:`project`, and how long a tail they need.
    """

    keep_s: ClassVar[float]
    least_cell_s: ClassVar[float] = 1.0

    tail: Tail
    spread: Spread

    @abstractmethod
    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return mean rates between ``edges_s`` (seconds after the newest measurement); may be negative.

        Raises ``ValueError`` when the tail holds too little.
        """

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return what was fitted, JSON-serialisable."""

    @classmethod
    @abstractmethod
    def with_parameters(cls, tail: Tail, spread: Spread, parameters: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`parameters`."""

    def update(self, observed: Workload) -> Self:
        """Return the forecaster after new observations: same parameters, longer tail; overlaps are ignored."""
        tail = self.tail.append(observed, self.keep_s)
        return self if tail is self.tail else replace(self, tail=tail)

    def on(self, history: Workload) -> Self:
        """Return the same parameters on another stretch of the workload, forgetting the tail so far.

        A champion that has been idle is brought up to date so, or judged on a window of the past.
        """
        return replace(self, tail=Tail.of(history, self.tail.cell_s, self.keep_s))

    def forecast(self, horizon_s: float, step_s: float = 1.0) -> Forecast:
        """Forecast from the end of what was seen, ``ceil(horizon_s / step_s)`` steps.

        Where the newest observations are missing, the forecast is made from the newest measurement across the gap.
        Raises ``ValueError`` when nothing finite is left in the tail, or when horizon or step are not positive.
        """
        if not (horizon_s > 0.0 and step_s > 0.0):
            raise ValueError(f"horizon {horizon_s} s and step {step_s} s must be above zero")
        if not np.isfinite(self.tail.per_s).any():
            raise ValueError(
                f"{self.family}: no measured workload in the last {self.keep_s:.0f} s; update() with newer observations"
            )
        gap_s = self.tail.end_s - self.tail.measured_end_s
        edges_s = gap_s + step_s * np.arange(int(np.ceil(horizon_s / step_s - 1e-9)) + 1, dtype=np.float64)
        mean = np.maximum(self.project(self.tail, edges_s), 0.0)
        quantiles = self.spread.around(mean, edges_s[1:])
        return Forecast(self.tail.end_s, step_s, mean, quantiles, self.family)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state (a few kB)."""
        return {
            "format": STATE_FORMAT,
            "family": self.family,
            "parameters": self.parameters(),
            "spread": self.spread.to_state(),
            "tail": self.tail.to_state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when the state is not one of this family."""
        if state.get("family") != cls.family or state.get("format") != STATE_FORMAT:
            found = f"family {state.get('family')!r}, format {state.get('format')!r}"
            raise ValueError(
                f"a state of {cls.family!r}, format {STATE_FORMAT}, was expected, not {found}; train again"
            )
        try:
            tail, spread = Tail.from_state(state["tail"]), Spread.from_state(state["spread"])
            return cls.with_parameters(tail, spread, state["parameters"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the state of {cls.family!r} is damaged ({error!r}); train again") from error
