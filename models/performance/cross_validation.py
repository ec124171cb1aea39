"""How far a family is off samples that it had not seen: repeated cross-validation, and the search of its grid."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from perdix.models.performance.families import Family, Parameters
from perdix.telemetry.window import Values

FOLDS = 10
REPEATS = 10


@dataclass(frozen=True)
class Errors:
    """Errors of repeated cross-validation, records/s: means over the repeats, and their standard deviations."""

    rmse_per_s: float
    rmse_spread_per_s: float
    mae_per_s: float
    mae_spread_per_s: float
    mean_per_s: float  # mean rate of the samples: what :attr:`relative_rmse` is a share of

    @classmethod
    def of(cls, held_out: Values, rates: Values) -> Errors:
        """Return the errors of predictions of shape ``(repeats, n)`` on rates of shape ``(n,)``."""
        off = held_out - rates
        rmse, mae = np.sqrt((off**2).mean(axis=1)), np.abs(off).mean(axis=1)
        return cls(float(rmse.mean()), float(rmse.std()), float(mae.mean()), float(mae.std()), float(rates.mean()))

    @property
    def relative_rmse(self) -> float:
        """RMSE as a share of the mean rate (1.0 = 100 %); NaN where nothing was processed at any size."""
        return self.rmse_per_s / self.mean_per_s if self.mean_per_s > 0.0 else math.nan

    def __str__(self) -> str:
        """Return it as words: ``RMSE 120 ± 4 records/s``."""
        return f"RMSE {in_words(self.rmse_per_s)} ± {in_words(self.rmse_spread_per_s)} records/s"


def in_words(per_s: float) -> str:
    """Return a number of records/s as it is read: whole from 100 on, else with three digits."""
    return f"{per_s:,.0f}" if per_s >= 100.0 else f"{per_s:.3g}"


def folds_for(samples: int) -> int:
    """Return into how many parts this many samples are split: ten, or one sample each where there are fewer."""
    return min(FOLDS, samples)


def held_out_rates(
    family: Family, parameters: Parameters, sizes: Values, rates: Values, *, repeats: Sequence[int]
) -> Values:
    """Return every sample's rate as predicted by a model that had not seen it, once per repeat.

    ``repeats``: a seed each: of how samples are dealt into folds, and of the estimator.
    Returns shape ``(len(repeats), n)``, records/s.
    """
    from sklearn.model_selection import KFold, cross_val_predict  # noqa: PLC0415  seconds to import

    found = np.empty((len(repeats), len(rates)))
    with one_thread():
        for row, seed in enumerate(repeats):
            folds = KFold(folds_for(len(rates)), shuffle=True, random_state=seed)
            found[row] = cross_val_predict(family.estimator(parameters, seed), sizes, rates, cv=folds)
    return np.maximum(found, 0.0)


def best_parameters(family: Family, sizes: Values, rates: Values, seed: int) -> Parameters:
    """Search the family's grid by cross-validation; ties go to what is published."""
    tried = family.tried()
    if len(tried) == 1:
        return tried[0]
    off = [held_out_rates(family, drawn, sizes, rates, repeats=[seed]) - rates for drawn in tried]
    squares = [float((errors**2).mean()) for errors in off]
    return tried[int(np.argmin(squares))]


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep numerical libraries to one thread: the tables are tiny, and other jobs train beside."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of scikit-learn, about its own arguments
        yield
