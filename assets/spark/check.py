"""The smallest Spark task: say which interpreter a worker runs."""

import sys
from collections.abc import Mapping
from typing import Any


def interpreter(_: Mapping[str, Any]) -> dict[str, str]:
    """Return the worker's Python."""
    return {"python": sys.executable}
