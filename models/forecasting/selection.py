"""Which forecaster a job gets: every family and all together judged on the same origins, then against the champion."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perdix.models.forecasting.backtest import Walk, backtest, backtest_fitted
from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.failures import DamagedStateError
from perdix.models.forecasting.families import ENSEMBLE, NAIVE, families_named
from perdix.models.forecasting.forecaster import Fits, Forecaster, fit_members, forecaster_from_state
from perdix.models.forecasting.judgement import Backtest
from perdix.models.forecasting.member import Member
from perdix.models.forecasting.origins import LEAST_SHARE, Stops, least_steps, stops_of
from perdix.models.verdict import Verdict
from perdix.settings.moments import moment

MARGIN = 0.02
LONE_MARGIN = 0.5  # by which a family alone must beat all of them together
LEAST_EVIDENCE = 8


@dataclass(frozen=True)
class Candidate:
    """One family on one job, or the ensemble of them: fitted and judged, or the reason why not."""

    family: str
    # Fitted to the whole history, with a record of its newest stretch; ``None`` when that failed
    forecaster: Forecaster | None = None
    # Its errors on origins of the past; ``None`` when that failed or the history leaves no origin
    backtest: Backtest | None = None
    reason: str = ""  # why something is missing, in words; empty when nothing is


@dataclass(frozen=True)
class TrainedForecast:
    """All candidates of one job, and the winner."""

    candidates: Mapping[str, Candidate]
    # Name of the family to register, or ``ensemble``; ``None`` when no candidate rests on enough evidence
    winner: str | None
    sentence: str  # why, for a reader
    stops: Stops  # where the walk stopped: a champion is judged on the same ones
    # When a drift began that all windows lie after (epoch seconds); ``None`` when the windows are the usual ones
    since_s: float | None = None

    @property
    def champion(self) -> Forecaster | None:
        """Return the winner's forecaster."""
        return self.candidates[self.winner].forecaster if self.winner else None

    @property
    def judged(self) -> Backtest | None:
        """Return how the winner was judged."""
        return self.candidates[self.winner].backtest if self.winner else None

    @property
    def windows(self) -> str:
        """Return on what candidates and champion were judged alike, in words."""
        if self.since_s is None:
            return "the same windows"
        return f"the same {int(self.stops.scored.sum())} windows since the drift began at {moment(self.since_s)}"


