"""From two readings of a running Flink job to what a policy that sizes operators may know.

Belongs here: windows, what arrives, and since when it runs. Does not belong here: reading it, and acting.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from perdix.control.clock import CLOCK_BACK_S
from perdix.models.dataflow.flink_rates import instance_window, readings_between
from perdix.models.dataflow.graph import Dataflow, Operator
from perdix.models.dataflow.rates import InstanceWindow
from perdix.policies.dataflow.contract import DataflowSituation
from perdix.targets.flink.dataflow import DataflowReading, OperatorReading

SHORTEST_S = 1.0  # of a window; below, the JobManager has not yet heard of its TaskManagers again
FREE = 0.05  # of the time at most that a source waits for room, and at least that it idles, where it emits all


def redeployed(begin: DataflowReading, end: DataflowReading) -> bool:
    """Whether any subtask of the one is not that of the other: counters began anew."""
    return {name: operator.started_ms for name, operator in begin.operators.items()} != {
        name: operator.started_ms for name, operator in end.operators.items()
    }


def situation_between(
    begin: DataflowReading, end: DataflowReading, *, most: int, memory: Mapping[str, Any]
) -> DataflowSituation:
    """Return what is known of a job that ran undisturbed between two readings.

    Raises ``ValueError`` when the job was redeployed in between.

    ``most``: instances of an operator that the job's bounds allow.
    """
    if redeployed(begin, end):
        raise ValueError("the job was redeployed between the readings")
    slots, shared = _slots(end, most)
    graph = Dataflow.of(
        Operator(
            name,
            operator.inputs,
            operator.maximum if shared else min(operator.maximum, most),
            operator.maximum if operator.keyed else None,
        )
        for name, operator in end.operators.items()
    )
    windows, arriving, waiting = {}, {}, {}
    for name, after in end.operators.items():
        before = begin.operators[name]
        readings = readings_between(before.counters, after.counters, end.at_s - begin.at_s)
        if not readings.window_s >= SHORTEST_S:
            continue
        window = instance_window(readings, is_source=graph[name].is_source)
        windows[name] = window
        if graph[name].is_source:
            per_record = _selectivity(before, after)
            if after.pending_records is not None:
                waiting[name] = after.pending_records * per_record
            found = _arriving_per_s(window, _grown(before, after), per_record)
            if found is not None:
                arriving[name] = found
    started_s = max((at for operator in end.operators.values() for at in operator.started_ms), default=0) / 1_000.0
    return DataflowSituation(
        end.at_s,
        graph,
        {name: len(operator.started_ms) for name, operator in end.operators.items()},
        windows,
        arriving,
        waiting,
        slots,
        slots_shared=shared,
        since_rescale_s=_since_s(end.at_s - started_s),
        memory=memory,
    )


def _slots(reading: DataflowReading, most: int) -> tuple[int, bool]:
    """Return the slots that there are, and whether one holds an instance of every operator.

    Of several slot sharing groups each instance is taken to need a slot of its own, so what its group's widest operator
    holds for the others today counts as there.
    """
    widest: dict[str | None, int] = {}
    for operator in reading.operators.values():
        widest[operator.group] = max(widest.get(operator.group, 0), len(operator.started_ms))
    if len(widest) <= 1:
        return min(reading.slots, most), True
    instances = sum(len(operator.started_ms) for operator in reading.operators.values())
    return reading.slots + instances - sum(widest.values()), False


def _since_s(started_ago_s: float) -> float:
    """Return since when the job runs, in seconds; infinite where it began before the JobManager's clock was set back.

    Nobody can say how long ago that was, and it would be still to come for as long as the clock had been ahead.
    """
    return max(started_ago_s, 0.0) if started_ago_s >= -CLOCK_BACK_S else math.inf


def _arriving_per_s(window: InstanceWindow, grown: float | None, per_record: float) -> float | None:
    """Return what a source should emit, records/s; ``None``: not known.

    That is what it did emit and what was left waiting. Less than nothing cannot arrive: records were lost before they
    were read (Kafka deletes what is too old), or only some of its subtasks report what waits. A source that does not
    report how much waits emits all that arrives as long as it has time left and room to write to.
    """
    emitted = float(np.sum(window.produced))
    if not np.isfinite(emitted):  # a subtask that did not report emitted something, too
        return None
    if grown is not None and emitted + grown * per_record >= 0.0:
        return (emitted + grown * per_record) / window.window_s
    seconds = window.window_s * window.instances
    useful, waited = np.nansum(window.useful_s) / seconds, np.nansum(window.back_pressured_s) / seconds
    return emitted / window.window_s if waited <= FREE and useful <= 1.0 - FREE else None


def _grown(before: OperatorReading, after: OperatorReading) -> float | None:
    if before.pending_records is None or after.pending_records is None:
        return None
    return after.pending_records - before.pending_records


def _selectivity(before: OperatorReading, after: OperatorReading) -> float:
    """Return records that a source's vertex emits per record that it reads: operators may be chained to it."""
    read = float(np.nansum(after.counters.records_in - before.counters.records_in))
    written = float(np.nansum(after.counters.records_out - before.counters.records_out))
    return written / read if read > 0 and written > 0 else 1.0
