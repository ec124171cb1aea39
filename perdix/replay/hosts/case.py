"""One replay of policies that lease hosts: who takes part, on which topology and pattern, with which seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from perdix.policies.hosts.build import HOSTS_POLICIES, build_hosts_policy
from perdix.policies.hosts.contract import HostsPolicy
from perdix.replay.contenders import TICK
from perdix.replay.labels import split_label, split_labels, whole
from perdix.settings.yaml_files import SettingsError
from perdix.twin.hosts.parameters import Topology

DEFAULT_POLICIES = "btu:unit_min=10,btu:unit_min=30,btu:unit_min=60,threshold"
UNIT = "unit_min"
MOST_UNIT_MIN = 31 * 24 * 60  # as of a price list
FORECASTER = "last-value"  # what it chooses by: docs/hosts.md


@dataclass(frozen=True)
class HostsContender:
    """A policy as it takes part."""

    label: str  # as the user wrote it; unique within a campaign
    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    # Billing time unit in minutes; ``None``: the longest of the topology's is what the policy knows, and what it did is
    # billed by each of them, as the paper does with its baseline
    unit_min: int | None = None
    interval_s: int | None = None  # seconds between its looks; ``None``: as the topology's file says

    def build(self) -> HostsPolicy:
        """Return the policy."""
        return build_hosts_policy(self.policy, dict(self.options))


@dataclass(frozen=True)
class HostsCase:
    """One policy on one topology, with one pattern and one seed. Picklable: it may be played in another process."""

    contender: HostsContender
    topology: Topology
    pattern: str
    seed: int
    seconds: int  # length
    failures: int = 0  # hosts that die on the way, at times that depend on the seed only
    forecaster: str | None = FORECASTER  # family of the forecast of arrivals, or ``None`` for none

    @property
    def interval_s(self) -> int:
        """Seconds between looks."""
        return self.contender.interval_s or self.topology.measuring.look_every_s

    @property
    def unit_s(self) -> int:
        """Billing time unit that the policy knows, seconds."""
        return 60 * (self.contender.unit_min or max(self.topology.costs.units_min))

    @property
    def billed_min(self) -> tuple[int, ...]:
        """Billing time units that it is billed by, minutes."""
        one = self.contender.unit_min
        return tuple(self.topology.costs.units_min) if one is None else (one,)


def hosts_contenders(text: str) -> tuple[HostsContender, ...]:
    """Return the contenders of a comma-separated list, for example ``btu:unit_min=10,threshold``.

    Options of a policy follow colons, ``unit_min`` and ``tick_s`` among them.

    Raises ``SettingsError``, naming the contender and the nearest that is known, or one that is there twice.
    """
    return tuple(_contender(label) for label in split_labels(text, HOSTS_POLICIES))


def _contender(label: str) -> HostsContender:
    name, options = split_label(label, HOSTS_POLICIES, "hosts")
    unit_min = whole(label, options, UNIT, "minutes", MOST_UNIT_MIN)
    interval_s = whole(label, options, TICK, "seconds")
    try:
        build_hosts_policy(name, dict(options), (UNIT, TICK))
    except (SettingsError, ValidationError) as error:
        raise SettingsError(f"policy '{label}': {error}") from None
    return HostsContender(label, name, options, unit_min, interval_s)
