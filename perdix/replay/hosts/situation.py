"""What a policy may know of a twin of hosts at one look, and what is done of what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.policies.hosts import contract
from perdix.policies.hosts.contract import Seen
from perdix.twin.hosts.leased import ImpossibleError
from perdix.twin.hosts.system import HostsTwin

BUSY_QUANTILE = 0.75  # of the last measurements: many were taken while stalls or a lack of idle CPU held instances back


@dataclass(frozen=True)
class Carried:
    """A step of a decision and what came of it; ``refused`` says why it could not be carried out."""

    at_s: int
    action: str
    host_id: str
    instance_id: str
    operator: str
    reason: str
    why: str
    refused: str | None = None


def situation_of(
    twin: HostsTwin, check_interval_s: float, memory: Mapping[str, Any], forecasts: Mapping[str, Forecast] | None = None
) -> contract.HostsSituation:
    """Return what a policy may know now."""
    now, limits = twin.second, twin.topology.hosts
    hosts = {
        name: contract.Host(
            name,
            limits.cores,
            limits.memory_mb,
            float(host.leased_s),
            float(host.paid_until_s(now, twin.unit_s)),
            frozenset(image for image, at_s in host.images.items() if at_s <= now),
            host.ready_s <= now,
            host.releasing,
        )
        for name, host in twin.fleet.hosts.items()
    }
    instances = {
        name: contract.Instance(
            name, container.operator, container.host_id, container.ready, container.stopping, container.replaces
        )
        for name, container in twin.fleet.containers.items()
    }
    return contract.HostsSituation(
        now_s=float(now),
        check_interval_s=check_interval_s,
        unit_s=float(twin.unit_s),
        host_cores=limits.cores,
        host_memory_mb=limits.memory_mb,
        operators={
            name: contract.OperatorType(name, operator.cpu_cores, operator.memory_mb, operator.duration_s)
            for name, operator in twin.topology.operators.items()
        },
        hosts=hosts,
        instances=instances,
        seen=_seen(twin, forecasts or {}),
        most_hosts=limits.most,
        memory=memory,
        unit_price=limits.price_per_h * twin.unit_s / 3_600.0,
    )


def carry_out(twin: HostsTwin, decision: contract.HostsDecision) -> list[Carried]:
    """Carry out a decision's steps in their order; one that cannot be is reported with its reason, the rest goes on."""
    return [_carry_out(twin, step) for step in decision.steps]


def _carry_out(twin: HostsTwin, step: contract.Step) -> Carried:
    action: object = step.action  # a stranger may ask for anything
    now, fleet = twin.second, twin.fleet
    host_id = str(getattr(action, "host_id", ""))
    instance_id = str(getattr(action, "instance_id", ""))
    there = fleet.containers.get(instance_id)
    operator = there.operator if there is not None else str(getattr(action, "operator", ""))
    refused = None
    try:
        match action:
            case contract.LeaseHost():
                fleet.lease(action.host_id, now)
            case contract.LeaseAgain():
                fleet.lease_again(action.host_id, now)
            case contract.ReleaseHost():
                fleet.release(action.host_id, now)
            case contract.StartInstance():
                instance_id = fleet.start(action.operator, action.host_id, now)
            case contract.StopInstance():
                fleet.stop(action.instance_id, now)
            case contract.Migrate():
                fleet.migrate(action.instance_id, action.host_id, now)
            case _:
                refused = f"{action!r:.80} is no action"
    except ImpossibleError as error:
        refused = str(error)
    kind = type(action).__name__
    return Carried(now, kind, host_id, instance_id, operator, str(step.reason.value), step.why, refused)


def _seen(twin: HostsTwin, forecasts: Mapping[str, Forecast]) -> dict[str, Seen]:
    newest = twin.measured[-1] if twin.measured else {}
    return {
        name: Seen(
            tuple(twin.durations_s[name]),
            newest[name].queue_items if newest else None,
            twin.fleet.scaled[name],
            forecasts.get(name),
            float(np.quantile(busy, BUSY_QUANTILE)) if (busy := twin.busy_per_s[name]) else None,
        )
        for name in twin.operators
    }
