"""From what instances did in a window to the rates of their operator (DS2, section 3.2, equations 1 to 6).

Belongs here: which instances count, and what stands for the others. Does not belong here: how an engine measures useful
time (``flink_rates`` does that for Flink), or what the rates are good for (``optimal``).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdix.models.dataflow.rates import InstanceWindow, OperatorRates
from perdix.telemetry.window import Values

Flags = NDArray[np.bool_]

CLOCK_TOLERANCE = 0.02  # useful time over the window by so little is two clocks read one after the other
SHORTEST_S = 1e-9  # useful time below what clocks tell apart is none
MOST_RECORDS = 1e18  # more than a counter of 64 bits holds


@dataclass(frozen=True)
class MeasuredRates:
    """Rates of one operator, and in words which of its instances could not be reckoned with."""

    rates: OperatorRates
    left_out: tuple[str, ...] = ()


def measured_rates(window: InstanceWindow) -> MeasuredRates:
    """Return true and observed rates of an operator from what its instances did (equations 1 to 6).

    An instance's true rate is records over useful time (equations 1 and 2), its observed rate records over the window
    (3 and 4); an operator's is their sum (5 and 6). An instance that was idle, did not report, or reported what cannot
    be has no true rate; the mean of those that have one stands for it, so that the operator's rate is that of all
    its instances. A rate that no instance has is NaN: nothing is ever divided by zero.

    Useful time above the window by at most 2 % is cut to the window.

    Raises ``ValueError`` when the arrays differ in length.

    Returns ``left_out`` names instances by number from 1, with the reason.
    """
    count = window.instances
    lengths = {len(window.processed), len(window.produced), count}
    if len(lengths) != 1:
        raise ValueError(f"a window has values of {sorted(lengths)} instances; give each array a value per instance")
    if not (np.isfinite(window.window_s) and window.window_s > 0):
        return MeasuredRates(_unknown(count), (f"the window is {window.window_s:g} s long",))
    problems = _problems(window)
    usable = np.array([problem is None for problem in problems], dtype=np.bool_)
    useful_s = np.minimum(window.useful_s, window.window_s)
    rates = OperatorRates(
        count,
        _sum_over_all(_divided(window.processed, useful_s, usable), count),
        _sum_over_all(_divided(window.produced, useful_s, usable), count),
        _sum_over_all(_divided(window.processed, window.window_s, _possible(window.processed)), count),
        _sum_over_all(_divided(window.produced, window.window_s, _possible(window.produced)), count),
        {name: records / window.window_s for name, records in window.sent.items()},
    )
    notes = tuple(f"instance {k}: {problem}" for k, problem in enumerate(problems, start=1) if problem is not None)
    return MeasuredRates(rates, notes)


def _problems(window: InstanceWindow) -> list[str | None]:
    """Return per instance why it has no true rate, or ``None`` where it has."""
    rows = zip(window.processed.tolist(), window.produced.tolist(), window.useful_s.tolist(), strict=True)
    return [_problem(processed, produced, useful_s, window.window_s) for processed, produced, useful_s in rows]


def _problem(processed: float, produced: float, useful_s: float, window_s: float) -> str | None:  # noqa: PLR0911
    if np.isnan(useful_s):
        return "its useful time was not measured"
    if np.isnan(processed) and np.isnan(produced):
        return "its records were not counted"
    if useful_s < 0 or useful_s > window_s * (1.0 + CLOCK_TOLERANCE):
        return f"{useful_s:.6g} s of useful time in a window of {window_s:.6g} s cannot be"
    if any(records < 0 or records > MOST_RECORDS for records in (processed, produced)):
        return f"{processed:g} records in and {produced:g} out cannot be"
    records = np.nansum([processed, produced])
    if records == 0:
        return "it was idle"
    if useful_s < SHORTEST_S:
        return f"{records:.6g} records in no useful time"
    return None


def _possible(records: Values) -> Flags:
    return (records >= 0) & (records <= MOST_RECORDS)  # NaN is neither


def _divided(records: Values, seconds: Values | float, counts: Flags) -> Values:
    """Return records per second of the instances that count, NaN for the others."""
    result = np.full(len(records), np.nan)
    np.divide(records, seconds, out=result, where=counts)
    return result


def _sum_over_all(each_per_s: Values, count: int) -> float:
    """Return the sum, with the mean of what is known in place of what is not; NaN where nothing is known."""
    known = each_per_s[~np.isnan(each_per_s)]
    return float(known.sum() * (count / len(known))) if len(known) else float("nan")


def _unknown(count: int) -> OperatorRates:
    nan = float("nan")
    return OperatorRates(count, nan, nan, nan, nan)
