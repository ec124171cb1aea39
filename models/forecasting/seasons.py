"""The newest cells of a workload with their gaps filled from the same time of other days: pure array functions."""

import numpy as np
from numpy.typing import NDArray

from perdix.models.forecasting.failures import NotForecastableError
from perdix.models.forecasting.tail import NEEDED_COVERAGE, Tail
from perdix.settings.durations import DAY_S
from perdix.telemetry.window import Values

BRIDGE_S = 1800.0  # a gap up to here is bridged by a line


def filled(tail: Tail, least_s: float, who: str, keep_s: float = np.inf) -> Values:
    """Return the cells that end at the newest measurement, at most ``keep_s`` seconds of them, without gaps.

    Short gaps are bridged by a line; long ones get the mean of the same time of the other days, moved to the level at
    their ends.

    Raises ``ValueError`` when less than ``least_s`` seconds are spanned, or less than half of them was measured; names
    ``who``.
    """
    cells = tail.bins(tail.cell_s, keep_s)
    finite = np.flatnonzero(np.isfinite(cells))
    cells = cells[finite[0] :] if len(finite) else cells[:0]
    if len(cells) * tail.cell_s < least_s - 1e-6:
        raise NotForecastableError(
            f"{who} needs {least_s / 3600:g} h of workload; {len(cells) * tail.cell_s / 3600:.1f} h are known"
        )
    measured = np.isfinite(cells)
    if measured.mean() < NEEDED_COVERAGE:
        raise NotForecastableError(f"{who} needs values in half of the time; {measured.mean():.0%} of it has one")
    return cells if measured.all() else _without_gaps(cells, tail.cell_s)


def _without_gaps(cells: Values, cell_s: float) -> Values:
    known = np.isfinite(cells)
    lines = np.interp(np.arange(len(cells)), np.flatnonzero(known), cells[known])
    day = max(1, round(DAY_S / cell_s))
    usual = _by_time_of_day(cells, day)
    moved = np.where(known, cells - usual, np.nan)
    shifts = np.interp(np.arange(len(cells)), np.flatnonzero(known), moved[known])
    longest = int(BRIDGE_S // cell_s)
    seasonal = np.maximum(usual + shifts, 0.0)
    return np.where(known, cells, np.where(_gap_lengths(known) <= max(1, longest), lines, seasonal))


def _by_time_of_day(cells: Values, day: int) -> Values:
    """Return for each cell the mean over all days at its time, the mean of all where that was never measured."""
    days = -(-len(cells) // day)
    padded = np.concatenate([np.full(days * day - len(cells), np.nan), cells])
    table = padded.reshape(days, day)
    known = np.isfinite(table)
    counts = known.sum(axis=0)
    sums = np.where(known, table, 0.0).sum(axis=0)
    usual = np.where(counts > 0, sums / np.maximum(counts, 1), np.nanmean(cells))
    return np.tile(usual, days)[days * day - len(cells) :]


def _gap_lengths(known: NDArray[np.bool_]) -> NDArray[np.int_]:
    """Return for each cell how many unknown ones stand together around it."""
    changes = np.flatnonzero(np.diff(known.astype(np.int8))) + 1
    bounds = np.concatenate([[0], changes, [len(known)]])
    lengths = np.repeat(np.diff(bounds), np.diff(bounds))
    return np.where(known, 0, lengths)
