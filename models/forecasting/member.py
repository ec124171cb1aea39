"""The contract of a family of forecasters: one way to forecast, fitted to one job."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.tail import Tail
from perdix.settings.stored import restored, stored
from perdix.telemetry.window import Values

LEADS = 15  # parts of the horizon in which errors are distinguished: minutes of the papers' 15


@dataclass(frozen=True)
class Member(ABC):
    """What was fitted, and how to forecast from it; holds no data, and is deterministic by seed.

    Made for a horizon: lengths that suit 900 s at second level are stretched with it (:func:`stretched`), so that the
    same family forecasts minutes by seconds and half a day by hours. Days and weeks stay days and weeks.
    """

    family: ClassVar[str]

    # cell_s, keep_s: what :meth:`project` wants to be given: the newest ``keep_s`` seconds in cells of ``cell_s``
    # seconds
    cell_s: float
    keep_s: float

    @classmethod
    @abstractmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:
        """Fit to a history: to this and nothing else, whatever array it is a part of.

        Rates are finite, at least 0 and at most 1e15 records/s; NaN where nothing was measured.

        Raises ``ValueError``, naming what is missing, when the history is too short or empty.
        """

    @abstractmethod
    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return mean rates between ``edges_s`` (seconds after the newest measurement); may be negative.

        Raises ``ValueError`` when the tail holds too little.
        """

    def parameters(self) -> dict[str, Any]:
        """Return what was fitted, JSON-serialisable, ``cell_s`` and ``keep_s`` left out; here no field is an array."""
        return {name: value for name, value in stored(self).items() if name not in {"cell_s", "keep_s"}}

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`parameters`.

        Raises ``StateVersionError`` when a library of this version cannot read what that of another wrote;
        ``ValueError`` when something is missing or does not fit together.
        """
        return restored(cls, {**parameters, "cell_s": cell_s, "keep_s": keep_s})

    def given(self, shared: Mapping[str, Mapping[str, Any]]) -> Self:  # noqa: ARG002
        """Return the member with the models that it shares with other jobs (name -> state), if it refers to any."""
        return self

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {"family": self.family, "cell_s": self.cell_s, "keep_s": self.keep_s, "parameters": self.parameters()}


def stretched(seconds: float, horizon_s: float) -> float:
    """Return a length that suits a horizon of 900 s, stretched to another horizon."""
    return seconds * horizon_s / HORIZON_S


def lead_s(step_s: float, horizon_s: float) -> float:
    """Return the length of a part of the horizon: a fifteenth, in whole steps of the workload."""
    return step_s * max(1.0, round(horizon_s / LEADS / step_s))
