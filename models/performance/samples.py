"""Samples of an operator's sizes as a model may learn from them, checked and in a fixed order; what it predicts."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.window import Values


@dataclass(frozen=True)
class Sample:
    """What one sampling instance reached (QEScalor, 2.2: a correlation sample)."""

    # cpu_cores, memory_mb: what the instance was given, cores and MB
    cpu_cores: float
    memory_mb: float
    per_s: float  # records/s at which its performance converged
    took_s: float = 0.0  # seconds that sampling it took


@dataclass(frozen=True)
class Performances:
    """Predictions, arrays of shape ``(n,)``."""

    per_s: Values  # records/s of one worker
    # Whether the size lies outside what was sampled: a forest, for one, then returns its plateau
    extrapolated: NDArray[np.bool_]


FEWEST = 4  # with one left out, three are left: two would be a line whatever the operator does


def checked(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Return samples by rising size, as every model takes them, so that their order never changes a model.

    Raises ``ValueError`` when a number is missing, infinite or negative, a size was sampled twice, or there are too few
    samples or sizes to learn from; names the sample, and what to do.
    """
    given = list(samples)
    for sample in given:
        _check(sample)
    if twice := [size for size, count in Counter(map(_size, given)).items() if count > 1]:
        said = ", ".join(
            " and ".join(f"{sample.per_s:g}" for sample in given if _size(sample) == size)
            + f" records/s at {_size_text(*size)}"
            for size in twice[:3]
        )
        raise ValueError(f"sampled more than once: {said}; keep one sample of each size, their mean for instance")
    if len(given) == 1:
        raise ValueError(
            f"only one size was sampled, {_size_text(*_size(given[0]))}: sample others, {FEWEST} or more in all"
        )
    if len(given) < FEWEST:
        raise ValueError(f"{len(given)} samples are too few to learn from: sample {FEWEST} sizes or more")
    return tuple(sorted(given, key=_size))


def sizes_of(samples: Sequence[Sample]) -> Values:
    """Return cores and MB; shape ``(n, 2)``."""
    return np.array([_size(sample) for sample in samples], float).reshape(-1, 2)


def rates_of(samples: Sequence[Sample]) -> Values:
    """Return records/s; shape ``(n,)``."""
    return np.array([sample.per_s for sample in samples], float)


def samples_digest(samples: Iterable[Sample]) -> str:
    """Return the SHA-256 of sizes and rates: the same samples have the same digest, in any order, on any machine."""
    content = sorted([float(sample.cpu_cores), float(sample.memory_mb), float(sample.per_s)] for sample in samples)
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _check(sample: Sample) -> None:
    place = f"the sample at {_size_text(*_size(sample))}"
    if not all(map(math.isfinite, (*_size(sample), sample.per_s))):
        raise ValueError(f"{place} with {sample.per_s} records/s: a number is missing or infinite; sample it anew")
    if min(_size(sample)) <= 0.0:
        raise ValueError(f"{place}: cores and memory must be above 0; leave it out")
    if sample.per_s < 0.0:
        raise ValueError(f"{place}: {sample.per_s:g} records/s is below 0; sample it anew")


def _size(sample: Sample) -> tuple[float, float]:
    return sample.cpu_cores, sample.memory_mb


def _size_text(cpu_cores: float, memory_mb: float) -> str:
    return f"{cpu_cores:g} cores and {memory_mb:g} MB"
