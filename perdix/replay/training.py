"""Champions of a replay's loop: those that it begins with, at the cost of measuring for them, and those of the way."""

from dataclasses import dataclass, field

import numpy as np
import orjson

from perdix.control.champions import ChampionRow, ChampionSource, FleetChampions, GivenChampions
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.forecaster import fitted
from perdix.models.latency.selection import FAMILIES
from perdix.models.performance.families import CURVES
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.profiling.profile import Profile
from perdix.models.profiling.profiled import Profiled
from perdix.models.profiling.tmax import HighestRates
from perdix.models.registry import FORECAST, LATENCY, PERFORMANCE
from perdix.models.sampling.course import rule_called
from perdix.profiling.campaign import profile
from perdix.profiling.plan import plan_for
from perdix.profiling.recording import Recording
from perdix.profiling.sampling import sample_operator
from perdix.profiling.twin_deployments import TwinDeployments
from perdix.profiling.twin_sampling import TwinSamplingInstances
from perdix.replay.case import Case, Contender
from perdix.settings.yaml_files import SettingsError
from perdix.twin.job import JobTwin
from perdix.twin.operators.parameters import OperatorTwinParameters
from perdix.twin.parameters import TwinParameters


@dataclass(frozen=True)
class Begun:
    """Champions of one model."""

    champions: FleetChampions
    worker_s: float  # worker-seconds that profiling or sampling took
    notes: tuple[str, ...] = ()  # what could not be measured, and why


NEED_A_PROFILE = ("phoebe", "twres")
RECORDED_S = 600
STEPS_TO_PEAK = 10  # rates up to what the largest scale-out takes: half as many as in the paper, at half the cost


def profiled(case: Case, twin: JobTwin) -> Begun | None:
    """Profile the case's job for a policy that needs it; ``None`` for any other.

    What was recorded is the workload of the ten minutes that the run begins with, a constant one where nothing arrives
    in them; the deployments are other workers with other keys than the twin's own.
    """
    if case.contender.settings.name not in NEED_A_PROFILE:
        return None
    maximum = twin.parameters.workers.maximum if case.bounds is None else case.bounds.maximum
    minimum = 1 if case.bounds is None else case.bounds.minimum
    plan = plan_for(minimum, maximum, twin.true_capacity(maximum), steps_to_peak=STEPS_TO_PEAK)
    recorded = twin.arrivals(twin.now_s, RECORDED_S)
    recording = Recording(recorded if recorded.any() else np.ones(RECORDED_S))
    deployments = TwinDeployments(case.parameters, recording, case.seed, scraping=case.scraping)
    found = profile(case.parameters.name, plan, deployments)
    trained = profiled_of(found, case.contender.latency_family, case.seed)
    row = ChampionRow(trained.latency.family, orjson.dumps(trained.to_state()).decode(), 1)
    return Begun(FleetChampions(LATENCY, 1, {case.parameters.name: row}), found.worker_s, found.notes)


def profiled_of(found: Profile, family: str | None = None, seed: int = 0) -> Profiled:
    """Return what a profile teaches; the latency model is of ``family``, by default the first that training tries."""
    chosen = next(latency_family for latency_family in FAMILIES if family in {None, latency_family.family})
    return Profiled(
        chosen.fit(found.points, found.maximum_per_s, seed),
        HighestRates.fit(found.maximum_per_s),
        found.downtime_s,
        len(found.downtimes_s),
    )


NEED_SAMPLES = ("cba", "qescalor")
RULE = "dsa"


def operator_of(contender: Contender, twin: TwinParameters) -> OperatorTwinParameters | None:
    """Return the operator to sample for a policy that chooses sizes of workers; ``None`` for any other.

    Raises ``SettingsError`` where the twin's workers have no sizes, or not the one that is asked for, or no operator
    that could be sampled.
    """
    workers = twin.workers
    if contender.settings.name not in NEED_SAMPLES:
        return None
    if not workers.sizes or workers.operator_twin is None:
        raise SettingsError(
            f"policy '{contender.label}' chooses sizes of workers, and the workers of twin '{twin.name}' have none; "
            "give its file workers.sizes and workers.operator, or take --twin enrich"
        )
    size = contender.settings.options.get("size")
    if size is not None and size not in workers.sizes:
        raise SettingsError(
            f"policy '{contender.label}': twin '{twin.name}' has no size '{size}'; it has {', '.join(workers.sizes)}"
        )
    return workers.operator_twin


