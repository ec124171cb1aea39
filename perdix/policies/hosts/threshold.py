"""The baseline of Hochreiner et al.: instances by the queue alone, hosts on demand (section "Baseline")."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, model_validator

from perdix.policies.contract import Reason
from perdix.policies.hosts.contract import HostsDecision, HostsSituation, Instance, ReleaseHost, Seen, impossible
from perdix.policies.hosts.fleet import Fleet
from perdix.policies.hosts.host_selection import CACHED_FACTOR
from perdix.policies.hosts.plan import Plan
from perdix.policies.hosts.scale_out_trigger import QUEUE_THRESHOLD
from perdix.settings.strict import Strict

NOTHING = Seen()


class ThresholdOptions(Strict):
    """Options of the policy; the defaults are the paper's (its program has 250, 1,250 and 20)."""

    # queue_threshold, queue_twice: more waiting items than these start one more instance of a type, or two
    queue_threshold: Annotated[float, Field(ge=0)] = QUEUE_THRESHOLD
    queue_twice: Annotated[float, Field(ge=0)] = 250.0
    queue_idle: Annotated[float, Field(ge=0)] = 1.0  # fewer stop one
    # CF of Algorithm 2, by which hosts are chosen here, too
    cached_factor: Annotated[float, Field(ge=0, le=1)] = CACHED_FACTOR

    @model_validator(mode="after")
    def _ordered(self) -> ThresholdOptions:
        if self.queue_idle > self.queue_threshold + 1:  # items are whole: fewer than one more than there may be
            raise ValueError(
                f"queue_idle {self.queue_idle:g} is above queue_threshold {self.queue_threshold:g}, so the same queue "
                "would start and stop an instance; lower queue_idle"
            )
        return self


class Threshold:
    """Leases a host when all are full, and gives one back as soon as it is empty, whatever is still paid for."""

    name = "threshold"

    def __init__(self, options: ThresholdOptions | None = None) -> None:
        self.options = options or ThresholdOptions()

    def decide(self, situation: HostsSituation) -> HostsDecision:
        """Choose what to start, stop, lease and give back."""
        wrong = impossible(situation)
        if wrong is not None:
            return HostsDecision(self.name, (), f"Held: {wrong}.", situation.memory)
        fleet = Fleet.of(situation)
        plan = Plan(situation, fleet, cached_factor=self.options.cached_factor)
        queues = {name: _queue(situation.seen.get(name, NOTHING)) for name in situation.operators}
        for name in sorted(queues, key=lambda name: (fleet.count(name) > 0, -(queues[name] or 0.0), name)):
            self._scale_out(plan, name, queues[name])
        for name in sorted(queues):
            self._scale_in(plan, name, queues[name])
        self._give_back(plan, any(queue is not None for queue in queues.values()))
        return plan.decision(self.name, "Every queue is between the thresholds", {})

    def _scale_out(self, plan: Plan, name: str, queue: float | None) -> None:
        fleet, options, of = plan.fleet, self.options, plan.situation.operators[name]
        runs = fleet.count(name)
        wanted, why = max(of.least, 1) - runs, "too few of it run" if runs else "none of it runs"
        if wanted <= 0 and queue is not None and queue > options.queue_threshold:
            wanted = (2 if queue > options.queue_twice else 1) - fleet.starting(name)
            wanted, why = wanted if of.most is None else min(wanted, of.most - runs), f"{queue:,.0f} items wait"
        for _ in range(wanted):
            if not plan.start(name, why):
                return

    def _scale_in(self, plan: Plan, name: str, queue: float | None) -> None:
        fleet, least = plan.fleet, max(plan.situation.operators[name].least, 1)
        if queue is None or queue >= self.options.queue_idle or fleet.starting(name) or plan.left(name) <= least:
            return
        held = [member.host_id for members in fleet.members.values() for member in members]

        def order(instance: Instance) -> tuple[int, str]:
            return held.count(instance.host_id), instance.instance_id

        goes = min(plan.members(name), key=order, default=None)
        if goes is not None:
            plan.stop(goes, Reason.SCALE_IN, "its queue is empty")
            plan.said.append(f"{name} gives up an instance, its queue is empty")

    def _give_back(self, plan: Plan, measured: bool) -> None:
        """Give empty hosts back, but the last one never, and none while nothing at all is measured."""
        situation = plan.situation
        used = {instance.host_id for instance in situation.instances.values()} | plan.given
        hosts = [name for name, host in situation.hosts.items() if host.ready and not host.releasing]
        for name in sorted(hosts):
            if measured and name not in used and len(hosts) - len(plan.leaving) > 1:
                plan.leaving.add(name)
                plan.add(ReleaseHost(name), Reason.SCALE_IN, "it is empty")
                plan.said.append(f"{name} is given back, it is empty")


def _queue(seen: Seen) -> float | None:
    queue = seen.queue_items
    return queue if queue is not None and math.isfinite(queue) and queue >= 0 else None
