"""Many replays side by side: every contender with every seed, on the same arrivals."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perdix.policies.wording import workers as in_words
from perdix.replay.best_static import BestStatic, best_static, of_contender
from perdix.replay.case import BEST_STATIC, Case, Contender, require_few_failures, require_known_family, whole_seconds
from perdix.replay.clairvoyant.bound import Clairvoyant, Impossible, clairvoyant, physics_of
from perdix.replay.contenders import needs_beliefs
from perdix.replay.frontier import FRONTIER
from perdix.replay.frontier.curve import Frontier, frontier, too_large
from perdix.replay.frontier.known import known
from perdix.replay.labels import FORECASTER
from perdix.replay.outcome import Outcome, Played
from perdix.replay.pace import EVERY_SECOND, Pace
from perdix.replay.pricing import Priced, Pricing, priced
from perdix.replay.run import failure_times_s, job_of, play
from perdix.replay.side_by_side import Failed, OnProgress, Raised, Task, Tell, side_by_side
from perdix.replay.training import operator_of
from perdix.replay.workload import Trace, arrivals
from perdix.settings.stream_job import Bounds, Objectives
from perdix.settings.yaml_files import SettingsError
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters

START_LOOK_S = 600  # the first scale-out is chosen by the first ten minutes, however short the run
CLAIRVOYANT = "clairvoyant"
NO_BEST_STATIC = f"{BEST_STATIC} is left out: the workers of this job may differ in size"


@dataclass(frozen=True)
class Setup:
    """What is to be replayed."""

    contenders: tuple[Contender, ...]
    trace: Trace
    parameters: TwinParameters
    bounds: Bounds  # what every policy may choose from
    seeds: tuple[int, ...] = (1,)
    hours: float = 6.0
    # The trace's peak as a share of the twin's expected capacity at the largest scale-out that the bounds allow
    peak_utilisation: float = 0.75
    # noise, slow_noise: relative standard deviations of what the seed adds to the trace, from second to second and over
    # minutes
    noise: float = 0.02
    slow_noise: float = 0.0
    failures: int = 0  # workers that crash in each replay
    # Family that each replay fits on the way; ``None``: the fallback forecast throughout
    forecaster: str | None = FORECASTER
    objectives: Objectives = field(default_factory=Objectives)
    price_per_h: float = 1.0  # of one worker for one hour; 1.0: the cost is in worker-hours
    pricing: Pricing | None = None  # in place of it: hosts of a price list; ``None``: none are leased
    pace: Pace = EVERY_SECOND  # how fine time is; coarser than every second over months only

    def __post_init__(self) -> None:
        if self.pace.coarse and self.pricing is not None:
            raise SettingsError("--prices: hosts are leased by the second; add --exact, or replay at most 14 days")
        maximum = self.parameters.workers.maximum
        if self.bounds.maximum > maximum:
            raise SettingsError(
                f"up to {self.bounds.maximum} workers were asked for, but the twin '{self.parameters.name}' "
                f"has {maximum}; lower the bound, or raise workers.maximum in its file"
            )
        if not math.isfinite(self.hours) or self.seconds < max(
            contender.tick_interval_s for contender in self.contenders
        ):
            raise SettingsError(f"{self.hours:g} hours do not cover one tick; give more hours")
        for contender in self.contenders:
            operator_of(contender, self.parameters)
            if contender.tick_interval_s % self.pace.step_s:
                raise SettingsError(
                    f"{contender.label}: a tick of {contender.tick_interval_s} s is not in whole steps of "
                    f"{self.pace.step_s} s, in which months are played; take a multiple of them, or add --exact"
                )
        if not 0 < self.peak_utilisation <= 2:
            raise SettingsError(f"the peak utilisation must be above 0 and at most 2, found {self.peak_utilisation:g}")
        if not (0 <= self.noise <= 1 and 0 <= self.slow_noise <= 1):
            raise SettingsError(f"noise must be from 0 to 1, found {self.noise:g} and (slow) {self.slow_noise:g}")
        require_few_failures(self.failures, self.seconds)
        require_known_family(self.forecaster)
        if not (math.isfinite(self.price_per_h) and self.price_per_h >= 0):
            raise SettingsError(f"the price must be a number from 0 on, found {self.price_per_h:g}")
        if self.priced_by is not None:
            self.priced_by.check()

    @property
    def priced_by(self) -> Pricing | None:
        """The pricing, with the sizes that the twin's workers may have."""
        return None if self.pricing is None else self.pricing.of_sizes(self.parameters.workers.sizes)

    @property
    def seconds(self) -> int:
        """Length of each replay."""
        return whole_seconds(self.hours, self.pace.step_s)

    @property
    def with_best_static(self) -> bool:
        """Whether the best fixed size takes part: in every replay, but where workers may differ in size."""
        return not self.parameters.workers.sizes

    @property
    def with_clairvoyant(self) -> bool:
        """Whether the clairvoyant bound is worked out: for equal workers, and where every second is played."""
        return not self.parameters.workers.sizes and not self.pace.coarse

    @property
    def with_frontier(self) -> bool:
        """Whether the frontier is worked out: where the bound is, and the case is not too large."""
        return self.with_clairvoyant and not too_large(self.seconds, self.bounds)

    @property
    def labels(self) -> tuple[str, ...]:
        """What takes part, by the names of tables: the contenders, then the best fixed size."""
        return (*(contender.label for contender in self.contenders), *((BEST_STATIC,) if self.with_best_static else ()))

    @property
    def simulated_s(self) -> float:
        """Simulated seconds of all replays together, for progress."""
        return float(len(self.labels) * len(self.seeds) * self.seconds)

    def peak_per_s(self, seed: int) -> float:
        """Return the trace's peak in records/s; it differs between seeds as the workers' speeds do."""
        return self.peak_utilisation * JobTwin(self.parameters, seed).true_capacity(self.bounds.maximum)

    def cases(self, seed: int) -> tuple[Case, ...]:
        """Return a case per contender, all with the very same arrivals."""
        peak_per_s = self.peak_per_s(seed)
        seconds = max(self.seconds, START_LOOK_S) + int(self.objectives.recovery_time_s)
        arriving = arrivals(self.trace, seconds, peak_per_s, seed, noise=self.noise, slow_noise=self.slow_noise)
        return tuple(
            Case(
                contender,
                self.trace.name,
                self.parameters,
                seed,
                self.hours,
                objectives=self.objectives,
                bounds=self.bounds,
                failures=self.failures,
                forecaster=self.forecaster,
                arrivals=arriving,
                scraping=Scraping(interval_s=self.pace.scraped_s),
                step_s=self.pace.step_s,
                beliefs=not self.pace.coarse or needs_beliefs(contender),
            )
            for contender in self.contenders
        )


