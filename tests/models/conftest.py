"""Fixtures of the models' tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

LAGGED_ROUNDS = 8
KRIGING_STEPS = (2, 2)
ARIMA_ORDER, ARIMA_ITERATIONS = 2, 5  # pmdarima begins at 2


@pytest.fixture(scope="module")
def light_fits() -> Iterator[None]:
    """Let slow families fit in little time, for what is true of any fit: fewer trees, orders and steps."""
    from perdix.models.forecasting import (  # noqa: PLC0415 - a second of import that other files need not pay
        auto_arima,
        gaussian_process,
        lagged_trees,
    )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lagged_trees, "grown", partial(lagged_trees.grown, rounds=LAGGED_ROUNDS))
        patch.setattr(gaussian_process, "STEPS", KRIGING_STEPS)
        patch.setattr(auto_arima, "LARGEST_ORDER", ARIMA_ORDER)
        patch.setattr(auto_arima, "ITERATIONS", ARIMA_ITERATIONS)
        yield
