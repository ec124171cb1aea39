"""How a job was looked after before perdix came: a plain CPU rule, so that its history has seen several scale-outs."""

import math

import numpy as np

from perdix.twin.job import JobTwin

TARGET = 0.55  # mean CPU that is aimed at; kept low enough that the hottest worker is not full
TOLERANCE = 0.1  # no change while CPU / target is within 1 +- tolerance
EVERY_S, CALM_LOOKS = 60, 10  # seconds between looks; the highest wish of this many looks is followed


def tend(twin: JobTwin, seconds: int) -> None:
    """Let ``seconds`` pass under the rule: ``ceil(scale-out x CPU / target)``, as in Kubernetes' autoscaler."""
    wishes: list[int] = []
    end_s = twin.now_s + seconds
    while twin.now_s < end_s:
        twin.step(min(EVERY_S, end_s - twin.now_s))
        wishes = [*wishes[-(CALM_LOOKS - 1) :], _wish(twin)]
        if twin.settled and max(wishes) != twin.scale_out and twin.now_s < end_s:
            twin.rescale(max(wishes), f"cpu-rule-{twin.now_s}")


def _wish(twin: JobTwin) -> int:
    recent = twin.history.column("worker_cpu", twin.now_s - twin.parameters.cpu.averaged_over_s)
    ratio = float(np.nanmean(recent)) / TARGET
    if not twin.settled or abs(ratio - 1.0) <= TOLERANCE:
        return twin.scale_out
    return min(max(math.ceil(twin.scale_out * ratio), 1), twin.parameters.workers.maximum)
