"""What was forecast lately, and what came of it: the evidence for weights, quantiles, and whether to go on.

Its rates are kept as short text, rounded to what matters.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from perdix.models.forecasting.failures import positive
from perdix.models.forecasting.tail import EPSILON_S, Tail
from perdix.models.forecasting.weighting import apart, combine, relative, weights_of
from perdix.settings.replacing import replace
from perdix.telemetry.window import Values

ORIGINS_KEPT = 240  # four hours of origins a minute apart
_RATES = ("forecasts", "combined", "actual", "peaks")
KEPT_BITS = 13  # of a 32-bit number's 23: a rate is kept to 0.006 %
_DROPPED = 23 - KEPT_BITS
_HALF, _KEPT = np.uint32(1 << (_DROPPED - 1)), np.uint32(0xFFFFFFFF >> _DROPPED << _DROPPED)
_PLANES = 4  # bytes of a 32-bit number


@dataclass(frozen=True)
class TrackRecord:
    """Forecasts of every member from recent origins, in parts of the horizon, beside the truth. Immutable."""

    # Length of a part of the horizon in seconds; part ``k`` covers ``[k lead_s, (k + 1) lead_s)`` after the origin
    lead_s: float
    origins_s: Values  # epoch seconds, ascending, shape ``(origins,)``
    # Mean rates that each member forecast, records/s, shape ``(origins, members, leads)``, 32-bit; NaN where it could
    # not
    forecasts: Values
    combined: Values  # what was said for all of them together, shape ``(origins, leads)``
    # actual, peaks: mean and highest measured rate of each part, shape ``(origins, leads)``; NaN until it is over
    actual: Values
    peaks: Values

    @classmethod
    def empty(cls, members: int, leads: int, lead_s: float) -> Self:
        """Return a record without origins."""
        none = np.empty((0, leads))
        return cls(lead_s, np.empty(0), _narrow(np.empty((0, members, leads))), none, none, none)

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

    @property
    def weighed(self) -> bool:
        """Whether there are members to weigh against each other: for one alone nobody asks how far off it was."""
        return bool(self.forecasts.shape[1] > 1)

    @cached_property
    def weights(self) -> Values:
        """How much each member counts now, shape ``(members, leads)``."""
        return weights_of(self)

    @cached_property
    def missed(self) -> Values:
        """How far each member was off, in units of all members' usual error there, 32-bit.

        Shape ``(origins, members, leads)``; NaN until the part is over.
        """
        return relative(np.abs(self.forecasts - self.actual[:, None, :]))

    @cached_property
    def units(self) -> tuple[Values, Values, Values]:
        """In what errors count: how far members were apart; the highest rate said so far, and how far apart on that.

        Shape ``(origins, leads)`` each.
        """
        tops = np.maximum.accumulate(self.combined, axis=1)
        return apart(self.forecasts, self.combined), tops, apart(np.maximum.accumulate(self.forecasts, axis=2), tops)

    def issued(self, origin_s: float, forecasts: Values) -> Self:
        """Return the record with another origin, the oldest ones beyond :data:`ORIGINS_KEPT` left out.

        Raises ``ValueError`` when no member has a forecast of some part.
        """
        unknown = np.full((1, self.leads), np.nan)
        newest: dict[str, Any] = {"origins_s": np.array([origin_s]), "forecasts": _narrow(rounded(forecasts)[None])}
        newest |= dict.fromkeys(("combined", "actual", "peaks"), unknown)
        longer: dict[str, Any] = {name: _longer(getattr(self, name), values) for name, values in newest.items()}
        record = replace(self, **longer)
        if self.weighed:
            record._knows("missed", _longer(self.missed, _narrow(np.full((1, *forecasts.shape), np.nan))))
        record.combined[-1] = rounded(combine(forecasts, record.weights))
        alone = replace(record, **{**newest, "combined": record.combined[-1:]})
        record._knows("units", tuple(map(_longer, self.units, alone.units)))
        return record

    def settled(self, tail: Tail, since_s: float) -> Self:
        """Return the record with the truth of all parts that have ended since ``since_s`` (epoch seconds)."""
        edges_s = self.edges_s
        first = int(self.origins_s.searchsorted(since_s - edges_s[-1]))  # all parts of those before are known
        ends_s = self.origins_s[first:, None] + edges_s[1:]
        origins, leads = np.nonzero((ends_s > since_s + EPSILON_S) & (ends_s <= tail.end_s + EPSILON_S))
        if not len(origins):
            return self
        ends_s, origins = ends_s[origins, leads], first + origins
        means = tail.means_between(ends_s - self.lead_s, ends_s)
        highest = np.where(np.isfinite(means), tail.peaks_between(ends_s - self.lead_s, ends_s), np.nan)
        actual, peaks = self.actual.copy(), self.peaks.copy()
        actual[origins, leads], peaks[origins, leads] = rounded(np.array([means, highest]))
        record = replace(self, actual=actual, peaks=peaks)
        record._knows("units", self.units)
        if self.weighed:
            missed = self.missed.copy()
            apart_per_s = np.abs(self.forecasts[origins, :, leads] - actual[origins, leads][:, None])
            missed[origins, :, leads] = relative(apart_per_s)
            record._knows("missed", missed)
        return record

    def until(self, end_s: float) -> Self:
        """Return the record of the origins up to ``end_s`` (epoch seconds)."""
        kept = int(np.searchsorted(self.origins_s, end_s, side="right"))
        return replace(self, **{name: getattr(self, name)[:kept] for name in ("origins_s", *_RATES)})

    def _knows(self, derived: str, value: Any) -> None:
        """Keep what follows from the record before, in place of working all of it out anew."""
        self.__dict__[derived] = value

    def only(self, member: int) -> Self:
        """Return the record of one member alone: what it forecast is what was said."""
        return replace(self, forecasts=self.forecasts[:, member : member + 1], combined=self.forecasts[:, member])

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state: rates as short text, times as base64 of 64-bit numbers."""
        times = base64.b64encode(np.ascontiguousarray(self.origins_s, dtype="<f8").tobytes()).decode()
        rates = {name: packed(getattr(self, name)) for name in _RATES}
        sizes = {"members": self.forecasts.shape[1], "leads": self.leads}
        return {"lead_s": self.lead_s, **sizes, "origins_s": times, "packed": rates}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when sizes do not agree."""
        leads, members = int(state["leads"]), int(state["members"])
        origins_s = _numbers(state["origins_s"], "<f8")
        shapes = {name: (len(origins_s), leads) for name in _RATES} | {"forecasts": (len(origins_s), members, leads)}
        if "packed" in state:
            shaped = {name: unpacked(state["packed"][name], shape) for name, shape in shapes.items()}
        else:  # as it was written until version 0.1
            shaped = {name: _numbers(state[name], "<f4").reshape(shape) for name, shape in shapes.items()}
        if not (np.diff(origins_s) > 0.0).all():
            raise ValueError("the origins of a track record do not ascend")
        shaped["forecasts"] = _narrow(shaped["forecasts"])
        return cls(positive("lead_s", state["lead_s"]), origins_s, **shaped)


def _longer(older: Values, newest: Values) -> Values:
    """Return what there is of each origin with the newest one, the oldest beyond what is kept left out."""
    return np.concatenate([older[max(len(older) + 1 - ORIGINS_KEPT, 0) :], newest])


def _narrow(forecasts: Values) -> Values:
    """Return rounded rates as 32-bit numbers, which hold them as they are: by far the most of a job's memory."""
    return forecasts.astype(np.float32)