def train_forecasters(
    history: Workload,
    families: Mapping[str, type[Member]] | None = None,
    *,
    horizon_s: float = HORIZON_S,
    seed: int = 0,
    stops: Stops | None = None,
    refit_every: int | None = None,
) -> TrainedForecast:
    """Fit and judge every family on one job, alone and together; one that fails keeps its reason, the others go on.

    Members are fitted to what precedes the first stop, once more half-way through a long history, and to the whole of
    it: the walk judges the former, the last go on with the record that the walk made.

    ``families``: those of an ensemble by default.
    ``stops``: where to judge; by default blocks in the second half of the history
    (:func:`~perdix.models.forecasting.origins.stops_of`).
    """
    history = history.plausible()
    families = families_named(ENSEMBLE) if families is None else families
    stops = stops_of(history, horizon_s) if stops is None else stops
    if refit_every is None:
        refit_every = -(-len(stops.origins_s) // 2) if stops.blocks > 1 else 0
    fits = fit_members(families, history, horizon_s=horizon_s, seed=seed)
    walk, unjudged = None, ""
    try:
        walk = backtest(families, history, stops=stops, horizon_s=horizon_s, refit_every=refit_every, seed=seed)
    except ValueError as error:
        unjudged = f"could not be judged: {error}"
    found = _candidates(fits, walk, history, horizon_s)
    candidates = {
        name: candidate if candidate.reason or candidate.backtest else replace(candidate, reason=unjudged)
        for name, candidate in ((name, found[name]) for name in [*families, ENSEMBLE] if name in found)
    }
    winner, sentence = winner_of(candidates)
    if winner is None and stops.scored.sum() < LEAST_EVIDENCE:
        sentence = _too_few(history, horizon_s)
    return TrainedForecast(candidates, winner, sentence, stops)


def _candidates(fits: Fits, walk: Walk | None, history: Workload, horizon_s: float) -> dict[str, Candidate]:
    """Put what was fitted to everything beside what was judged on the way."""
    found = {name: Candidate(name, reason=f"could not be fitted: {why}") for name, why in fits.failures.items()}
    if not fits.members:
        return found
    whole = Forecaster.of(list(fits.members.values()), history, horizon_s=horizon_s, failures=fits.failures)
    if walk is not None:
        whole = whole.taking(walk.forecaster.record, walk.forecaster.names)
    for name in [*fits.members, ENSEMBLE] if len(fits.members) > 1 else fits.members:
        alone = whole if name == ENSEMBLE else whole.only(name)
        judged = walk.backtests.get(name) if walk is not None else None
        if judged is not None:
            judged = replace(judged, fit_s=sum(fits.took_s[member] for member in alone.names))
        found[name] = Candidate(name, alone, judged, _unjudged(name, judged, walk))
    return found


def _unjudged(name: str, judged: Backtest | None, walk: Walk | None) -> str:
    if judged is None and walk is not None:
        why = walk.failures.get(name, "no two members could be fitted")
        return f"could not be judged, fitted to what precedes the first origin: {why}"
    if judged is not None and judged.unanswered:
        return f"could not forecast from {judged.unanswered} of {judged.evidence} origins"
    return ""


def _too_few(history: Workload, horizon_s: float) -> str:
    needed, ahead_min = least_steps(history.step_s, horizon_s, LEAST_EVIDENCE), horizon_s / 60.0
    if len(history) < needed:
        present_min, needed_min = (steps * history.step_s / 60.0 for steps in (len(history), needed))
        return (
            f"{present_min:.0f} minutes of workload are too few to judge a forecast of {ahead_min:.0f} minutes; "
            f"ingest {np.ceil(needed_min):.0f} or more"
        )
    measured = np.isfinite(history.per_s[int(LEAST_SHARE * len(history)) :]).mean()
    return (
        f"too few forecasts of {ahead_min:.0f} minutes can be judged: {measured:.0%} of the newer workload was "
        "measured; fix its gaps, or wait for more"
    )


def winner_of(candidates: Mapping[str, Candidate]) -> tuple[str | None, str]:
    """Return who wins by the score, and why.

    The ensemble stands unless a family alone halves its score. Its weights follow recent errors, so it goes on
    choosing after training, whereas the best of many on a few origins is partly lucky: on hours of traces after the
    training, families chosen for beating the ensemble by 2 to 30 % had a path worse by 6 to 11 % on average, and a
    score up to half worse at worst. The naive family wins unless somebody beats it by the margin.
    """
    judged = {
        name: candidate.backtest
        for name, candidate in candidates.items()
        if candidate.backtest is not None
        and candidate.forecaster is not None
        and not candidate.backtest.unanswered
        and candidate.backtest.evidence >= LEAST_EVIDENCE
        and np.isfinite(candidate.backtest.score)
    }
    if not judged:
        whys = {name: candidate.reason or _unscored(candidate.backtest) for name, candidate in candidates.items()}
        reasons = "; ".join(f"{name}: {why}" for name, why in whys.items() if why)
        return None, f"no family could be judged on {LEAST_EVIDENCE} origins with measured truth. {reasons}".strip()
    best = min(judged, key=lambda name: judged[name].score)
    if ENSEMBLE in judged and not beats(judged[best], judged[ENSEMBLE], LONE_MARGIN):
        best = ENSEMBLE
    if NAIVE in judged and best != NAIVE and not beats(judged[best], judged[NAIVE]):
        found = f"{best} ({_shown(judged[best])}) does not beat {NAIVE} ({_shown(judged[NAIVE])}) by {MARGIN:.0%}"
        return NAIVE, found
    against = f", against {_shown(judged[NAIVE])} of {NAIVE}" if NAIVE in judged and best != NAIVE else ""
    rest = (
        "has the best score"
        if judged[best].score <= min(candidate.score for candidate in judged.values())
        else "stands"
    )
    return best, f"{best} {rest}: {_shown(judged[best])}{against}"


def _unscored(judged: Backtest | None) -> str:
    """Say why windows that were measured gave no score."""
    if judged is None or judged.evidence < LEAST_EVIDENCE or np.isfinite(judged.score):
        return ""
    if not np.nansum(judged.actual):
        return f"nothing arrived in any of the {judged.evidence} windows, and something was forecast"
    return f"its score over {judged.evidence} windows is not finite"


def beats(challenger: Backtest, current: Backtest, margin: float = MARGIN) -> bool:
    """Return whether a score is less than another by more than a margin (a share of 1)."""
    return challenger.score < (1.0 - margin) * current.score


def _shown(judged: Backtest) -> str:
    return f"score {judged.score:.3f}, WAPE {judged.wape():.1%} over {judged.horizon_s:.0f} s"


def challenge_champion(
    trained: TrainedForecast,
    champion: Mapping[str, Any] | None,
    history: Workload,
    shared: Mapping[str, Mapping[str, Any]] | None = None,
) -> Verdict:
    """Decide about the winner of a training against the stored state of a champion, on the same stops of a history.

    A champion whose state cannot be read, or that cannot be judged here, counts as absent: the sentence says so.
    """
    challenger = trained.judged
    if challenger is None:
        return Verdict(False, trained.sentence)
    if champion is None:
        return challenge(None, challenger)
    try:
        known = forecaster_from_state(champion).given(shared or {})
    except DamagedStateError as error:
        return _absent(challenger, f"the champion could not be read ({error})")
    try:
        stops = trained.stops
        current = backtest_fitted(known, history, stops=stops, horizon_s=challenger.horizon_s)
    except ValueError as error:
        return _absent(challenger, f"the champion could not be judged ({error})")
    return challenge(current, challenger, windows=trained.windows)


def _absent(challenger: Backtest, why: str) -> Verdict:
    verdict = challenge(None, challenger)
    return replace(verdict, sentence=f"{verdict.sentence}; {why}")


def challenge(
    current: Backtest | None, challenger: Backtest, margin: float = MARGIN, *, windows: str = "the same windows"
) -> Verdict:
    """Decide whether a challenger is promoted: its score must beat the champion's on the same windows by ``margin``.

    Raises ``ValueError`` when the two were not judged on the same origins and the same truth.

    ``windows``: what these are, in words.
    """
    if challenger.evidence < LEAST_EVIDENCE or not np.isfinite(challenger.score):
        known = f"{challenger.evidence} of the {LEAST_EVIDENCE} origins that a judgement needs"
        return Verdict(False, f"{challenger.family} was judged on {known}")
    if current is None:
        return Verdict(True, f"{challenger.family} ({_shown(challenger)}) is the first champion", challenger.score)
    same = np.array_equal(current.origins_s, challenger.origins_s)
    if not same or not np.array_equal(current.actual, challenger.actual, equal_nan=True):
        raise ValueError(
            f"{current.family} and {challenger.family} were judged on different windows; backtest both on one history"
        )
    seen = " (whose parameters had seen these windows)" if current.in_sample else ""
    against = f"{current.family} ({_shown(current)}){seen}"
    found = f"{challenger.family} ({_shown(challenger)}) against {against} on {windows}"
    if current.unanswered:
        silent = f"{current.family} could not forecast from {current.unanswered} of {current.evidence} origins"
        return Verdict(True, f"promoted: {silent}; {challenger.family}: {_shown(challenger)}", challenger.score)
    promoted = beats(challenger, current, margin)
    sentence = f"promoted: {found}" if promoted else f"kept the champion: {found}, not better by {margin:.0%}"
    return Verdict(promoted, sentence, challenger.score, current.score)
