"""Which performance model a job gets: every family judged on samples left out (QEScalor, 3.1 and table 3)."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perdix.models.performance.cross_validation import (
    REPEATS,
    Errors,
    best_parameters,
    folds_for,
    held_out_rates,
    in_words,
)
from perdix.models.performance.families import FAMILIES, FOREST, Family, Parameters
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.performance.samples import Sample, checked, rates_of, samples_digest, sizes_of
from perdix.models.verdict import Verdict
from perdix.telemetry.window import Values

_SEARCH = 10_000  # added to the seed of the folds in which a grid is searched: no repeat that judges it has them


@dataclass(frozen=True)
class PerformanceCandidate:
    """One family as it was tried on a job's samples."""

    family: str
    parameters: Parameters  # what its grid search chose
    errors: Errors | None = None  # of the repeated cross-validation; ``None`` where the family failed
    # Whether it can be chosen: families whose predictions between samples are bounded by nothing are only compared
    may_lead: bool = True
    fit_s: float = math.nan  # seconds to search, judge and fit
    error: str = ""  # why the family could not be tried; empty when it could

    @property
    def rmse_per_s(self) -> float:
        """What decides, lower is better; infinite where it is not known."""
        return self.errors.rmse_per_s if self.errors else math.inf

    def metrics(self) -> dict[str, float | None]:
        """Return the figures for MLflow, by names that carry their unit; ``None`` where one is not known."""
        errors = self.errors
        figures = {
            "relative_rmse": errors.relative_rmse if errors else math.nan,
            "rmse_per_s": errors.rmse_per_s if errors else math.nan,
            "rmse_spread_per_s": errors.rmse_spread_per_s if errors else math.nan,
            "mae_per_s": errors.mae_per_s if errors else math.nan,
            "mae_spread_per_s": errors.mae_spread_per_s if errors else math.nan,
            "fit_s": self.fit_s,
        }
        return {name: value if math.isfinite(value) else None for name, value in figures.items()}


@dataclass(frozen=True)
class TrainedPerformance:
    """A training on a job's samples."""

    samples: tuple[Sample, ...]
    candidates: tuple[PerformanceCandidate, ...]  # every family that was tried
    winner: str
    fitted: Mapping[str, FittedPerformance]  # family -> model of it, fitted to all samples
    # Family -> mean over the repeats of what was predicted of each sample left out; shape ``(n,)``, records/s
    held_out: Mapping[str, Values]
    repeats: int

    @property
    def model(self) -> FittedPerformance:
        """The winner, fitted to all samples."""
        return self.fitted[self.winner]

    @property
    def best(self) -> PerformanceCandidate:
        """The winner as it was tried."""
        return next(candidate for candidate in self.candidates if candidate.family == self.winner)

    @property
    def digest(self) -> str:
        """Of the samples."""
        return samples_digest(self.samples)

    @property
    def sentence(self) -> str:
        """Who won and why, how the families compare, and on what, in words."""
        others = "; ".join(
            f"{candidate.family}: {candidate.error or candidate.errors}" for candidate in self.candidates
        )
        first = min(
            (candidate for candidate in self.candidates if candidate.may_lead),
            key=lambda candidate: candidate.rmse_per_s,
        )
        why = (
            "has the lowest error"
            if first.family == self.winner
            else f"is within the spread of {first.family}, which has the lowest error"
        )
        return f"{self.winner} {why} ({self._how}): {others}"

    @property
    def _how(self) -> str:
        count = len(self.samples)
        folds = folds_for(count)
        fewer = ", one sample each" if folds == count else ""
        return f"{count} samples, {folds} folds{fewer}, {self.repeats} repeats"


def select_performance(
    samples: Iterable[Sample], seed: int = 0, *, families: Sequence[Family] = FAMILIES, repeats: int = REPEATS
) -> TrainedPerformance:
    """Search every family's grid, judge each by repeated cross-validation, and return them with the one to be used.

    The lowest RMSE wins among the families that may lead. The published forest is used, though, when it is no further
    off than the repeats spread: such a difference says how samples fell into folds and nothing of the operator, and of
    trees the forest is the one that is off least between samples (docs/decisions/0018-performance-models.md).

    Raises ``ValueError`` when the samples cannot be learned from, or no family that may lead could be fitted.
    """
    usable = checked(samples)
    tried = [_tried(family, usable, seed, repeats) for family in families]
    candidates = tuple(candidate for candidate, _, _ in tried)
    winner = chosen(candidates)
    if winner is None:
        reasons = "; ".join(f"{candidate.family}: {candidate.error or 'only compared'}" for candidate in candidates)
        raise ValueError(f"no performance model could be fitted to {len(usable)} samples: {reasons}")
    return TrainedPerformance(
        usable,
        candidates,
        winner,
        {candidate.family: model for candidate, model, _ in tried if model is not None},
        {candidate.family: held_out for candidate, _, held_out in tried if held_out is not None},
        repeats,
    )


