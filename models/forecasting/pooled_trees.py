"""Boosted trees that many jobs share: grown on all of their histories, each on its own scale.

What one job is too young to have seen, others have. The trees are stored once per fleet and named in the jobs' states.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.failures import NotForecastableError
from perdix.models.forecasting.lag_features import CALENDAR, FARTHEST_DAYS, LAGS, LogScale, features
from perdix.models.forecasting.lagged_trees import GROWTH, changes, grown, spread_origins, standardised
from perdix.models.forecasting.member import Member, lead_s
from perdix.models.forecasting.regrid import rates_between
from perdix.models.forecasting.seasons import filled
from perdix.models.forecasting.tail import Tail
from perdix.models.forecasting.tree_tables import TreeTables
from perdix.settings.durations import DAY_S
from perdix.telemetry.window import Values

LARGEST_ROWS = 160_000  # origins of all jobs times leads
ROUNDS = 200
POOLED_GROWTH: Mapping[str, Any] = {**GROWTH, "max_depth": 5, "min_child_weight": 10}
LEAST_STIR = 0.02  # of a standardised series
REFERENCE = "shared"


class Shared(Protocol):
    """A model that jobs share, as it is handed over."""

    @property
    def name(self) -> str:
        """What states call it."""

    @property
    def until_s(self) -> float:
        """Epoch seconds before which everything lies that it was fitted to."""

    @property
    def state(self) -> Mapping[str, Any]:
        """Return what :meth:`PooledTrees.fit_shared` returned."""


@dataclass(frozen=True)
class PooledTrees(Member):
    """Trees grown on many jobs; of a job itself only the scale and how restless it is are learnt."""

    family: ClassVar[str] = "pooled-trees"
    models: ClassVar[tuple[Shared, ...]] = ()

    # scale, stir: of the job: its standardised series, and the median change of that from cell to cell
    scale: LogScale
    stir: float
    shared: str  # name of the trees, as the job's state refers to them
    trees: TreeTables | None  # ``None`` until they are given (:meth:`given`)

    @classmethod
    def fit_shared(
        cls, histories: Sequence[Workload], *, horizon_s: float = HORIZON_S, seed: int = 0
    ) -> Mapping[str, Any]:
        """Fit to histories of several jobs; those that cannot be learnt from are left out.

        The histories need a common step; of several, the most frequent one counts.

        Raises ``ValueError`` when none can be learnt from, with the reason of the first one.

        Returns JSON-serialisable state.
        """
        cells_s = Counter(lead_s(history.step_s, horizon_s) for history in histories)
        if not cells_s:
            raise NotForecastableError(f"{cls.family} needs histories of jobs, and there is none")
        cell_s = cells_s.most_common(1)[0][0]
        leads = max(1, round(horizon_s / cell_s))
        alike = [history for history in histories if lead_s(history.step_s, horizon_s) == cell_s]
        parts, reasons = [], []
        for history in alike:
            try:
                parts.append(_learnable(history.plausible(), cell_s, leads, LARGEST_ROWS // leads // len(alike)))
            except ValueError as error:
                reasons.append(str(error))
        if not parts:
            raise NotForecastableError(f"none of {len(alike)} histories can be learnt from: {reasons[0]}")
        rows, targets, weights = (np.concatenate([part[index] for part in parts]) for index in range(3))
        trees = grown(rows, targets, seed=seed, weights=weights, rounds=ROUNDS, growth=POOLED_GROWTH)
        return {"cell_s": cell_s, "trees": trees.to_state()}

    @classmethod
    def sharing(cls, models: Sequence[Shared]) -> type[Self]:
        """Return the family as fitted to a job by taking the newest model that ends no later than its history."""
        return type(cls.__name__, (cls,), {"models": tuple(models), "__module__": cls.__module__})

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Learn a job's scale, and take the newest of :attr:`models` that does not know its future.

        Raises ``ValueError`` when there is no such model, it is of other cells, or the history is too short, mostly
        missing or constant.
        """
        cell_s = lead_s(history.step_s, horizon_s)
        early = [model for model in cls.models if model.until_s <= history.end_s + 1e-6]
        if not early:
            raise NotForecastableError(f"{cls.family}: no shared model that ends by {history.end_s:.0f} s")
        model = max(early, key=lambda model: model.until_s)
        if float(model.state["cell_s"]) != cell_s:
            raise NotForecastableError(
                f"{cls.family}: the shared model forecasts cells of {model.state['cell_s']:g} s, not {cell_s:g} s"
            )
        series, _, scale = standardised(history, cell_s, cls.family)
        trees = _read(model.name, str(model.state["trees"]["packed"]), _sizes(model.state))
        return cls(cell_s, FARTHEST_DAYS * DAY_S, scale, stir_of(series), model.name, trees)

    def given(self, shared: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the member with its trees, where they are among ``shared`` (name -> state)."""
        if self.trees is not None or self.shared not in shared:
            return self
        state = shared[self.shared]
        return replace(self, trees=_read(self.shared, str(state["trees"]["packed"]), _sizes(state)))

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the median forecast. Raises ``ValueError`` without trees, or when too little was measured lately."""
        if self.trees is None:
            raise NotForecastableError(f"{self.family}: the shared model {self.shared} was not given")
        rates = filled(tail, LAGS * self.cell_s, self.family, self.keep_s)
        series = self.scale.apply(rates)
        start_s = tail.measured_end_s - self.cell_s * len(series)
        rows = features(series, start_s, self.cell_s, np.array([len(series)]), len(self.trees.offsets))
        change = self.stir * self.trees.predict(relative(rows, self.stir)[0])
        return rates_between(edges_s, rates[-2:], self.scale.undo(series[-1] + change), self.cell_s)

    def parameters(self) -> dict[str, Any]:
        """Return the job's scale and the name of the trees."""
        return {REFERENCE: self.shared, "stir": self.stir, "scale": self.scale.to_state()}

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        """Rebuild; the trees are still to be given, where the family does not have them bound."""
        stir = float(parameters["stir"])
        if not (np.isfinite(stir) and stir > 0.0):
            raise ValueError(f"a stir of {stir}")
        made = cls(cell_s, keep_s, LogScale.from_state(parameters["scale"]), stir, str(parameters[REFERENCE]), None)
        known = {model.name: model.state for model in cls.models}
        return made.given(known)


def stir_of(series: Values) -> float:
    """Return how restless a standardised series is: its median change from cell to cell, a small one at least."""
    return max(LEAST_STIR, float(np.median(np.abs(np.diff(series)))))


def relative(rows: NDArray[np.float32], stir: float) -> NDArray[np.float32]:
    """Return features in units of the job's restlessness, the calendar left alone, and that one beside them."""
    scaled = rows.copy()
    scaled[..., :-CALENDAR] /= np.float32(stir)
    beside = np.full((*rows.shape[:-1], 1), stir, dtype=np.float32)
    return np.concatenate([scaled, beside], axis=-1)


def _learnable(history: Workload, cell_s: float, leads: int, most: int) -> tuple[NDArray[np.float32], Values, Values]:
    """Return rows, targets and weights of one job; each job counts by how predictable it is, not by its size."""
    series, start_s, _ = standardised(history, cell_s, PooledTrees.family)
    origins = spread_origins(len(series), cell_s, leads, max(1, most))
    stir = stir_of(series)
    targets = changes(series, origins, leads) / stir
    weights = np.full(len(origins), 1.0 / max(float(np.abs(targets).mean()), 1e-9))
    return relative(features(series, start_s, cell_s, origins, leads), stir), targets, weights


def _sizes(state: Mapping[str, Any]) -> tuple[int, int, int]:
    trees = state["trees"]
    return int(trees["leads"]), int(trees["trees"]), int(trees["inner"])


@lru_cache(maxsize=8)
def _read(_name: str, packed: str, sizes: tuple[int, int, int]) -> TreeTables:
    """Unpack shared trees once per process, not once per job."""
    leads, trees, inner = sizes
    return TreeTables.from_state({"leads": leads, "trees": trees, "inner": inner, "packed": packed})
