"""Sample an operator: one instance after the other beside the normal ones, each of the size that the rule wants.

QEScalor (ICCS 2020), 2.2: no stress test. The share of the live workload that the sampling instance is given is raised
step by step, until its throughput no longer follows; what it then processes, once that has converged, is the sample.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from perdix.models.performance.samples import Sample
from perdix.models.sampling.contract import SamplingRule
from perdix.models.sampling.course import next_size
from perdix.models.sampling.rows import FailedSize, OperatorSamples
from perdix.profiling.campaign import restore
from perdix.profiling.sampling_instance import SamplingError, SamplingInstance, SamplingInstances
from perdix.settings.size_grid import Grid, GridPoint

TOLERANCE = 0.03  # half-width of the confidence interval of a mean that has converged, as a share of the mean
CONFIDENCE = 0.9  # of that interval. Windows are taken as independent: choose them longer than what noise persists
FEWEST = 4  # windows of which such a mean is taken
WATCHED_S = 70  # since it was full, at least: in shorter windows a warm-up looks as if it had converged
RAISED_BY = 1.5  # factor by which an instance's share of the live workload is raised
FOLLOWS = 0.95  # throughput as a share of what was offered from which on an instance keeps up


def converged(throughputs_per_s: Sequence[float]) -> float | None:
    """Return the performance, records/s, or ``None`` when it has not converged.

    The earlier half of the windows is taken for the warm-up. A mean that still moves is known by its halves: they
    may differ by no more than twice the tolerance.

    ``throughputs_per_s``: means of windows of equal length, in order, since the instance was full.
    """
    later = np.asarray(throughputs_per_s[len(throughputs_per_s) // 2 :], float)
    if later.size < FEWEST or not np.isfinite(later).all():
        return None
    mean = float(later.mean())
    if mean <= 0.0:
        return None
    quantile = float(stdtrit(later.size - 1, 0.5 + CONFIDENCE / 2.0))
    half_width = quantile * float(later.std(ddof=1)) / math.sqrt(later.size)
    first, second = later[: later.size // 2].mean(), later[later.size // 2 :].mean()
    still = abs(second - first) <= 2.0 * TOLERANCE * mean
    return mean if still and half_width <= TOLERANCE * mean else None


@dataclass(frozen=True)
class SamplingPlan:
    """How one size is sampled."""

    window_s: int = 30  # seconds for which a share is kept and watched
    first_share: float = 0.01  # of the live workload, that an instance begins with
    most_s: int = 2_400  # seconds after which a size that has not converged is given up

    @property
    def longest_window_s(self) -> int:
        """Of how many seconds a window may be, so that a size can be raised to all of the load and then converge."""
        raised = math.ceil(-math.log(self.first_share) / math.log(RAISED_BY))
        return self.most_s // (raised + 2 * FEWEST)


@dataclass(frozen=True)
class SamplingProgress:
    """One more size was tried."""

    number: int  # how many, this one included
    cpu_cores: float
    memory_mb: float
    per_s: float | None  # what it reached, records/s; ``None`` where it failed, and ``why`` then says it
    step: int  # units from the size before it
    why: str

    def __str__(self) -> str:
        reached = "failed" if self.per_s is None else f"{self.per_s:,.0f}/s"
        return f"size {self.number}: {self.cpu_cores:g} cores, {self.memory_mb:g} MB: {reached} ({self.why})"


def sample_operator(
    operator: str,
    rule: SamplingRule,
    grid: Grid,
    instances: SamplingInstances,
    plan: SamplingPlan | None = None,
    *,
    on_progress: Callable[[SamplingProgress], None] | None = None,
    on_left: Callable[[str], None] | None = None,
) -> OperatorSamples:
    """Sample until the rule wants no more; a size that fails is recorded with its reason, and the rest goes on.

    All is left as it was, whatever happens; ``on_left`` is given at once, in words, what could not be restored.

    Raises ``SamplingError`` when not one size could be sampled.
    """
    plan = plan or SamplingPlan()
    known: dict[GridPoint, float | None] = {}
    samples: list[Sample] = []
    failed: list[FailedSize] = []
    times: list[tuple[float, float]] = []
    notes: list[str] = []
    core_s = 0.0
    with ExitStack() as ends:
        ends.callback(restore, instances.restore, SamplingError, notes, on_left)
        wanted = next_size(rule, grid, known)
        while wanted.point is not None:
            cpu_cores, memory_mb = grid.size(wanted.point)
            tried = _try(instances, cpu_cores, memory_mb, plan)
            known[wanted.point] = tried.per_s
            times.extend(tried.time)
            notes.extend([tried.note] if tried.note else [])
            core_s += cpu_cores * tried.took_s
            if tried.per_s is None:
                failed.append(FailedSize(cpu_cores, memory_mb, tried.why, tried.took_s))
            else:
                samples.append(Sample(cpu_cores, memory_mb, tried.per_s, tried.took_s))
            if on_progress is not None:
                why = tried.why if tried.per_s is None else wanted.why
                on_progress(SamplingProgress(len(known), cpu_cores, memory_mb, tried.per_s, wanted.step, why))
            wanted = next_size(rule, grid, known)
    if not samples:
        said = "; ".join([*_reasons(failed), *notes])
        raise SamplingError(f"not one of {len(failed)} sizes of {operator} could be sampled: {said}")
    return OperatorSamples(
        operator,
        rule.name,
        tuple(samples),
        tuple(failed),
        core_s=core_s,
        worker_s=sum(ended - began for began, ended in times),
        began_s=min(began for began, _ in times),
        ended_s=max(ended for _, ended in times),
        ended_because=wanted.why,
        notes=tuple(notes),
    )


def _reasons(failed: Sequence[FailedSize]) -> list[str]:
    """Return why sizes failed, each reason once."""
    sizes: dict[str, list[str]] = {}
    for size in failed:
        sizes.setdefault(size.why, []).append(f"{size.cpu_cores:g} cores, {size.memory_mb:g} MB")
    more = {why: f" and {len(some) - 1} more" if len(some) > 1 else "" for why, some in sizes.items()}
    return [f"{some[0]}{more[why]}: {why}" for why, some in sizes.items()]


@dataclass
class _Tried:
    """What came of one size; ``time`` is when it began and ended, empty when it could not even be started."""

    per_s: float | None = None
    why: str = ""
    time: tuple[tuple[float, float], ...] = ()
    note: str = ""

    @property
    def took_s(self) -> float:
        return sum(ended - began for began, ended in self.time)


def _try(instances: SamplingInstances, cpu_cores: float, memory_mb: float, plan: SamplingPlan) -> _Tried:
    """Sample one size; the instance is stopped at its end, whatever happens."""
    try:
        instance = instances.start(cpu_cores, memory_mb)
    except SamplingError as error:
        return _Tried(why=f"could not be started: {error}")
    tried, began_s = _Tried(), instance.now_s
    try:
        tried.per_s = converged_performance(instance, plan)
    except SamplingError as error:
        tried.why = str(error)
    finally:
        try:
            instance.stop()
        except SamplingError as error:
            tried.note = (
                f"the instance with {cpu_cores:g} cores and {memory_mb:g} MB could not be stopped: {error}; "
                "stop it by hand"
            )
    tried.time = ((began_s, instance.now_s),)
    return tried


def converged_performance(instance: SamplingInstance, plan: SamplingPlan) -> float:
    """Raise an instance's share until it no longer follows, and return the records/s at which it converges.

    An instance that follows again, because it has warmed up, is given more, and is watched anew.

    Raises ``SamplingError`` when it dies, does not converge in time, or takes all of the live workload.
    """
    share, windows = plan.first_share, list[float]()
    for _ in range(plan.most_s // plan.window_s):
        seen = instance.process(share, plan.window_s)
        if not seen.throughput_per_s >= FOLLOWS * seen.offered_per_s:  # NaN does not follow
            windows.append(seen.throughput_per_s)
            performance = converged(windows) if len(windows) * plan.window_s >= WATCHED_S else None
            if performance is not None:
                return performance
        elif share >= 1.0:
            raise SamplingError("it takes all of the live workload; sample it again when there is more")
        elif seen.offered_per_s > 0.0:
            share, windows = min(share * RAISED_BY, 1.0), []
    raise SamplingError(_not_converged(windows, plan))


def _not_converged(windows: list[float], plan: SamplingPlan) -> str:
    if not windows:
        return f"it was not full within {plan.most_s} s"
    if max(windows) <= 0.0:
        return f"nothing came out within {plan.most_s} s"
    return f"did not converge within {plan.most_s} s: {min(windows):,.0f} to {max(windows):,.0f}/s"
