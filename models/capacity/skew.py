"""How the busiest worker's share of the work falls with the scale-out: what limits scale-outs that never ran.

The job is full when its hottest worker is, so its capacity is what that worker takes over its share of the records.
With more workers the share falls, but not as one over their number: a key group is processed by one worker however many
there are, and so is a partition of the source. With fewer workers each has more of both, and the shares differ less.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from perdix.models.capacity.evidence import Evidence
from perdix.models.capacity.hottest import highest_of
from perdix.telemetry.window import Values

GROWTHS = np.linspace(0.0, 1.5, 7)  # 0: workers differ alike at any scale-out; 1: one key group is too much for one
SCATTER = 0.12  # relative sd of the hottest share between stays
STEEPEST = (
    1.25  # growth that is likeliest where one worker has far more than others: keys, or partitions, are behind it
)
HALFWAY = 0.1  # excess at which half of that is likeliest: workers differ so much for many reasons
GROWTH_SD = 0.35
CONTENTIONS = np.array([0.0, 0.01, 0.02, 0.04])  # what each further worker costs the others (Gunther), all as likely
CONTENTION = float(CONTENTIONS.mean())


@dataclass(frozen=True)
class Skew:
    """The share of the hottest worker at other scale-outs, ``(1 + excess * ((n - 1) / (of - 1)) ** growth) / n``.

    ``of``: the scale-out from which others are foreseen: the largest at which the share is known, or the smallest.
    ``worker_per_s``, ``log_speed``: what the hottest worker takes there, records/s, and the log of that over what the
    mean worker does, at most 0.
    ``excess``: by how much its share exceeds the average worker's there, relative to that.
    ``likely``: how likely each of :data:`GROWTHS` is; they sum to 1.
    """

    of: int
    worker_per_s: float
    excess: float
    log_speed: float
    likely: Values

    @classmethod
    def seen(cls, evidence: Iterable[Evidence], *, fewest: bool = False) -> Self | None:
        """Return what scale-outs that ran say; ``None`` where of none the hottest worker's share is known.

        ``fewest``: foresee from the smallest of them, not from the largest.
        """
        known = {item.scale_out: item for item in evidence if item.hottest_share is not None}
        if not known:
            return None
        last = known[min(known) if fewest else max(known)]
        share = _share(last)
        excess = max(share * last.scale_out - 1.0, 0.0)
        log_likely = -0.5 * ((GROWTHS - STEEPEST * excess / (excess + HALFWAY)) / GROWTH_SD) ** 2
        if others := [item for item in known.values() if item is not last]:
            sizes, measured = np.array([[item.scale_out, _share(item)] for item in others]).T
            off = np.log(measured / _shares(excess, sizes.astype(np.int64), last.scale_out)) / SCATTER
            log_likely -= 0.5 * (off**2).sum(axis=1)
        likely = np.exp(log_likely - log_likely.max())
        return cls(last.scale_out, last.per_s * share, excess, last.log_speed, likely / likely.sum())

    def limited(self, scale_outs: NDArray[np.int_], log_values: Values) -> tuple[Values, Values]:
        """Return logs of capacities in records/s as far as the hottest worker allows them, and the variances of that.

        For scale-outs above :attr:`of`, shape ``(n,)`` each; a worker is not taken to be quicker there than it is.
        """
        shares = _shares(self.excess, scale_outs, self.of)
        logs = np.minimum(math.log(self.worker_per_s) - np.log(shares), log_values)
        mean = self.likely @ logs
        return mean, self.likely @ (logs - mean) ** 2

    def fewer(self, scale_outs: NDArray[np.int_]) -> tuple[Values, Values]:
        """Return the log of what fewer workers take as a share of what :attr:`of` take, and its variance.

        Shape ``(n,)`` each. The hottest worker's share is larger, and fewer others hold it up.
        """
        tried = np.append(scale_outs, self.of)
        shares = np.minimum(_skewed(self.excess, tried, self.of, GROWTHS[:, None]), 1.0)
        logs = np.log(shares)
        by_share = logs[:, -1:] - logs[:, :-1]
        held_up = np.log1p(CONTENTIONS[:, None] * (tried - 1.0))
        spared = held_up[:, -1:] - held_up[:, :-1]
        mean, usual = self.likely @ by_share, spared.sum(axis=0) / len(spared)
        variance = self.likely @ (by_share - mean) ** 2 + ((spared - usual) ** 2).sum(axis=0) / len(spared)
        slowest = highest_of(tried) / highest_of(self.of)  # the slowest of fewer workers is not as slow
        quicker = -self.log_speed * (1.0 - slowest[:-1])
        return np.minimum(mean + usual + quicker, 0.0), variance + (0.5 * quicker) ** 2


def apart(stay: Evidence, earlier: Evidence) -> float:
    """Return by how much the logs of what two stays take differ, beyond what their numbers of workers explain.

    At other scale-outs mean workers are compared, whatever the skew: fewer take more each, as fewer hold them up. 0
    where the hottest worker's share is not known.
    """
    if stay.scale_out == earlier.scale_out:
        return abs(math.log(stay.per_s / earlier.per_s))
    if stay.hottest_share is None or earlier.hottest_share is None:
        return 0.0
    theirs, before = (
        math.log(item.per_s * (item.hottest_share or 1.0) / (item.hottest_speed or 1.0)) for item in (stay, earlier)
    )
    explained = math.log1p(CONTENTION * (earlier.scale_out - 1.0)) - math.log1p(CONTENTION * (stay.scale_out - 1.0))
    return max(theirs - before - max(explained, 0.0), min(explained, 0.0) - (theirs - before), 0.0)


def _shares(excess: float, scale_outs: NDArray[np.int_], of: int) -> Values:
    """Return the hottest worker's share, shape ``(growths, n)``, at scale-outs all above ``of``, or all below it.

    More workers never raise it.
    """
    most = int(scale_outs.max())
    if most < of:
        return np.minimum(_skewed(excess, scale_outs, of, GROWTHS[:, None]), 1.0)
    beyond = _skewed(excess, np.arange(of, most + 1), of, GROWTHS[:, None])
    return np.minimum.accumulate(beyond, axis=1).take(scale_outs - of, axis=1)


def _skewed(excess: float, scale_outs: NDArray[np.int_], of: int, growths: Values) -> Values:
    """Return the hottest worker's share; a hot key's excess, and that of many keys, vanish where a worker is alone."""
    return np.asarray((1.0 + excess * ((scale_outs - 1.0) / max(of - 1.0, 1.0)) ** growths) / scale_outs)


def _share(evidence: Evidence) -> float:
    assert evidence.hottest_share is not None
    return min(max(evidence.hottest_share, 0.5 / evidence.scale_out), 1.0)
