"""Algorithm 1: when an operator type needs one more instance (Hochreiner et al., PeerJ CS 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perdix.policies.holding import usable
from perdix.policies.wording import seconds

QUEUE_THRESHOLD = 50.0  # data items, the paper's "Evaluation configuration"
DURATIONS = 5  # N: left open by the paper, 5 in its program


@dataclass(frozen=True)
class Trigger:
    """What Algorithm 1 says of one operator type."""

    needed: bool  # whether one more instance is needed
    # Whether both the duration and the queue were measured; nothing is needed, and nothing may go, where not
    measured: bool
    # Highest of the duration and its trend, as a multiple of the objective: how urgent it is; 0 where not measured
    excess: float
    why: str  # in words, with the numbers


def predicted_s(durations_s: Sequence[float]) -> float:
    """Return the duration to come by the least-squares line through the last ones (lines 5 to 9).

    ``durations_s``: oldest first, seconds, at least one. The paper's notation counts from the newest, and then its ``N
    + 1`` lies in the past; one observation has no trend.
    """
    values = np.asarray(durations_s, dtype=np.float64)
    if len(values) == 1:
        return float(values[0])
    at = np.arange(1.0, len(values) + 1.0)
    off = at - at.mean()
    slope = float(off @ (values - values.mean()) / (off @ off))
    return float(values.mean()) + slope * (len(values) + 1.0 - float(at.mean()))


def trigger(
    durations_s: Sequence[float],
    objective_s: float,
    queue_items: float | None,
    *,
    most_durations: int = DURATIONS,
    queue_threshold: float = QUEUE_THRESHOLD,
) -> Trigger:
    """Return whether the duration or its trend is above the objective while more items wait than a hiccup explains.

    ``durations_s``: processing durations, oldest first, seconds; the last one is the present one. What is no duration
    is left out.
    ``queue_items``: data items that wait; ``None``: not measured.
    """
    known_s = [value for value in durations_s[-most_durations:] if usable(value)]
    if not durations_s or not usable(durations_s[-1]):
        return Trigger(False, False, 0.0, "its duration is not measured")
    if not usable(queue_items):
        return Trigger(False, False, 0.0, "its queue is not measured")
    now_s, soon_s = known_s[-1], predicted_s(known_s)
    late = max(now_s, soon_s) > objective_s
    items = f"{queue_items:,.0f} items wait"
    if now_s > objective_s or not late:
        took = f"{_in_words(now_s)} of {_in_words(objective_s)}"
    else:
        took = f"{_in_words(now_s)}, soon {_in_words(soon_s)} of {_in_words(objective_s)}"
    return Trigger(late and queue_items > queue_threshold, True, max(now_s, soon_s) / objective_s, f"{took}, {items}")


def _in_words(duration_s: float) -> str:
    return f"{duration_s:.3g} s" if duration_s < 10 else seconds(duration_s)
