"""Which capacity model a job gets: candidates judged on the same held-out minutes, and the gate to the champion."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perdix.models.capacity.evidence import Evidence
from perdix.models.capacity.pairing import COLUMNS, epoch_s, scale_out_of
from perdix.models.capacity.regressors import FAMILIES, Linear, Regressor
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.verdict import Verdict
from perdix.telemetry.window import Values

Table = Callable[[int], float]

HELD_OUT = 0.25  # share of a scale-out's minutes, its hottest, that no candidate may learn from
FEWEST = 3  # minutes that a part of a fold must have
APART_S = 60.0  # a one-minute mean knows of its neighbours nearer than that


@dataclass(frozen=True)
class Fold:
    """One split of the rows of a features frame, by minute."""

    train: pd.DataFrame
    test: pd.DataFrame


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
        yield Fold(train, frame[frame["ts"].isin(hotter.index)])


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


SHARES = ("cpu_share", "throughput_share")


@dataclass(frozen=True)
class CapacityCandidate:
    """One family as it was tried on a job."""

    family: str
    notes: str
    # mae_per_s, rmse_per_s, mape: errors of a worker's throughput on the held-out high-CPU minutes
    mae_per_s: float = math.nan
    rmse_per_s: float = math.nan
    mape: float = math.nan
    # Error of the capacity on them, and ``unseen_mape`` on scale-outs that were left out whole; NaN where the history
    # allows no such split
    capacity_mape: float = math.nan
    unseen_mape: float = math.nan
    # What decides: the mean of those two, as far as they are known; infinite where neither is. Lower is better
    score: float = math.inf
    fit_s: float = math.nan  # seconds to fit to the whole history
    # Scale-out -> capacity in records/s, fitted to the whole history
    table: Mapping[int, float] = field(default_factory=dict)
    error: str = ""  # why the family could not be tried; empty when it could


@dataclass(frozen=True)
class TrainedCapacity:
    """A job's training: every candidate, the winner, and the model that the loop goes on with."""

    candidates: tuple[CapacityCandidate, ...]
    winner: str
    # Online model of the whole history; where a tree won, it believes that one on scale-outs it has not observed
    model: ScaleOuts
    maximum: int
    # The winner's capacities at the scale-outs of the held-out minutes, without these: what the gate judges
    held_out: Mapping[int, float] = field(default_factory=dict)

    @property
    def best(self) -> CapacityCandidate:
        """The winner."""
        return next(item for item in self.candidates if item.family == self.winner)

    @property
    def sentence(self) -> str:
        """Who won and why, what is to be known of it, and how the families compare, in words."""
        if not math.isfinite(self.best.score):
            return f"{self.winner} is used, as the history is too short to hold minutes out: {self.best.notes}"
        tried = "; ".join(
            f"{item.family}: {item.error or (f'{item.score:.1%}' if math.isfinite(item.score) else 'not judged')}"
            for item in self.candidates
        )
        both = (self.best.capacity_mape, "at the hottest minutes"), (self.best.unseen_mape, "at scale-outs left out")
        where = " and ".join(name for error, name in both if math.isfinite(error))
        return f"{self.winner} has the lowest mean error of the capacity {where} ({tried}): {self.best.notes}"

    def to_state(self) -> dict[str, Any]:
        """Return the state for the fleet table: the online model, and its capacities as numbers for any reader."""
        estimates = self.model.table(self.maximum).values()
        return {**self.model.to_state(), "family": self.winner, "table": [asdict(item) for item in estimates]}


def select_capacity(
    frame: pd.DataFrame, bounds_maximum: int, seed: int = 0, *, families: tuple[type[Regressor], ...] = FAMILIES
) -> TrainedCapacity:
    """Fit every family, judge each on the same held-out minutes, and return the best.

    The linear model wins ties and histories that are too short to hold anything out, because it alone learns on in the
    loop.

    Raises ``ValueError`` when columns are missing, ``bounds_maximum`` is below 1, or no minute is usable for the linear
    model.

    ``frame``: the lake table ``capacity_features`` of one job.
    ``bounds_maximum``: largest scale-out of the capacity tables.
    """
    if bounds_maximum < 1:
        raise ValueError(f"the largest scale-out must be 1 or more, not {bounds_maximum}")
    rows = _usable(frame)
    model = ScaleOuts.from_features(rows)
    trial = _Trial(rows, high_cpu_fold(rows), bounds_maximum, seed, model.idle_share.cpu)
    candidates = tuple(trial.of(family) for family in families)
    ranked = sorted(range(len(candidates)), key=lambda i: (candidates[i].score, families[i] is not Linear))
    winner = candidates[ranked[0]]
    if winner.family != Linear.family:
        model = model.believing(_learnt(winner, model))
    held_out = trial.held_out(families[ranked[0]]) if not winner.error else {}
    return TrainedCapacity(candidates, winner.family, model, bounds_maximum, held_out)


