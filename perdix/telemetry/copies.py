"""One series in two exports under other labels, as a dashboard's CSV beside the JSON of its query.

Belongs here: which series are copies of another, and which of them counts when. Does not belong here: what is made of
several series of one metric (:mod:`perdix.telemetry.joining`), which would sum these.
"""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perdix.telemetry.landing import was_pulled

COLUMNS: Final = frozenset(("metric", "worker", "ts", "value", "labels", "series_id", "source"))
LEAST_SHARED: Final = 5  # samples at the same times, equal but for rounding
LEAST_SHORT: Final = 10  # of numbers of few decimals
LEAST_DIFFERENT: Final = 5  # values among them: what hardly changes may be alike by chance
SILENT_MS: Final = 120_000  # or two intervals of a copy: where a series is silent for longer, the copy goes on
LAST_DIGITS: Final = 5e-6  # of a value: some write six digits, or in single precision
MOST_DECIMALS: Final = 9  # of a copy that was rounded
FEW_DECIMALS: Final = 3  # of what may be alike by chance

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def as_one(samples: pd.DataFrame) -> pd.DataFrame:
    """Return samples in which a copy has worker, labels and kind of its original, so that samples of a time count once.

    Copies come from different sources. Series of two workers that both have a name are none, however alike; one without
    a name may be a copy of several, as of pods that followed each other: each sample is of the nearest. Where only the
    coarser of original and copy reports, it is a replica of the other, so that each is held for its own interval. What
    hardly changes may be alike by chance, and is a copy only of what was pulled (or that of it), one of each export.

    ``samples``: rows of the lake's ``samples`` with the ``labels`` (and ``kind``) of their series; others are returned
    as they are.
    """
    if not set(samples.columns) >= COLUMNS or samples["source"].nunique() < 2:
        return samples
    originals: dict[int, list[int]] = {}
    for _, rows in samples[samples["value"].notna()].groupby("metric", observed=True):
        if len(rows["source"].unique()) > 1:
            originals |= _originals(rows)
    if not originals:
        return samples
    times_ms = samples["ts"].dt.tz_convert(None).to_numpy("datetime64[ms]").astype(np.int64)
    order = np.argsort(times_ms, kind="stable")
    ordered = samples["series_id"].iloc[order].reset_index(drop=True)
    rows_of = {key: order[at] for key, at in ordered.groupby(ordered).indices.items()}
    parts = {key: {key: rows_of[key]} for some in originals.values() for key in some}
    for copy, some in originals.items():
        nearest = np.argmin([_distance(times_ms[rows_of[copy]], times_ms[rows_of[key]]) for key in some], axis=0)
        for number, original in enumerate(some):
            if (nearest == number).any():
                parts[original][copy] = rows_of[copy][nearest == number]
    same = [name for name in ("worker", "labels", "kind") if name in samples.columns]
    heads: dict[Any, dict[Any, Any]] = (
        samples.drop_duplicates("series_id").set_index("series_id")[same].to_dict("index")
    )
    columns = {name: samples[name].to_numpy(object, copy=True) for name in same}
    for original, own in parts.items():
        for key, at in _dealt(own, times_ms):
            replica = {} if key == original else {"__replica__": str(key)}
            labels = json.dumps(json.loads(heads[original]["labels"]) | replica)
            for name, value in {**heads[original], "labels": labels}.items():
                columns[name][at] = value
    return samples.assign(**columns)


def _distance(times_ms: Ints, others: Ints) -> Ints:
    """Return how far the nearest of other times, ascending, is from each."""
    after = np.searchsorted(others, times_ms).clip(0, len(others) - 1)
    found: Ints = np.minimum(np.abs(others[after] - times_ms), np.abs(others[(after - 1).clip(0)] - times_ms))
    return found


