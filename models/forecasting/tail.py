"""The newest part of a job's workload, kept in cells of one length: all that a fitted forecaster must remember.

Appending ignores what was seen before, leaves gaps as NaN, and accepts any sampling step. Rates are means over time, so
everything here moves *amounts* (records) and *covered seconds* from one grid to another and divides at the end.
"""

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from perdix.models.forecasting.amounts import steps, sums
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.failures import NotForecastableError, positive
from perdix.telemetry.window import Values

EPSILON_S = 1e-6
NEEDED_COVERAGE = 0.5
MOST_BYTES = 64_000_000  # of rates in a state: a little text of a stranger may inflate to a thousand times as much


@dataclass(frozen=True)
class Tail:
    """Mean rates in consecutive cells; the last cell may be cut short by ``end_s``."""

    start_s: float  # epoch seconds at which the first cell begins
    cell_s: float  # length of a cell in seconds
    per_s: Values  # mean rate of each cell over the part that has been measured, records/s, shape ``(n,)``; NaN in gaps
    end_s: float  # epoch seconds up to which time has passed: the origin of a forecast

    @classmethod
    def of(cls, workload: Workload, least_cell_s: float, keep_s: float = np.inf) -> Self:
        """Cut a workload into cells of its own step, or of ``least_cell_s`` where it is finer. Raises as ``cut_up``."""
        return cls.cut_up(workload, max(workload.step_s, least_cell_s), keep_s)

    @classmethod
    def cut_up(cls, workload: Workload, cell_s: float, keep_s: float) -> Self:
        """Cut a workload into cells of ``cell_s``, whatever its own step.

        Raises ``ValueError`` when there is not a single finite rate.
        """
        if not np.isfinite(workload.per_s).any():
            raise NotForecastableError(
                f"the history has {len(workload)} steps and none with a value; ingest more of the job's workload first"
            )
        return cls(workload.start_s, cell_s, np.empty(0), workload.start_s).append(workload, keep_s)

    def edges_s(self) -> Values:
        """Return the boundaries of the cells in epoch seconds, shape ``(n + 1,)``; read only."""
        return self._edges_s

    @cached_property
    def _edges_s(self) -> Values:
        edges = self.start_s + self.cell_s * np.arange(len(self.per_s) + 1, dtype=np.float64)
        edges[-1] = self.end_s if len(self.per_s) else self.start_s
        return edges

    @cached_property
    def finite(self) -> NDArray[np.bool_]:
        """Which cells were measured, shape ``(n,)``."""
        return np.isfinite(self.per_s)

    @cached_property
    def gapless(self) -> bool:
        """Whether all its cells were measured."""
        return bool(self.finite.all())

    @cached_property
    def measured(self) -> int:
        """How many cells there are up to the newest finite one; 0 when there is none."""
        return len(self.per_s) - int(self.finite[::-1].argmax()) if self.known else 0

    @property
    def measured_end_s(self) -> float:
        """Epoch seconds at which the newest finite cell ends; ``start_s`` when there is none."""
        return min(self.end_s, self.start_s + self.cell_s * self.measured) if self.known else self.start_s

    @cached_property
    def known(self) -> bool:
        """Whether a rate of it is finite."""
        return bool(self.finite.any())

    @cached_property
    def highest_per_s(self) -> float:
        """The highest rate, records/s; 0 when there is none."""
        return float(np.fmax.reduce(self.per_s, initial=0.0))

    @cached_property
    def mean_per_s(self) -> float:
        """Mean of the finite rates, records/s; NaN when there is none."""
        return float(np.where(self.finite, self.per_s, 0.0).sum() / self.finite.sum()) if self.known else np.nan

    @property
    def newest_per_s(self) -> float:
        """The newest finite rate, records/s. Raises ``ValueError`` when there is none."""
        if not self.known:
            raise NotForecastableError("no workload was measured lately; update() with newer observations")
        return float(self.per_s[self.measured - 1])

    def append(self, observed: Workload, keep_s: float) -> Self:
        """Return the tail with what ``observed`` adds after the newest finite cell, cut to the last ``keep_s`` seconds.

        Values inside what was already measured are ignored, missing ones that arrive late are taken. A gap before
        ``observed`` becomes NaN cells, and one longer than ``keep_s`` starts the tail anew.
        """
        seen_s = self.measured_end_s
        if observed.end_s <= seen_s + EPSILON_S:
            return self
        if observed.start_s - self.end_s > keep_s:
            return type(self)(observed.start_s, self.cell_s, np.empty(0), observed.start_s).append(observed, keep_s)
        end_s = max(self.end_s, observed.end_s)
        first = int(np.floor((seen_s - self.start_s) / self.cell_s + EPSILON_S))
        count = int(np.ceil((end_s - self.start_s) / self.cell_s - EPSILON_S))
        edges = self.start_s + self.cell_s * np.arange(first, count + 1, dtype=np.float64)
        edges[-1] = end_s
        amount, covered = _moved(observed, np.maximum(edges, seen_s))
        if first < len(self.per_s) and np.isfinite(self.per_s[first]):
            part_s = seen_s - edges[0]
            amount[0] += self.per_s[first] * part_s
            covered[0] += part_s
        per_s = np.concatenate([self.per_s[:first], _mean(amount, covered, _enough(covered, steps(edges)))])
        return type(self)(self.start_s, self.cell_s, per_s, end_s).cut(keep_s)

    def cut(self, keep_s: float) -> Self:
        """Return the newest whole cells that cover ``keep_s`` seconds."""
        surplus = len(self.per_s) - int(np.ceil(keep_s / self.cell_s)) - 1 if np.isfinite(keep_s) else 0
        if surplus <= 0:
            return self
        return type(self)(self.start_s + surplus * self.cell_s, self.cell_s, self.per_s[surplus:], self.end_s)

    def in_cells(self, cell_s: float, keep_s: float) -> Self:
        """Return the last ``keep_s`` seconds in cells of ``cell_s``; the tail itself where it is in such already."""
        if cell_s == self.cell_s:
            return self
        count = int(np.ceil((self.end_s - self.start_s) / cell_s - EPSILON_S))
        first = max(count - int(np.ceil(keep_s / cell_s)) - 1, 0)
        edges = self.start_s + cell_s * np.arange(first, count + 1, dtype=np.float64)
        edges[-1] = self.end_s
        return type(self)(float(edges[0]), cell_s, self.means(edges), self.end_s)

    def until(self, end_s: float) -> Self:
        """Return the tail as it was at ``end_s``, to the nearest cell that had ended by then.

        One that begins later is as long as before and holds nothing, so that what came just before is not ignored.
        """
        count = int(np.floor((min(end_s, self.end_s) - self.start_s) / self.cell_s + EPSILON_S))
        if count <= 0:
            start_s = end_s - self.cell_s * len(self.per_s)
            return type(self)(start_s, self.cell_s, np.empty(0), start_s)
        return type(self)(self.start_s, self.cell_s, self.per_s[:count], self.start_s + count * self.cell_s)

    def bins(self, bin_s: float, span_s: float) -> Values:
        """Return means in bins of ``bin_s`` that end at :attr:`measured_end_s`, oldest first.

        At most ``span_s`` seconds are covered; a bin of which less than half was measured is NaN.
        """
        key = bin_s, span_s
        if key not in self._binned:
            end_s = self.measured_end_s
            count = int(np.floor(min(span_s, end_s - self.start_s) / bin_s + EPSILON_S))
            self._binned[key] = self.means(end_s - bin_s * np.arange(count, -1, -1, dtype=np.float64))
        return self._binned[key].copy()

    def means(self, edges_s: Values) -> Values:
        """Return mean rates between consecutive ``edges_s``, shape ``(len(edges_s) - 1,)``; NaN where mostly unseen."""
        if not len(self.per_s):
            return np.full(len(edges_s) - 1, np.nan)
        own, amounts, covered = self._summed
        parts_s = steps(np.interp(edges_s, own, covered))
        return _mean(steps(np.interp(edges_s, own, amounts)), parts_s, _enough(parts_s, steps(edges_s)))

    def means_between(self, starts_s: Values, ends_s: Values) -> Values:
        """Return the mean rate of each span, of the spans' shape; NaN where mostly unseen or not over yet."""
        if not len(self.per_s):
            return np.full(np.shape(starts_s), np.nan)
        own, amount, covered = self._summed
        amounts = np.interp(ends_s, own, amount) - np.interp(starts_s, own, amount)
        covered_s = np.interp(ends_s, own, covered) - np.interp(starts_s, own, covered)
        known = _enough(covered_s, ends_s - starts_s) & (ends_s <= self.end_s + EPSILON_S)
        return _mean(amounts, covered_s, known)

    def once(self, who: object, count: int, say: Callable[[], Values]) -> Values:
        """Return what ``who`` says of this tail, worked out once.

        Members are asked twice in a tick, for the record and for the caller, at other steps but of the same tail. Tails
        do not change and members are pure, so what does not depend on the steps is the same.

        ``count``: how much of it is wanted; another count is worked out anew.
        """
        known = self._by_object.get(id(who))
        if known is None or known[0] is not who or known[1] != count:
            known = self._by_object[id(who)] = (who, count, say())
        return known[2]

    def ages_s(self, count: int) -> Values:
        """Return the middles of ``count`` cells up to the newest finite one, seconds after its end: all below 0."""
        edges_s = self._edges_s[max(self.measured - count, 0) : self.measured + 1]
        return np.asarray((edges_s[:-1] + edges_s[1:]) / 2 - self.measured_end_s)

    @cached_property
    def lines(self) -> dict[float, tuple[float, float]]:
        """Lines through its newest part that were drawn already, by the length of that part in seconds."""
        return {}

    @cached_property
    def _by_object(self) -> dict[int, tuple[object, int, Values]]:
        return {}

    @cached_property
    def _binned(self) -> dict[tuple[float, float], Values]:
        """Bins that were asked for: several members ask for the same ones, at every forecast again."""
        return {}

    @cached_property
    def _summed(self) -> tuple[Values, Values, Values]:
        """Boundaries of the cells, and the amounts and the measured seconds up to each, of one shape ``(n + 1,)``."""
        own = self.edges_s()
        return own, *sums(own, self.per_s)

    def peaks_between(self, starts_s: Values, ends_s: Values) -> Values:
        """Return the highest cell of each span, of the spans' shape; NaN where nothing was measured."""
        firsts = np.floor((np.ravel(starts_s) - self.start_s) / self.cell_s + EPSILON_S).astype(int)
        lasts = np.ceil((np.ravel(ends_s) - self.start_s) / self.cell_s - EPSILON_S).astype(int)
        padded = np.append(np.where(self.finite, self.per_s, -np.inf), -np.inf)
        bounds = np.minimum(np.maximum(np.array([firsts, np.maximum(lasts, firsts)]).T, 0), len(self.per_s))
        highest = np.maximum.reduceat(padded, bounds.ravel())[::2] if len(bounds) else np.empty(0)
        highest = np.where(bounds[:, 1] > bounds[:, 0], highest, -np.inf)
        return np.where(np.isfinite(highest), highest, np.nan).reshape(np.shape(starts_s))

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state; rates are text that holds every bit of them, a third of their digits."""
        planes = np.ascontiguousarray(self.per_s, dtype="<f8").view(np.uint8).reshape(-1, 8).T  # alike bytes repeat
        cells = base64.b64encode(zlib.compress(planes.tobytes())).decode()
        return {"start_s": self.start_s, "cell_s": self.cell_s, "end_s": self.end_s, "per_s": cells}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when times and cells do not agree."""
        per_s = _rates(state["per_s"])
        made = cls(float(state["start_s"]), positive("cell_s", state["cell_s"]), per_s, float(state["end_s"]))
        cells = (made.end_s - made.start_s) / made.cell_s
        if per_s.ndim != 1 or not len(per_s) - 1 - EPSILON_S <= cells <= len(per_s) + EPSILON_S:
            raise ValueError(f"a tail of {cells:.1f} cells holds {per_s.size} values")
        return made


