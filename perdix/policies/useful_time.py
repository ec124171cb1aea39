"""How much of their time the workers work: what rules that reckon with true processing rates begin with."""

import math

from perdix.policies.contract import Situation
from perdix.policies.holding import usable

FROM_CPU = " Busy time is not measured; the CPU load stands for it."


def shares_of(situation: Situation) -> tuple[float, ...]:
    """Return the useful share of each worker's time: busy time, or CPU load where an engine does not report it."""
    return situation.worker_busy or situation.worker_cpu


def caveat(situation: Situation) -> str:
    """Return the sentence that says so where CPU load stands for busy time."""
    return "" if situation.worker_busy else FROM_CPU


def blindness(situation: Situation) -> str | None:
    """Return why no true processing rate can be computed, or ``None`` where it can."""
    shares, uptime_s = shares_of(situation), situation.uptime_s
    needed = {
        f"the throughput is {situation.throughput_per_s}": usable(situation.throughput_per_s),
        "neither the busy time nor the CPU load of every worker is known": bool(shares) and all(map(usable, shares)),
        f"{situation.scale_out} workers are running": situation.scale_out >= 1,
        f"the uptime is {uptime_s}": uptime_s is None or usable(uptime_s),
        "the time since the last rescale is not known": not math.isnan(situation.since_rescale_s),
        f"the time between ticks is {situation.tick_interval_s} s": situation.tick_interval_s > 0,
    }
    return next((why for why, fine in needed.items() if not fine), None)


def running_for_s(situation: Situation) -> float:
    """Return seconds since the job last started: its uptime, else the time since the last rescale."""
    return situation.since_rescale_s if situation.uptime_s is None else situation.uptime_s