def challenge(champion: ScaleOuts | None, trained: TrainedCapacity, frame: pd.DataFrame, seed: int = 0) -> Verdict:
    """Judge the winner of a training against the champion on the same minutes, none of which the winner learnt from.

    Where the history goes on after the champion, both are judged on the hotter half of its newest minutes, the winner
    refitted to what came before these: the same question to both, and the younger one has more to answer it with. Else
    on the high-CPU minutes held out in training, which the champion may know: the doubt favours it.
    """
    if champion is None or not champion.known:
        return Verdict(True, f"{trained.winner} is the first champion", trained.best.capacity_mape)
    rows, idle = _usable(frame), trained.model.idle_share.cpu
    fold = newest_fold(rows, champion.newest_s)
    if fold is not None:
        family = next(family for family in FAMILIES if family.family == trained.winner)
        test, refitted = fold.test, family.fit(fold.train, seed)
        challenger = capacity_score(refitted.capacity, test, idle)
    else:
        held = high_cpu_fold(rows)
        if held is None or not trained.held_out:
            return Verdict(False, "the history is too short to hold minutes out: champion kept")
        test, challenger = held.test, capacity_score(lambda n: trained.held_out[n], held.test, idle)
    incumbent = capacity_score(lambda n: champion.capacity(n).per_s, test, idle)
    minutes = int(test["ts"].nunique())
    sentence = (
        f"{trained.winner} is {100 * challenger.mape:.1f} % off on {minutes} minutes that it had not learnt from, "
        f"the champion {100 * incumbent.mape:.1f} %"
    )
    return Verdict(challenger.mape < incumbent.mape, sentence, challenger.mape, incumbent.mape)


@dataclass(frozen=True)
class _Trial:
    """What every family is tried on alike."""

    rows: pd.DataFrame
    fold: Fold | None
    maximum: int
    seed: int
    idle: float  # CPU load at which the job processes nothing, by all of its history

    def of(self, family: type[Regressor]) -> CapacityCandidate:
        """Fit and judge one family; one that cannot be fitted says why and does not stop the others."""
        try:
            began = time.perf_counter()
            fitted = family.fit(self.rows, self.seed)
            fit_s = time.perf_counter() - began
            workers, capacity = self._on_high_cpu(family)
            unseen = [
                capacity_score(family.fit(fold.train, self.seed).capacity, fold.test, self.idle).mape
                for fold in left_out_folds(self.rows)
            ]
            table = fitted.table(self.maximum)
        except (ValueError, ArithmeticError) as error:
            return CapacityCandidate(family.family, family.notes, error=str(error))
        unseen_mape = float(np.mean(unseen)) if unseen else math.nan
        known = [value for value in (capacity.mape, unseen_mape) if math.isfinite(value)]
        return CapacityCandidate(
            family.family,
            family.notes,
            workers.mae_per_s,
            workers.rmse_per_s,
            workers.mape,
            capacity.mape,
            unseen_mape,
            float(np.mean(known)) if known else math.inf,
            fit_s,
            table,
        )

    def held_out(self, family: type[Regressor]) -> dict[int, float]:
        """Return the family's capacities at the scale-outs of the held-out minutes, learnt from the others."""
        if self.fold is None:
            return {}
        fitted = family.fit(self.fold.train, self.seed)
        return {n: fitted.capacity(n) for n in self.fold.test["scale_out"].unique().tolist()}

    def _on_high_cpu(self, family: type[Regressor]) -> tuple[Score, Score]:
        if self.fold is None:
            nothing = Score(math.nan, math.nan, math.nan)
            return nothing, nothing
        fitted = family.fit(self.fold.train, self.seed)
        test = self.fold.test
        workers = Score.of(fitted.predict(test), test["throughput_per_s"].to_numpy(float))
        return workers, capacity_score(fitted.capacity, test, self.idle)


def _learnt(winner: CapacityCandidate, model: ScaleOuts) -> list[Evidence]:
    relative = max(0.02, 1.25 * winner.score)  # an error's mean is 0.8 of its standard deviation when it is normal
    return [
        Evidence(n, per_s, relative, model.newest_s, 1.0, winner.family)
        for n, per_s in winner.table.items()
        if per_s > 0
    ]


def _usable(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that have everything; an unknown scale-out is the number of workers that report."""
    missing = [name for name in (*COLUMNS, *SHARES) if name not in frame.columns]
    if missing:
        raise ValueError(f"capacity features lack {', '.join(missing)}; build them with the feature pipeline")
    rows = frame.dropna(subset=["ts", "worker", "cpu_load", "throughput_per_s"])
    return rows.assign(scale_out=scale_out_of(rows))
