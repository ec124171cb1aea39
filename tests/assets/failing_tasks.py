"""Tasks that do what tasks should not do; Spark's workers import them by name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def work(key: Mapping[str, Any]) -> dict[str, Any]:
    """Answer; or raise, or die, as the key says. Each call leaves a line in the file ``key['calls']``."""
    with Path(key["calls"]).open("a") as file:
        file.write(f"{key['job']}\n")
    if key.get("raises"):
        raise ValueError(f"the data of {key['job']} is broken")
    if key.get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory runs out
    time.sleep(key.get("seconds", 0.0))
    return {"job": key["job"]}
