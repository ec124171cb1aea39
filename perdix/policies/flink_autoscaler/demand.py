"""What a vertex must be able to process, and the band within which nothing happens."""

import math
from dataclasses import dataclass

from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions


@dataclass(frozen=True)
class Demand:
    """Records/s: ``target_per_s`` that keep coming, and ``catch_up_per_s`` beside them to work off the backlog."""

    target_per_s: float
    catch_up_per_s: float = 0.0


def required_per_s(
    demand: Demand, utilisation: float, options: FlinkAutoscalerOptions, restart_s: float | None = None
) -> float:
    """Return the true rate that a demand needs at a utilisation, in whole records/s as the original rounds it.

    ``restart_s``: how long a restart lasts whose backlog is to be worked off too; ``None`` where none is reckoned with.
    """
    share = min(max(utilisation, 0.0), 1.0)
    if share == 0.0:
        return math.inf
    backlog_per_s = 0.0
    if restart_s is not None and options.catch_up_s > 0:
        backlog_per_s = demand.target_per_s * restart_s / options.catch_up_s
    required = demand.catch_up_per_s + backlog_per_s + demand.target_per_s / share
    return math.floor(required + 0.5) if math.isfinite(required) else required


def band_per_s(
    demand: Demand, options: FlinkAutoscalerOptions, restart_s: float, *, backlogged: bool
) -> tuple[float, float]:
    """Return the true rates below which more, and above which less, is wanted.

    While a backlog is worked off, the whole of a vertex may be used and less is never wanted.
    """
    low, high = (0.0, 1.0) if backlogged else options.utilisation_bounds()
    return required_per_s(demand, high, options), required_per_s(demand, low, options, restart_s)
