"""From a policy's name and options to the policy that leases hosts."""

from collections.abc import Callable, Mapping
from functools import partial
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

# Takes a name, its options, and those beside them as :func:`~perdix.policies.building.made_of`
build_hosts_policy = partial(made_of, HOSTS_POLICIES)
