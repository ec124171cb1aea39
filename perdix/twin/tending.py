"""How a job was looked after before perdix came: a plain CPU rule, so that its history has seen several scale-outs."""

import math
from dataclasses import dataclass

import numpy as np

from perdix.twin.job import JobTwin


@dataclass(frozen=True)
class CpuRule:
    """``ceil(scale-out x CPU / target)`` as in Kubernetes' autoscaler: part of the simulated past, not a policy."""

    target: float = 0.55  # mean CPU that is aimed at; kept low enough that the hottest worker is not full
    tolerance: float = 0.1  # no change while CPU / target is within 1 +- tolerance
    every_s: int = 60  # seconds between looks; the highest wish of the last ``calm_looks`` looks is followed
    calm_looks: int = 10


def tend(twin: JobTwin, seconds: int, rule: CpuRule | None = None) -> None:
    """Let ``seconds`` pass under the rule."""
    rule = rule or CpuRule()
    wishes: list[int] = []
    end_s = twin.now_s + seconds
    while twin.now_s < end_s:
        twin.step(min(rule.every_s, end_s - twin.now_s))
        wishes = [*wishes[-(rule.calm_looks - 1) :], _wish(twin, rule)]
        if twin.settled and max(wishes) != twin.scale_out and twin.now_s < end_s:
            twin.rescale(max(wishes), f"cpu-rule-{twin.now_s}")


def _wish(twin: JobTwin, rule: CpuRule) -> int:
    recent = twin.history.column("worker_cpu", twin.now_s - twin.parameters.cpu.averaged_over_s)
    ratio = float(np.nanmean(recent)) / rule.target
    if not twin.settled or abs(ratio - 1.0) <= rule.tolerance:
        return twin.scale_out
    return min(max(math.ceil(twin.scale_out * ratio), 1), twin.parameters.workers.maximum)
