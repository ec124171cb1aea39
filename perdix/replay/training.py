"""Champions that are trained while a replay runs, from what the run has seen by then: no model knows the future."""

from dataclasses import dataclass, field

import numpy as np
import orjson

from perdix.control.champions import ChampionRow, ChampionSource, FleetChampions, GivenChampions
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.forecaster import fitted
from perdix.models.registry import FORECAST
from perdix.twin.job import JobTwin

FIRST_S = 3_000.0  # of history before a model is fitted: fitted to 20 minutes, it forecasts 15 worse than a line does
AGAIN_S = 1_800.0  # between two trainings, however often drift asks
TAKES_S = 120.0  # from the request to the champion's alias: a training of one job
STEP_S = 5.0
SEEN_S = 7 * 86_400  # of the newest history: a model of what the job does now


@dataclass
class TrainedOnTheWay:
    """A :class:`perdix.control.champions.ChampionSource`: one family, fitted anew when drift asks (Daedalus 3.2).

    What is trained at one moment is in use ``TAKES_S`` later.
    """

    job: str
    family: str  # name of the forecaster's family
    seed: int = 0
    trained: int = 0  # how many trainings there were
    notes: list[str] = field(default_factory=list)  # trainings that failed, and why
    given: ChampionSource = field(default_factory=GivenChampions)  # champions of everything else
    _serving: ChampionRow | None = None
    _coming: tuple[float, ChampionRow] | None = None
    _newest_s: float = float("-inf")

    def fleet(self, name: str) -> FleetChampions:
        """Return the fleet table that is believed now."""
        if name != FORECAST or self._serving is None:
            return self.given.fleet(name)
        return FleetChampions(name, self._serving.version, {self.job: self._serving})

    def refresh(self, now_s: float) -> tuple[str, ...]:
        """Take a champion into service that is ready by now."""
        if self._coming is not None and now_s >= self._coming[0]:
            self._serving, self._coming = self._coming[1], None
        return ()

    def consider(self, twin: JobTwin, *, retrain: bool) -> None:
        """Train when there is no champion yet and history enough, or when drift asks for it."""
        now_s = float(twin.now_s)
        self.refresh(now_s)
        wanted = retrain or self.trained == 0
        if not wanted or now_s - twin.history.start_s < FIRST_S or now_s - self._newest_s < AGAIN_S:
            return
        self._newest_s = now_s
        try:
            made = fitted(self.family, _history(twin), seed=self.seed)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            # What was in use goes on; tried again when half an hour more was seen.
            minute = (now_s - twin.history.start_s) / 60.0
            self.notes.append(f"{self.family} could not be fitted after {minute:.0f} min: {error}")
            return
        self.trained += 1
        self._coming = (now_s + TAKES_S, ChampionRow(self.family, orjson.dumps(made.to_state()).decode(), self.trained))


def _history(twin: JobTwin) -> Workload:
    from_s = max(twin.history.start_s, twin.now_s - SEEN_S)
    arrived = twin.history.column("arrived", from_s)
    width = max(1, round(STEP_S / twin.step_s))
    whole = arrived[: len(arrived) // width * width].reshape(-1, width).mean(axis=1)
    return Workload(float(from_s), float(width * twin.step_s), np.asarray(whole, dtype=np.float64))
