"""From a policy's name and options to the policy that leases hosts."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from perdix.policies.building import made_of
from perdix.policies.hosts.btu import Btu, BtuOptions
from perdix.policies.hosts.btu_forecast import BtuForecast, BtuForecastOptions
from perdix.policies.hosts.contract import HostsPolicy
from perdix.policies.hosts.threshold import Threshold, ThresholdOptions
from perdix.settings.strict import Strict

HOSTS_POLICIES: Mapping[str, tuple[type[Strict], Callable[[Any], HostsPolicy]]] = {
    "btu": (BtuOptions, Btu),
    "btu-forecast": (BtuForecastOptions, BtuForecast),
    "threshold": (ThresholdOptions, Threshold),
}


def build_hosts_policy(
    name: str, options: Mapping[str, Any] | None = None, beside: Collection[str] = ()
) -> HostsPolicy:
    """Return the policy ``name`` with ``options``; raises as :func:`~perdix.policies.building.made_of`."""
    return made_of(HOSTS_POLICIES, name, options, beside)
