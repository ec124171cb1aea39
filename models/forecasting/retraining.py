"""After a drift: candidates that know all of the history, and candidates that know only what came since.

Both are judged where the new load shows, and nowhere else: a champion that is good on weeks of the old load says
nothing of the next hour (docs/decisions/0032).
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.member import Member
from perdix.models.forecasting.origins import least_steps, stops_of
from perdix.models.forecasting.selection import LEAST_EVIDENCE, TrainedForecast, beats, train_forecasters
from perdix.settings.moments import moment

# On the walk: what is known of a new load grows from minute to minute, and a fit of so little is quick
FRESH_REFITS = 16
WHOLE_REFITS = 4
GRID_S = 10.0  # of the lake
MARGIN_S = 120.0  # until what was measured is in the lake, and begins at a step


def judgeable_s(since_s: float, horizon_s: float = HORIZON_S, step_s: float = GRID_S) -> float:
    """Return from when on (epoch seconds) forecasts can be judged on what came since ``since_s`` alone."""
    return since_s + step_s * least_steps(step_s, horizon_s, LEAST_EVIDENCE) + MARGIN_S


def retrain_forecasters(
    history: Workload,
    since_s: float | None,
    families: Mapping[str, type[Member]] | None = None,
    *,
    horizon_s: float = HORIZON_S,
    seed: int = 0,
) -> TrainedForecast:
    """Fit and judge as :func:`~perdix.models.forecasting.selection.train_forecasters`, with a drift in mind.

    Each family is fitted twice: to all of the history, and to what came since the drift. The former know seasons, the
    latter are not held back by what is over. All are judged on the same windows since the drift, so a training that
    comes too early has no winner and says when to come again.

    ``since_s``: when the drift began, epoch seconds; ``None`` when there was none. It makes no difference where every
    window lies after it anyway.
    """
    begin = 0 if since_s is None else int(np.ceil((since_s - history.start_s) / history.step_s))
    usual = stops_of(history, horizon_s)
    settled = bool(len(usual.scored_s)) and since_s is not None and usual.scored_s[0] >= since_s
    if since_s is None or begin <= 0 or settled:
        return train_forecasters(history, families, horizon_s=horizon_s, seed=seed, stops=usual)
    recent = history.part(min(begin, len(history)), len(history))
    stops = stops_of(recent, horizon_s)
    if stops.scored.sum() < LEAST_EVIDENCE:
        return TrainedForecast({}, None, _too_early(history, since_s, horizon_s), stops, since_s)

    def trained(part: Workload, refits: int) -> TrainedForecast:
        every = -(-len(stops.origins_s) // refits)
        made = train_forecasters(part, families, horizon_s=horizon_s, seed=seed, stops=stops, refit_every=every)
        return replace(made, since_s=since_s)

    whole, fresh = trained(history, WHOLE_REFITS), trained(recent, FRESH_REFITS)
    if _better(fresh, whole):
        return replace(fresh, sentence=f"{fresh.sentence}; fitted to what came since the drift")
    return replace(whole, sentence=f"{whole.sentence}; fitted to all of the history")


def _better(fresh: TrainedForecast, whole: TrainedForecast) -> bool:
    judged, other = fresh.judged, whole.judged
    return judged is not None and (other is None or beats(judged, other))


def _too_early(history: Workload, since_s: float, horizon_s: float) -> str:
    known_min, ahead_min = max(0.0, history.end_s - since_s) / 60.0, horizon_s / 60.0
    began, ready_s = f"the drift began at {moment(since_s)}", judgeable_s(since_s, horizon_s, history.step_s)
    if history.end_s >= ready_s:
        return (
            f"{began}, and too little of the workload since was measured to judge a forecast of {ahead_min:.0f} minutes"
        )
    return (
        f"{began}, and {known_min:.0f} minutes of workload since are too few to judge a forecast of {ahead_min:.0f} "
        f"minutes; train again after {moment(ready_s)}"
    )