def _numbers(text: str, kind: str) -> Values:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind).astype(np.float64)


def rounded(values: Values) -> Values:
    """Return rates as :func:`packed` keeps them, so that a restart changes nothing."""
    near = (np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) + _HALF) & _KEPT
    return np.where(np.isfinite(values), near.view(np.float32), values).astype(np.float64, copy=False)


def packed(values: Values) -> str:
    """Return text that :func:`unpacked` turns into ``rounded(values)``.

    It is short where neighbours along the last axis are alike: differences have few digits, and bytes of equal weight
    put together repeat.
    """
    if not values.size:
        return ""
    bits = rounded(values).astype(np.float32).view(np.uint32)
    codes = np.where(np.isnan(values), np.float32(np.nan).view(np.uint32), bits) >> np.uint32(_DROPPED)
    steps = np.diff(codes.astype(np.int64), axis=-1, prepend=0)
    alternating = np.where(steps < 0, -2 * steps - 1, 2 * steps).astype("<u4")  # small either way
    planes = np.ascontiguousarray(alternating).view(np.uint8).reshape(-1, _PLANES).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def unpacked(text: str, shape: tuple[int, ...]) -> Values:
    """Return the values of a text in a shape. Raises ``ValueError`` when it is no such text, or one of another size."""
    size = int(np.prod(shape))
    if not text and not size:
        return np.empty(shape)
    stream = zlib.decompressobj()
    try:
        planes = stream.decompress(base64.b64decode(text, validate=True), size * _PLANES + 1)
    except zlib.error as error:
        raise ValueError(f"an array is damaged ({error})") from None
    if len(planes) != size * _PLANES or not stream.eof:
        raise ValueError(f"an array of {size} values and its text differ in length")
    alternating = np.frombuffer(planes, dtype=np.uint8).reshape(_PLANES, size).T.copy().view("<u4").astype(np.int64)
    steps = np.where(alternating & 1, -(alternating + 1) // 2, alternating // 2).reshape(shape)
    codes = np.cumsum(steps, axis=-1).astype(np.uint32)
    return (codes << np.uint32(_DROPPED)).view(np.float32).astype(np.float64)
