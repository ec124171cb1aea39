"""What a plan of mixes must cover, and what it costs (QEScalor, 2.4: the cost model).

With ``n[t, r]`` workers of size ``r`` in epoch ``t``, of which ``n[-1]`` are those that run before the first::

    cost = sum over t, r of  running_r n[t, r] + start_r max(0, n[t, r] - n[t-1, r])
                                               + stop_r max(0, n[t-1, r] - n[t, r])
           + sum over t of     change [n[t] differs from n[t-1]]
    such that, for every t,  sum over r of  per_s_r n[t, r] >= level_t

The paper has one price for starting and one for stopping; here each size may have its own. Starts and stops are counted
per size, as the paper's ``|Ins_o.r|`` is: to replace a worker by one of another size is one start and one stop. The
paper has no price of a change as such, which is 0 then: on Flink, any change stops the whole job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdix.telemetry.window import Values

Mixes = NDArray[np.int64]
ROUNDING = 1e-9  # ten workers of 0.1/s cover 1/s
MOST_WORKERS = 10_000


@dataclass(frozen=True)
class Sizes:
    """Sizes of worker that a mix is made of; arrays of shape ``(sizes,)``."""

    names: tuple[str, ...]
    per_s: Values  # records/s of one worker
    running: Values  # price of one worker for one epoch
    # start, stop: price of starting, and of stopping, one worker; in the currency of ``running``
    start: Values
    stop: Values
    most: Mixes  # most workers of a size

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        per_s: ArrayLike,
        running: ArrayLike,
        *,
        start: ArrayLike = 0.0,
        stop: ArrayLike = 0.0,
        most: ArrayLike = MOST_WORKERS,
    ) -> Sizes:
        """Return sizes; a single price or bound is that of every size.

        Raises ``ValueError``, naming the size whose performance, price or bound cannot be.
        """
        given = {"records/s": per_s, "price": running, "price of starting": start, "price of stopping": stop}
        made = {what: np.broadcast_to(np.asarray(v, dtype=np.float64), len(names)) for what, v in given.items()}
        rates, prices, starts, stops = made.values()
        bounds = np.broadcast_to(np.asarray(most, dtype=np.int64), len(names))
        if not names or len(set(names)) < len(names):
            raise ValueError(f"sizes need names, each once; found {', '.join(names) or 'none'}")
        for what, values in made.items():
            for name, value in zip(names, values.tolist(), strict=True):
                if not (np.isfinite(value) and value >= 0.0):
                    raise ValueError(f"size '{name}': its {what} is {value}; give a number of at least 0")
        for name, bound in zip(names, bounds.tolist(), strict=True):
            if bound < 0:
                raise ValueError(f"size '{name}': at most {bound} workers; give at least 0")
        return cls(names, rates, prices, starts, stops, bounds)

    def __len__(self) -> int:
        return len(self.names)

    def only(self, index: int) -> Sizes:
        """Return the sizes with no worker of any but one."""
        most = np.zeros_like(self.most)
        most[index] = self.most[index]
        return replace(self, most=most)


@dataclass(frozen=True)
class Costs:
    """What a plan costs, by what for."""

    running: float
    starts: float
    stops: float
    changes: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.running + self.starts + self.stops + self.changes


@dataclass(frozen=True)
class Problem:
    """A horizon to be covered."""

    sizes: Sizes
    levels_per_s: Values  # records/s that must be covered in each epoch, shape ``(epochs,)``
    # Workers of each size that run before the first epoch, shape ``(sizes,)``. They need neither cover anything nor lie
    # within the bounds
    begin: Mixes
    # minimum, maximum: bounds of the number of workers of all sizes together
    minimum: int = 0
    maximum: int = MOST_WORKERS
    change: float = 0.0  # price of a change of the mix, whatever is started and stopped

    @classmethod
    def of(
        cls,
        sizes: Sizes,
        levels_per_s: ArrayLike,
        begin: ArrayLike = 0,
        minimum: int = 0,
        maximum: int = MOST_WORKERS,
        *,
        change: float = 0.0,
    ) -> Problem:
        """Return a problem that can be planned. Raises ``ValueError`` naming what cannot be."""
        levels = np.atleast_1d(np.asarray(levels_per_s, dtype=np.float64))
        running = np.broadcast_to(np.asarray(begin, dtype=np.int64), len(sizes))
        if levels.ndim != 1 or len(levels) == 0:
            raise ValueError("there is no epoch to plan for")
        if not (np.isfinite(levels).all() and (levels >= 0.0).all()):
            raise ValueError("the workload of an epoch is not finite, or negative")
        if (running < 0).any():
            raise ValueError(f"fewer than 0 workers of a size run: {running.tolist()}")
        if not (np.isfinite(change) and change >= 0.0):
            raise ValueError(f"the price of a change is {change}; give a number of at least 0")
        if not 0 <= minimum <= maximum:
            raise ValueError(f"bounds of {minimum} to {maximum} workers cannot be held; swap or widen them")
        most = int(np.minimum(sizes.most, maximum).sum())
        if most < minimum:
            raise ValueError(f"at least {minimum} workers are asked for, and the sizes allow {most} in all")
        return cls(sizes, levels, running, minimum, maximum, change)

    def __len__(self) -> int:
        return len(self.levels_per_s)

    @cached_property
    def strongest(self) -> Mixes:
        """The mix of the greatest performance within the bounds, with no worker that adds none beyond the minimum."""
        mix, left = np.zeros(len(self.sizes), dtype=np.int64), self.maximum
        for index in np.argsort(-self.sizes.per_s, kind="stable"):
            wanted = left if self.sizes.per_s[index] > 0.0 else max(0, self.minimum - int(mix.sum()))
            mix[index] = min(int(self.sizes.most[index]), wanted, left)
            left -= int(mix[index])
        return mix

    @cached_property
    def demanded_per_s(self) -> Values:
        """The levels as far as the bounds allow to cover them, shape ``(epochs,)``."""
        return np.minimum(self.levels_per_s, self.strongest @ self.sizes.per_s)

    def covers(self, mixes: ArrayLike, per_s: ArrayLike) -> NDArray[np.bool_]:
        """Return whether mixes of shape ``(..., sizes)`` process ``per_s`` records/s, but for errors of rounding."""
        return np.asarray(np.asarray(mixes) @ self.sizes.per_s >= np.asarray(per_s) * (1.0 - ROUNDING))

    def allows(self, mixes: ArrayLike) -> NDArray[np.bool_]:
        """Return whether mixes of shape ``(..., sizes)`` are within all bounds."""
        counts = np.asarray(mixes)
        total = counts.sum(axis=-1)
        each = ((counts >= 0) & (counts <= self.sizes.most)).all(axis=-1)
        return np.asarray(each & (total >= self.minimum) & (total <= self.maximum))

    def change_cost(self, before: ArrayLike, after: ArrayLike) -> Values:
        """Return the price of going from one mix to another, shapes ``(..., sizes)``."""
        step = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
        each = np.maximum(step, 0.0) @ self.sizes.start + np.maximum(-step, 0.0) @ self.sizes.stop
        return np.asarray(each + self.change * (step != 0).any(axis=-1))

    def costs(self, mixes: Mixes) -> Costs:
        """Return what a plan of shape ``(epochs, sizes)`` costs."""
        steps = np.diff(np.vstack((self.begin, mixes)), axis=0)
        return Costs(
            running=float((mixes @ self.sizes.running).sum()),
            starts=float((np.maximum(steps, 0) @ self.sizes.start).sum()),
            stops=float((np.maximum(-steps, 0) @ self.sizes.stop).sum()),
            changes=self.change * int((steps != 0).any(axis=1).sum()),
        )

    def shortfall_per_s(self, mixes: Mixes) -> Values:
        """Return the records/s of each level that a plan does not cover, shape ``(epochs,)``."""
        lacking = self.levels_per_s - mixes @ self.sizes.per_s
        return np.where(lacking > ROUNDING * np.maximum(self.levels_per_s, 1.0), lacking, 0.0)

    def limited_to(self, index: int) -> Problem:
        """Return the same horizon with one size only, which is what CBA plans for.

        Raises ``ValueError`` when that size's own bound is below the minimum.
        """
        only = self.sizes.only(index)
        return Problem.of(only, self.levels_per_s, self.begin, self.minimum, self.maximum, change=self.change)

    def after(self, mix: Mixes) -> Problem | None:
        """Return what is left to plan once ``mix`` runs in the first epoch; ``None`` when that was the last."""
        if len(self) == 1:
            return None
        return replace(self, levels_per_s=self.levels_per_s[1:], begin=mix)
