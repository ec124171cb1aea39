"""The contract of a policy that leases hosts and places containers (Hochreiner et al., PeerJ CS 2018, system model)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdix.models.forecasting.contract import Forecast
from perdix.policies.contract import Reason


@dataclass(frozen=True)
class OperatorType:
    """What is known of an operator type beforehand (the paper's Table 2)."""

    name: str
    # cpu_cores, memory_mb: what each instance requires; guaranteed, not a limit
    cpu_cores: float
    memory_mb: float
    duration_s: float  # the objective ``o_slo``: seconds that one data item takes where none has to wait
    # least, most: instances that must, and that may, run; ``None``: as many as there is room for
    least: int = 1
    most: int | None = None


@dataclass(frozen=True)
class Host:
    """A leased host: listed from the look after :class:`LeaseHost` on, until it is gone."""

    host_id: str
    # cores, memory_mb: all that it has
    cores: float
    memory_mb: float
    # leased_s, paid_until_s: epoch seconds: when the lease began, and the end of what is paid for: its running billing
    # time unit, or the next one where :class:`LeaseAgain` has paid for that already
    leased_s: float
    paid_until_s: float
    images: frozenset[str] = frozenset()  # operator types whose images it has cached
    ready: bool = True  # whether it has started; one that has not takes no container yet
    releasing: bool = False  # whether it was given back by :class:`ReleaseHost` and goes as soon as it is empty


@dataclass(frozen=True)
class Instance:
    """A container of one operator type: listed from the look after it was asked for on, also where its host starts.

    ``ready``: whether it works already. One that does not takes its room all the same.
    ``stopping``: whether it is being stopped. It takes its room until it is gone.
    ``replaces``: where it was asked for by :class:`Migrate`: the instance that is stopped once this one works; ``None``
    again when that one is gone.
    """

    instance_id: str
    operator: str
    host_id: str
    ready: bool = True
    stopping: bool = False
    replaces: str | None = None


@dataclass(frozen=True)
class Seen:
    """What was measured of one operator type."""

    # The last N processing durations, oldest first, seconds; the last one is ``o_d``. Empty: nothing was measured
    durations_s: tuple[float, ...] = ()
    queue_items: float | None = None  # data items that wait; ``None``: not measured
    scalings: int = 0  # times that the type was scaled out or in so far (``o_s``)
    forecast: Forecast | None = None  # data items/s that will arrive at the type; ``None`` where there is none
    per_instance_s: float | None = None  # data items/s that one instance works off; ``None`` where it is not known


@dataclass(frozen=True)
class HostsSituation:
    """All that a policy may know at one look."""

    now_s: float  # epoch seconds
    check_interval_s: float  # seconds to the next look, as planned
    unit_s: float  # billing time unit of every host
    # host_cores, host_memory_mb: of a host that could be leased
    host_cores: float
    host_memory_mb: float
    operators: Mapping[str, OperatorType]
    hosts: Mapping[str, Host]
    instances: Mapping[str, Instance]
    seen: Mapping[str, Seen]
    most_hosts: int | None = None  # how many may be leased at once; ``None``: no limit
    memory: Mapping[str, Any] = field(default_factory=dict)  # what the policy asked to remember with its last decision
    unit_price: float | None = None  # of one host for one unit; ``None``: not known


def impossible(situation: HostsSituation) -> str | None:
    """Return what no policy can decide on, in words: units, intervals and sizes that cannot be; ``None`` elsewhere."""
    given = {
        "the billing unit": situation.unit_s,
        "the time between looks": situation.check_interval_s,
        "the cores of a host": situation.host_cores,
        "the memory of a host": situation.host_memory_mb,
    }
    for host in situation.hosts.values():
        given |= {f"the cores of {host.host_id}": host.cores, f"the memory of {host.host_id}": host.memory_mb}
    for operator in situation.operators.values():
        given[f"the objective of {operator.name}"] = operator.duration_s
    for name, value in given.items():
        if not (math.isfinite(value) and value > 0):
            return f"{name} is {value:g}"
    for operator in situation.operators.values():
        for what, need in (("cores", operator.cpu_cores), ("memory", operator.memory_mb)):
            if not (math.isfinite(need) and need >= 0):
                return f"the {what} that {operator.name} needs are {need:g}"
    return None


@dataclass(frozen=True)
class LeaseHost:
    """Lease a host under the name ``host_id``, which is new."""

    host_id: str


@dataclass(frozen=True)
class LeaseAgain:
    """Pay ``host_id`` for another billing time unit once its running one ends; this takes a release back.

    A host that is neither released nor leased again by the end of its unit goes on and is paid for: nobody takes away
    what still works.
    """

    host_id: str


@dataclass(frozen=True)
class ReleaseHost:
    """Give ``host_id`` back as soon as it is empty, at the latest at the end of its running unit."""

    host_id: str


@dataclass(frozen=True)
class StartInstance:
    """Start an instance of ``operator`` on ``host_id``, as soon as that is ready and what stops there has made room."""

    operator: str
    host_id: str


@dataclass(frozen=True)
class StopInstance:
    """Stop an instance for good."""

    instance_id: str


@dataclass(frozen=True)
class Migrate:
    """Start an instance of the same type on ``host_id``, and stop ``instance_id`` once that one works."""

    instance_id: str
    host_id: str


Action = LeaseHost | LeaseAgain | ReleaseHost | StartInstance | StopInstance | Migrate


@dataclass(frozen=True)
class Step:
    """One action and why; steps are carried out in order."""

    action: Action
    reason: Reason
    why: str  # in words, with the numbers (utilities, durations, queue) that decided


@dataclass(frozen=True)
class HostsDecision:
    """What a policy chose; no steps: everything stays. ``sentence`` sums up, ``memory`` is JSON-serialisable."""

    policy: str
    steps: tuple[Step, ...]
    sentence: str
    memory: Mapping[str, Any] = field(default_factory=dict)


class HostsPolicy(Protocol):
    """Pure and deterministic: the same situation gives the same decision."""

    name: str

    def decide(self, situation: HostsSituation) -> HostsDecision:
        """Choose what to start, stop, move, lease and release."""
