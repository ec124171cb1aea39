"""Imbalance among the instances of an operator: found, reported, and reckoned with as far as more instances can help.

DS2 averages over instances (section 3.3: no imbalance) and so neither sees it nor fixes it (section 4.2.3). The model
here is one hot key: an instance gets the key's share ``k`` of the input and, like all others, an equal part of the
rest, so of ``n`` instances the hottest gets ``k + (1 - k) / n``. More instances thin out the rest, never the key.
"""

import math
from dataclasses import dataclass

import numpy as np

from perdix.models.dataflow.rates import InstanceWindow

SATURATED = 0.95  # useful share from which on an instance counts as unable to do more


@dataclass(frozen=True)
class Skew:
    """The hottest instance of an operator."""

    instance: int  # its number, from 1
    useful: float  # share of its time in which it worked
    ratio: float  # its useful time over the mean of all instances
    key: float  # share of the operator's input that one key makes up, if one key is what makes it hot
    true_per_s: float  # its own true processing rate, records/s
    # Whether its operator is seen to hold back what feeds it: overheads may hide that it has nothing to spare
    holds_back: bool = False

    @property
    def saturated(self) -> bool:
        """Whether it cannot do more than it does."""
        return self.holds_back or self.useful >= SATURATED

    def unrounded_for(self, target_per_s: float) -> float:
        """Return the parallelism at which it keeps up with ``target_per_s`` of the operator; infinite: none does."""
        left_per_s = self.true_per_s - self.key * target_per_s
        return (1.0 - self.key) * target_per_s / left_per_s if left_per_s > 0 else math.inf

    def in_words(self) -> str:
        """Return it in words."""
        return f"instance {self.instance} works {self.useful:.0%} of its time, {self.ratio:.2g} times the mean"


def skew_of(window: InstanceWindow, ratio: float) -> Skew | None:
    """Return the hottest instance where it works more than ``ratio`` times as long as the mean, else ``None``.

    Instances without a measured useful time are left out.
    """
    known = np.flatnonzero(np.isfinite(window.useful_s) & np.isfinite(window.processed))
    useful_s, processed = window.useful_s[known], window.processed[known]
    count, mean_s, total = len(known), float(useful_s.mean()) if len(known) else 0.0, float(processed.sum())
    if count < 2 or mean_s <= 0 or total <= 0 or window.window_s <= 0:
        return None
    hot = int(useful_s.argmax())
    if not useful_s[hot] > ratio * mean_s:
        return None
    share = float(processed[hot]) / total
    key = min(max((share - 1.0 / count) / (1.0 - 1.0 / count), 0.0), 1.0)
    return Skew(
        int(known[hot]) + 1,
        float(useful_s[hot]) / window.window_s,
        float(useful_s[hot]) / mean_s,
        key,
        float(processed[hot]) / float(useful_s[hot]),
    )