@dataclass(frozen=True)
class Campaign:
    """What came of a setup."""

    setup: Setup
    played: tuple[Played, ...]  # in the order of seeds, then of :attr:`Setup.labels`; without the reports of the ticks
    failed: tuple[Failed, ...] = ()
    # Seed -> the least that any plan would need; a seed for which no plan holds the objectives is left out. Nothing
    # where workers may differ: the bound is one of equal workers
    clairvoyants: Mapping[int, Clairvoyant] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    wall_s: float = 0.0
    priced: Priced | None = None  # what the replays and those plans would cost; ``None``: nothing was priced
    # Seed -> the least at each share of late seconds; nothing where workers may differ or the case is too large
    frontiers: Mapping[int, Frontier] = field(default_factory=dict)


def run_campaign(setup: Setup, *, processes: int | None = None, on_progress: OnProgress | None = None) -> Campaign:
    """Play every contender with every seed.

    A replay that raises is recorded with its reason, and the others go on. The results depend on the setup only, not on
    how many processes there are.

    Raises ``KeyboardInterrupt`` after every process that was started has ended; ``SettingsError`` when the twin cannot
    be.

    ``processes``: how many replays at a time; by default as many as there are cores. 1 plays all in this process.
    ``on_progress``: called several times per second with the simulated seconds that were played in all, and the replays
    that ended.
    """
    began_s = time.perf_counter()
    cases = [case for seed in setup.seeds for case in setup.cases(seed)]
    one_per_seed = cases[:: len(setup.contenders)]
    named = [
        *((case.contender.label, Task(_play, case)) for case in cases),
        *((BEST_STATIC, Task(_keep, case)) for case in one_per_seed if setup.with_best_static),
        *((CLAIRVOYANT, Task(_least, case)) for case in one_per_seed if setup.with_clairvoyant),
        *((FRONTIER, Task(_frontier, case)) for case in one_per_seed if setup.with_frontier),
    ]
    results = side_by_side([task for _, task in named], processes=processes, on_progress=on_progress)
    found = [(name, task.argument, result) for (name, task), result in zip(named, results, strict=True)]
    ended, least, failed, notes = _sorted_out(found, setup)
    frontiers = {case.seed: bound for _, case, bound in found if isinstance(bound, Frontier)}
    fixed = {replay.outcome.seed: replay.outcome for replay in ended if replay.outcome.policy == BEST_STATIC}
    played = tuple(_against(replay, least, fixed, frontiers) for replay in ended)
    bills = None
    if setup.priced_by is not None:
        bills = priced(played, least, setup.priced_by)
        played = bills.played
    wall_s = time.perf_counter() - began_s
    return Campaign(setup, played, tuple(failed), least, tuple(notes), wall_s, bills, frontiers)


