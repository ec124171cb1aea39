"""How far the members of a forecaster are from what is said for all of them: the unit in which its errors count."""

import numpy as np

from perdix.telemetry.window import Values

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
