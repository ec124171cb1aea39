"""Price lists: instance types, what they cost, and how a lease is billed; read from ``conf/prices/<name>.yaml``."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from perdix.settings.home import conf_part
from perdix.settings.nearest_name import meant
from perdix.settings.strict import Positive, Strict
from perdix.settings.yaml_files import SettingsError, known_file, known_names, load_known

Share = Annotated[float, Field(ge=0, lt=1)]


class Billing(Strict):
    """How a lease is billed: each started billing time unit is paid whole, and at least ``minimum_s``."""

    # Billing time unit, seconds (BTU, Hochreiner et al., PeerJ CS 2018)
    unit_s: Annotated[int, Field(ge=1, le=31 * 86_400)]
    minimum_s: Annotated[int, Field(ge=0, le=31 * 86_400)] = 0  # shortest time that is paid, seconds; whole units

    @model_validator(mode="after")
    def _whole_units(self) -> Billing:
        if self.minimum_s % self.unit_s:
            raise ValueError(
                f"minimum_s {self.minimum_s} is no multiple of unit_s {self.unit_s}, but units are paid whole; "
                f"write {math.ceil(self.minimum_s / self.unit_s) * self.unit_s}"
            )
        return self

    def paid_s(self, leased_s: float) -> float:
        """Return the seconds that are paid for a lease of ``leased_s`` seconds; a lease of 0 s is one that began."""
        units = max(1, math.ceil(leased_s / self.unit_s - 1e-9))
        return float(max(units * self.unit_s, self.minimum_s))


class Reserved(Strict):
    """What a host keeps for its own system: shares of its cores and memory that no container can be given."""

    cores_share: Share = 0.0
    memory_share: Share = 0.0


class InstanceType(Strict):
    """A virtual machine that can be leased."""

    # cores, memory_mb: of the machine, virtual cores and MB; containers can be given what the list's ``reserved``
    # leaves of them
    cores: Positive
    memory_mb: Positive
    price_per_h: Annotated[float, Field(ge=0)]  # in the list's currency, for one hour
    free: bool = False  # says that a price of 0 is meant (a machine of one's own), not forgotten
    start_up_s: Annotated[float, Field(ge=0)] = 45.0  # from the lease to the first container, seconds

    @model_validator(mode="after")
    def _free_is_meant(self) -> InstanceType:
        if self.price_per_h == 0 and not self.free:
            raise ValueError("price_per_h is 0; give the price, or say 'free: true' where nothing is paid")
        if self.free and self.price_per_h > 0:
            raise ValueError(f"is free, but price_per_h is {self.price_per_h:g}; drop one of them")
        return self


class PriceList(Strict):
    """Instance types of one provider and region."""

    name: str
    description: str = ""
    currency: Annotated[str, Field(pattern=r"^([A-Z]{3}|unit)$")]
    as_of: date  # when the prices were looked up: they change
    billing: Billing
    reserved: Reserved = Reserved()
    instance_types: Annotated[dict[str, InstanceType], Field(min_length=1)]

    def usable(self, instance_type: str) -> tuple[float, float]:
        """Return the cores and the MB that containers can be given on a host of this type. Raises ``KeyError``."""
        host = self.instance_types[instance_type]
        return host.cores * (1.0 - self.reserved.cores_share), host.memory_mb * (1.0 - self.reserved.memory_share)

    def check_type(self, instance_type: str) -> None:
        """Raise ``SettingsError``, naming the nearest one, for an instance type that is not in the list."""
        if instance_type not in self.instance_types:
            there = meant(instance_type, self.instance_types, f"known: {', '.join(self.instance_types) or 'none'}")
            raise SettingsError(f"prices '{self.name}': no instance type '{instance_type}'; {there}")


def price_list_names(folder: Path | None = None) -> list[str]:
    """Return the names of the price lists that there are, sorted."""
    return known_names(folder or conf_part("prices"))


def load_prices(name: str, folder: Path | None = None) -> PriceList:
    """Read a price list by its name in ``folder`` (by default ``conf/prices``), or from the YAML file that is named.

    Raises ``SettingsError``, naming file, line and fix; for a name that is not known, the nearest that is.
    """
    folder = folder or conf_part("prices")
    prices, path = load_known(name, folder, PriceList, "price list"), known_file(name, folder)
    if prices.name != path.stem:
        raise SettingsError(f"{path}: the list is named '{prices.name}'; rename the file or drop the key 'name'")
    return prices