def _rates(stored: str | Sequence[float | None]) -> Values:
    """Return rates from a state: from text, or from the numbers that version 0.1 wrote."""
    if not isinstance(stored, str):
        return np.array([np.nan if value is None else value for value in stored], dtype=np.float64)
    inflating = zlib.decompressobj()
    try:
        found = inflating.decompress(base64.b64decode(stored, validate=True), MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"its rates are damaged ({error})") from None
    if not inflating.eof:
        raise ValueError(f"its rates are cut off, or more than {MOST_BYTES // 8:,}")
    planes = np.frombuffer(found, dtype=np.uint8)
    return np.ascontiguousarray(planes.reshape(8, -1).T).view("<f8")[:, 0].astype(np.float64)


def _moved(workload: Workload, edges_s: Values) -> tuple[Values, Values]:
    own, amounts, covered = workload.summed
    return steps(np.interp(edges_s, own, amounts)), steps(np.interp(edges_s, own, covered))


def _enough(covered_s: Values, lengths_s: Values) -> NDArray[np.bool_]:
    return np.asarray((covered_s >= NEEDED_COVERAGE * lengths_s - EPSILON_S) & (covered_s > 0.0))


def _mean(amount: Values, covered_s: Values, known: NDArray[np.bool_]) -> Values:
    """Return the mean rates of parts, NaN where that is not known."""
    if known.all():
        return np.asarray(amount / covered_s)
    return np.asarray(np.divide(amount, covered_s, out=np.full(np.shape(amount), np.nan), where=known))