def _dealt(own: dict[int, Ints], times_ms: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield rows of an original and its copies by the series that they count as: a finer one where that reports.

    ``own``: series -> its rows, ascending in time; the original first.
    """
    spacing_ms = {key: _spacing_ms(times_ms[rows]) for key, rows in own.items()}
    finest = sorted(own, key=lambda key: spacing_ms[key])
    for number, key in enumerate(finest):
        left = own[key]
        for finer in finest[:number]:
            times, at = times_ms[own[finer]], times_ms[left]
            after, before = np.searchsorted(times, at), np.searchsorted(times, at, "right") - 1
            silent_ms = times[after.clip(0, len(times) - 1)] - times[before.clip(0)]
            joins = (before >= 0) & (after < len(times)) & (silent_ms <= max(SILENT_MS, 2 * spacing_ms[key]))
            yield finer, left[joins]
            left = left[~joins]
        yield key, left


def _spacing_ms(times_ms: Ints) -> float:
    gaps = np.diff(times_ms)
    return float(np.median(gaps[gaps > 0])) if gaps.any() else 0.0


def _originals(rows: pd.DataFrame) -> dict[int, list[int]]:
    """Return copy -> originals of one metric's series: those with a worker come first, then what was pulled.

    Of several alike, those of more samples.
    """
    workers = rows.drop_duplicates("series_id").set_index("series_id")["worker"].fillna("").to_dict()
    sources = {key: set(own) for key, own in rows.groupby("series_id")["source"].unique().items()}
    sizes = rows["series_id"].value_counts()
    once = rows.drop_duplicates(["series_id", "ts"])
    shared = once.groupby("ts")["source"].nunique().loc[lambda count: count > 1].index
    table = once[once["ts"].isin(shared)].pivot_table("value", "ts", "series_id")
    values = {int(key): table[key].to_numpy(np.float64) for key in table.columns}
    pulled = {key: any(map(was_pulled, own)) for key, own in sources.items()}
    taken: set[tuple[int, str]] = set()  # originals, and the sources of their copies
    copies: dict[int, list[int]] = {}
    before: list[int] = []

    def may_be(key: int, other: int) -> bool:
        return not sources[other] & sources[key] and not _two(workers[other], workers[key])

    for key in sorted(values, key=lambda key: (not workers[key], not pulled[key], -int(sizes[key]), key)):
        alike = (other for other in before if may_be(key, other) and _alike(values[other], values[key]))
        originals = (original for other in alike for original in copies.get(other, [other]))
        never_another = (
            other
            for other in before
            if other not in copies
            and may_be(key, other)
            and pulled[other] != pulled[key]
            and taken.isdisjoint((other, source) for source in sources[key])
            and len(_shared(values[other], values[key], rounded=False)) >= LEAST_SHARED
        )
        found = [original for original in dict.fromkeys(originals) if may_be(key, original)]
        found = found or list(islice(never_another, 1))
        if found:
            copies[key] = found
            taken |= {(original, source) for original in found for source in sources[key]}
        before.append(key)
    return copies


def _two(worker: str | None, other: str | None) -> bool:
    """Return whether these are two workers, each with a name."""
    return bool(worker and other and worker != other)


def _alike(first: Floats, second: Floats) -> bool:
    """Return whether two series are equal by more than chance, to which few samples of few decimals are left."""
    shared = _shared(first, second, rounded=True)
    values = np.unique(shared)
    long = np.count_nonzero(values != np.round(values, FEW_DECIMALS))
    enough = len(shared) >= LEAST_SHORT or long >= LEAST_DIFFERENT
    return bool(len(values) >= LEAST_DIFFERENT and enough)


def _shared(first: Floats, second: Floats, *, rounded: bool) -> Floats:
    """Return the values that two series have at the same times; none where they differ.

    ``rounded``: whether one of them may be the other with fewer decimals; then its values are returned.
    """
    both = ~np.isnan(first) & ~np.isnan(second)
    first, second = first[both], second[both]
    apart = np.abs(first - second)
    if (apart <= LAST_DIGITS * np.abs(first)).all():
        return first
    for decimals in range(MOST_DECIMALS + 1) if rounded else ():
        if apart.max() > 0.501 * 10.0**-decimals:
            break
        for series in (first, second):
            if (series == np.round(series, decimals)).all():
                return series
    return first[:0]
