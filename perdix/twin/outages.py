"""Standstills: what causes them, and how long they take."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from perdix.twin.parameters import RandomTime, Restart

Cause = Literal["out", "in", "failure"]


@dataclass(frozen=True)
class Outage:
    """One standstill: what caused it, how long it took, what was lost to the checkpoint."""

    cause: Cause
    start_s: int
    end_s: int
    from_scale_out: int
    to_scale_out: int
    replayed: float


def draw_standstill_s(cause: Cause, restart: Restart, rng: np.random.Generator) -> int:
    """Draw how long the job stands still, in whole seconds; a failure must be detected first."""
    if cause == "failure":
        return math.ceil(_draw(restart.failure, rng) + _draw(restart.detection, rng))
    return math.ceil(_draw(restart.out if cause == "out" else restart.in_, rng))


def _draw(time: RandomTime, rng: np.random.Generator) -> float:
    return float(time.median_s * np.exp(time.spread * rng.standard_normal()))
