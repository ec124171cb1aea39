"""Which mixes an optimal plan may need, so that no others are examined.

The paper examines mixes whose performance lies in ``[level_t, W]``, with ``W`` the highest level of the horizon. With
whole workers that range may be empty at the peak: sizes of 100 and 180/s reach 200 and 280/s, and nothing in
``[260, 260]``. Mixes from which no worker can be taken without falling below ``W`` repair that, and are too few: with
sizes of 100/s and 280/s and levels 100, 270, 100 it may be cheapest to keep the small worker through the peak, idle, in
order not to start it anew, and 380/s are no least cover of any level. What suffices is the following.

**Bound.** There is an optimal plan in which every mix that is not contained in the one that ran at the beginning, and
has more workers than the minimum, falls below ``W`` when its largest worker is taken away: the paper's range, widened
by less than one worker. *Proof.* Take, of all optimal plans, one with the fewest worker-epochs. Let it start a worker
of size ``r`` in epoch ``a``, and change its mix again in epoch ``b`` (or never). In some epoch from ``a`` to before
``b`` the mix without that worker is below the level or the minimum of workers: otherwise it could be started in
``b``, where there is a change anyway (or, where one of its size is stopped then or nothing changes any more, not at
all), at no greater cost and with fewer worker-epochs. Now take any epoch ``t``, and the last epoch ``a <= t`` in
which anything was started. Since then workers were stopped only, so ``n_t <= n_a``. If ``n_t`` has a worker of size
``r``, taking it, or one that is larger, away leaves less than ``W``; if it has none, ``n_t`` itself is below that.
Where nothing was started before, ``n_t <= begin``. (Where ``n_a`` has the minimum of workers, so has ``n_t``.) ∎

Where a change as such has no price, ``b`` is ``a + 1``, and the highest level *so far* stands for ``W``: nothing is
started before it is needed. Hence, per size, no more than ``max(ceil(W / per_s), begin, minimum)`` workers.

**Dominated sizes.** A size is never started where another processes at least as much, costs no more to run, to start
and to stop, and is not bounded for itself: the other can take the place of every worker that would be started. Those
that run may stay. *Proof.* Of ``n_t`` workers, ``k_t = min(n_0 .. n_t)`` have run since the beginning. When ``k``
falls, ``n - k`` is 0 after it and does not rise, so starts and stops of ``n`` are those of ``k`` and ``n - k``
together, and those of ``n - k`` cost no more in the other size, be it alone or merged with what that size does. ∎
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdix.models.mixes.problem import ROUNDING, Mixes, Problem
from perdix.telemetry.window import Values

MOST_ROWS = 2_000_000  # unfinished mixes held at once while candidates are listed


def dominated(problem: Problem) -> NDArray[np.bool_]:
    """Return which sizes need never be started, shape ``(sizes,)``; of equal sizes the first is kept."""
    sizes = problem.sizes
    prices = np.stack((sizes.running, sizes.start, sizes.stop, -sizes.per_s))  # the less, the better
    no_worse = (prices[:, None, :] <= prices[:, :, None]).all(axis=0)  # [r, s]: s is no worse than r
    equal = no_worse & no_worse.T
    first = np.arange(len(sizes))[None, :] < np.arange(len(sizes))[:, None]
    unbounded = sizes.most >= problem.maximum
    better = no_worse & (~equal | first | ~unbounded[:, None]) & ~np.eye(len(sizes), dtype=bool)
    return np.asarray((better & unbounded[None, :]).any(axis=1))


def most_needed(problem: Problem) -> Mixes:
    """Return the most workers of each size that an optimal plan may need, shape ``(sizes,)``."""
    sizes, peak = problem.sizes, float(problem.demanded_per_s.max())
    useful = sizes.per_s > 0.0
    alone = np.zeros(len(sizes))
    alone[useful] = np.ceil(np.minimum(peak / sizes.per_s[useful], problem.maximum) * (1.0 - ROUNDING))
    alone += useful & (alone * sizes.per_s < peak * (1.0 - ROUNDING))  # a division that was rounded down
    needed = np.maximum(alone.astype(np.int64), max(problem.minimum, 0))
    needed = np.where(dominated(problem), 0, needed)
    return np.minimum(np.maximum(needed, problem.begin), np.minimum(sizes.most, problem.maximum))


@dataclass(frozen=True)
class Candidates:
    """Mixes that an optimal plan may need."""

    mixes: Mixes  # shape ``(n, sizes)``
    per_s: Values  # their performance, records/s, shape ``(n,)``
    # A mix is needed only where the highest level exceeds this, records/s, shape ``(n,)``; minus infinity where it may
    # be needed whatever the levels are
    until_per_s: Values

    def __len__(self) -> int:
        return len(self.per_s)


def candidates(problem: Problem, limit: int) -> Candidates | None:
    """Return all mixes that an optimal plan may need; ``None`` when there are more than ``limit``.

    Sizes are added from the largest on. A mix that none of the three grounds of the bound admits is not fixed by more
    workers of smaller sizes, so it ends there.
    """
    sizes, most = problem.sizes, most_needed(problem)
    peak = float(problem.demanded_per_s.max())
    order = np.argsort(-sizes.per_s, kind="stable")
    rows = np.zeros((1, len(sizes)), dtype=np.int64)
    for index in order:
        if len(rows) * (int(most[index]) + 1) > MOST_ROWS:
            return None
        counts = np.arange(int(most[index]) + 1)
        rows = np.repeat(rows, len(counts), axis=0)
        rows[:, index] = np.tile(counts, len(rows) // len(counts))
        rows = rows[(rows.sum(axis=1) <= problem.maximum) & (_until_per_s(problem, rows) < _above(peak))]
    rows = rows[problem.allows(rows)]
    if len(rows) > limit:
        return None
    return Candidates(rows, rows @ sizes.per_s, _until_per_s(problem, rows))


def _until_per_s(problem: Problem, rows: Mixes) -> Values:
    """Return what is left of each mix without its largest worker; minus infinity for mixes that need no such ground."""
    largest = np.where(rows > 0, problem.sizes.per_s, 0.0).max(axis=1)
    admitted = (rows <= problem.begin).all(axis=1) | (rows.sum(axis=1) <= problem.minimum)
    return np.where(admitted, -np.inf, rows @ problem.sizes.per_s - largest)


def _above(level_per_s: float) -> float:
    # A hair above counts as below: a candidate too many costs a moment, one too few the optimum.
    return level_per_s + ROUNDING * max(level_per_s, 1.0)


def needed(problem: Problem, found: Candidates) -> NDArray[np.bool_]:
    """Return which candidates may run in which epoch of an optimal plan, shape ``(epochs, n)``."""
    levels = problem.demanded_per_s
    so_far = np.maximum.accumulate(levels) if problem.change == 0.0 else np.full(len(levels), levels.max())
    highest = np.array([_above(level) for level in so_far.tolist()])
    covers = found.per_s[None, :] >= levels[:, None] * (1.0 - ROUNDING)
    return np.asarray(covers & (found.until_per_s[None, :] < highest[:, None]))
