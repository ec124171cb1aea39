"""From forecasts of whole cells to rates between any edges."""

import numpy as np

from perdix.models.forecasting.regrid import mean_preserving
from perdix.telemetry.window import Values


def rates_between(edges_s: Values, measured: Values, ahead: Values, cell_s: float) -> Values:
    """Return mean rates between edges of a smooth curve through cells; beyond the last cell its value is held.

    ``edges_s``: seconds after the newest measurement, ascending from zero or more, shape ``(n + 1,)``.
    ``measured``: the newest one or two measured cells, records/s: the curve comes from there.
    ``ahead``: forecast cells, records/s; negative ones count as zero.
    Returns shape ``(n,)``, never negative; each whole cell keeps its mean.
    """
    means = np.concatenate([measured, np.maximum(ahead, 0.0)])
    knots_s = cell_s * np.arange(-len(measured), len(ahead) + 1, dtype=np.float64)
    if edges_s[-1] <= knots_s[-1] + 1e-6:
        return np.maximum(mean_preserving(knots_s, means, np.minimum(edges_s, knots_s[-1])), 0.0)
    end_s = float(knots_s[-1])
    inside = np.clip(edges_s, knots_s[0], end_s)
    lengths_s, covered_s = np.diff(edges_s), np.diff(inside)
    some = covered_s > 0.0
    amounts = np.zeros(len(lengths_s))
    if some.any():
        within = np.append(inside[:-1][some], inside[1:][some][-1])
        amounts[some] = np.maximum(mean_preserving(knots_s, means, within), 0.0) * covered_s[some]
    return np.asarray((amounts + means[-1] * (lengths_s - covered_s)) / lengths_s)
