"""Samples of an operator whose performance is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdix.models.performance.samples import Sample


def true_per_s(cpu_cores: ArrayLike, memory_mb: ArrayLike) -> NDArray[np.float64]:
    """Return records/s: a line up to three cores, and dearer records below 512 MB."""
    cores, given = np.asarray(cpu_cores, float), np.asarray(memory_mb, float)
    return 5_000.0 * np.minimum(cores, 3.0) * np.minimum(0.4 + 0.6 * given / 512.0, 1.0)


def sampled(count: int = 10, noise: float = 0.0, seed: int = 0) -> list[Sample]:
    """Return samples along both axes, as sampling takes them: cores with 1,024 MB, then memory with four cores."""
    cores, memory = np.linspace(0.4, 4.0, count), np.linspace(128.0, 896.0, max(count // 2, 1))
    sizes = [(float(c), 1_024.0) for c in cores] + [(4.0, float(m)) for m in memory]
    factors = 1.0 + noise * np.random.default_rng(seed).normal(size=len(sizes))
    return [Sample(c, m, float(true_per_s(c, m)) * float(f), 60.0) for (c, m), f in zip(sizes, factors, strict=True)]
