"""The families of regressions that are tried (QEScalor, 3.1), with the published settings and a small grid around them.

The published settings stand first in every grid and win ties, so that a family differs from the paper only where that
showed on samples left out. Three families go beyond the paper: a line, boosting that never falls with resources, and
two curves that rise with cores and with memory, multiplied.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

Parameter = str | int | float | bool | None
Parameters = Mapping[str, Parameter]

TREES = 100


@dataclass(frozen=True)
class Family:
    """A regression of performance over (cores, memory), both scaled to 0..1.

    ``published``: parameters as the paper prints them; for the families that it has not, our own.
    ``grid``: parameter -> values that are tried; the first is the published one.
    ``build``: parameters and seed -> an unfitted estimator of scikit-learn's kind, one thread.
    ``bounded``: whether samples hold what is predicted between them: means of neighbours, or rising from one to the
    next, never above the best. Others may go anywhere where there is no sample, and cross-validation, which only asks
    beside samples, does not see it: they are compared, and never chosen (docs/decisions/0018-performance-models.md).
    """

    family: str
    note: str
    published: Parameters
    build: Callable[[Parameters, int], Any]
    grid: Mapping[str, Sequence[Parameter]] = field(default_factory=dict)
    bounded: bool = True

    def tried(self) -> list[dict[str, Parameter]]:
        """Return every setting of the grid, the published one first."""
        from sklearn.model_selection import ParameterGrid  # noqa: PLC0415  seconds to import

        every = [{**self.published, **point} for point in ParameterGrid(dict(self.grid))]
        return sorted(every, key=lambda parameters: parameters != self.published)

    def estimator(self, parameters: Parameters, seed: int) -> Any:
        """Return the unfitted estimator behind min-max scaling of its inputs."""
        from sklearn.pipeline import make_pipeline  # noqa: PLC0415
        from sklearn.preprocessing import MinMaxScaler  # noqa: PLC0415

        return make_pipeline(MinMaxScaler(), self.build(parameters, seed))


def _of(module: str, name: str, parameters: Parameters, seed: int, *, seeded: bool = True, **fixed: Any) -> Any:
    """Return an estimator; its module takes seconds to import, so that waits until one is needed."""
    more = {**fixed, "random_state": seed} if seeded else fixed
    return getattr(import_module(module), name)(**parameters, **more)


def _support_vectors(parameters: Parameters, seed: int) -> Any:  # noqa: ARG001  nothing in it is random
    from sklearn.compose import TransformedTargetRegressor  # noqa: PLC0415
    from sklearn.preprocessing import MinMaxScaler  # noqa: PLC0415
    from sklearn.svm import SVR  # noqa: PLC0415

    wanted = dict(parameters)
    if not wanted.pop("scaled_rates"):
        return SVR(**wanted)
    return TransformedTargetRegressor(SVR(**{**wanted, "epsilon": SCALED_EPSILON}), transformer=MinMaxScaler())


SCALED_EPSILON = 0.01  # of the range of rates: what an error of a support vector regression may be at no cost

FOREST = Family(
    "random-forest",
    "as published",
    {
        "n_estimators": TREES,
        "bootstrap": True,
        "criterion": "squared_error",  # "mse" in the paper's scikit-learn
        "max_features": 1.0,  # "auto" there
        "min_samples_leaf": 1,
        "min_samples_split": 2,
    },
    partial(_of, "sklearn.ensemble", "RandomForestRegressor", n_jobs=1),
    {"min_samples_leaf": (1, 2)},
)
ADABOOST = Family(
    "adaboost",
    "as published",
    {"n_estimators": 50, "learning_rate": 1.0, "loss": "linear"},
    partial(_of, "sklearn.ensemble", "AdaBoostRegressor"),
    {"learning_rate": (1.0, 0.3)},
)
BOOSTING = Family(
    "gradient-boosting",
    "as published; trees split by friedman_mse, which scikit-learn no longer lets one choose",
    {"n_estimators": TREES, "learning_rate": 0.1, "max_depth": 3, "max_features": None, "min_samples_leaf": 1},
    partial(_of, "sklearn.ensemble", "GradientBoostingRegressor"),
    {"max_depth": (3, 2)},
)
XGBOOST = Family(
    "xgboost",
    "as published",
    {"booster": "gbtree", "n_estimators": TREES, "learning_rate": 0.1, "max_depth": 3},
    partial(_of, "xgboost", "XGBRegressor", tree_method="exact", n_jobs=1),
    {"learning_rate": (0.1, 0.3), "max_depth": (3, 2)},
)
SUPPORT_VECTORS = Family(
    "support-vectors",
    "as published; the grid also scales the rates, without which C = 1 bounds every coefficient at one record/s",
    {"kernel": "rbf", "gamma": "scale", "C": 1.0, "scaled_rates": False},
    _support_vectors,
    {"scaled_rates": (False, True), "C": (1.0, 10.0, 100.0)},
    bounded=False,
)
LINE = Family(
    "linear",
    "beyond the paper: one plane over cores and memory",
    {"fit_intercept": True},
    partial(_of, "sklearn.linear_model", "LinearRegression", seeded=False),
    bounded=False,
)
MONOTONE = Family(
    "monotone-boosting",
    "beyond the paper: more cores or memory never predict less performance",
    {"booster": "gbtree", "n_estimators": TREES, "learning_rate": 0.1, "max_depth": 3},
    partial(_of, "xgboost", "XGBRegressor", monotone_constraints=(1, 1), tree_method="exact", n_jobs=1),
    {"learning_rate": (0.1, 0.3), "max_depth": (3, 2)},
)
CURVES = Family(
    "rising-curves",
    "beyond the paper: a curve over cores times one over memory, neither falls",
    {"rounds": 30},
    partial(_of, "perdix.models.performance.rising_curves", "RisingCurves", seeded=False),
)

FAMILIES = (FOREST, ADABOOST, BOOSTING, XGBOOST, SUPPORT_VECTORS, LINE, MONOTONE, CURVES)


def family_of(name: str) -> Family:
    """Return a family by name. Raises ``ValueError`` naming those that there are."""
    for family in FAMILIES:
        if family.family == name:
            return family
    raise ValueError(f"no such family of performance models: '{name}'; known: {', '.join(f.family for f in FAMILIES)}")
