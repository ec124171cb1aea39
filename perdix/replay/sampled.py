"""The performance model that a replay's policy begins with: sizes are sampled before the first tick (QEScalor, 2.2)."""

from __future__ import annotations

import orjson

from perdix.control.champions import ChampionRow, FleetChampions
from perdix.models.performance.families import CURVES
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.registry import PERFORMANCE
from perdix.models.sampling.course import rule_called
from perdix.profiling.sampling import sample_operator
from perdix.profiling.twin_sampling import TwinSamplingInstances
from perdix.replay.begun import Begun
from perdix.replay.case import Case
from perdix.settings.yaml_files import SettingsError

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
