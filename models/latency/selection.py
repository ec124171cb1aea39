"""Which latency model a job gets: families judged on points left out, one by one and by scale-out, and the gate."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from perdix.models.latency.boosting import PublishedLatency
from perdix.models.latency.contract import LatencyModel, LatencyPredictions
from perdix.models.latency.overload import measured, overloaded_points
from perdix.models.latency.utilisation import UtilisationLatency
from perdix.models.profiling import tmax
from perdix.models.profiling.profile import Profile, ProfilePoint
from perdix.models.profiling.profiled import Profiled
from perdix.models.profiling.rows import profile_digest
from perdix.models.verdict import Verdict
from perdix.telemetry.window import Values

Flags = NDArray[np.bool_]

MOST_FOLDS = 100  # of leaving points out: beyond this many points, several are left out together


class Family(Protocol):
    """What can be fitted to a profile."""

    @property
    def family(self) -> str:
        """Name of the family."""

    def fit(self, points: Sequence[ProfilePoint], maximum_per_s: Mapping[int, float], seed: int = 0) -> LatencyModel:
        """Fit. Raises ``ValueError`` when the points do not allow it."""


FAMILIES: tuple[Family, ...] = (UtilisationLatency, PublishedLatency)
NOTES = {
    UtilisationLatency.family: "a limit of utilisation over a regression of T_max, and a smooth curve below it",
    PublishedLatency.family: "as published: boosted trees, two clusters; memorises",
}


@dataclass(frozen=True)
class Judgement:
    """How predictions fared on points whose truth is known."""

    # missed, overloads: overloaded points that were called normal, and how many there were
    missed: int
    overloads: int
    # false_alarms, normals: normal points that were not called normal, and how many there were
    false_alarms: int
    normals: int
    mae_ms: float  # mean absolute error of the latency of normal points that were called normal; NaN when there is none

    @classmethod
    def of(cls, found: LatencyPredictions, latencies_ms: Values, overloaded: Flags) -> Judgement:
        """Judge predictions; all of shape ``(n,)``."""
        rightly = found.normal & ~overloaded
        mae_ms = float(np.abs(found.latency_ms - latencies_ms)[rightly].mean()) if rightly.any() else math.nan
        return cls(
            int(np.count_nonzero(found.normal & overloaded)),
            int(np.count_nonzero(overloaded)),
            int(np.count_nonzero(~found.normal & ~overloaded)),
            int(np.count_nonzero(~overloaded)),
            mae_ms,
        )

    @property
    def balanced_error(self) -> float:
        """Mean of the share of overloads missed and of normal points taken for them; of what there is of either."""
        shares = [
            wrong / there
            for wrong, there in ((self.missed, self.overloads), (self.false_alarms, self.normals))
            if there
        ]
        return float(np.mean(shares)) if shares else math.nan

    def __str__(self) -> str:
        """Return it as words: ``misses 1 of 9 overloads with 2 false alarms of 70``."""
        missed = f"misses {self.missed} of {self.overloads} overloads"
        return f"{missed} with {self.false_alarms} false alarms of {self.normals}"


@dataclass(frozen=True)
class LatencyCandidate:
    """One family as it was tried on a profile."""

    family: str
    # one_out, scale_out_out: judged on points left out one by one, and on whole scale-outs left out with their T_max;
    # ``None`` where the profile has a single scale-out, or the family failed
    one_out: Judgement | None = None
    scale_out_out: Judgement | None = None
    fit_s: float = math.nan  # seconds to fit to the whole profile and predict once
    error: str = ""  # why the family could not be tried; empty when it could

    @property
    def score(self) -> float:
        """What decides: the mean balanced error of both; infinite where neither is known. Lower is better."""
        known = [judgement.balanced_error for judgement in (self.one_out, self.scale_out_out) if judgement is not None]
        return float(np.mean(known)) if known else math.inf

    def metrics(self) -> dict[str, float | None]:
        """Return the figures for MLflow, by names that carry their unit; ``None`` where one is not known."""
        figures: dict[str, float | None] = {"balanced_error": self.score}
        for name, judgement in (("", self.one_out), ("unseen_", self.scale_out_out)):
            figures |= {
                f"{name}missed_overloads": None if judgement is None else float(judgement.missed),
                f"{name}false_alarms": None if judgement is None else float(judgement.false_alarms),
                f"{name}latency_mae_ms": None if judgement is None else judgement.mae_ms,
            }
        figures["fit_s"] = self.fit_s
        return {name: value if value is not None and math.isfinite(value) else None for name, value in figures.items()}


@dataclass(frozen=True)
class TrainedLatency:
    """A profile's training.

    ``candidates``: every family that was tried.
    ``winner``, ``model``: the best family, fitted to the whole profile.
    ``fitted``: every family so fitted, by name: to be drawn beside each other.
    ``held_out``: the winner's predictions of every point when that one was left out: what the gate judges.
    ``points``, ``overloaded``: what was judged on, and which of it is overloaded, by the same rule for every family.
    ``digest``: of the profile.
    ``rates``: t_max over the scale-out, and in ``rates_errors`` what each of its regressions is off left-out
    scale-outs.
    ``downtime_s``, ``failures``: how long a failure stopped the job, on average over this many failures; ``None`` where
    none was tried.
    """

    candidates: tuple[LatencyCandidate, ...]
    winner: str
    model: LatencyModel
    held_out: LatencyPredictions
    points: tuple[ProfilePoint, ...]
    overloaded: Flags
    digest: str
    rates: tmax.HighestRates
    rates_errors: Mapping[str, tmax.Errors] = field(default_factory=dict)
    fitted: Mapping[str, LatencyModel] = field(default_factory=dict)
    downtime_s: float | None = None
    failures: int = 0

    @property
    def best(self) -> LatencyCandidate:
        """The winner."""
        return next(item for item in self.candidates if item.family == self.winner)

    @property
    def sentence(self) -> str:
        """Who won, and how the families compare, in words."""
        tried = "; ".join(
            f"{candidate.family}: {candidate.error or f'{candidate.one_out} left out one by one'}"
            + (
                f", {candidate.scale_out_out} left out by scale-out"
                if candidate.scale_out_out and not candidate.error
                else ""
            )
            for candidate in self.candidates
        )
        return f"{self.winner} has the lowest balanced error ({self.best.score:.1%}): {tried}"

    def to_state(self) -> dict[str, Any]:
        """Return the state for the fleet table: the model, T_max for the recovery model, and of which profile it is."""
        taught = Profiled(self.model, self.rates, self.downtime_s, self.failures)
        return {**taught.to_state(), "profile": self.digest}


def select_latency(profile: Profile, seed: int = 0, *, families: Sequence[Family] = FAMILIES) -> TrainedLatency:
    """Fit every family to a profile, judge each on points that it had not seen, and return the best.

    Ties go to the lower error of latency, then to the order of ``families``.

    Raises ``ValueError`` when the profile has no usable point, no T_max, or no family could be fitted.
    """
    points = tuple(measured(profile.points))
    most = dict(profile.maximum_per_s)
    rates = tmax.HighestRates.fit(most)
    overloaded, _ = overloaded_points(points, rates)
    trial = _Trial(points, most, overloaded, seed)
    tried = [trial.of(family) for family in families]
    sound = [(item.candidate, *item.fitted) for item in tried if item.fitted is not None]
    if not sound:
        reasons = "; ".join(f"{item.candidate.family}: {item.candidate.error}" for item in tried)
        raise ValueError(f"no latency model could be fitted to the profile of {profile.job}: {reasons}")
    best, model, held_out = min(sound, key=lambda item: (item[0].score, _mae(item[0])))
    return TrainedLatency(
        tuple(item.candidate for item in tried),
        best.family,
        model,
        held_out,
        points,
        overloaded,
        profile_digest(profile),
        rates,
        {name: errors for name in tmax.FAMILIES if (errors := _errors(most, name)) is not None},
        {candidate.family: fitted for candidate, fitted, _ in sound},
        downtime_s=profile.downtime_s,
        failures=len(profile.downtimes_s),
    )


def challenge(champion: LatencyModel | None, champion_profile: str | None, trained: TrainedLatency) -> Verdict:
    """Judge the winner of a training against the champion on the same points, none of which the winner had seen.

    ``champion``: the present model, with all that it learned of the running job; ``None`` when there is none.
    ``champion_profile``: digest of the profile that it was fitted to. If it is the same profile, the champion knows the
    points, and is judged by what its family makes of them left out.
    """
    truth = np.array([point.latency_ms for point in trained.points])
    challenger = Judgement.of(trained.held_out, truth, trained.overloaded)
    if champion is None:
        return Verdict(True, f"{trained.winner} {challenger}; it is the first champion", challenger.balanced_error)
    if champion_profile == trained.digest:
        if champion.family == trained.winner:
            return Verdict(
                False, "the champion is of the same family and profile: champion kept", challenger.balanced_error
            )
        again = next(
            (candidate.one_out for candidate in trained.candidates if candidate.family == champion.family), None
        )
        incumbent = again or _judged(champion, trained, truth)
    else:
        incumbent = _judged(champion, trained, truth)
    better = _rank(challenger) < _rank(incumbent)
    sentence = (
        f"{trained.winner} {challenger} that it had not seen{_off(challenger)}; "
        f"the champion ({champion.family}) {incumbent}{_off(incumbent)}"
    )
    return Verdict(better, sentence, challenger.balanced_error, incumbent.balanced_error)


def held_out_predictions(
    family: Family,
    points: Sequence[ProfilePoint],
    maximum_per_s: Mapping[int, float],
    folds: Sequence[int],
    *,
    seed: int = 0,
    without_their_maximum: bool = False,
) -> LatencyPredictions:
    """Return the predictions of every point by a model that had not seen the points of its fold.

    Raises ``ValueError`` when the family cannot be fitted to the others.

    ``folds``: number of the fold of each point.
    ``without_their_maximum``: whether T_max of the scale-outs of a fold is withheld, too.
    """
    numbers = np.asarray(folds)
    latency_ms, normal = np.full(len(points), np.nan), np.zeros(len(points), bool)
    for number in np.unique(numbers):
        out = numbers == number
        asked = [point for point, chosen in zip(points, out, strict=True) if chosen]
        others = [point for point, chosen in zip(points, out, strict=True) if not chosen]
        hidden = {point.scale_out for point in asked} if without_their_maximum else set()
        most = {n: value for n, value in maximum_per_s.items() if n not in hidden}
        found = family.fit(others, most, seed).predict(*_asked(asked))
        latency_ms[out], normal[out] = found.latency_ms, found.normal
    return LatencyPredictions(latency_ms, normal)


@dataclass(frozen=True)
class _Tried:
    candidate: LatencyCandidate
    # Fitted to the whole profile, and its predictions of every point left out; ``None``: it could not be tried
    fitted: tuple[LatencyModel, LatencyPredictions] | None = None


@dataclass(frozen=True)
class _Trial:
    """What every family is tried on alike."""

    points: Sequence[ProfilePoint]
    most: Mapping[int, float]
    overloaded: Flags
    seed: int

    def of(self, family: Family) -> _Tried:
        """Fit and judge one family; one that cannot be fitted says why and does not stop the others."""
        truth = np.array([point.latency_ms for point in self.points])
        sizes = [point.scale_out for point in self.points]
        try:
            began = time.perf_counter()
            model = family.fit(self.points, self.most, self.seed)
            model.predict(*_asked(self.points[:1]))
            fit_s = time.perf_counter() - began
            one_out = np.arange(len(self.points)) % MOST_FOLDS
            held_out = held_out_predictions(family, self.points, self.most, one_out.tolist(), seed=self.seed)
            unseen = None
            if len(set(sizes)) > 1:
                found = held_out_predictions(
                    family, self.points, self.most, sizes, seed=self.seed, without_their_maximum=True
                )
                unseen = Judgement.of(found, truth, self.overloaded)
        except ValueError as error:
            return _Tried(LatencyCandidate(family.family, error=str(error)))
        judged = Judgement.of(held_out, truth, self.overloaded)
        return _Tried(LatencyCandidate(family.family, judged, unseen, fit_s), (model, held_out))


def _asked(points: Sequence[ProfilePoint]) -> tuple[list[int], list[float]]:
    return [point.scale_out for point in points], [point.rate_per_s for point in points]


def _judged(champion: LatencyModel, trained: TrainedLatency, truth: Values) -> Judgement:
    return Judgement.of(champion.predict(*_asked(trained.points)), truth, trained.overloaded)


def _off(judged: Judgement) -> str:
    """Return the error of latency in words; empty where no normal point was called so."""
    return f", mean error {judged.mae_ms:.0f} ms" if math.isfinite(judged.mae_ms) else ""


def _rank(judged: Judgement) -> tuple[float, float]:
    """Return what decides between two: fewer mistakes first, then the nearer latency."""
    return judged.balanced_error, judged.mae_ms if math.isfinite(judged.mae_ms) else math.inf


def _mae(candidate: LatencyCandidate) -> float:
    known = candidate.one_out.mae_ms if candidate.one_out else math.nan
    return known if math.isfinite(known) else math.inf


def _errors(maximum_per_s: Mapping[int, float], family: str) -> tmax.Errors | None:
    try:
        return tmax.leave_one_out(maximum_per_s, family)
    except ValueError:  # too few scale-outs for that regression
        return None
