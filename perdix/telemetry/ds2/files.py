"""Rates and source rates in the file formats of the original DS2 program; ``ds2_topology`` reads its topologies.

Belongs here: whose rates a line tells, and of which epoch. Does not belong here: what rates are good for. Nothing is
dropped without a word: a line that cannot be read is set aside with its place, the reason and the fix, and the rest
is read.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from perdix.settings.stream_job import MOST_WORKERS
from perdix.telemetry.ds2.lines import (
    Ds2FileError,
    SetAside,
    columns_of,
    files_of,
    first_of,
    instances_of,
    is_header,
    lines_of,
    number_of,
    whole_of,
)

SAME_WINDOW = 0.75  # windows that begin within this share of the time between windows are of the same epoch
AS_OBSERVED = -1.0  # of a source rate: what the source emitted
EPOCH_FILE = re.compile(r"(?P<operator>.+)-(?P<instance>\d+)-(?P<epoch>\d+)\.log$", re.DOTALL)
RATES_LINE = (
    "write operator id, instance, instances, window start in ns, then true processing, true output, observed "
    "processing and observed output rate"
)


@dataclass(frozen=True)
class LoggedRates:
    """Rates of one instance in one window, records/s; NaN and infinite where the program divided by zero."""

    operator: str
    instance: str
    instances: int  # how many the operator had
    start_ns: int  # when the window began, nanoseconds of some clock that does not turn back
    true_processing_per_s: float
    true_output_per_s: float
    observed_processing_per_s: float
    observed_output_per_s: float


@dataclass(frozen=True)
class Epoch:
    """One window of all instances."""

    number: int
    rates: tuple[LoggedRates, ...]


@dataclass(frozen=True)
class RatesLog:
    """Epochs by number, ascending; what was set aside; and remarks in words."""

    epochs: tuple[Epoch, ...]
    set_aside: tuple[SetAside, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceRates:
    """Source (by name or id) -> records/s that each of its instances should emit; ``None``: what it did emit."""

    per_instance: dict[str, float | None]
    set_aside: tuple[SetAside, ...] = ()


def read_source_rates(path: Path) -> SourceRates:
    """Read what each instance of a source should emit: ``name,records per second``; -1 stands for what it did emit.

    Raises ``Ds2FileError`` when the file cannot be read, or not one line of it.
    """
    found: dict[str, float | None] = {}
    aside: list[SetAside] = []
    for number, line in lines_of(path):
        name, _, text = (part.strip() for part in line.rpartition(","))
        rate = number_of(text)
        if is_header(text, name):
            continue
        if not name or rate is None or not (rate >= 0 or rate == AS_OBSERVED) or math.isinf(rate):
            aside.append(
                SetAside(path.name, number, f"'{line[:80]}' is not 'source,records per second' (-1: as observed)")
            )
        elif name in found:
            aside.append(SetAside(path.name, number, f"'{name}' was given before; keep one line per source"))
        else:
            found[name] = None if rate == AS_OBSERVED else rate
    if not found:
        raise Ds2FileError(
            f"{path}: no source rate could be read{first_of(aside)}; write a line 'source,100000' for each"
        )
    return SourceRates(found, tuple(aside))


def read_rates(path: Path) -> RatesLog:
    """Read rates: one log, a table with an ``epoch`` column, or a folder or archive of a log per instance and epoch.

    Epochs are known by the ``epoch`` column or by the names of the files (``operator-instance-epoch.log``). Those are
    counters of each instance; where windows of one epoch begin too far apart, the counters drifted (or began anew with
    a restart), and windows are grouped by when they began instead. So are those of a log without epochs.

    Raises ``Ds2FileError`` when nothing can be read.
    """
    rows: list[tuple[int | None, LoggedRates, SetAside]] = []
    aside: list[SetAside] = []
    for file, lines in files_of(path, aside):
        named = EPOCH_FILE.match(Path(file).name)
        rows.extend(_rates_of(file, lines, int(named["epoch"]) if named else None, aside))
    if not rows:
        raise Ds2FileError(f"{path}: no rates could be read{first_of(aside)}; {RATES_LINE}")
    epochs, remarks = _grouped(rows, aside)
    return RatesLog(epochs, tuple(aside), remarks)


def _rates_of(
    file: str, lines: Iterable[tuple[int, str]], epoch: int | None, aside: list[SetAside]
) -> Iterator[tuple[int | None, LoggedRates, SetAside]]:
    """Yield epoch, rates and place of each line; what cannot be read goes to ``aside``."""
    by_column: bool | None = None
    for number, line in lines:
        parts = columns_of(line)
        if is_header(parts[-1], parts[0]):
            by_column = parts[0].lower() == "epoch"
            continue
        first = whole_of(parts[0]) if by_column or (by_column is None and len(parts) > 8) else None
        if by_column and first is None:
            aside.append(SetAside(file, number, f"'{parts[0][:40]}' is not the number of an epoch; write a whole one"))
            continue
        rates = _rates(parts if first is None else parts[1:])
        if isinstance(rates, str):
            aside.append(SetAside(file, number, rates))
        else:
            yield epoch if first is None else first, rates, SetAside(file, number, "")


def _rates(parts: list[str]) -> LoggedRates | str:  # noqa: PLR0911 - one return per reason
    """Return the rates of a line, or in words why it tells of none; commas before the last seven are of the name."""
    if len(parts) < 8:
        return f"{len(parts)} columns of 8; {RATES_LINE}"
    name, (instance, instances, start, *rates) = ",".join(parts[:-7]), parts[-7:]
    count, began = instances_of(instances), whole_of(start)
    if not name or not instance:
        return f"the operator or its instance has no name; {RATES_LINE}"
    if count is None:
        return f"'{instances[:40]}' is not a number of instances; write a whole one from 1 to {MOST_WORKERS}"
    if began is None:
        return f"'{start[:40]}' is not the start of a window; write whole nanoseconds"
    values = [number_of(text) for text in rates]
    for text, value in zip(rates, values, strict=True):
        if value is None:
            return f"'{text[:40]}' is not a rate; write records per second"
        if value < 0:
            return f"a rate of {text[:40]} records/s cannot be; leave the line out or fix it"
    return LoggedRates(name, instance, count, began, *(value for value in values if value is not None))


Row = tuple[int | None, LoggedRates, SetAside]


def _grouped(rows: list[Row], aside: list[SetAside]) -> tuple[tuple[Epoch, ...], tuple[str, ...]]:
    """Return rates by epoch, each instance once in each; an instance reported twice is set aside."""
    between_ns = _between_windows_ns([rates for _, rates, _ in rows])
    numbered = [row for row in rows if row[0] is not None]
    remarks = []
    if len(numbered) == len(rows):
        apart = _furthest_apart_ns(rows)
        if between_ns is None or apart < SAME_WINDOW * between_ns:
            return _by_number(rows, aside), ()
        remarks.append(
            f"windows of one epoch begin up to {apart / 1e9:.3g} s apart: the epochs' numbers drifted or began anew, "
            "so windows are grouped by when they began and counted from 0"
        )
    elif numbered:
        remarks.append("only some rates tell their epoch: all are grouped by when their window began, counted from 0")
    return _by_number(_counted(rows, between_ns), aside), tuple(remarks)


def _between_windows_ns(rates: Sequence[LoggedRates]) -> float | None:
    """Return the shortest time between two windows of one instance; ``None`` where no instance has two."""
    starts: dict[tuple[str, str], set[int]] = {}
    for rate in rates:
        starts.setdefault((rate.operator, rate.instance), set()).add(rate.start_ns)
    steps = [later - sooner for of_one in starts.values() for sooner, later in pairwise(sorted(of_one))]
    return min(steps) if steps else None


def _furthest_apart_ns(rows: Sequence[Row]) -> int:
    starts: dict[int | None, list[int]] = {}
    for epoch, rates, _ in rows:
        starts.setdefault(epoch, []).append(rates.start_ns)
    return max(max(of_one) - min(of_one) for of_one in starts.values())


def _counted(rows: Sequence[Row], between_ns: float | None) -> list[Row]:
    """Number windows by when they began: a new epoch where an instance comes again, or too late for the last one."""
    reach_ns = math.inf if between_ns is None else SAME_WINDOW * between_ns
    counted: list[Row] = []
    number, first_ns, seen = -1, -math.inf, set[tuple[str, str]]()
    for _, rates, place in sorted(rows, key=lambda row: row[1].start_ns):
        key = (rates.operator, rates.instance)
        repeated = key in seen and between_ns is None
        if number < 0 or rates.start_ns - first_ns >= reach_ns or (key in seen and not repeated):
            number, first_ns, seen = number + 1, rates.start_ns, set()
        seen.add(key)
        counted.append((number, rates, place))
    return counted


def _by_number(rows: Sequence[Row], aside: list[SetAside]) -> tuple[Epoch, ...]:
    epochs: dict[int, dict[tuple[str, str], LoggedRates]] = {}
    for epoch, rates, place in rows:
        number = 0 if epoch is None else epoch
        found = epochs.setdefault(number, {})
        if (rates.operator, rates.instance) in found:
            reason = (
                f"instance {rates.instance} of '{rates.operator}' is reported twice in epoch {number}; keep one line"
            )
            aside.append(replace(place, reason=reason))
        else:
            found[rates.operator, rates.instance] = rates
    return tuple(Epoch(number, _agreed(list(found.values()))) for number, found in sorted(epochs.items()))


def _agreed(rates: list[LoggedRates]) -> tuple[LoggedRates, ...]:
    """Let all instances of an operator tell the same number of instances: what most of them tell."""
    reported: dict[str, Counter[int]] = {}
    for rate in rates:
        reported.setdefault(rate.operator, Counter())[rate.instances] += 1
    most = {name: max(counts, key=lambda n: (counts[n], n)) for name, counts in reported.items()}
    return tuple(replace(rate, instances=most[rate.operator]) for rate in rates)
