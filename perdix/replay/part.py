"""Which part of a recorded trace is replayed: what was asked for, else the busiest of its length. Pure."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from perdix.replay.trace_rows import complaint
from perdix.replay.workload import Trace
from perdix.settings.durations import in_words, seconds_of
from perdix.settings.yaml_files import SettingsError

USUAL_HOURS = 6.0
SAME = 1e-9  # relative: of windows as busy as each other, the first


def part_of(
    trace: Trace, hours: float | None = None, *, from_: str | None = None, to: str | None = None
) -> tuple[Trace, float]:
    """Return the trace from where a replay begins, and the length of the replay in hours.

    Raises ``SettingsError`` when what is asked for contradicts itself, lies outside the trace, or has gaps: without
    any wish for a part, those of the whole trace.

    ``hours``: length that was asked for; with ``from_`` from there on, with ``to`` up to there, not with both.
    ``from_``, ``to``: ISO times, or offsets from the trace's first row such as ``36h`` and ``2d``; one alone: up to the
    end, or from the beginning.
    Without them, of a longer trace the window of the highest mean rate is taken.
    """
    if from_ is None and to is None:
        _refuse_gaps(trace, 0.0, trace.length_s)
        hours = USUAL_HOURS if hours is None else hours
        if trace.endless or 3_600.0 * hours >= trace.length_s - 1.0:
            return trace, hours
        return busiest(trace, hours), hours
    if trace.endless:
        raise SettingsError(f"--from, --to: {trace.name} is a pattern without beginning and end; give --hours instead")
    if hours is not None and from_ is not None and to is not None:
        raise SettingsError("--hours, --from and --to contradict each other: leave --hours out, or one of the others")
    begin_s, end_s = 0.0, trace.length_s
    if from_ is not None:
        begin_s = _offset_s(trace, "--from", from_)
    if to is not None:
        end_s = _offset_s(trace, "--to", to)
    if hours is not None and to is None:
        end_s = begin_s + 3_600.0 * hours
    elif hours is not None:
        begin_s = end_s - 3_600.0 * hours
    if not 0.0 <= begin_s < end_s <= trace.length_s + 1.0:
        raise SettingsError(
            f"--from, --to: {when(trace, begin_s, end_s)} is no part of {trace.name}, which goes "
            f"{when(trace, 0.0, trace.length_s)}"
        )
    _refuse_gaps(trace, begin_s, end_s)
    length_s = end_s - begin_s
    whole = "the whole trace" if length_s >= trace.length_s - 1.0 else f"{in_words(length_s)} of the trace"
    note = f"replayed is {when(trace, begin_s, end_s)}, as asked for: {whole}"
    return replace(trace, begin_s=begin_s, notes=(*trace.notes, note)), length_s / 3_600.0


def _refuse_gaps(trace: Trace, begin_s: float, end_s: float) -> None:
    gaps = trace.gaps
    if gaps is None:
        return
    found = [
        f"{place}{until_s - from_s:,.0f} s after the row before, {when(trace, from_s, until_s)}"
        for place, (from_s, until_s) in zip(gaps.places, gaps.times_s, strict=True)
        if from_s < end_s and until_s > begin_s
    ]
    if found:
        raise SettingsError(
            f"{gaps.where}: gaps of more than {gaps.allowed_s:.0f} s: {complaint(found)}; choose a part without them "
            "by --from and --to, or let --fill-gaps draw lines across"
        )


def busiest(trace: Trace, hours: float) -> Trace:
    """Return the trace from where the window of this many hours with the highest mean rate begins."""
    span_s = 3_600.0 * hours
    begins_s = np.floor(np.append(trace.times_s[trace.times_s + span_s <= trace.length_s], trace.length_s - span_s))
    means = (_amount(trace, begins_s + span_s) - _amount(trace, begins_s)) / span_s
    chosen = int(np.flatnonzero(means >= means.max() * (1.0 - SAME))[0])
    begin_s = float(begins_s[chosen])
    note = (
        f"replayed is {when(trace, begin_s, begin_s + span_s)}: of the trace's {in_words(trace.length_s)} the "
        f"{in_words(span_s)} with the highest mean rate ({means[chosen]:.0%} of the peak); --from and "
        "--to choose another part"
    )
    return replace(trace, begin_s=begin_s, notes=(*trace.notes, note))


def when(trace: Trace, begin_s: float, end_s: float) -> str:
    """Return a part in words: dates where the trace has them, else the time since its first row."""
    if trace.origin_s is None:
        return f"from {in_words(begin_s)} to {in_words(end_s)} after the first row"
    return f"from {_date(trace.origin_s + begin_s)} to {_date(trace.origin_s + end_s)} UTC"


def _date(epoch_s: float) -> str:
    moment = datetime.fromtimestamp(round(epoch_s), UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def _offset_s(trace: Trace, option: str, text: str) -> float:
    offset_s = seconds_of(text)
    if offset_s is not None:
        return offset_s
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"{option} {text}: neither a time such as 2026-01-31T06:00 nor an offset such as 2d or 36h"
        ) from None
    if trace.origin_s is None:
        raise SettingsError(
            f"{option} {text}: {trace.name} has no dates; give an offset from its first row, such as 2d"
        )
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - trace.origin_s


def _amount(trace: Trace, at_s: np.ndarray) -> np.ndarray:
    """Return what has arrived between the first row and each time, shape of ``at_s``; the peak is 1/s."""
    times_s = np.append(trace.times_s, trace.length_s)
    rates = np.append(trace.rates, trace.rates[0]) / trace.peak
    until = np.concatenate(([0.0], np.cumsum(np.diff(times_s) * (rates[1:] + rates[:-1]) / 2.0)))
    row = np.clip(np.searchsorted(times_s, at_s, side="right") - 1, 0, len(times_s) - 1)
    there = np.interp(at_s, times_s, rates)
    return np.asarray(until[row] + (at_s - times_s[row]) * (rates[row] + there) / 2.0)
