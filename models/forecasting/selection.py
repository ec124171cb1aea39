"""Which forecaster a job gets: every family judged on the same origins, and a challenger against the champion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.forecasting.backtest import HORIZONS_S, Backtest, backtest, spaced_origins
from models.forecasting.contract import Values, Workload
from models.forecasting.families import FAMILIES, NAIVE
from models.forecasting.tail_forecaster import TailForecaster

MARGIN = 0.02
LEAST_EVIDENCE = 8
ORIGINS = 24
REFITS = 2
FIRST_SHARE = 0.5


@dataclass(frozen=True)
class Candidate:
    """One family on one job: fitted and judged, or the reason why not.

    Attributes
    ----------
    forecaster
        Fitted to the whole history; ``None`` when that failed.
    backtest
        Its errors on origins of the past; ``None`` when that failed or the history leaves no origin.
    reason
        Why something is missing, in words; empty when nothing is.
    """

    family: str
    forecaster: TailForecaster | None = None
    backtest: Backtest | None = None
    reason: str = ""


@dataclass(frozen=True)
class TrainedForecast:
    """All candidates of one job, and the winner.

    Attributes
    ----------
    winner
        Name of the family to register; ``None`` when no candidate rests on enough evidence.
    sentence
        Why, for a reader.
    """

    candidates: Mapping[str, Candidate]
    winner: str | None
    sentence: str

    @property
    def champion(self) -> TailForecaster | None:
        """Return the winner's forecaster."""
        return self.candidates[self.winner].forecaster if self.winner else None


@dataclass(frozen=True)
class Verdict:
    """Whether a challenger becomes the champion, and why."""

    promote: bool
    sentence: str


def train_forecasters(
    history: Workload,
    families: Mapping[str, type[TailForecaster]] = FAMILIES,
    seed: int = 0,
    origins_s: Values | None = None,
) -> TrainedForecast:
    """Fit and judge every family on one job; a family that fails keeps its reason and the others go on.

    Parameters
    ----------
    origins_s
        Origins of the backtests; by default up to 24 in the second half of the history, with a 900 s truth each.
    """
    if origins_s is None:
        middle_s = history.start_s + FIRST_SHARE * (history.end_s - history.start_s)
        origins_s = spaced_origins(history, ORIGINS, middle_s)
    candidates = {name: _candidate(name, family, history, origins_s, seed) for name, family in families.items()}
    winner, sentence = _winner(candidates)
    if winner is None and len(origins_s) < LEAST_EVIDENCE:
        sentence = _too_short(history)
    return TrainedForecast(candidates, winner, sentence)


def _too_short(history: Workload) -> str:
    measured_min = len(history) * history.step_s / 60.0
    needed_min = (HORIZONS_S[-1] / (1.0 - FIRST_SHARE) + LEAST_EVIDENCE * history.step_s / (1.0 - FIRST_SHARE)) / 60.0
    return (
        f"{measured_min:.0f} minutes of workload are too few to judge a forecast of {HORIZONS_S[-1] / 60:.0f} minutes; "
        f"ingest {np.ceil(needed_min):.0f} or more"
    )


def _candidate(name: str, family: type[TailForecaster], history: Workload, origins_s: Values, seed: int) -> Candidate:
    try:
        forecaster = family.fit(history, seed=seed)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        return Candidate(name, reason=f"could not be fitted: {error}")
    try:
        refit_every = max(1, -(-len(origins_s) // REFITS))
        judged = backtest(family, history, origins_s=origins_s, refit_every=refit_every, seed=seed)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        return Candidate(name, forecaster, reason=f"could not be judged: {error}")
    return Candidate(name, forecaster, judged)


def _winner(candidates: Mapping[str, Candidate]) -> tuple[str | None, str]:
    """Return the family with the least 900-s WAPE, unless it hardly beats the naive one, and why."""
    judged = {
        name: candidate.backtest
        for name, candidate in candidates.items()
        if candidate.backtest is not None
        and candidate.backtest.evidence >= LEAST_EVIDENCE
        and np.isfinite(candidate.backtest.wape())
    }
    if not judged:
        reasons = "; ".join(f"{name}: {candidate.reason}" for name, candidate in candidates.items() if candidate.reason)
        return None, f"no family could be judged on {LEAST_EVIDENCE} origins with measured truth. {reasons}".strip()
    best = min(judged, key=lambda name: judged[name].wape())
    error = judged[best].wape()
    if NAIVE not in judged or best == NAIVE:
        return best, f"{best} has the least WAPE over {HORIZONS_S[-1]:.0f} s: {error:.1%}"
    naive = judged[NAIVE].wape()
    if error > (1.0 - MARGIN) * naive:
        return NAIVE, f"{best} ({error:.1%}) does not beat {NAIVE} ({naive:.1%}) by {MARGIN:.0%} over 900 s"
    return best, f"{best} has the least WAPE over {HORIZONS_S[-1]:.0f} s: {error:.1%} against {naive:.1%} of {NAIVE}"


def challenge(current: Backtest | None, challenger: Backtest, margin: float = MARGIN) -> Verdict:
    """Decide whether a challenger is promoted: it must beat the champion on the same windows by ``margin``.

    Raises
    ------
    ValueError
        When the two were not judged on the same origins and the same truth.
    """
    error = challenger.wape()
    if challenger.evidence < LEAST_EVIDENCE or not np.isfinite(error):
        known = f"{challenger.evidence} of the {LEAST_EVIDENCE} origins that a judgement needs"
        return Verdict(False, f"{challenger.family} was judged on {known}")
    if current is None:
        return Verdict(True, f"{challenger.family} ({error:.1%}) is the first champion")
    same = np.array_equal(current.origins_s, challenger.origins_s)
    if not same or not np.array_equal(current.actual, challenger.actual, equal_nan=True):
        raise ValueError(
            f"{current.family} and {challenger.family} were judged on different windows; backtest both on one history"
        )
    known_error = current.wape()
    seen = " (whose parameters had seen these windows)" if current.in_sample else ""
    found = f"{challenger.family} {error:.1%} against {current.family} {known_error:.1%}{seen} on the same windows"
    if error < (1.0 - margin) * known_error:
        return Verdict(True, f"promoted: {found}")
    return Verdict(False, f"kept the champion: {found}, not better by {margin:.0%}")
