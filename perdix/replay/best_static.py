"""The best fixed size: the fewest workers that, kept all the time, hold the objective. Known only afterwards.

It is the rival of every policy: who needs more than it, or is late more often, is beaten by a number in a YAML file. A
fixed size needs no tick, no state and no forecast, so the twin is only stepped; what is counted is counted by the code
that counts every replay (:mod:`perdix.replay.figures`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perdix.replay.case import BEST_STATIC, Case, Contender
from perdix.replay.figures import Truth, figures_of, late
from perdix.replay.outcome import Played
from perdix.replay.run import REMEMBERED_S, failure_times_s, fresh_twin, job_of, play
from perdix.settings.stream_job import PolicySettings, StreamJob
from perdix.telemetry.window import Values
from perdix.twin import physics
from perdix.twin.job import JobTwin

PIECES = 20  # of a run: after each it is asked whether going on makes sense
LONGEST_PIECE_S = 86_400  # what its workers did in each step is in memory until it ends
NOISE_SDS = 6.0  # noise further from its mean than this does not occur


@dataclass(frozen=True)
class BestStatic:
    """The best fixed size of one case."""

    scale_out: int  # workers
    # Whether the objective is held with them; where no size within the bounds does that, it is the size that is late
    # least
    held: bool
    played: Played  # the run with them; its policy is called ``best-static``


def best_static(case: Case, on_progress: Callable[[float], None] | None = None) -> BestStatic:
    """Return the best fixed size of a case: of the same arrivals, failures, speeds and keys as any policy meets.

    The size is exact: every smaller one within the bounds was played, or cannot hold the objective whatever the luck.
    That matters because lateness does not always fall with the scale-out: each deals the keys differently.

    Raises ``ValueError`` when the hours do not cover a second, or the twin cannot be.

    ``case``: its contender and forecaster are ignored. Workers have no size, where they may differ.
    ``on_progress``: called with the share of the work that is certainly done, 0 to 1.
    """
    search = _Search.of(case)
    for done, size in enumerate(search.sizes, start=1):
        if search.certainly_late(size) <= search.budget:
            played = search.play(size, at_most=search.budget)
            if played is not None and played.outcome.held:
                return BestStatic(size, True, played)
        if on_progress is not None:
            on_progress(done / len(search.sizes))
    return search.least_late()


def kept(case: Case, scale_out: int) -> Played:
    """Return the run with a fixed size, whatever comes of it; raises as :func:`best_static`."""
    played = _Search.of(case).play(scale_out, at_most=1.0)
    assert played is not None  # nothing is late in more than all of the time
    return played


def of_contender(case: Case) -> Played:
    """Return the run of a static contender: where it begins at its own size, no tick would change anything."""
    twin = fresh_twin(case, job_of(case).bounds)
    if twin.scale_out != case.contender.settings.options.get("scale_out"):
        return play(case)
    found = stepped(case, twin)
    assert found is not None  # as above
    return replace(found, outcome=replace(found.outcome, ticks=case.ticks))


def stepped(case: Case, twin: JobTwin, *, at_most: float = 1.0) -> Played | None:
    """Return the run of a twin that nobody looks at; ``None`` once it is certain to be late in more than this share."""
    truth, seconds, objective_ms = Truth(), case.seconds, case.objectives.latency_p95_ms
    began_s, end_s = twin.now_s, twin.now_s + seconds
    crashes, step_s = failure_times_s(case, began_s), case.step_s
    piece_s = math.ceil(min(seconds / PIECES, LONGEST_PIECE_S) / step_s) * step_s
    late_s = 0
    while twin.now_s < end_s:
        from_s = twin.now_s
        truth.step(twin, min(piece_s, end_s - from_s), crashes)
        latency, lag = (twin.history.column(name, from_s) for name in ("latency_p95_ms", "lag"))
        late_s += step_s * int(np.count_nonzero(late(latency, lag, objective_ms)))
        twin.history.forget_workers_before(twin.now_s - REMEMBERED_S)
        if late_s / seconds > at_most:
            return None
    return figures_of(case, job_of(case), twin, truth, began_s=began_s)


def certainly_late(
    arrivals_per_s: Values, capacity_per_s: float, objective_ms: float, base_ms: float = 0.0, *, step_s: int = 1
) -> NDArray[np.bool_]:
    """Return where records are late even if nothing but the capacity holds them up.

    Returns a value of each step, shape ``(seconds / step_s,)``.

    ``arrivals_per_s``: records that arrive in each second, shape ``(seconds,)``; whole steps.
    ``capacity_per_s``: above all that the job can ever process.
    ``base_ms``: below the latency of any record that does not wait.
    ``step_s``: of the twin, which does not distinguish times within a step.
    """
    arriving = arrivals_per_s.reshape(-1, step_s).sum(axis=1)
    lag = physics.backlog(0.0, arriving, np.full(len(arriving), capacity_per_s * step_s))
    before = np.concatenate(([0.0], lag[:-1]))
    processed = before + arriving - lag
    times_s, arrived = step_s * np.arange(len(arriving) + 1.0), np.concatenate(([0.0], np.cumsum(arriving)))
    waited_s = physics.waited_s(
        times_s, arrived, times_s[1:], np.cumsum(processed) - processed, processed, step_s=step_s
    )
    return np.asarray((processed > 0) & (base_ms + 1_000.0 * waited_s > objective_ms))


@dataclass(frozen=True)
class _Search:
    """One case, and what all its sizes have in common."""

    case: Case
    job: StreamJob
    seconds: int

    @staticmethod
    def of(case: Case) -> _Search:
        plain = replace(case, contender=Contender(BEST_STATIC, PolicySettings(name="static")), forecaster=None)
        if case.seconds < 1:
            raise ValueError(f"{case.hours} hours do not cover a second")
        return _Search(plain, job_of(plain), case.seconds)

    @property
    def sizes(self) -> range:
        return range(self.job.bounds.minimum, self.job.bounds.maximum + 1)

    @property
    def budget(self) -> float:
        return self.job.objectives.error_budget

    def twin(self, size: int) -> JobTwin:
        """Return the twin at the start, with ``size`` workers."""
        settings = PolicySettings(name="static", options={"scale_out": size})
        return fresh_twin(
            replace(self.case, contender=replace(self.case.contender, settings=settings)), self.job.bounds
        )

    def certainly_late(self, size: int) -> float:
        """Return the share of the seconds in which this size is late whatever the luck; quick, and rather too low."""
        twin, workers, latency = self.twin(size), self.case.parameters.workers, self.case.parameters.latency
        most_per_s = twin.current_capacity() * (1.0 + NOISE_SDS * workers.capacity_noise)
        base_ms = latency.base_ms * max(1.0 - NOISE_SDS * latency.noise, 0.0)
        arrivals = twin.arrivals(twin.now_s, self.seconds)
        objective_ms, step_s = self.job.objectives.latency_p95_ms, self.case.step_s
        return float(certainly_late(arrivals, most_per_s, objective_ms, base_ms, step_s=step_s).mean())

    def play(self, size: int, *, at_most: float) -> Played | None:
        """Return the run with this size; ``None`` once it is certain to be late in more than this share of it."""
        found = stepped(self.case, self.twin(size), at_most=at_most)
        return None if found is None else replace(found, outcome=replace(found.outcome, scale_out=size))

    def least_late(self) -> BestStatic:
        """Return the size that is late least; of several, the fewest workers."""
        best: Played | None = None
        for size in self.sizes:
            share, left = (1.0, 1.0) if best is None else _lateness(best)
            if (self.certainly_late(size), 0.0) >= (share, left):
                continue  # at least as late, with more workers
            found = self.play(size, at_most=share)
            if found is not None and (best is None or _lateness(found) < _lateness(best)):
                best = found
        assert best is not None
        assert best.outcome.scale_out is not None
        return BestStatic(best.outcome.scale_out, best.outcome.held, best)


def _lateness(played: Played) -> tuple[float, float]:
    return played.outcome.share_above_objective, played.outcome.unprocessed
