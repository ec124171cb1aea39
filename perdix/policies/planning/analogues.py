"""What came after minutes like this one: how long each size was late in the hour that followed, and what it needed."""

from dataclasses import dataclass

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
NO_MORE = 1.0  # separate times in which no size needed more workers, that count beside those that were seen
FOLLOWED = 48  # sizes that are followed through the hours; of more, the others lie between these


@dataclass(frozen=True)
class After:
    """What came of sizes in the hour after similar minutes."""

    late: Values  # share of the hour in which each capacity would have been late, shape ``(capacities,)``
    # Workers that each size would have needed besides, on average over the hour, shape ``(sizes,)``
    more: Values


def after(
    minutes: Values,
    workers: NDArray[np.intp],
    capacities_per_s: Values,
    *,
    allowed_s: float,
    reaction_s: float,
    recovery_s: float,
) -> After | None:
    """Return what came of each size in the hour after similar minutes; ``None`` while too few minutes are known.

    Nothing waits when the hour begins. Who is overtaken by the load may sit it out, or go to the largest capacity and
    be late until that has caught up. The shorter of the two counts. Who goes needs more workers for as long as more
    arrives than it takes: as many as work off in time what waits by then. What came once says little of that.

    ``minutes``: mean loads, records/s, shape ``(n,)``, the newest last; NaN where nothing was measured.
    ``workers``: the sizes, ascending, shape ``(sizes,)``.
    ``capacities_per_s``: shape ``(k * sizes,)``: those of the sizes, and what each may take instead.
    ``reaction_s``: from the first late minute until a rescale has ended.
    ``recovery_s``: until what waits then is worked off.
    """
    known = minutes[np.isfinite(minutes)]
    if len(known) < LEAST or not known.max() > 0:
        return None
    weights = _alike(known)
    alike = np.flatnonzero(weights > LIKELY)
    times = _separate(alike, weights[alike])
    if len(alike) > MOST:
        alike = alike[np.linspace(0, len(alike) - 1, MOST).astype(np.intp)]
    padded = np.concatenate([known, np.full(AHEAD, np.nan)])
    hours = padded[BEFORE + alike[:, None] + 1 + np.arange(AHEAD)]
    followed = np.unique(capacities_per_s)
    if len(followed) > FOLLOWED:
        followed = followed[np.linspace(0, len(followed) - 1, FOLLOWED).round().astype(np.intp)]
    own_per_s = capacities_per_s[: len(workers)]
    enough = np.searchsorted(np.maximum.accumulate(own_per_s), hours * (1.0 + reaction_s / recovery_s))
    needed = workers.take(np.minimum(enough, len(workers) - 1))
    each = _follow(hours, needed, followed, allowed_s, reaction_s)
    # Weighted means of ratios would let hours that have hardly begun speak as loud as whole ones.
    late, left, needs = each @ weights[alike] / (np.isfinite(hours).sum(axis=1) @ weights[alike])
    more = np.interp(own_per_s, followed, needs) - workers * np.interp(own_per_s, followed, left)
    return After(np.interp(capacities_per_s, followed, late), np.maximum(more, 0.0) * times / (times + NO_MORE))


def _alike(minutes: Values) -> Values:
    """Return how much each minute from the tenth to the tenth last is like the last one; 1 for the most alike."""
    last = len(minutes) - 1
    starts = np.arange(BEFORE, last - BEFORE)
    logs = np.log(np.maximum(minutes, 1e-3 * minutes.max()))
    level = np.convolve(logs, np.full(BEFORE, 1.0 / BEFORE), mode="valid")  # of k .. k + BEFORE - 1
    apart = np.hypot(logs[starts] - logs[last], level[starts - BEFORE + 1] - level[-1]) / ALIKE
    return np.asarray(np.exp(0.5 * (apart.min() ** 2 - apart**2)))


def _separate(alike: NDArray[np.intp], weights: Values) -> float:
    """Return how many separate times similar minutes come from: ten in a row are but one.

    ``alike``: the minutes, ascending, of the shape of ``weights``, which say how much each counts.
    """
    each = np.bincount(np.cumsum(np.diff(alike, prepend=alike[0]) > BEFORE), weights)
    return float(each.sum() ** 2 / (each**2).sum())


def _follow(hours: Values, needed: NDArray[np.intp], capacities: Values, allowed_s: float, reaction_s: float) -> Values:
    """Return the minutes that each size would be late in each of the hours, and those that it is left for.

    Last come the sums of the workers that are needed in the latter. Shape ``(3, sizes, hours)``.

    ``hours`` has shape ``(hours, minutes)``, NaN where the hour is not over yet; ``capacities`` shape ``(sizes,)``.
    ``needed``: workers for the load of each minute, of the shape of ``hours``.
    """
    largest, followed = float(capacities.max()), np.zeros((3, len(capacities), len(hours)))
    late, left, needs = followed
    measured, minutes = np.isfinite(hours), np.arange(AHEAD)
    loads = np.where(measured, hours, 0.0)
    all_sizes, all_hours = np.nonzero(capacities[:, None] < loads.max(axis=1))  # the others are never late
    if not len(all_sizes):
        return followed
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
        late_if_left = goes_on.sum(axis=1)
        leaves = late_if_left < late[size, hour]
        too_much = (loads[hour] > own[goes]) & (minutes >= overtaken[:, None]) & leaves[:, None]
        left[size, hour], needs[size, hour] = too_much.sum(axis=1), (too_much * needed[hour]).sum(axis=1)
        late[size, hour] = np.minimum(late[size, hour], late_if_left)
    return followed


def _late_minutes(added: Values, capacities: Values, allowed_s: float) -> NDArray[np.bool_]:
    """Return the minutes at whose end more waits than may; of shape ``(hours, minutes)``.

    ``added``: since the beginning of each hour, minutes of records/s.
    """
    waiting = added - np.minimum(np.minimum.accumulate(added, axis=1), 0.0)  # never less than nothing
    return np.asarray(MINUTE_S * waiting > allowed_s * capacities)
