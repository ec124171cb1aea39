"""What is advised for one job: the best fixed size, the shipped policy, what each is expected to cost in lateness.

Belongs here: which of them is advised, and why. Does not belong here: the confidence in it
(:mod:`perdix.scan.confidence`), money (:mod:`perdix.scan.saving`) and how it is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from perdix.policies.wording import per_s, workers
from perdix.replay.best_static import best_static, kept
from perdix.scan.confidence import Confidence, confidence
from perdix.scan.learning import LEAST_COVERAGE, CannotJudgeError, Learned
from perdix.scan.own_physics import OwnPhysics, at_low_end, objectives_of, own_physics
from perdix.scan.with_perdix import WORTH, WithPerdix, with_perdix
from perdix.settings.counting import counted
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.window import Values

Kind = Literal["fixed", "perdix", "keep"]
HOPELESS: Final = 0.5  # share of the seconds: what is late so often at any size is not for want of workers
SAME: Final = 0.05  # of the workers now: less is no saving
SHOWN: Final = 0.0005  # share of the time from which on it is not 0.0 %


@dataclass(frozen=True)
class FixedSize:
    """The best fixed size."""

    workers: int  # the fewest that, kept all the time, hold the objective; else those that are late least
    held: bool  # whether they hold it
    # late_share, late_share_at_low_end: share of the seconds that are late: with the learned capacity, and with the
    # lower end of its 90 % interval
    late_share: float
    late_share_at_low_end: float
    # workers_at_low_end, held_at_low_end: the best fixed size where capacities are at their lower ends, and whether it
    # holds the objective there; the largest that was looked at where none does
    workers_at_low_end: int
    held_at_low_end: bool


@dataclass(frozen=True)
class Advice:
    """What is advised for one job."""

    kind: Kind  # ``fixed``: the fixed size; ``perdix``: the shipped policy; ``keep``: what runs is about what is needed
    objectives: Objectives
    bounds: Bounds  # between which the policy may choose
    average_workers_now: float
    peak_workers_now: int
    # Share of the measured time that was late; ``None`` where neither latency nor lag was measured
    late_share_now: float | None
    # Share of the measured time that was late although at least as many workers ran as the best fixed size has; 0 where
    # that is within the error budget
    late_share_otherwise: float
    fixed: FixedSize
    perdix: WithPerdix
    confidence: Confidence
    why: str
    too_small: bool  # whether the objective asks for more workers than run, all the time or at times
    notes: tuple[str, ...]

    @property
    def workers(self) -> float:
        """Workers on average as advised."""
        advised = {"fixed": float(self.fixed.workers), "perdix": self.perdix.average_workers}
        return advised.get(self.kind, self.average_workers_now)

    @property
    def late_share(self) -> float:
        """Share of the seconds expected to be late as advised: as today, where what runs is kept.

        What is late for another reason than too few workers stays late.
        """
        if self.kind == "keep" and self.late_share_now is not None:
            return self.late_share_now
        late = self.perdix.late_share if self.kind == "perdix" else self.fixed.late_share
        return max(late, self.late_share_otherwise)

    @property
    def saved_workers(self) -> float:
        """Workers on average fewer than now; below 0: more."""
        return self.average_workers_now - self.workers


def advise(
    name: str,
    learned: Learned,
    *,
    latency_ms: float | None,
    error_budget: float,
    looks_s: int | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Advice:
    """Return what is advised for a job.

    Raises ``CannotJudgeError`` when its load cannot be replayed.

    ``latency_ms``: objective for the p95 latency; ``None``: 5 s, or twice what is usual where that is more.
    ``looks_s``: how often the policy looks at the busiest day, seconds; ``None``: all of the time is played, every
    minute.
    """
    objectives = objectives_of(learned, latency_ms, error_budget)
    job = own_physics(name, learned, objectives)
    fixed = _fixed_size(job, learned)
    bounds = bounds_of(learned, fixed)
    perdix = with_perdix(job, fixed.workers, fixed.late_share, bounds, looks_s=looks_s, on_progress=on_progress)
    late_now = late_share_now(learned, objectives.latency_p95_ms)
    weighed = _Weighed(learned, fixed, perdix, objectives, late_now)
    kind = weighed.kind()
    return Advice(
        kind,
        objectives,
        bounds,
        learned.average_workers,
        learned.peak_workers,
        late_now,
        weighed.late_otherwise,
        fixed,
        perdix,
        confidence(learned, fixed.workers, weighed.doubt()),
        weighed.why(kind),
        weighed.too_small(kind),
        (*job.notes, *_assumed(learned), *learned.notes),
    )


def bounds_of(learned: Learned, fixed: FixedSize) -> Bounds:
    """Return the bounds of a job file: up to what ran, or to what holds even where the capacity is overestimated."""
    return Bounds(minimum=1, maximum=max(learned.peak_workers, fixed.workers_at_low_end, fixed.workers))


def _fixed_size(job: OwnPhysics, learned: Learned) -> FixedSize:
    found = best_static(job.case())
    late = found.played.outcome.share_above_objective
    if not found.held and late > HOPELESS:
        raise CannotJudgeError(
            f"no size up to {workers(learned.maximum)} would hold the objective (late {late:.0%} of the time): "
            "its load is more than that, or something else than its workers holds it up"
        )
    unit = job.capacities[0] / learned.capacities[1].per_s
    low = job.with_capacities(at_low_end(learned.capacities, unit))
    safe = best_static(low.case())
    unlucky = kept(low.case(), found.scale_out).outcome.share_above_objective
    safely = max(safe.scale_out, found.scale_out) if safe.held else learned.maximum
    return FixedSize(found.scale_out, found.held, late, max(unlucky, late), safely, safe.held)


@dataclass(frozen=True)
class _Weighed:
    """What is weighed against each other, and what it comes to."""

    learned: Learned
    fixed: FixedSize
    perdix: WithPerdix
    objectives: Objectives
    late_now: float | None

    @property
    def too_late_now(self) -> bool:
        """Whether the objective is not held today, as far as that is known."""
        return self.late_now is not None and self.late_now > self.objectives.error_budget

    @property
    def late_otherwise(self) -> float:
        """Share of the measured time that was late although enough workers ran; 0 where that is within the budget."""
        late = late_share_with(self.learned, self.fixed.workers, self.objectives.latency_p95_ms)
        return late if self.fixed.held and late > self.objectives.error_budget else 0.0

    @property
    def late_for_few(self) -> bool:
        """Whether the objective is not held today for want of workers, which a fixed size would have."""
        return self.too_late_now and self.fixed.held and self.late_otherwise == 0.0

    def too_small(self, kind: Kind) -> bool:
        """Return whether a job has too few workers today, all the time or at times; one that is in time has enough."""
        few = self.fixed.workers > self.learned.peak_workers and not known_in_time(self.learned, self.objectives)
        return kind != "keep" and (self.late_for_few or few)

    @property
    def enough_now(self) -> bool:
        """Whether what runs is known to be enough although the best fixed size has more workers."""
        more = self.fixed.workers > (1.0 + SAME) * self.learned.average_workers
        return more and known_in_time(self.learned, self.objectives)

    def kind(self) -> Kind:
        """Return what is advised: the policy where it needs clearly fewer workers than the best fixed size."""
        now, fixed, perdix = self.learned.average_workers, self.fixed, self.perdix
        follows = perdix.method != "not needed" and perdix.average_workers <= WORTH * fixed.workers
        if follows and (perdix.late_share <= self.objectives.error_budget or not fixed.held):
            return "perdix" if perdix.average_workers < (1.0 - SAME) * now or self.too_late_now else "keep"
        about = abs(fixed.workers - now) <= SAME * now and not self.late_for_few
        return "keep" if self.enough_now or about else "fixed"

    def doubt(self) -> str:
        """Return what that was measured contradicts what was learned; empty where nothing does."""
        most = self.learned.peak_workers
        if self.enough_now and self.fixed.workers > most:
            are, they = ("is", "it") if most == 1 else ("are", "they")
            return f"{workers(most)} {are} not late today, and by what was learned {they} would be"
        if self.late_otherwise > 0.0:
            return f"it is late today with workers that should be enough, in {self.late_otherwise:.0%} of the time"
        return ""

    def why(self, kind: Kind) -> str:
        """Return in one line why that is advised."""
        if kind == "keep" and self.enough_now:
            return self._why_enough()
        why = self._why_held(kind) if self.fixed.held else self._why_not_held(kind)
        return f"{why}; {self._why_late()}" if self.late_otherwise > 0.0 else why

    def _why_enough(self) -> str:
        """Return why what runs is kept although the best fixed size has more workers."""
        today = f"what runs is enough, it is late in {self.late_now:.0%} of the time today"
        size = workers(self.fixed.workers)
        if not self.fixed.held:
            return f"{today}; by what was learned of its capacity no size would hold the objective"
        if self.fixed.workers > self.learned.peak_workers:
            return f"{today}; by what was learned of its capacity it would need {size}"
        return f"{today}; a fixed size that holds the objective has {size}"

    def _why_late(self) -> str:
        """Return why it is late today although enough workers run."""
        safe = max(self.fixed.workers, self.fixed.workers_at_low_end)
        certainly = late_share_with(self.learned, safe, self.objectives.latency_p95_ms) > self.objectives.error_budget
        late = f"today it is late in {self.late_otherwise:.0%} of the time, for another reason than too few workers"
        return late if certainly else f"{late}, or they take less than was learned"

    def _why_not_held(self, kind: Kind) -> str:
        """Return why that is advised where no fixed size holds the objective."""
        best, late = workers(self.fixed.workers), f"{self.fixed.late_share:.0%}"
        most = workers(self.learned.maximum)
        none = f"no size up to {most} holds the objective: even the best, {best}, is late in {late} of the time"
        if kind != "perdix":
            return none
        average = f"{self.perdix.average_workers:.1f} workers on average"
        return f"{none}; perdix follows the load with {average} and is late in {self.perdix.late_share:.0%}"

    def _why_held(self, kind: Kind) -> str:
        """Return why that is advised where the best fixed size holds the objective."""
        load = self.learned.load.per_s
        peak, mean, fixed = float(np.nanmax(load)), float(np.nanmean(load)), workers(self.fixed.workers)
        if self.too_small(kind):
            return self._why_too_small()
        if kind == "perdix":
            return (
                f"the load has a mean of {per_s(mean)} and a peak of {per_s(peak)}: a fixed size is made for the peak, "
                f"perdix follows with {counted(round(self.perdix.rescales_per_day), 'rescale')} a day"
            )
        if kind == "keep":
            return f"about what it needs: {fixed} would hold the objective"
        carried = self._carried(peak)
        if self.fixed.late_share_at_low_end > self.objectives.error_budget:
            most = workers(self.fixed.workers_at_low_end)
            safe = f"{most} are safe" if self.fixed.held_at_low_end else f"no size up to {most} is safe"
            return f"{fixed} should carry {carried}; go there step by step, {safe}"
        carry, are = ("carries", "is") if self.fixed.workers == 1 else ("carry", "are")
        if self.perdix.method == "not needed":
            return f"{fixed} {carry} {carried} and {are} needed nearly always, so no rescaling pays"
        return f"{fixed} {carry} {carried}, and rescaling would save little more"

    def _why_too_small(self) -> str:
        """Return why more workers are advised than run, all the time or at times, and what following would take."""
        at_times = "" if self.fixed.workers > self.learned.peak_workers else " at times"
        late = f"late in {self.late_now:.1%} of the time, " if self.too_late_now else ""
        why = f"too small{at_times} today: {late}{workers(self.fixed.workers)} all the time would hold the objective"
        if self.perdix.method == "not needed":
            return f"{why}, and rescaling would save little more"
        takes = f"perdix would take {self.perdix.average_workers:.1f} workers on average"
        return f"{why}; {takes} and be late in {self.perdix.late_share:.1%}"

    def _carried(self, peak: float) -> str:
        """Return what the best fixed size carries: its peak may wait within the error budget."""
        if self.learned.capacities[self.fixed.workers].per_s >= peak:
            return f"the peak of {per_s(peak)}"
        late = self.fixed.late_share
        return f"the load but for {late:.1%} of the time" if late >= SHOWN else "the load"


def _assumed(learned: Learned) -> tuple[str, ...]:
    """Return what was assumed, in words."""
    found = []
    if learned.load_is_derived:
        found.append("no topic is known, so the load is what was consumed and what the lag grew by")
    if learned.partitions is not None:
        found.append(f"its source has {learned.partitions} partitions, of which a worker reads whole ones")
    took_s, seen = learned.restarts.standstill_s, learned.restarts.seen
    assumed = "no restart was seen: one is assumed to take 28 s out and 16 s in"
    found.append(assumed if took_s is None else f"a restart takes about {took_s:.0f} s (median of {seen} seen)")
    if learned.usual_latency_ms is None:
        found.append("no latency is measured, so lateness is that of records which wait")
    return tuple(found)


KEPT_UP: Final = 0.95  # of what arrived that was consumed: below that, records wait that no latency shows


def late_share_now(learned: Learned, objective_ms: float) -> float | None:
    """Return the share of the measured steps that were late: by latency, else by how long the lag would take."""
    measured = _measured_ms(learned)
    known = measured[~np.isnan(measured)]
    return float((known > objective_ms).mean()) if len(known) else None


def known_in_time(learned: Learned, objectives: Objectives) -> bool:
    """Return whether a job is known to hold its objective as it runs today.

    For that it was measured for most of the time, is late in no more of it than allowed, by its latency and by its
    lag, and consumed what arrived: a latency may leave out how long records wait in their topic.
    """
    measured, waits_ms, load = _measured_ms(learned), _waits_ms(learned), learned.load.per_s
    known = ~np.isnan(measured)
    if not known.any() or np.count_nonzero(known) < LEAST_COVERAGE * np.count_nonzero(np.isfinite(load)):
        return False
    late = (measured > objectives.latency_p95_ms) | (waits_ms > objectives.latency_p95_ms)
    both = np.isfinite(load) & np.isfinite(learned.throughput_per_s)
    kept_up = float(learned.throughput_per_s[both].sum()) >= KEPT_UP * float(load[both].sum())
    return bool(late[known].mean() <= objectives.error_budget and kept_up)


def late_share_with(learned: Learned, workers: int, objective_ms: float) -> float:
    """Return the share of the measured steps that were late although at least ``workers`` ran.

    They ran since the delay began, or for most of it nothing waited: who catches up with many workers was late for
    having had too few. 0 where nothing was measured.
    """
    measured, waits_ms = _measured_ms(learned), _waits_ms(learned)
    known = ~np.isnan(measured)
    if not known.any():
        return 0.0
    late, few = measured[known] > objective_ms, learned.workers[known] < workers
    delay = np.cumsum(np.diff(late, prepend=False))  # which one: it counts where lateness begins and ends
    with_few = np.bincount(delay, late & few) > 0
    nothing_waits = np.bincount(delay, late & (waits_ms[known] <= objective_ms)) > 0.5 * np.bincount(delay, late)
    return float((late & ~few & ~(with_few & ~nothing_waits)[delay]).mean())


def _measured_ms(learned: Learned) -> Values:
    """Return the latency of each step, or how long its lag would take, ms; NaN where neither is known."""
    return np.where(np.isfinite(learned.latency_ms), learned.latency_ms, _waits_ms(learned))


def _waits_ms(learned: Learned) -> Values:
    lag = learned.lag_records
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(lag == 0.0, 0.0, 1_000.0 * lag / learned.throughput_per_s)
