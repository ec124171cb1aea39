"""Gradient-boosted trees on lags and calendar, one sum of trees per part of the horizon; xgboost grows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.failures import NotForecastableError
from perdix.models.forecasting.lag_features import FARTHEST_DAYS, LAGS, LogScale, features
from perdix.models.forecasting.member import Member, lead_s
from perdix.models.forecasting.regrid import rates_between
from perdix.models.forecasting.seasons import filled
from perdix.models.forecasting.tail import Tail
from perdix.models.forecasting.tree_tables import TreeTables
from perdix.settings.durations import DAY_S
from perdix.telemetry.window import Values

LEAST_DAYS = 2.0
LEAST_ROWS = 20
LARGEST_ROWS = 16_000  # origins times leads: a fit takes about a second
DEPTH, ROUNDS = 3, 80
GROWTH: dict[str, Any] = {
    "objective": "reg:absoluteerror",  # what WAPE measures; squares would follow the bursts
    "max_depth": DEPTH,
    "learning_rate": 0.1,
    "subsample": 0.7,
    "colsample_bytree": 0.4,
    "min_child_weight": 5,
    "tree_method": "hist",
    "nthread": 1,
}


@dataclass(frozen=True)
class LaggedTrees(Member):
    """Trees grown on one job's history; the change from the newest value is forecast directly for each lead."""

    family: ClassVar[str] = "lagged-trees"

    scale: LogScale  # of the series that features and forecasts are made of
    trees: TreeTables  # one sum of trees per cell ahead

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:
        """Fit to a history. Raises ``ValueError`` when it spans less than two days, mostly misses, or does not vary."""
        cell_s = lead_s(history.step_s, horizon_s)
        leads = max(1, round(horizon_s / cell_s))
        series, start_s, scale = standardised(history, cell_s, cls.family)
        origins = spread_origins(len(series), cell_s, leads, LARGEST_ROWS // leads)
        rows = features(series, start_s, cell_s, origins, leads)
        trees = grown(rows, changes(series, origins, leads), seed=seed)
        return cls(cell_s, FARTHEST_DAYS * DAY_S, scale, trees)

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the median forecast. Raises ``ValueError`` when less than a few cells were measured lately."""
        leads = len(self.trees.offsets)
        means = tail.once(self, leads, lambda: self._newest_and_ahead(tail, leads))
        return rates_between(edges_s, means[:2], means[2:], self.cell_s)

    def _newest_and_ahead(self, tail: Tail, leads: int) -> Values:
        rates = filled(tail, LAGS * self.cell_s, self.family, self.keep_s)
        series = self.scale.apply(rates)
        start_s = tail.measured_end_s - self.cell_s * len(series)
        origin = np.array([len(series)])
        rows = features(series, start_s, self.cell_s, origin, leads)[0]
        return np.concatenate([rates[-2:], self.scale.undo(series[-1] + self.trees.predict(rows))])

    def parameters(self) -> dict[str, Any]:
        """Return scale and trees."""
        return {"scale": self.scale.to_state(), "trees": self.trees.to_state()}

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        """Rebuild."""
        scale = LogScale.from_state(parameters["scale"])
        return cls(cell_s, keep_s, scale, TreeTables.from_state(parameters["trees"]))


def standardised(history: Workload, cell_s: float, who: str) -> tuple[Values, float, LogScale]:
    """Return a history as a standardised series without gaps, the epoch second of its first cell, and its scale.

    Raises ``ValueError`` when it spans less than two days, is mostly missing, or does not vary; names ``who``.
    """
    tail = Tail.of(history, cell_s)
    rates = filled(tail, LEAST_DAYS * DAY_S, who)
    scale = LogScale.of(rates, who)
    return scale.apply(rates), tail.measured_end_s - cell_s * len(rates), scale


def spread_origins(cells: int, cell_s: float, leads: int, most: int) -> NDArray[np.int_]:
    """Return up to ``most`` origins, evenly spread, with a day before and the horizon after; the last one is there.

    Raises ``ValueError`` when there are fewer than :data:`LEAST_ROWS`.
    """
    first, last = max(LAGS, round(DAY_S / cell_s) + 1), cells - leads
    if last - first + 1 < LEAST_ROWS:
        raise NotForecastableError(f"{cells} cells of {cell_s:g} s are too few to learn {leads} of them ahead")
    return np.unique(np.linspace(first, last, min(most, last - first + 1)).astype(int))


def changes(series: Values, origins: NDArray[np.int_], leads: int) -> Values:
    """Return what is learnt: how far each cell ahead is from the newest value, shape ``(origins, leads)``."""
    return np.asarray(series[origins[:, None] + np.arange(leads)[None, :]] - series[origins - 1][:, None])


def grown(
    rows: NDArray[np.float32],
    targets: Values,
    *,
    seed: int,
    weights: Values | None = None,
    rounds: int = ROUNDS,
    growth: Mapping[str, Any] = GROWTH,
) -> TreeTables:
    """Grow one sum of trees per lead.

    ``rows``: shape ``(origins, leads, features)``.
    ``targets``: shape ``(origins, leads)``.
    ``weights``: of the rows, shape ``(origins,)``.
    """
    import xgboost  # noqa: PLC0415 -- takes a while to load, and only training needs it

    options = {**growth, "seed": seed}
    boosters = []
    for lead in range(rows.shape[1]):
        matrix = xgboost.QuantileDMatrix(rows[:, lead], targets[:, lead], weight=weights)
        boosters.append(xgboost.train(options, matrix, rounds))
    return TreeTables.of(boosters, int(options["max_depth"]))
