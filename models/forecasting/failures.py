"""What can go wrong with a forecaster, in types: callers fall back, keep the old champion, or train again.

All are ``ValueError``: a caller that only wants to go on catches that; one that must tell them apart catches these.
"""

from __future__ import annotations


class NotForecastableError(ValueError):
    """The workload does not allow it: empty, all missing, too short for the family, or not measured lately."""


class DamagedStateError(ValueError):
    """A stored forecaster cannot be read: something is missing, of the wrong size, or no number."""


class StateVersionError(DamagedStateError):
    """A stored forecaster was written in another format, or by a library version that cannot be read."""
