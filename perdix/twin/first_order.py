"""Noise of first order: each value keeps a share of the one before."""

import math
from typing import Any

from perdix.telemetry.window import Values


def first_order(white: Values, kept: float, last: float) -> Values:
    """Return noise of variance 1 that goes on from ``last`` and keeps the share ``kept`` of each value; shape ``(n,)``.

    ``white``: independent draws of variance 1, shape ``(n,)``.
    """
    from scipy.signal import lfilter  # noqa: PLC0415 -- brings scipy.stats along: a second that most commands need not pay

    drawn: tuple[Values, Any] = lfilter([1.0], [1.0, -kept], math.sqrt(1.0 - kept**2) * white, zi=[kept * last])
    return drawn[0]
