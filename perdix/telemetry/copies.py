"""One series in two exports under other labels, as a dashboard's CSV beside the JSON of its query.

Belongs here: which series are copies of another. Does not belong here: what is made of several series of one metric
(:mod:`perdix.telemetry.joining`), which would sum these.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

COLUMNS: Final = frozenset(("metric", "worker", "ts", "value", "labels", "series_id", "source"))
LEAST_SHARED: Final = 10  # samples at the same times, equal to the last digit
LEAST_DIFFERENT: Final = 5  # values among them: what hardly changes may be alike by chance


def as_one(samples: pd.DataFrame) -> pd.DataFrame:
    """Return samples in which a copy has worker, labels and kind of its original, so that samples of a time count once.

    Copies come from different sources. Series of two workers that both have a name are none, however alike; one without
    a name may be a copy of several, as of pods that followed each other.

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
    same = [name for name in ("worker", "labels", "kind") if name in samples.columns]
    heads = samples.drop_duplicates("series_id").set_index("series_id")[same]
    found, times = samples.copy(), samples.groupby("series_id")["ts"]
    for copy, of in originals.items():
        left = samples["series_id"] == copy
        for original in of:
            found.loc[left, same] = heads.loc[original].to_numpy()
            left &= ~samples["ts"].isin(times.get_group(original))
    return found


def _originals(rows: pd.DataFrame) -> dict[int, list[int]]:
    """Return copy -> originals of one metric's series: those with a worker come first, then those of more samples."""
    workers = rows.drop_duplicates("series_id").set_index("series_id")["worker"].fillna("").to_dict()
    sources = {key: set(own) for key, own in rows.groupby("series_id")["source"].unique().items()}
    sizes = rows["series_id"].value_counts()
    once = rows.drop_duplicates(["series_id", "ts"])
    shared = once.groupby("ts")["source"].nunique().loc[lambda count: count > 1].index
    table = once[once["ts"].isin(shared)].pivot_table("value", "ts", "series_id")
    values = {int(key): table[key].to_numpy(np.float64) for key in table.columns}
    copies: dict[int, list[int]] = {}
    kept: list[int] = []
    for key in sorted(values, key=lambda key: (not workers[key], -int(sizes[key]), key)):
        possible = [
            candidate
            for candidate in kept
            if not sources[candidate] & sources[key] and not _two(workers[candidate], workers[key])
        ]
        found = [candidate for candidate in possible if _alike(values[candidate], values[key])]
        if found:
            copies[key] = found
        else:
            kept.append(key)
    return copies


def _two(worker: str | None, other: str | None) -> bool:
    """Return whether these are two workers, each with a name."""
    return bool(worker and other and worker != other)


def _alike(first: np.ndarray, second: np.ndarray) -> bool:
    same = first == second
    if (count := np.count_nonzero(same)) < LEAST_SHARED or count < np.count_nonzero(
        ~np.isnan(first) & ~np.isnan(second)
    ):
        return False
    return len(np.unique(first[same])) >= LEAST_DIFFERENT
