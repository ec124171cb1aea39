"""Situations of hosts to start from, and what every decision on them must keep to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.policies.hosts.contract import (
    Host,
    HostsDecision,
    HostsSituation,
    Instance,
    LeaseAgain,
    LeaseHost,
    Migrate,
    OperatorType,
    ReleaseHost,
    Seen,
    StartInstance,
    StopInstance,
)

NOW_S = 1_700_000_000.0
UNIT_S = 600.0
CORES, MEMORY_MB = 4.0, 7_168.0
WELL = Seen((0.4, 0.4, 0.4, 0.4, 0.4), 0.0)  # below the objective of operator() and nothing waits
LATE = Seen((0.4, 0.5, 0.6, 0.8, 0.9), 120.0)
BUSY = Seen((0.5, 0.5, 0.5, 0.5, 0.5), 20.0)  # a little waits: utility 1 + instances - 0.8333 - scalings


def operator(name: str, cores: float = 0.5, memory_mb: float = 500.0, duration_s: float = 0.6) -> OperatorType:
    """Return an operator type."""
    return OperatorType(name, cores, memory_mb, duration_s)


def host(name: str, left_s: float = 400.0, **changes: Any) -> Host:
    """Return a host whose unit ends in ``left_s`` seconds."""
    end_s = NOW_S + left_s
    given = {"host_id": name, "cores": CORES, "memory_mb": MEMORY_MB, "leased_s": end_s - UNIT_S, "paid_until_s": end_s}
    return Host(**{**given, **changes})


def instances(**placed: Mapping[str, int]) -> dict[str, Instance]:
    """Return instances that work: ``instances(A={"host-1": 2})``."""
    found = {}
    for name, hosts in placed.items():
        for host_id, count in hosts.items():
            for _ in range(count):
                key = f"{name}-{sum(instance.operator == name for instance in found.values()) + 1}"
                found[key] = Instance(key, name, host_id)
    return found


def situation(
    operators: list[OperatorType], hosts: list[Host], placed: Mapping[str, Instance], **changes: Any
) -> HostsSituation:
    """Return a situation in which all operators do well unless ``seen`` says otherwise."""
    seen = {vertex.name: WELL for vertex in operators} | dict(changes.pop("seen", {}))
    given = {
        "now_s": NOW_S,
        "check_interval_s": 60.0,
        "unit_s": UNIT_S,
        "host_cores": CORES,
        "host_memory_mb": MEMORY_MB,
        "operators": {vertex.name: vertex for vertex in operators},
        "hosts": {leased.host_id: leased for leased in hosts},
        "instances": dict(placed),
        "seen": seen,
    }
    return HostsSituation(**{**given, **changes})


def forecast(*rates: float, step_s: float = 60.0) -> Forecast:
    """Return a forecast whose quantiles are its mean."""
    path = np.array(rates)
    return Forecast(NOW_S, step_s, path, {0.5: path, 0.8: path, 0.9: path, 0.95: path}, "given", 1)


def actions(decision: HostsDecision) -> list[Any]:
    """Return the actions alone."""
    return [step.action for step in decision.steps]


def broken_rules(now: HostsSituation, decision: HostsDecision) -> list[str]:
    """Return what a decision does that cannot or must not be done; carried out step by step, without the planner."""
    free = {name: [leased.cores, leased.memory_mb] for name, leased in now.hosts.items()}
    for instance in now.instances.values():
        _take(free, instance.host_id, now.operators[instance.operator])
    replaced = {instance.replaces for instance in now.instances.values() if instance.replaces and not instance.stopping}
    working = Counter(
        instance.operator for instance in now.instances.values() if instance.ready and not instance.stopping
    )
    was = dict(working)
    leaving, gone, moved, said = set(), set(), set(), []
    promised: Counter[tuple[str, str]] = Counter()
    targets: set[str] = set()
    for action in actions(decision):
        match action:
            case LeaseHost(host_id):
                if host_id in free:
                    said.append(f"{host_id} is leased twice")
                free[host_id] = [now.host_cores, now.host_memory_mb]
            case StartInstance(name, host_id):
                targets.add(host_id)
                if host_id not in free or (host_id in now.hosts and now.hosts[host_id].releasing):
                    said.append(f"{name} starts on {host_id}, which is not there or leaves")
                    continue
                _take(free, host_id, now.operators[name])
                if min(free[host_id]) < -1e-6:
                    said.append(f"{name} has no room on {host_id}: {free[host_id]}")
            case StopInstance(key):
                one = now.instances[key]
                if one.stopping or key in gone or key in moved:
                    said.append(f"{key} is stopped twice")
                gone.add(key)
                promised[one.operator, one.host_id] += 1
                working[one.operator] -= one.ready
                if one.ready and working[one.operator] < 1:
                    said.append(f"the last {one.operator} is stopped")
                _give(free, one.host_id, now.operators[one.operator])
            case Migrate(key, host_id):
                targets.add(host_id)
                one = now.instances[key]
                if one.stopping or key in gone or key in moved or key in replaced:
                    said.append(f"{key} is moved, and goes already")
                if host_id == one.host_id or not now.hosts[host_id].ready or now.hosts[host_id].releasing:
                    said.append(f"{key} is moved to {host_id}, which does not take it")
                moved.add(key)
                _take(free, host_id, now.operators[one.operator])
                if min(free[host_id]) < -1e-6:
                    said.append(f"{key} has no room on {host_id}: {free[host_id]}")
            case ReleaseHost(host_id):
                leaving.add(host_id)
            case LeaseAgain(host_id):
                if host_id not in now.hosts:
                    said.append(f"{host_id} is leased again, and is not there")
    for host_id in leaving:
        left = [
            key
            for key, instance in now.instances.items()
            if instance.host_id == host_id and not instance.stopping and key not in gone | moved | replaced
        ]
        if left:
            said.append(f"{host_id} is given back with {left} on it")
    if leaving & targets:
        said.append(f"{leaving & targets} are given back and get instances")
    staying = [n for n, leased in now.hosts.items() if leased.ready and not leased.releasing and n not in leaving]
    if leaving and not staying:
        said.append("the last host is given back")
    if now.most_hosts is not None and len(free) > max(now.most_hosts, len(now.hosts)):
        said.append("more hosts are leased than may be")
    said += [f"nothing of {name} is left" for name in was if was[name] > 0 and working[name] < 1]
    return said


def _take(free: dict[str, list[float]], host_id: str, needs: OperatorType) -> None:
    if host_id in free:
        free[host_id][0] -= needs.cpu_cores
        free[host_id][1] -= needs.memory_mb


def _give(free: dict[str, list[float]], host_id: str, needs: OperatorType) -> None:
    free[host_id][0] += needs.cpu_cores
    free[host_id][1] += needs.memory_mb
