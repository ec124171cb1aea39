"""Whether to find out if a smaller size holds: what it may save, against what it costs where it does not.

What a size takes is known within an interval. Who only ever counts on its low end never learns that it takes more.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from perdix.models.capacity.contract import Estimate
from perdix.policies.contract import Situation
from perdix.policies.pace import Pace
from perdix.telemetry.window import Values

SAVES_S = 4 * 3600.0  # that what holds is reckoned to save workers: the load may be another one then
PLAIN_AFTER_S = 300.0  # until it is plain that a size does not hold
RESCALE_S = 120.0  # of the busy workers: what a rescale weighs beside the lateness that it brings, the first of a day
SCARCE = 0.02  # of a capacity: what it has to spare at least, for catching up
PARTS = 20  # of the interval, each as likely as the others
_NORMAL = NormalDist()
_AT = np.array([_NORMAL.inv_cdf((part + 0.5) / PARTS) for part in range(PARTS)])


@dataclass(frozen=True)
class Trial:
    """A smaller size to find out about."""

    scale_out: int  # workers
    chance: float  # that it holds, 0 to 1
    worth: float  # what trying it saves on average, less what it costs, worker-seconds


def best_trial(
    situation: Situation, scale_outs: Iterable[int], *, least_per_s: float, late_price: float
) -> Trial | None:
    """Return the trial that is worth most; ``None`` where none is worth what it costs.

    ``scale_outs``: those to look at, all below what runs.
    ``least_per_s``: capacity from which on a size holds, records/s.
    ``late_price``: worker-seconds that one late second weighs.
    """
    load = float(np.nanmean(situation.minutes))
    rescale = rescale_s(situation) * busy_workers(situation, load)
    trials = [_trial(situation, situation.capacities[n], load, least_per_s, late_price, rescale) for n in scale_outs]
    return max((trial for trial in trials if trial.worth > 0.0), key=lambda trial: trial.worth, default=None)


def busy_workers(situation: Situation, load_per_s: float) -> float:
    """Return how many workers a load in records/s keeps busy: of the fewest that take it, or of the strongest.

    Not of those that run: of many, each takes less, so that the more run the dearer a late second would be, and the
    less would be given back. The capacity of one scale-out at least must be usable.
    """
    usable = situation.usable
    strongest = max(usable, key=lambda estimate: estimate.per_s)
    fewest = next((estimate for estimate in usable if estimate.per_s >= load_per_s), strongest)
    return load_per_s / fewest.per_s * fewest.scale_out


def rescale_s(situation: Situation) -> float:
    """Return what a rescale weighs beside the lateness that it brings, seconds of the busy workers.

    The fewer of the day's are left, the more: with half of them twice as much, the last as much as all of them. After
    it, what runs stays. Likewise, the faster they are used up (:class:`perdix.policies.pace.Pace`).
    """
    budget = max(situation.objectives.rescales_per_day, 1)
    scarcer = budget / max(budget - situation.rescales_today, 1)
    return RESCALE_S * min(scarcer * Pace.of_memory(situation.memory).dearer(budget), budget)


def _trial(
    situation: Situation, estimate: Estimate, load: float, least_per_s: float, late_price: float, rescale: float
) -> Trial:
    """Return what trying a size is worth; ``load``: records/s, ``rescale``: what a rescale weighs, worker-seconds."""
    could_take = np.asarray(estimate.per_s * np.exp(estimate.log_sd * _AT))  # each as likely as the others
    down, lost_s = situation.downtimes, situation.lost_s
    caught_up_s = _catching_up_s(load * (down.in_s + lost_s), could_take, load)
    # Who does not recover from the rescale in the time that is asked for is sent back, whatever it takes otherwise.
    held = (could_take >= least_per_s) & (caught_up_s <= situation.objectives.recovery_time_s)
    chance = float(held.mean())
    if not chance > 0.0:
        return Trial(estimate.scale_out, chance, -math.inf)
    late_s = down.in_s + float(caught_up_s[held].mean())
    worth = chance * (SAVES_S * (situation.scale_out - estimate.scale_out) - late_price * late_s - rescale)
    if chance < 1.0:
        missing = max(load - float(could_take[~held].mean()), 0.0)
        waits = load * (down.in_s + down.out_s + 2.0 * lost_s) + missing * PLAIN_AFTER_S
        back = np.array([situation.capacities[situation.scale_out].per_s])
        late_s = down.in_s + PLAIN_AFTER_S + down.out_s + float(_catching_up_s(waits, back, load)[0])
        worth -= (1.0 - chance) * (late_price * late_s + 2.0 * rescale)
    return Trial(estimate.scale_out, chance, worth)


def _catching_up_s(waits: float, capacities: Values, load: float) -> Values:
    return waits / np.maximum(capacities - load, SCARCE * capacities)
