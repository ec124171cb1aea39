"""Rows of a workload that was exported from Prometheus as JSON: the sum over its series.

The formats are read by :mod:`perdix.telemetry.exports`; here is only what a sum over series means.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perdix.replay.trace_rows import Rows, closable_s
from perdix.settings.counting import counted
from perdix.settings.durations import in_words
from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.detect import SNIFF_BYTES, Format, detect
from perdix.telemetry.exports.matrix import MatrixReader
from perdix.telemetry.exports.records import Limits, Quarantined, RawSeries
from perdix.telemetry.exports.victoriametrics import read_victoriametrics
from perdix.telemetry.window import Values

Samples = tuple[NDArray[np.int64], Values]  # epoch milliseconds and values, both of shape (n,)
SHOWN = 3
SAME_MOMENTS = 0.75  # of the series' step: where their times together are nearer than that, each has its own


def is_export(path: Path) -> bool:
    """Return whether a file is JSON of Prometheus or VictoriaMetrics, by its content."""
    try:
        with Content(path) as content:
            return detect(content.peek(SNIFF_BYTES)) in (Format.QUERY_RANGE, Format.VICTORIAMETRICS)
    except OSError:
        return False


def read_matrix(path: Path) -> Rows:
    """Return the sum over all series of an export, at every time at which one of them was measured.

    A series counts from its first sample to its last; in between, a sample that it misses is taken from a line.

    Raises ``SettingsError``, naming the file and the fix: damage, several metrics, negative rates.
    """
    series, remarks = _series(path)
    names = sorted({name for name, _ in series})
    if len(names) > 1:
        raise SettingsError(f"{path}: holds {len(names)} metrics ({', '.join(names[:SHOWN])}); export one of them")
    if not series:
        raise SettingsError(f"{path}: no series with a sample; look at the query's answer")
    for (_, labels), (_, values) in series.items():
        wrong = np.flatnonzero((values < 0) | np.isinf(values))
        if len(wrong):
            k = int(wrong[0])
            whose = f" of {{{labels}}}" if len(series) > 1 else ""
            wanted = "finite" if values[k] > 0 else "not negative"
            raise SettingsError(f"{path}: sample {k + 1}{whose}: {values[k]:g} records/s; a rate is {wanted}")
    times_ms, rates = summed(list(series.values()))
    what = names[0] if names and names[0] else "an expression"
    every = [labels for _, labels in series]
    column = f"{what}, the sum over {len(series)} series: {_labels(every)}" if len(series) > 1 else what
    places = np.arange(1, len(rates) + 1, dtype=np.int64)
    remarks = (*remarks, *_lines_across(series))
    return Rows(times_ms / 1_000.0, rates, places, column, 0, "sample", dated=True, remarks=remarks)


def _lines_across(series: Mapping[tuple[str, str], Samples]) -> Iterator[str]:
    """Say which of several series lack samples for longer than a line may close where all of them do."""
    steps_s = {labels: np.diff(times) / 1_000.0 for (_, labels), (times, _) in series.items() if len(times) > 1}
    if len(series) < 2 or not steps_s:
        return
    most_s = closable_s(float(np.median(np.concatenate(list(steps_s.values())))))
    longest_s = {labels: float(some_s.max()) for labels, some_s in steps_s.items() if some_s.max() > most_s}
    if longest_s:
        labels = max(longest_s, key=lambda labels: longest_s[labels])
        longest = f"{{{labels}}} for {in_words(longest_s[labels])}"
        yield f"series that lack samples in between: {len(longest_s)}, the longest {longest}; they count as by a line"


def summed(series: Sequence[Samples]) -> Samples:
    """Return the sum of series at all of their times; a series counts from its first sample to its last.

    Series that are looked at at moments of their own, as raw samples are, are summed once per step, in which they count
    from its beginning.
    """
    times_ms = np.unique(np.concatenate([times for times, _ in series]))
    steps_ms = np.concatenate([np.diff(times) for times, _ in series])
    step_ms = int(np.median(steps_ms)) if len(steps_ms) else 0
    own = len(series) > 1 and float(np.median(np.diff(times_ms))) < SAME_MOMENTS * step_ms
    if own:
        times_ms = times_ms[0] + step_ms * np.unique((times_ms - times_ms[0]) // step_ms)
    total = np.zeros(len(times_ms))
    for times, values in series:
        before = np.where(times_ms > times[0] - step_ms, values[0], 0.0) if own else 0.0
        total += np.where(times_ms < times[0], before, np.interp(times_ms, times, values, right=0.0))
    return times_ms, total


def _series(path: Path) -> tuple[dict[tuple[str, str], Samples], tuple[str, ...]]:
    """Return name and labels -> samples that are numbers, in the order of time; of two at one time the last one read.

    Beside them what is to be said of the whole, in words.
    """
    remarks: list[str] = []
    runs: dict[tuple[str, str], list[RawSeries]] = {}
    with Content(path) as content:
        limits = Limits()
        export = detect(content.peek(SNIFF_BYTES)) is Format.QUERY_RANGE
        for found in MatrixReader(content, limits).read() if export else read_victoriametrics(content, limits):
            if isinstance(found, Quarantined):
                place = "" if found.line is None else f":{found.line}"
                fix = "" if "export" in found.reason else "; export it again"
                raise SettingsError(f"{path}{place}: {found.reason}{fix}")
            if isinstance(found, RawSeries):
                runs.setdefault((found.name, _label_text(found)), []).append(found)
            else:
                remarks.append(found.text)
    series, missing = {}, 0
    for key, parts in runs.items():
        times = np.concatenate([part.times_ms for part in parts])
        values = np.concatenate([part.values for part in parts])
        numbers = ~np.isnan(values)
        missing += len(values) - int(numbers.sum())
        times, values = times[numbers][::-1], values[numbers][::-1]
        if len(times):
            kept, first = np.unique(times, return_index=True)
            series[key] = (kept, values[first])
    if missing:
        without = len(runs) - len(series)
        remarks.append(
            f"{counted(missing, 'sample')} without a number left out"
            + (f", and {without} series that had no other" if without else "")
        )
    return series, tuple(dict.fromkeys(remarks))


def _label_text(series: RawSeries) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(series.labels.items()))


def _labels(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    return "; ".join(f"{{{label}}}" for label in labels[:SHOWN]) + more
