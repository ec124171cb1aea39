"""What was forecast lately, and what came of it: the evidence for weights, quantiles, and whether to go on."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from models.forecasting.contract import Values
from models.forecasting.failures import positive
from models.forecasting.tail import EPSILON_S, Tail

ORIGINS_KEPT = 240  # four hours of origins a minute apart
_ARRAYS = ("origins_s", "forecasts", "combined", "actual", "peaks")


@dataclass(frozen=True)
class TrackRecord:
    """Forecasts of every member from recent origins, in parts of the horizon, beside the truth. Immutable.

    Attributes
    ----------
    lead_s
        Length of a part of the horizon in seconds; part ``k`` covers ``[k lead_s, (k + 1) lead_s)`` after the origin.
    origins_s
        Epoch seconds, ascending, shape ``(origins,)``.
    forecasts
        Mean rates that each member forecast, records/s, shape ``(origins, members, leads)``; NaN where it could not.
    combined
        What was said for all of them together, shape ``(origins, leads)``.
    actual, peaks
        Mean and highest measured rate of each part, shape ``(origins, leads)``; NaN until it is over.
    """

    lead_s: float
    origins_s: Values
    forecasts: Values
    combined: Values
    actual: Values
    peaks: Values

    @classmethod
    def empty(cls, members: int, leads: int, lead_s: float) -> Self:
        """Return a record without origins."""
        none = np.empty((0, leads))
        return cls(lead_s, np.empty(0), np.empty((0, members, leads)), none, none, none)

    def __len__(self) -> int:
        return len(self.origins_s)

    @property
    def leads(self) -> int:
        """Parts of the horizon."""
        return int(self.combined.shape[1])

    @property
    def edges_s(self) -> Values:
        """Boundaries of the parts in seconds after an origin, shape ``(leads + 1,)``."""
        return self.lead_s * np.arange(self.leads + 1, dtype=np.float64)

    def issued(self, origin_s: float, forecasts: Values, combined: Values) -> Self:
        """Return the record with another origin, the oldest ones beyond :data:`ORIGINS_KEPT` left out."""
        unknown = np.full((1, self.leads), np.nan)
        longer: dict[str, Any] = {
            "origins_s": np.append(self.origins_s, origin_s),
            "forecasts": np.concatenate([self.forecasts, _as_kept(forecasts)[None]]),
            "combined": np.concatenate([self.combined, _as_kept(combined)[None]]),
            "actual": np.concatenate([self.actual, unknown]),
            "peaks": np.concatenate([self.peaks, unknown]),
        }
        return replace(self, **{name: values[-ORIGINS_KEPT:] for name, values in longer.items()})

    def settled(self, tail: Tail, since_s: float) -> Self:
        """Return the record with the truth of all parts that have ended since ``since_s`` (epoch seconds)."""
        ends_s = self.origins_s[:, None] + self.edges_s[None, 1:]
        over = (ends_s > since_s + EPSILON_S) & (ends_s <= tail.end_s + EPSILON_S)
        if not over.any():
            return self
        starts = ends_s[over] - self.lead_s
        actual, peaks = self.actual.copy(), self.peaks.copy()
        actual[over] = _as_kept(tail.means_between(starts, ends_s[over]))
        peaks[over] = _as_kept(np.where(np.isfinite(actual[over]), tail.peaks_between(starts, ends_s[over]), np.nan))
        return replace(self, actual=actual, peaks=peaks)

    def only(self, member: int) -> Self:
        """Return the record of one member alone: what it forecast is what was said."""
        return replace(self, forecasts=self.forecasts[:, member : member + 1], combined=self.forecasts[:, member])

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state: arrays as base64 of 32-bit numbers, times as 64-bit ones."""
        packed = {name: _packed(getattr(self, name)) for name in _ARRAYS}
        return {"lead_s": self.lead_s, "members": self.forecasts.shape[1], "leads": self.leads, **packed}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when sizes do not agree."""
        leads, members = int(state["leads"]), int(state["members"])
        arrays = {name: _unpacked(state[name], "<f8" if name == "origins_s" else "<f4") for name in _ARRAYS}
        shapes = {"origins_s": (-1,), "forecasts": (-1, members, leads)}
        shaped = {name: values.reshape(shapes.get(name, (-1, leads))) for name, values in arrays.items()}
        if len({len(values) for values in shaped.values()}) != 1:
            raise ValueError("the parts of a track record differ in length")
        if not (np.diff(shaped["origins_s"]) > 0.0).all():
            raise ValueError("the origins of a track record do not ascend")
        return cls(positive("lead_s", state["lead_s"]), **shaped)


def _as_kept(values: Values) -> Values:
    """Return values as a state holds them, so that a restart changes no forecast."""
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def _packed(values: Values) -> str:
    kind = "<f8" if values.ndim == 1 else "<f4"
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()


def _unpacked(text: str, kind: str) -> Values:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind).astype(np.float64)
