"""Whether a size lies within what was sampled: inside the convex hull of the sampled sizes, not just inside their box.

Samples mostly lie along a line: memory grows with the cores, or stays as it is. The corners of their box (all the
cores with the least memory) are then as far from any sample as a size beyond the largest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from perdix.telemetry.window import Values

TOLERANCE = 0.01  # of the largest that was sampled, of each resource: 33 MB where 33.2 to 33.8 were is not elsewhere
_SUM_TO_ONE = 1e3  # weight of that equation: shares of the samples are a mixture of them


def outside(sampled: Values, asked: Values) -> NDArray[np.bool_]:
    """Return which sizes lie outside of the convex hull of those sampled.

    ``sampled``, ``asked``: cores and MB; shapes ``(n, 2)`` and ``(m, 2)``. Where all samples have the same memory the
    hull is a line, and another memory lies outside of it.
    Returns shape ``(m,)``; true where a resource is not finite.
    """
    unit = np.abs(sampled).max(axis=0)
    mixed = np.vstack([(sampled / unit).T, np.full(len(sampled), _SUM_TO_ONE)])
    return np.array([not np.isfinite(size).all() or _distance(mixed, size / unit) > TOLERANCE for size in asked], bool)


def _distance(mixed: Values, size: Values) -> float:
    """Return how far a size is from the nearest mixture of the samples, in shares of the largest."""
    _, distance = nnls(mixed, np.append(size, _SUM_TO_ONE))
    return float(distance)
