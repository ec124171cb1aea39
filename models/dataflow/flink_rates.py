"""Useful time and records of an operator's subtasks, from the metrics that Flink has of itself.

Belongs here: which of Flink's metrics stand for useful time, and what a counter that was reset means. Does not belong
here: how the metrics are fetched, or what the rates are good for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from perdix.models.dataflow.rates import InstanceWindow
from perdix.telemetry.window import Values

MS_PER_S = 1000.0


@dataclass(frozen=True)
class SubtaskReadings:
    """What Flink reported of an operator's subtasks over one window; arrays of shape ``(subtasks,)``, NaN: nothing.

    The gauges are means over the window, milliseconds per second; the counters are read at its begin and end.

    ``busy_ms_per_s``, ``idle_ms_per_s``, ``back_pressured_ms_per_s``: ``busyTimeMsPerSecond``, ``idleTimeMsPerSecond``,
    ``backPressuredTimeMsPerSecond``.
    ``records_in_begin``, ``records_in_end``, ``records_out_begin``, ``records_out_end``: ``numRecordsIn`` and
    ``numRecordsOut``.
    ``sent_begin``, ``sent_end``: downstream operator -> what each subtask had emitted to it; only where it is counted
    by edge.
    """

    window_s: float
    busy_ms_per_s: Values
    idle_ms_per_s: Values
    back_pressured_ms_per_s: Values
    records_in_begin: Values
    records_in_end: Values
    records_out_begin: Values
    records_out_end: Values
    sent_begin: Mapping[str, Values] = field(default_factory=dict)
    sent_end: Mapping[str, Values] = field(default_factory=dict)


@dataclass(frozen=True)
class SubtaskCounters:
    """What the subtasks of one operator have done since each began; arrays of shape ``(subtasks,)``, NaN: unknown."""

    # busy_ms, idle_ms, back_pressured_ms: ``accumulated-busy-time`` and its fellows of Flink's REST API
    busy_ms: Values
    idle_ms: Values
    back_pressured_ms: Values
    # records_in, records_out: ``read-records`` and ``write-records``
    records_in: Values
    records_out: Values


def readings_between(begin: SubtaskCounters, end: SubtaskCounters, clock_s: float) -> SubtaskReadings:
    """Return what subtasks did between two readings of their counters.

    The window is what they account for themselves, busy, idle and back-pressured together: Flink shows counters that
    are up to ten seconds old, all of one moment, and a clock beside them would tell another length.

    Raises ``ValueError`` when the readings are not of the same number of subtasks.

    ``clock_s``: seconds between the readings, for subtasks that do not account for their time.
    """
    if begin.busy_ms.shape != end.busy_ms.shape:
        raise ValueError(f"readings of {len(begin.busy_ms)} and of {len(end.busy_ms)} subtasks")
    busy = counted(begin.busy_ms, end.busy_ms)
    idle = counted(begin.idle_ms, end.idle_ms)
    waited = counted(begin.back_pressured_ms, end.back_pressured_ms)
    accounted = busy + idle + waited
    known = accounted[np.isfinite(accounted)]
    window_s = float(known.mean()) / MS_PER_S if len(known) else clock_s
    per_s = 1.0 / window_s if window_s > 0 else float("nan")
    return SubtaskReadings(
        window_s,
        busy * per_s,
        idle * per_s,
        waited * per_s,
        records_in_begin=begin.records_in,
        records_in_end=end.records_in,
        records_out_begin=begin.records_out,
        records_out_end=end.records_out,
    )


def instance_window(readings: SubtaskReadings, *, is_source: bool) -> InstanceWindow:
    """Return what the subtasks did in a window.

    Useful time is busy time. Where it is not measured (sources of the old interface report NaN) it is the second less
    idle and back-pressured time. A source that does not tell of its idle time is taken to be useful whenever it is
    not back-pressured, as DS2's change to Flink has it: what it waits for from outside is not seen then.

    Raises ``ValueError`` when the arrays differ in length.
    """
    shapes = {value.shape for value in vars(readings).values() if isinstance(value, np.ndarray)}
    if len(shapes) != 1:
        raise ValueError(f"readings of {sorted(shapes)} subtasks; give each array a value per subtask")
    waited = readings.back_pressured_ms_per_s
    useful = np.where(
        np.isnan(readings.busy_ms_per_s), MS_PER_S - readings.idle_ms_per_s - waited, readings.busy_ms_per_s
    )
    if is_source:
        useful = np.where(np.isnan(useful), MS_PER_S - waited, useful)
    # Gauges read one after the other may add up to a little more than the second.
    useful_s = np.where(useful < 0, 0.0, useful) / MS_PER_S * readings.window_s
    processed = counted(readings.records_in_begin, readings.records_in_end)
    return InstanceWindow(
        readings.window_s,
        np.nan_to_num(processed) if is_source else processed,
        counted(readings.records_out_begin, readings.records_out_end),
        useful_s,
        waited / MS_PER_S * readings.window_s,
        _sent(readings),
    )


def counted(begin: Values, end: Values) -> Values:
    """Return records between two readings of a counter; NaN where it was reset.

    A counter below its earlier reading began anew with its subtask. What came before is lost while its useful time is
    not, so a rate of what is left would be too low: it counts as not measured.
    """
    difference = end - begin
    return np.where(difference < 0, np.nan, difference)


def _sent(readings: SubtaskReadings) -> dict[str, float]:
    """Return downstream operator -> records of all subtasks; one that was reset counts as the mean of the others."""
    sent = {}
    for name in readings.sent_begin.keys() & readings.sent_end.keys():
        each = counted(readings.sent_begin[name], readings.sent_end[name])
        known = each[np.isfinite(each)]
        if len(known):
            sent[name] = float(known.mean() * len(each))
    return dict(sorted(sent.items()))
