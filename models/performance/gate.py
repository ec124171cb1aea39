"""Whether a newly trained performance model takes the champion's place: both judged on samples they had not seen."""

import numpy as np

from perdix.models.performance.contract import Sample
from perdix.models.performance.cross_validation import in_words
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.performance.samples import rates_of
from perdix.models.performance.selection import TrainedPerformance
from perdix.models.verdict import Verdict
from perdix.telemetry.window import Values


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