def _sorted_out(
    found: Sequence[tuple[str, Case, object]], setup: Setup
) -> tuple[list[Played], dict[int, Clairvoyant], list[Failed], list[str]]:
    """Return what came to its end, the bound of each seed, what failed, and what is to be said."""
    ended: list[Played] = []
    least: dict[int, Clairvoyant] = {}
    failed: list[Failed] = []
    notes: list[str] = [] if setup.with_best_static else [NO_BEST_STATIC]
    if setup.pace.coarse:
        notes.append(
            f"{setup.pace.in_words()}; the clairvoyant bound and the frontier are left out, and errors of forecasts, "
            "capacities and recoveries of policies that look at none of them"
        )
    elif setup.with_clairvoyant and not setup.with_frontier:
        notes.append("the frontier is left out: it is worked out up to a day with 24 scale-outs, or as much")
    for name, case, end in found:
        match end:
            case Played():
                ended.append(end)
            case BestStatic(scale_out, held, kept):
                ended.append(kept)
                if not held:
                    notes.append(_none_holds(case.seed, scale_out, setup.bounds))
            case Raised(reason):
                failed.append(Failed(name, case.seed, reason))
            case Impossible(at_s, why):
                notes.append(f"seed {case.seed}: no plan holds the objectives from second {at_s} on: {why}")
            case Clairvoyant():
                least[case.seed] = end
                if end.unguarded:
                    notes.append(
                        f"seed {case.seed}: the bound allows for no failure at {end.unguarded} of its decisions, "
                        "because no scale-out would recover in time"
                    )
    ended.sort(key=lambda played: setup.seeds.index(played.outcome.seed))  # stable: within a seed as they were begun
    return ended, least, failed, notes


def _play(case: Case, tell: Tell) -> Played:
    if case.contender.settings.name == "static" and not case.beliefs:  # nobody asks what a tick would believe
        ended = of_contender(case)
        tell(float(case.seconds))
    else:
        interval_s = case.contender.tick_interval_s
        ended = play(case, on_tick=lambda number: tell(float(min(number * interval_s, case.seconds))))
    return replace(ended, reports=())  # a forecast per tick is more than all that is recorded per second


def _keep(case: Case, tell: Tell) -> BestStatic:
    seconds = float(case.seconds)
    found = best_static(case, on_progress=lambda share: tell(share * seconds))
    tell(seconds)
    return found


def _none_holds(seed: int, scale_out: int, bounds: Bounds) -> str:
    return (
        f"seed {seed}: no fixed size from {bounds.minimum} to {bounds.maximum} workers holds the objective; "
        f"{BEST_STATIC} is {in_words(scale_out)}, the size that is late least"
    )


def _least(case: Case, _tell: Tell) -> Clairvoyant | Impossible:
    assert case.arrivals is not None
    job = job_of(case)
    physics = physics_of(JobTwin(case.parameters, case.seed))
    arriving = case.arrivals[: case.seconds]
    return clairvoyant(arriving, physics, job.objectives, job.bounds, guard_where_possible=True)


def _frontier(case: Case, _tell: Tell) -> Frontier:
    return frontier_of(case)


def frontier_of(case: Case) -> Frontier:
    """Return the frontier of a case, whose policy does not matter; its arrivals are given."""
    assert case.arrivals is not None
    job, crashes_s = job_of(case), failure_times_s(case, 0)
    arriving = case.arrivals[: case.seconds]
    return frontier(known(case.parameters, case.seed, arriving, job.objectives, job.bounds, crashes_s=crashes_s))


def _against(
    played: Played, least: Mapping[int, Clairvoyant], fixed: Mapping[int, Outcome], frontiers: Mapping[int, Frontier]
) -> Played:
    """Return the replay with its worker-seconds as multiples of its seed's bound, best fixed size and frontier."""
    outcome, seed = played.outcome, played.outcome.seed
    if seed in least:
        ratio = outcome.worker_s / least[seed].worker_s
        outcome = replace(outcome, clairvoyant_worker_s=least[seed].worker_s, clairvoyant_ratio=ratio)
    if seed in fixed and fixed[seed].held:
        outcome = replace(outcome, best_static_ratio=outcome.worker_s / fixed[seed].worker_s)
    if seed in frontiers:
        fewest = frontiers[seed].worker_s_at(outcome.share_above_objective)
        outcome = replace(outcome, frontier_worker_s=fewest, of_frontier=outcome.worker_s / fewest)
    return replace(played, outcome=outcome)
