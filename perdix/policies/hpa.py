"""The Kubernetes Horizontal Pod Autoscaler on CPU, the baseline that the papers compare with.

Rule and defaults as the documentation of ``autoscaling/v2`` gives them: ``ceil(current * value / target)``, skipped
inside a tolerance, stabilised over a window, limited in rate by the default scaling policies.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from perdix.policies.contract import Candidate, Decision, Reason, Situation
from perdix.policies.holding import hold
from perdix.policies.wording import workers
from perdix.settings.strict import Strict

HIGHEST = 1e6  # workers: keeps a nonsense CPU load within what can be rounded
Recommendation = tuple[float, int]  # epoch seconds, workers


class HpaOptions(Strict):
    """Options of the policy; the defaults are those of Kubernetes, with the papers' usual target.

    ``target_cpu``: mean CPU load to hold, ratio.
    ``cpu_request``: what a worker requests of the CPU that it may use, ratio. Kubernetes measures use against the
    request: at 0.66 a target of 80 % is a CPU load of 0.53.
    ``tolerance``: relative distance from the target within which nothing changes.
    ``stabilisation``: ``kubernetes``: 300 s before scaling in, none before scaling out. ``paper``: 300 s in both
    directions, as the baselines of Daedalus were run.
    ``out_window_s``, ``in_window_s``: stabilisation windows in seconds, in place of those of ``stabilisation``.
    ``out_percent``, ``out_workers``, ``in_percent``: what each ``period_s`` may change at most; out is the greater of
    the two.
    """

    target_cpu: Annotated[float, Field(gt=0, le=1)] = 0.8
    cpu_request: Annotated[float, Field(gt=0, le=1)] = 1.0
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.1
    stabilisation: Literal["kubernetes", "paper"] = "kubernetes"
    out_window_s: Annotated[float, Field(ge=0, le=3_600)] | None = None
    in_window_s: Annotated[float, Field(ge=0, le=3_600)] | None = None
    out_percent: Annotated[float, Field(ge=0)] = 100.0
    out_workers: Annotated[int, Field(ge=0)] = 4
    in_percent: Annotated[float, Field(ge=0, le=100)] = 100.0
    period_s: Annotated[float, Field(gt=0)] = 15.0

    def windows_s(self) -> tuple[float, float]:
        """Return the stabilisation windows before scaling out and in."""
        out_s, in_s = (300.0, 300.0) if self.stabilisation == "paper" else (0.0, 300.0)
        return (
            out_s if self.out_window_s is None else self.out_window_s,
            in_s if self.in_window_s is None else self.in_window_s,
        )


class Hpa:
    """The HPA's rule at each tick; its past recommendations travel in the decision's memory.

    A tick is longer than the HPA's own period of 15 s, so the rate limits apply once for each period in a tick.
    """

    name = "hpa"
    learns = False

    def __init__(self, options: HpaOptions | None = None) -> None:
        self.options = options or HpaOptions()

    def decide(self, situation: Situation) -> Decision:
        """Choose a scale-out within the bounds, or hold what runs when the CPU load is not measured."""
        cpu = situation.cpu_load
        if cpu is None or not math.isfinite(cpu) or cpu < 0:
            return hold(self.name, situation, Reason.HOLD_BLIND, f"Blind: the CPU load is {cpu}.")
        used = cpu / self.options.cpu_request
        recommended = self._recommend(situation.scale_out, used)
        history = self._history(situation, recommended)
        stable = self._stabilise(situation, history)
        limited = self._limit(situation, stable)
        chosen = situation.bounds.clamp(limited)
        steps = (
            (recommended, stable, "the stabilisation window"),
            (stable, limited, "the rate limit"),
            (limited, chosen, "the bound of the job"),
        )
        rejected = [
            Candidate.believed(situation, before, f"{why} asks for {after}")
            for before, after, why in steps
            if before != after
        ]
        candidates = (*rejected, Candidate.believed(situation, chosen))
        of = "" if self.options.cpu_request == 1.0 else f" ({used:.1%} of the request)"
        load = f"CPU load {cpu:.1%}{of} of {self.options.target_cpu:.0%} asks for {workers(recommended)}"
        turns = "".join(f"; {why} makes it {after}" for before, after, why in steps if before != after)
        return Decision(
            self.name,
            chosen,
            Reason.of_change(situation.scale_out, chosen),
            f"{load}{turns}.",
            candidates,
            memory={"recommendations": [list(item) for item in history]},
        )

    def _recommend(self, scale_out: int, used: float) -> int:
        ratio = used / self.options.target_cpu
        if abs(1.0 - ratio) <= self.options.tolerance + 1e-12:
            return scale_out
        wanted = min(scale_out * ratio, HIGHEST)
        return math.ceil(round(wanted, 9))  # 10 * 0.96 / 0.8 is 12, not 12.000000000000002

    def _history(self, situation: Situation, recommended: int) -> list[Recommendation]:
        """Return the recommendations within the longest window, oldest first, ending with the present one."""
        kept = _remembered(situation)
        if not kept:  # a fresh controller takes what runs as its first recommendation, and so does not scale in at once
            kept = [(situation.now_s, situation.scale_out)]
        oldest_s = situation.now_s - max(self.options.windows_s())
        return [item for item in kept if item[0] > oldest_s] + [(situation.now_s, recommended)]

    def _stabilise(self, situation: Situation, history: Sequence[Recommendation]) -> int:
        """Scale out only to the least, and in only to the greatest, that was recommended within the windows."""
        recommended = history[-1][1]
        out_window_s, in_window_s = self.options.windows_s()
        least = min([n for at_s, n in history if at_s > situation.now_s - out_window_s], default=recommended)
        greatest = max([n for at_s, n in history if at_s > situation.now_s - in_window_s], default=recommended)
        return min(max(situation.scale_out, least), greatest)

    def _limit(self, situation: Situation, wanted: int) -> int:
        highest = lowest = situation.scale_out
        for _ in range(max(1, int(situation.tick_interval_s / self.options.period_s))):
            grown = math.ceil(round(highest * (1.0 + self.options.out_percent / 100.0), 9))
            highest = max(highest + self.options.out_workers, grown)
            lowest = int(lowest * (1.0 - self.options.in_percent / 100.0))
            if highest >= wanted >= lowest:
                break
        return min(max(wanted, lowest), highest)


def _remembered(situation: Situation) -> list[Recommendation]:
    """Return the remembered recommendations, oldest first; what cannot be read, or lies in the future, is left out."""
    found = situation.memory.get("recommendations", [])
    kept: list[Recommendation] = []
    for item in found if isinstance(found, Sequence) else []:
        try:
            at_s, recommended = item
            entry = (float(at_s), int(recommended))
        except (TypeError, ValueError, OverflowError):
            continue
        if entry[0] <= situation.now_s:
            kept.append(entry)
    return sorted(kept)
