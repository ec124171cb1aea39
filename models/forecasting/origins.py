"""From where in a history forecasts are judged: on its grid, with a whole truth ahead, spread over its second half."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.member import lead_s
from perdix.telemetry.window import Values

BLOCKS = 4
SCORED = 24  # origins in all blocks together
WARM_UP = 9  # origins before those of a block: three horizons, so that weights and margins rest on the stretch itself
PER_HORIZON = 3
FIRST_SHARE = 0.5  # of a long history precedes the first origin that is scored
LEAST_SHARE = 1 / 3  # of a short one precedes the first stop
NEEDED_COVERAGE = 0.5


@dataclass(frozen=True)
class Stops:
    """Where a walk over a history stops to forecast."""

    origins_s: Values  # epoch seconds, ascending, shape ``(stops,)``
    scored: NDArray[np.bool_]  # which of them are judged; the others only fill the record. Of the same shape
    blocks: int  # in how many stretches they lie; 0 when there is none

    @classmethod
    def at(cls, origins_s: Sequence[float] | Values, scored: Sequence[bool] | NDArray[np.bool_] | None = None) -> Stops:
        """Return stops at given origins, in one stretch; all of them are judged unless marks say which.

        Raises ``ValueError`` when there is not one mark for each origin.
        """
        at_s = np.asarray(origins_s, dtype=np.float64)
        marks = np.ones(len(at_s), dtype=bool) if scored is None else np.asarray(scored, dtype=bool)
        if marks.shape != at_s.shape:
            raise ValueError(f"{len(marks)} marks for {len(at_s)} origins; give one for each")
        return cls(at_s, marks, 1)

    @property
    def scored_s(self) -> Values:
        """The origins that are judged, epoch seconds."""
        return self.origins_s[self.scored]


def stops_of(history: Workload, horizon_s: float = HORIZON_S) -> Stops:
    """Return where to judge forecasters of a history.

    A record of errors forgets within a few horizons. Origins spread evenly over days would judge an ensemble that has
    forgotten everything at each of them; so up to four blocks are spread over the second half of a long history, a
    third of a horizon between stops, each led in by stops that are not scored. A short history has one block, and its
    stops are closer, a fifteenth of the horizon at least. Only where at least half of the truth was measured is an
    origin scored. The last stops lie after the last whole truth, up to the end: they bring the record up to date.
    """
    count, ahead = len(history), int(np.ceil(horizon_s / history.step_s - 1e-9))
    usable, every = _usable(history, ahead, horizon_s)
    if not len(usable):
        return Stops(np.empty(0), np.empty(0, dtype=bool), 0)
    blocks, warm_up = _blocks(usable)
    newest = count - every * np.arange(-(-ahead // every))[::-1]
    visited = np.unique(np.concatenate([*blocks, newest[newest > usable[-1]]]))
    scored = np.concatenate([block[warm_up:] for block in blocks])
    return Stops(history.start_s + history.step_s * visited, np.isin(visited, scored), len(blocks))


def least_steps(step_s: float, horizon_s: float, scored: int) -> int:
    """Return how long a history without gaps must be, in steps, until this many of its origins are scored."""
    stops = next(count for count in itertools.count(scored) if count - min(WARM_UP, count // 3) >= scored)
    ahead = int(np.ceil(horizon_s / step_s - 1e-9))
    return int(np.ceil((ahead + (stops - 1) * _closest(step_s, horizon_s)) / (1.0 - LEAST_SHARE)))


def _closest(step_s: float, horizon_s: float) -> int:
    """Return how many steps lie at least between two stops: closer ones say the same twice, and are not recorded."""
    return round(lead_s(step_s, horizon_s) / step_s)


def _usable(history: Workload, ahead: int, horizon_s: float) -> tuple[NDArray[np.int_], int]:
    """Return the steps at which a forecast has enough truth ahead, and how many steps lie between two stops."""
    count, last = len(history), len(history) - ahead
    least = max(1, int(np.ceil(LEAST_SHARE * count)))
    every = max(1, round(horizon_s / PER_HORIZON / history.step_s))
    first = max(least, round(FIRST_SHARE * count) - WARM_UP * every)
    stops = WARM_UP + SCORED
    if last - first < every * (stops - 1):
        first = max(least, last - every * (stops - 1))
        every = max(_closest(history.step_s, horizon_s), min(every, (last - first) // (stops - 1)))
    steps = np.arange(last, first - 1, -every)[::-1]
    measured = np.concatenate([[0], np.cumsum(np.isfinite(history.per_s))])
    return steps[measured[steps + ahead] - measured[steps] >= NEEDED_COVERAGE * ahead], every


def _blocks(usable: NDArray[np.int_]) -> tuple[list[NDArray[np.int_]], int]:
    """Return the stops of as many blocks as fit, spread over those usable, and how many lead in each of them."""
    for blocks in range(BLOCKS, 0, -1):
        length = WARM_UP + SCORED // blocks
        if len(usable) >= blocks * length:
            ends = np.round(len(usable) * np.arange(1, blocks + 1) / blocks).astype(int)
            return [usable[end - length : end] for end in ends], WARM_UP
    return [usable], min(WARM_UP, len(usable) // 3)
