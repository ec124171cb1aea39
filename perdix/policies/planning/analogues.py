"""What came after minutes like this one: how long each size would have been late in the hour that followed."""

import numpy as np
from numpy.typing import NDArray

from perdix.settings.durations import MINUTE_S
from perdix.telemetry.window import Values

AHEAD = 60  # minutes
ALIKE = 0.15  # difference of the logarithms of two loads at which they count for 0.6
BEFORE = 10  # minutes before, whose load must have been similar as well
LEAST = 90  # minutes, before which nothing is concluded
LIKELY = 0.1  # weight below which a minute is not alike, beside the one that is most alike
MOST = 48  # similar minutes that are looked at
AT_ONCE = 4  # sizes: more no longer stay in the processor's cache
FOLLOWED = 48  # sizes that are followed through the hours; of more, the others lie between these


def late_after(minutes: Values, capacities_per_s: Values, allowed_s: float, reaction_s: float) -> Values | None:
    """Return the share of the hour after similar minutes in which each size would have been late, ``(sizes,)``.

    Nothing waits when the hour begins. Who is overtaken by the load may sit it out, or go to the largest capacity and
    be late until that has caught up. The shorter of the two counts. ``None`` while too few minutes are known.

    ``minutes``: mean loads, records/s, shape ``(n,)``, the newest last; NaN where nothing was measured.
    ``reaction_s``: from the first late minute until a rescale has ended.
    """
    known = minutes[np.isfinite(minutes)]
    if len(known) < LEAST or not known.max() > 0:
        return None
    weights = _alike(known)
    alike = np.flatnonzero(weights > LIKELY)
    if len(alike) > MOST:
        alike = alike[np.linspace(0, len(alike) - 1, MOST).astype(np.intp)]
    padded = np.pad(known, (0, AHEAD), constant_values=np.nan)
    hours = padded[BEFORE + alike[:, None] + 1 + np.arange(AHEAD)]
    followed = np.unique(capacities_per_s)
    if len(followed) > FOLLOWED:
        followed = followed[np.linspace(0, len(followed) - 1, FOLLOWED).round().astype(np.intp)]
    late_s = _late_s(hours, followed[:, None], allowed_s, reaction_s)
    lasted_s = np.isfinite(hours).sum(axis=1) * MINUTE_S
    # Weighted means of ratios would let hours that have hardly begun speak as loud as whole ones.
    shares = late_s @ weights[alike] / (lasted_s @ weights[alike])
    return np.asarray(np.interp(capacities_per_s, followed, shares))


def _alike(minutes: Values) -> Values:
    """Return how much each minute from the tenth to the tenth last is like the last one; 1 for the most alike."""
    last = len(minutes) - 1
    starts = np.arange(BEFORE, last - BEFORE)
    logs = np.log(np.maximum(minutes, 1e-3 * minutes.max()))
    level = np.convolve(logs, np.full(BEFORE, 1.0 / BEFORE), mode="valid")  # of k .. k + BEFORE - 1
    apart = np.hypot(logs[starts] - logs[last], level[starts - BEFORE + 1] - level[-1]) / ALIKE
    return np.asarray(np.exp(0.5 * (apart.min() ** 2 - apart**2)))


def _late_s(hours: Values, capacities: Values, allowed_s: float, reaction_s: float) -> Values:
    """Return the seconds that each size would be late in each of the hours, shape ``(sizes, hours)``.

    ``hours`` has shape ``(hours, minutes)``, NaN where the hour is not over yet; ``capacities`` shape ``(sizes, 1)``.
    """
    largest, late_s = float(capacities.max()), np.zeros((len(capacities), len(hours)))
    overtaken = np.flatnonzero(capacities[:, 0] < np.nanmax(hours))  # the others are never late
    for first in range(0, len(overtaken), AT_ONCE):
        some = overtaken[first : first + AT_ONCE]
        late_s[some] = _late_of(hours, capacities[some], largest, allowed_s, reaction_s)
    return late_s


def _late_of(hours: Values, capacities: Values, largest: float, allowed_s: float, reaction_s: float) -> Values:
    own, loads, measured = capacities[..., None], np.nan_to_num(hours), np.isfinite(hours)
    late = _late_minutes(loads, own, allowed_s) & measured
    first = late.argmax(axis=2)[..., None]
    # The share of each minute in which the size still runs that was overtaken.
    runs = np.clip(reaction_s / MINUTE_S + 1.0 + first - np.arange(AHEAD), 0.0, 1.0)
    caught_up = _late_minutes(loads, largest + (own - largest) * runs, allowed_s) & measured
    return np.asarray(np.minimum(late.sum(axis=2), caught_up.sum(axis=2)) * MINUTE_S)


def _late_minutes(loads: Values, capacities: Values, allowed_s: float) -> NDArray[np.bool_]:
    """Return the minutes at whose end more waits than may, of shape ``(sizes, hours, minutes)``."""
    added = np.cumsum((loads - capacities) * MINUTE_S, axis=2)
    waiting = added - np.minimum(np.minimum.accumulate(added, axis=2), 0.0)  # never less than nothing
    return np.asarray(waiting > allowed_s * capacities)
