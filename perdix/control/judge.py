"""Judge: the champion's forecasts against their truth, over their first minute and when their horizon has passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.realised import FIRST_MINUTE_S, Realised, come_true, truth_of


@dataclass(frozen=True)
class Judgement:
    """What the pending forecasts showed at one tick.

    ``settled``: forecasts whose whole horizon has passed, and how they turned out.
    ``first_minute_wape``: WAPE (1.0 = 100 %) of the newest forecast whose first minute has passed since the last look;
    ``None`` when there is none, or when too little of that minute was measured.
    ``scored_until_s``: origin of the newest forecast whose first minute was looked at: start from here the next time.
    """

    settled: tuple[tuple[Forecast, Realised], ...] = ()
    first_minute_wape: float | None = None
    scored_until_s: float = float("-inf")

    def horizons(self, version: int) -> tuple[Realised, ...]:
        """Return how the settled forecasts of one version turned out over their horizons, oldest first."""
        return tuple(realised for forecast, realised in self.settled if forecast.version == version)


def judge(pending: Sequence[Forecast], truth: Workload | None, version: int, scored_until_s: float) -> Judgement:
    """Score the forecasts that have come true.

    ``pending``: forecasts not settled yet, oldest first.
    ``truth``: the workload that was measured.
    ``version``: the champion in use: only its first minutes say whether it may go on.
    """
    if truth is None:
        return Judgement(scored_until_s=scored_until_s)
    over = [one for one in pending if one.origin_s + one.horizon_s <= truth.end_s]
    ripe = [
        one
        for one in pending
        if one.version == version and one.origin_s > scored_until_s and one.origin_s + FIRST_MINUTE_S <= truth.end_s
    ]
    measured = truth_of(truth)
    minute = come_true(ripe[-1], measured).first_minute_wape if ripe else None
    settled = tuple((one, come_true(one, measured)) for one in over)
    return Judgement(settled, minute, ripe[-1].origin_s if ripe else scored_until_s)
