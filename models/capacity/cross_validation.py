"""Held-out minutes for capacity models: the high-CPU end of each scale-out, and scale-outs left out whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perdix.models.capacity.pairing import epoch_s
from perdix.telemetry.window import Values

Table = Callable[[int], float]

HELD_OUT = 0.25  # share of a scale-out's minutes, its hottest, that no candidate may learn from
FEWEST = 3  # minutes that a part of a fold must have
APART_S = 60.0  # a one-minute mean knows of its neighbours nearer than that


@dataclass(frozen=True)
class Fold:
    """One split of the rows of a features frame, by minute. ``unseen`` names the scale-out that is left out whole."""

    train: pd.DataFrame
    test: pd.DataFrame
    unseen: int | None = None


@dataclass(frozen=True)
class Score:
    """Errors on held-out minutes: records/s, and the mean absolute error as a share of what was measured."""

    mae_per_s: float
    rmse_per_s: float
    mape: float

    @classmethod
    def of(cls, predicted: Values, actual: Values) -> Score:
        """Return the errors of paired values; NaN when there is none."""
        kept = np.isfinite(predicted) & np.isfinite(actual) & (actual > 0)
        if not kept.any():
            return cls(math.nan, math.nan, math.nan)
        error = predicted[kept] - actual[kept]
        relative = np.abs(error) / actual[kept]
        return cls(float(np.abs(error).mean()), float(np.sqrt((error**2).mean())), float(relative.mean()))


def minutes_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per minute in which every worker has both metrics: ``at_s, scale_out, hottest, total_per_s``.

    Features have no row of a worker that lacks one: as many must be there as mostly are at that scale-out.
    """
    both = frame["throughput_per_s"].notna() & frame["cpu_load"].notna()
    rows = (
        frame.assign(both=both)
        .groupby("ts", sort=True)
        .agg(
            scale_out=("scale_out", "max"),
            hottest=("cpu_load", "max"),
            total_per_s=("throughput_per_s", "sum"),
            workers=("both", "sum"),
        )
    )
    rows["at_s"] = epoch_s(rows.index)
    usable = rows["workers"] >= rows.groupby("scale_out")["workers"].transform("median")
    usable &= (rows["total_per_s"] > 0) & (rows["scale_out"] >= 1)
    return rows.loc[usable, ["at_s", "scale_out", "hottest", "total_per_s"]]


def high_cpu_fold(frame: pd.DataFrame) -> Fold | None:
    """Return the split that mirrors the use: learn at lower CPU loads, be judged at the highest.

    Of each scale-out the hottest quarter of its minutes is held out; minutes within 60 s of those are dropped.
    ``None`` where no scale-out has enough minutes for both parts.
    """
    minutes = minutes_of(frame)
    held: list[pd.Index] = []
    for _, group in minutes.groupby("scale_out"):
        count = max(FEWEST, round(HELD_OUT * len(group)))
        if len(group) >= count + FEWEST:
            held.append(group.nlargest(count, "hottest").index)
    if not held:
        return None
    test = minutes.loc[held[0].append(held[1:])].sort_index()
    rest = minutes.drop(index=test.index)
    train = rest[_apart(rest["at_s"].to_numpy(), test["at_s"].to_numpy())]
    if len(train) < FEWEST:
        return None
    return Fold(frame[frame["ts"].isin(train.index)], frame[frame["ts"].isin(test.index)])


def newest_fold(frame: pd.DataFrame, after_s: float) -> Fold | None:
    """Return the split for a gate: the hotter half of the newest minutes, and all that came before them.

    Of the minutes younger than ``after_s`` (the champion's newest), the later half is judged on; ``None`` below six.
    """
    minutes = minutes_of(frame)
    young = minutes[minutes["at_s"] > after_s]
    if len(young) < 2 * FEWEST:
        return None
    later = young.iloc[len(young) // 2 :]
    test = later[later["hottest"] >= later["hottest"].median()]
    before = minutes[minutes["at_s"] <= later["at_s"].iloc[0] - APART_S]
    if len(before) < FEWEST:
        return None
    return Fold(frame[frame["ts"].isin(before.index)], frame[frame["ts"].isin(test.index)])


def left_out_folds(frame: pd.DataFrame) -> Iterator[Fold]:
    """Yield one fold per scale-out, tested on the hotter half of its minutes; none below two scale-outs.

    One at a time, as each has most rows of the frame.
    """
    minutes = minutes_of(frame)
    groups = {n: group for n, group in minutes.groupby("scale_out") if len(group) >= 2 * FEWEST}
    if len(groups) < 2:
        return
    for scale_out, group in groups.items():
        hotter = group[group["hottest"] >= group["hottest"].median()]
        train = frame[frame["ts"].isin(minutes.index[minutes["scale_out"] != scale_out])]
        yield Fold(train, frame[frame["ts"].isin(hotter.index)], int(cast("int", scale_out)))


def capacity_score(table: Table, test: pd.DataFrame, idle: float) -> Score:
    """Judge a capacity table on minutes that were measured: the one yardstick for candidates and champion alike.

    A minute whose hottest worker is at CPU load ``h`` uses ``(h - idle) / (1 - idle)`` of the capacity of its
    scale-out, so its throughput says what the capacity is; the hotter, the less that rests on the idle share.

    ``idle``: CPU load at which the job processes nothing, as far as it is known.
    """
    minutes = minutes_of(test)
    if minutes.empty:
        return Score(math.nan, math.nan, math.nan)
    used = np.clip((minutes["hottest"].to_numpy() - idle) / (1.0 - idle), 0.0, None)
    scale_outs = minutes["scale_out"].to_numpy().round().astype(int)
    capacities = {n: table(n) for n in np.unique(scale_outs).tolist()}
    predicted = np.array([capacities[n] for n in scale_outs.tolist()]) * used
    return Score.of(predicted, minutes["total_per_s"].to_numpy())


def _apart(times_s: Values, others_s: Values) -> NDArray[np.bool_]:
    """Return which times are at least 60 s from every one of ``others_s`` (ascending)."""
    after = np.searchsorted(others_s, times_s)
    following = np.where(after < len(others_s), others_s[np.minimum(after, len(others_s) - 1)], np.inf)
    before = np.where(after > 0, others_s[np.maximum(after - 1, 0)], -np.inf)
    result: NDArray[np.bool_] = np.minimum(following - times_s, times_s - before) >= APART_S
    return result
