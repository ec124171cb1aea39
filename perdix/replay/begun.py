"""What a replay's loop knows before its first tick: trained models, and what it cost to measure what they learned."""

from dataclasses import dataclass

import numpy as np
import orjson

from perdix.control.champions import ChampionRow, FleetChampions
from perdix.models.latency.selection import FAMILIES
from perdix.models.performance.families import CURVES
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.profiling.profile import Profile
from perdix.models.profiling.profiled import Profiled
from perdix.models.profiling.tmax import HighestRates
from perdix.models.registry import LATENCY, PERFORMANCE
from perdix.models.sampling.course import rule_called
from perdix.profiling.campaign import profile
from perdix.profiling.plan import plan_for
from perdix.profiling.recording import Recording
from perdix.profiling.sampling import sample_operator
from perdix.profiling.twin_deployments import TwinDeployments
from perdix.profiling.twin_sampling import TwinSamplingInstances
from perdix.replay.case import Case
from perdix.settings.yaml_files import SettingsError
from perdix.twin.job import JobTwin


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


def sampled(case: Case) -> Begun | None:
    """Sample the operator of the case's twin for a policy that chooses sizes; ``None`` for any other.

    The sampling instances are others than the twin's workers. What they taught is the family that training chooses on
    such samples (docs/decisions/0018-performance-models.md), without its repeats, which take 15 s.

    Raises ``SettingsError`` when the twin's workers have no sizes, or not the one that is asked for, or no operator
    that could be sampled.
    """
    policy, workers, job = case.contender.settings.name, case.parameters.workers, case.parameters.name
    if policy not in NEED_SAMPLES:
        return None
    operator = workers.operator_twin
    if not workers.sizes or operator is None:
        raise SettingsError(
            f"policy '{case.contender.label}' chooses sizes of workers, and the workers of twin '{job}' have none; "
            "give its file workers.sizes and workers.operator, or take --twin enrich"
        )
    size = case.contender.settings.options.get("size")
    if size is not None and size not in workers.sizes:
        raise SettingsError(
            f"policy '{case.contender.label}': twin '{job}' has no size '{size}'; it has {', '.join(workers.sizes)}"
        )
    found = sample_operator(job, rule_called(RULE), operator.sizes, TwinSamplingInstances(operator, case.seed))
    model = FittedPerformance.fit(CURVES, CURVES.published, found.samples, case.seed)
    row = ChampionRow(model.family, orjson.dumps(model.to_state()).decode(), 1)
    notes = tuple(f"{size.cpu_cores:g} cores, {size.memory_mb:g} MB: {size.why}" for size in found.failed)
    return Begun(FleetChampions(PERFORMANCE, 1, {job: row}), found.worker_s, notes)
