"""How much each member counts: by its recent errors, for each part of the horizon on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perdix.telemetry.window import Values

if TYPE_CHECKING:
    from perdix.models.forecasting.track_record import TrackRecord

ALIKE = 1.2  # errors of up to this many times the least count nearly alike
SHARPNESS = 8.0  # beyond, weights fall with the error to the power of minus this
HALF_LIFE_HORIZONS = 12.0
WORST = 5.0  # times the usual error: what is worse counts so


def weights_of(record: TrackRecord) -> Values:
    """Return the weight of each member at each part of the horizon, shape ``(members, leads)``; each part sums to 1.

    A weight is ``1 / (1 + (error / (ALIKE * least error)) ** SHARPNESS)``, of the mean error of the forecasts that have
    come true, recent ones counting more, each relative to the usual error of all members there: so an origin at a low
    rate says as much as one at a high rate. Of members that are about as good the plain mean is best, since their
    differences are chance and their errors cancel; one that is twice as bad must not count, or adding a family costs.
    Where nothing has come true yet, members count alike.
    """
    members, leads = record.forecasts.shape[1], record.leads
    if members == 1 or not len(record):
        return np.full((members, leads), 1.0 / members)
    missed = record.missed.reshape(len(record), -1)
    age_s = record.origins_s[-1] - record.origins_s
    recency = (0.5 ** (age_s / (HALF_LIFE_HORIZONS * record.lead_s * leads))).astype(np.float32)
    known = np.isfinite(missed)
    counted = recency @ known.astype(np.float32)
    summed = recency @ np.where(known, missed, np.float32(0.0))
    errors = np.divide(summed, counted, where=counted > 0.0, out=np.full(members * leads, np.nan)).reshape(-1, leads)
    errors = np.where(np.isnan(errors), np.fmax.reduce(errors, axis=0, initial=0.0), errors)
    errors = errors + 1e-9 + 1e-3 * errors.max(axis=0)
    raw = 1.0 / (1.0 + (errors / (ALIKE * errors.min(axis=0))) ** SHARPNESS)
    return np.asarray(raw / raw.sum(axis=0))


def relative(missed: Values) -> Values:
    """Return errors in units of the median member's at the same origin and lead, at most :data:`WORST`, 32-bit.

    Shape ``(origins, members, ...)``; NaN stays NaN. Where the median member does not err at all, those that do are
    as bad as it gets.
    """
    ordered = np.sort(missed, axis=1)  # NaN last; np.nanmedian takes 1.1 ms in place of 0.2, twice in every tick
    counts, members = np.isfinite(missed).sum(axis=1, keepdims=True), missed.shape[1]
    if (counts == members).all():
        low, high = ordered[:, (members - 1) // 2, None], ordered[:, members // 2, None]
    else:
        low, high = (np.take_along_axis(ordered, np.maximum(at, 0), axis=1) for at in ((counts - 1) // 2, counts // 2))
    usual = (low + high) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(missed > 0.0, missed / usual, np.where(np.isnan(missed), np.nan, 0.0))
    return np.minimum(ratios, WORST).astype(np.float32)


def combine(projections: Values, weights: Values) -> Values:
    """Return the weighted mean over members; one without a forecast (NaN) leaves its weight to the others.

    Raises ``ValueError`` when some step has no forecast from any member.

    ``projections``, ``weights``: shape ``(members, steps)`` both.
    """
    known = np.isfinite(projections)
    if known.all():
        effective = weights + 1e-12
        return np.asarray((effective * projections).sum(axis=0) / effective.sum(axis=0))
    if not known.any(axis=0).all():
        raise ValueError("no member can forecast")
    effective = np.where(known, weights + 1e-12, 0.0)
    return np.asarray(np.sum(effective * np.where(known, projections, 0.0), axis=0) / effective.sum(axis=0))


AGREED = 0.02  # of the forecast: members that agree still miss by about this much


def apart(forecasts: Values, combined: Values) -> Values:
    """Return how far members are from what is said for all, records/s, of ``combined``'s shape ``(origins, leads)``.

    Never zero. One member alone cannot disagree: its unit is one record per second.

    ``forecasts``: what each member said, shape ``(origins, members, leads)``; NaN where it could not.
    """
    if forecasts.shape[1] == 1:
        return np.ones(combined.shape)
    known = np.isfinite(forecasts)
    missed = np.where(known, np.abs(forecasts - combined[:, None, :]), 0.0)
    return np.asarray(missed.sum(axis=1) / np.maximum(known.sum(axis=1), 1) + AGREED * np.abs(combined) + 1e-6)
