"""Champions that are trained while a replay runs, from what the run has seen by then: no model knows the future."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import orjson

from control.champions import ChampionRow, FleetChampions
from models.forecasting.backtest import backtest_fitted
from models.forecasting.contract import Workload
from models.forecasting.families import forecaster_from_state
from models.forecasting.selection import challenge, train_forecasters
from models.registry import FORECAST
from twin.job import JobTwin

FIRST_S = 3_000.0  # of history, before a forecast of 15 minutes can be judged on enough origins
TAKES_S = 120.0  # from the request to the champion's alias: a training of one job
STEP_S = 5.0


@dataclass
class TrainedOnTheWay:
    """A :class:`control.champions.ChampionSource`: the first champion as soon as one can be judged, then on request.

    The same selection and the same gate as in the pipeline. What is trained at one moment is in use ``TAKES_S`` later.

    Attributes
    ----------
    trained
        How many trainings there were.
    """

    job: str
    seed: int = 0
    trained: int = 0
    _serving: ChampionRow | None = None
    _coming: tuple[float, ChampionRow] | None = None
    _others: Mapping[str, FleetChampions] = field(default_factory=dict)

    def fleet(self, name: str) -> FleetChampions:
        """Return the fleet table that is believed now."""
        if name != FORECAST:
            return self._others.get(name, FleetChampions(name))
        row = self._serving
        return FleetChampions(name) if row is None else FleetChampions(name, row.version, {self.job: row})

    def refresh(self, now_s: float) -> tuple[str, ...]:
        """Take a champion into service that is ready by now."""
        if self._coming is not None and now_s >= self._coming[0]:
            self._serving, self._coming = self._coming[1], None
        return ()

    def consider(self, twin: JobTwin, *, retrain: bool) -> None:
        """Train when there is no champion yet and history enough, or when drift asks for it."""
        self.refresh(float(twin.now_s))
        history_s = twin.now_s - twin.history.start_s
        first = self.trained == 0 and history_s >= FIRST_S
        if self._coming is None and (first or (retrain and history_s >= FIRST_S)):
            self._train(_history(twin), float(twin.now_s))

    def _train(self, history: Workload, now_s: float) -> None:
        self.trained += 1
        found = train_forecasters(history, seed=self.seed)
        winner = None if found.winner is None else found.candidates[found.winner]
        if winner is None or winner.forecaster is None or winner.backtest is None:
            return
        current = None
        if self._serving is not None:
            serving = forecaster_from_state(orjson.loads(self._serving.state))
            current = backtest_fitted(serving, history, origins_s=winner.backtest.origins_s)
        if not challenge(current, winner.backtest).promote:
            return
        state = orjson.dumps(winner.forecaster.to_state()).decode()
        self._coming = (now_s + TAKES_S, ChampionRow(winner.family, state, self.trained))


def _history(twin: JobTwin) -> Workload:
    arrived = twin.history.column("arrived")
    width = int(STEP_S)
    whole = arrived[: len(arrived) // width * width].reshape(-1, width).mean(axis=1)
    return Workload(float(twin.history.start_s), STEP_S, np.asarray(whole, dtype=np.float64))