def chosen(candidates: Sequence[PerformanceCandidate]) -> str | None:
    """Return the family to be used: see :func:`select_performance`; ``None`` where none can be."""
    sound = [candidate for candidate in candidates if candidate.errors is not None and candidate.may_lead]
    if not sound:
        return None
    best = min(sound, key=lambda candidate: candidate.rmse_per_s)
    published = next((candidate for candidate in sound if candidate.family == FOREST.family), best)
    return published.family if _within_spread(published, best) else best.family


def _within_spread(candidate: PerformanceCandidate, best: PerformanceCandidate) -> bool:
    assert candidate.errors is not None
    assert best.errors is not None
    spread = max(candidate.errors.rmse_spread_per_s, best.errors.rmse_spread_per_s)
    return candidate.rmse_per_s <= best.rmse_per_s + spread


def _tried(
    family: Family, samples: tuple[Sample, ...], seed: int, repeats: int
) -> tuple[PerformanceCandidate, FittedPerformance | None, Values | None]:
    """Search, judge and fit one family; one that cannot be fitted says why and does not stop the others."""
    sizes, rates = sizes_of(samples), rates_of(samples)
    began = time.perf_counter()
    try:
        parameters = best_parameters(family, sizes, rates, seed + _SEARCH)
        held_out = held_out_rates(family, parameters, sizes, rates, repeats=range(seed, seed + repeats))
        model = FittedPerformance.fit(family, parameters, samples, seed)
        model.predict(sizes[:1, 0], sizes[:1, 1])
    except (ValueError, ArithmeticError) as error:
        return PerformanceCandidate(family.family, family.published, error=str(error)), None, None
    candidate = PerformanceCandidate(
        family.family, parameters, Errors.of(held_out, rates), family.bounded, time.perf_counter() - began
    )
    return candidate, model, held_out.mean(axis=0)


def challenge(champion: FittedPerformance | None, trained: TrainedPerformance) -> Verdict:
    """Judge the winner of a training against the champion on the training's samples.

    The challenger is judged by what it predicted of samples left out. So is the champion of samples that it was fitted
    to, by what its family makes of them left out; of all others by its own prediction. Where both are equal the one
    that knows more samples is used: it says "extrapolated" less often.
    """
    best = trained.best
    if champion is None:
        return Verdict(True, f"{best.family}, {best.errors}; it is the first champion", best.rmse_per_s)
    known = {_content(sample) for sample in champion.samples}
    seen = np.array([_content(sample) in known for sample in trained.samples])
    if seen.all() and champion.family == trained.winner and len(known) == len(trained.samples):
        return Verdict(False, "the champion is of the same family and samples: champion kept")
    asked = np.array([(sample.cpu_cores, sample.memory_mb) for sample in trained.samples])
    incumbent = champion.predict(asked[:, 0], asked[:, 1]).per_s
    if champion.family in trained.held_out:
        incumbent = np.where(seen, trained.held_out[champion.family], incumbent)
    rates = rates_of(trained.samples)
    theirs, ours = _rmse(incumbent, rates), _rmse(trained.held_out[trained.winner], rates)
    better = ours < theirs or (ours == theirs and len(trained.samples) > len(known))
    sentence = (
        f"{trained.winner} is {in_words(ours)} records/s off {len(rates)} samples left out, the champion "
        f"({champion.family}) {in_words(theirs)}; the {int(seen.sum())} that it had learned were left out for it, too"
    )
    return Verdict(better, sentence, ours, theirs)


def _content(sample: Sample) -> tuple[float, float, float]:
    return sample.cpu_cores, sample.memory_mb, sample.per_s


def _rmse(predicted: Values, rates: Values) -> float:
    return float(np.sqrt(((predicted - rates) ** 2).mean()))
