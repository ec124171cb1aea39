"""What can go wrong with a forecaster, in types: callers fall back, keep the old champion, or train again.

All are ``ValueError``: a caller that only wants to go on catches that; one that must tell them apart catches these.
"""

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class NotForecastableError(ValueError):
    """The workload does not allow it: empty, all missing, too short for the family, or not measured lately."""


class DamagedStateError(ValueError):
    """A stored forecaster cannot be read: something is missing, of the wrong size, or no number."""


class StateVersionError(DamagedStateError):
    """A stored forecaster was written in another format, or by a library version that cannot be read."""


def checksum(state: Mapping[str, Any]) -> int:
    """Return a checksum of a JSON-serialisable state: a flipped bit in a number is still a number, only a wrong one."""
    return zlib.crc32(json.dumps(state, sort_keys=True, separators=(",", ":")).encode())


def positive(name: str, value: Any) -> float:
    """Return a length or a step from a state. Raises ``ValueError`` when it is not finite and above zero."""
    number = float(value)
    if not (math.isfinite(number) and number > 0.0):
        raise ValueError(f"{name} is {number}, not above zero")
    return number


@contextmanager
def whole_state(what: str) -> Iterator[None]:
    """Turn whatever a damaged state makes go wrong into :class:`DamagedStateError`, naming ``what`` and the fix."""
    try:
        yield
    except StateVersionError:
        raise
    except DamagedStateError as error:
        raise DamagedStateError(f"the state of {what} is damaged: {error}; train again") from error
    except KeyError as error:
        raise DamagedStateError(f"the state of {what} is damaged: {error} is missing; train again") from error
    except (TypeError, AttributeError, IndexError, ValueError, ArithmeticError) as error:
        raise DamagedStateError(f"the state of {what} is damaged ({error}); train again") from error