def sampled(case: Case) -> Begun | None:
    """Sample the operator of the case's twin for a policy that chooses sizes; ``None`` for any other.

    The sampling instances are others than the twin's workers. What they taught is the family that training chooses on
    such samples (docs/decisions/0018-performance-models.md), without its repeats, which take 15 s.

    Raises ``SettingsError`` as :func:`operator_of`.
    """
    operator, job = operator_of(case.contender, case.parameters), case.parameters.name
    if operator is None:
        return None
    found = sample_operator(job, rule_called(RULE), operator.sizes, TwinSamplingInstances(operator, case.seed))
    model = FittedPerformance.fit(CURVES, CURVES.published, found.samples, case.seed)
    row = ChampionRow(model.family, orjson.dumps(model.to_state()).decode(), 1)
    notes = tuple(f"{size.cpu_cores:g} cores, {size.memory_mb:g} MB: {size.why}" for size in found.failed)
    return Begun(FleetChampions(PERFORMANCE, 1, {job: row}), found.worker_s, notes)


FIRST_S = 3_000.0  # of history before a model is fitted: fitted to 20 minutes, it forecasts 15 worse than a line does
AGAIN_S = 1_800.0  # between two trainings, however often drift asks
TAKES_S = 120.0  # from the request to the champion's alias: a training of one job
STEP_S = 5.0
SEEN_S = 7 * 86_400  # of the newest history: a model of what the job does now


@dataclass
class TrainedOnTheWay:
    """A :class:`perdix.control.champions.ChampionSource`: one family, fitted anew when drift asks (Daedalus 3.2).

    What is trained at one moment is in use ``TAKES_S`` later.
    """

    job: str
    family: str  # name of the forecaster's family
    seed: int = 0
    trained: int = 0  # how many trainings there were
    notes: list[str] = field(default_factory=list)  # trainings that failed, and why
    given: ChampionSource = field(default_factory=GivenChampions)  # champions of everything else
    _serving: ChampionRow | None = None
    _coming: tuple[float, ChampionRow] | None = None
    _newest_s: float = float("-inf")

    def fleet(self, name: str) -> FleetChampions:
        """Return the fleet table that is believed now."""
        if name != FORECAST or self._serving is None:
            return self.given.fleet(name)
        return FleetChampions(name, self._serving.version, {self.job: self._serving})

    def refresh(self, now_s: float) -> tuple[str, ...]:
        """Take a champion into service that is ready by now."""
        if self._coming is not None and now_s >= self._coming[0]:
            self._serving, self._coming = self._coming[1], None
        return ()

    def consider(self, twin: JobTwin, *, retrain: bool) -> None:
        """Train when there is no champion yet and history enough, or when drift asks for it."""
        now_s = float(twin.now_s)
        self.refresh(now_s)
        wanted = retrain or self.trained == 0
        if not wanted or now_s - twin.history.start_s < FIRST_S or now_s - self._newest_s < AGAIN_S:
            return
        self._newest_s = now_s
        try:
            made = fitted(self.family, _history(twin), seed=self.seed)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            # What was in use goes on; tried again when half an hour more was seen.
            minute = (now_s - twin.history.start_s) / 60.0
            self.notes.append(f"{self.family} could not be fitted after {minute:.0f} min: {error}")
            return
        self.trained += 1
        self._coming = (now_s + TAKES_S, ChampionRow(self.family, orjson.dumps(made.to_state()).decode(), self.trained))


def _history(twin: JobTwin) -> Workload:
    from_s = max(twin.history.start_s, twin.now_s - SEEN_S)
    arrived = twin.history.column("arrived", from_s)
    width = max(1, round(STEP_S / twin.step_s))
    whole = arrived[: len(arrived) // width * width].reshape(-1, width).mean(axis=1)
    return Workload(float(from_s), float(width * twin.step_s), np.asarray(whole, dtype=np.float64))
