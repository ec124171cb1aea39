"""Every family of forecasters, ready to be fitted: trees that jobs share are bound to a model of the time before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from perdix.models.forecasting import pooled_trees
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import ENSEMBLE, FAMILIES, families_named
from perdix.models.forecasting.forecaster import Forecaster, forecaster_from_state
from perdix.models.forecasting.member import Member
from perdix.models.forecasting.pooled_trees import PooledTrees

NAMES = [*FAMILIES, ENSEMBLE]
SHARED_ROUNDS = 20  # of 200: what is tested here is true of any trees
START_S = 1_700_000_000.0
STEP_S, DAY = 900.0, 96


@dataclass(frozen=True)
class Kept:
    """A shared model as it is handed over."""

    name: str
    until_s: float
    state: Mapping[str, Any]


def weeks(days: int = 16, seed: int = 0, start_s: float = START_S) -> Workload:
    """Days and weekends by quarters of an hour, with noise: long enough for the seasons of every family."""
    at_s = STEP_S * np.arange(days * DAY)
    weekend = (start_s + at_s) // 86_400 % 7 >= 5
    shape = (1 + 0.4 * np.sin(2 * np.pi * at_s / 86_400)) * np.where(weekend, 0.7, 1.0)
    noise = np.random.default_rng(seed).normal(0, 400, len(at_s))
    return Workload(start_s, STEP_S, 20_000 * shape + noise)


@cache
def shared(horizon_s: float) -> Kept:
    """Trees grown on other jobs, until the jobs of the tests begin."""
    others = [weeks(6, seed, START_S - 6 * 86_400) for seed in (8, 9)]
    with patch.object(pooled_trees, "ROUNDS", SHARED_ROUNDS):
        return Kept(f"*/{horizon_s:g}", START_S, PooledTrees.fit_shared(others, horizon_s=horizon_s))


def behind(name: str, horizon_s: float) -> dict[str, type[Member]]:
    """The families behind a name: one, or those of an ensemble."""
    bound = {PooledTrees.family: PooledTrees.sharing([shared(horizon_s)])} if name == PooledTrees.family else {}
    return {**families_named(name), **bound}


def all_of_them(horizon_s: float) -> dict[str, type[Member]]:
    """Every family by name."""
    return {name: behind(name, horizon_s)[name] for name in FAMILIES}


def restored(state: Mapping[str, Any], horizon_s: float) -> Forecaster:
    """A forecaster from its state, with the trees that it shares."""
    made = forecaster_from_state(state)
    known = {shared(horizon_s).name: shared(horizon_s).state}
    members = tuple(member.given(known) if isinstance(member, PooledTrees) else member for member in made.members)
    return replace(made, members=members)
