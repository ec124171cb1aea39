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
AT_ONCE = 192  # hours of sizes: more no longer stay in the processor's cache
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
    padded = np.concatenate([known, np.full(AHEAD, np.nan)])
    hours = padded[BEFORE + alike[:, None] + 1 + np.arange(AHEAD)]
    followed = np.unique(capacities_per_s)
    if len(followed) > FOLLOWED:
        followed = followed[np.linspace(0, len(followed) - 1, FOLLOWED).round().astype(np.intp)]
    late_s = _late_s(hours, followed, allowed_s, reaction_s)
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

    ``hours`` has shape ``(hours, minutes)``, NaN where the hour is not over yet; ``capacities`` shape ``(sizes,)``.
    """
    largest, late = float(capacities.max()), np.zeros((len(capacities), len(hours)))
    measured, minutes = np.isfinite(hours), np.arange(AHEAD)
    loads = np.where(measured, hours, 0.0)
    all_sizes, all_hours = np.nonzero(capacities[:, None] < loads.max(axis=1))  # the others are never late
    if not len(all_sizes):
        return late
    arrived = np.cumsum(loads, axis=1)
    # The share of each minute in which a size still runs that is overtaken in minute 0, 1, ...; ``(minutes, minutes)``.
    runs = np.minimum(np.maximum(reaction_s / MINUTE_S + 1.0 + minutes[:, None] - minutes, 0.0), 1.0)
    ran = np.cumsum(runs, axis=1)
    for first in range(0, len(all_sizes), AT_ONCE):
        size, hour = (part[first : first + AT_ONCE] for part in (all_sizes, all_hours))
        own = capacities[size, None]
        sits_out = _late_minutes(arrived[hour] - own * (minutes + 1.0), own, allowed_s) & measured[hour]
        late[size, hour] = sits_out.sum(axis=1)
        overtaken, last = sits_out.argmax(axis=1), AHEAD - 1 - sits_out[:, ::-1].argmax(axis=1)
        goes = np.flatnonzero(late[size, hour] * (last - overtaken) > reaction_s / MINUTE_S)  # else all is over by then
        size, hour, overtaken, less = size[goes], hour[goes], overtaken[goes], own[goes] - largest
        worked = largest * (minutes + 1.0) + less * ran[overtaken]
        goes_on = _late_minutes(arrived[hour] - worked, largest + less * runs[overtaken], allowed_s) & measured[hour]
        late[size, hour] = np.minimum(late[size, hour], goes_on.sum(axis=1))
    return MINUTE_S * late


def _late_minutes(added: Values, capacities: Values, allowed_s: float) -> NDArray[np.bool_]:
    """Return the minutes at whose end more waits than may; of shape ``(hours, minutes)``.

    ``added``: since the beginning of each hour, minutes of records/s.
    """
    waiting = added - np.minimum(np.minimum.accumulate(added, axis=1), 0.0)  # never less than nothing
    return np.asarray(MINUTE_S * waiting > allowed_s * capacities)
