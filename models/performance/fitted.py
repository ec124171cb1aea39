"""A performance model: the samples, a family and its parameters; grown again from them whenever it is loaded."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from perdix.models.performance.cross_validation import one_thread
from perdix.models.performance.families import Family, Parameters, family_of
from perdix.models.performance.samples import Performances, Sample, checked, rates_of, sizes_of
from perdix.telemetry.window import Values

STATE_FORMAT = "perdix-performance-1"
MOST_REMEMBERED = 64  # sizes that are asked at once, and such questions that are remembered
TOLERANCE = 0.01  # of the largest that was sampled, of each resource: 33 MB where 33.2 to 33.8 were is not elsewhere
_SUM_TO_ONE = 1e3  # weight of that equation: shares of the samples are a mixture of them


@dataclass(frozen=True)
class FittedPerformance:
    """A performance model of any family: cores and memory of a worker in, the highest rate that it processes out.

    ``samples``: what it was learned from: the state. Trees are grown from it at the first prediction (some 0.1 s), the
    same ones on every machine with the same libraries.
    ``parameters``, ``seed``: of the family's estimator.
    """

    family: str
    parameters: Parameters
    samples: tuple[Sample, ...]
    seed: int = 0

    @classmethod
    def fit(cls, family: Family, parameters: Parameters, samples: Iterable[Sample], seed: int = 0) -> Self:
        """Fit to samples. Raises ``ValueError`` when they cannot be learned from; see :func:`.samples.checked`."""
        return cls(family.family, dict(parameters), checked(samples), seed)

    def predict(self, cpu_cores: ArrayLike, memory_mb: ArrayLike) -> Performances:
        """Predict records/s for every pair of cores and MB, and whether it lies outside of what was sampled.

        A size that is not finite has no prediction (NaN), and counts as outside.
        """
        cores, given = np.broadcast_arrays(np.asarray(cpu_cores, float), np.asarray(memory_mb, float))
        asked = np.column_stack([cores.ravel(), given.ravel()])
        question = asked.tobytes()
        if question in self._answers:
            return self._answers[question]
        found = self._predicted(asked)
        if len(asked) <= MOST_REMEMBERED and len(self._answers) < MOST_REMEMBERED:
            self._answers[question] = found
        return found

    def _predicted(self, asked: Values) -> Performances:
        finite = np.isfinite(asked).all(axis=1)
        per_s = np.full(len(asked), np.nan)
        if finite.any():
            per_s[finite] = np.maximum(self._regression.predict(asked[finite]), 0.0)
        beyond = outside(self._sizes, asked)
        for answer in (per_s, beyond):
            answer.flags.writeable = False  # it is remembered
        return Performances(per_s, beyond)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state, with the SHA-256 of its content."""
        content = {
            "format": STATE_FORMAT,
            "family": self.family,
            "parameters": dict(self.parameters),
            "seed": self.seed,
            "samples": [[sample.cpu_cores, sample.memory_mb, sample.per_s, sample.took_s] for sample in self.samples],
        }
        return {**content, "sha256": _digest(content)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`.

        Raises ``ValueError`` when the state is not one of this format, of a family that there is not, or not what was
        written.
        """
        made = state.get("format") if isinstance(state, Mapping) else None
        if made != STATE_FORMAT:
            raise ValueError(
                f"not a performance state of format {STATE_FORMAT}: format is {made!r}; train the job anew"
            )
        try:
            content = {name: state[name] for name in ("format", "family", "parameters", "seed", "samples")}
            written, found = str(state["sha256"]), _digest(content)
            if written != found:
                said = f"SHA-256 {found[:12]} instead of {written[:12]}"
                raise ValueError(f"a performance state is damaged ({said}); train the job anew")
            samples = [Sample(*map(float, values)) for values in state["samples"]]
            return cls.fit(family_of(str(state["family"])), state["parameters"], samples, int(state["seed"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"a performance state lacks something or holds what is no number ({error!r})") from None

    @cached_property
    def _answers(self) -> dict[bytes, Performances]:
        """The loop asks for the same few sizes at every tick, and a forest takes some ms to answer."""
        return {}

    @cached_property
    def _sizes(self) -> Values:
        return sizes_of(self.samples)

    @cached_property
    def _regression(self) -> Any:
        estimator = family_of(self.family).estimator(self.parameters, self.seed)
        with one_thread():
            return estimator.fit(self._sizes, rates_of(self.samples))


def outside(sampled: Values, asked: Values) -> NDArray[np.bool_]:
    """Return which sizes lie outside of the convex hull of those sampled, which is much less than their box.

    Samples mostly lie along a line: memory grows with the cores, or stays as it is. The corners of their box (all the
    cores with the least memory) are then as far from any sample as a size beyond the largest.

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


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
