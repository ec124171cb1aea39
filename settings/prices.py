"""Price lists: instance types, what they cost, and how a lease is billed; read from ``conf/prices/<name>.yaml``."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field

from settings.home import conf_folder
from settings.stream_job import Strict
from settings.yaml_files import load_model

Positive = Annotated[float, Field(gt=0)]


class Billing(Strict):
    """How a lease is billed: each started billing time unit is paid whole, and at least ``minimum_s``.

    Attributes
    ----------
    unit_s
        Billing time unit, seconds (BTU, Hochreiner et al., PeerJ CS 2018).
    minimum_s
        Shortest time that is paid, seconds.
    """

    unit_s: Annotated[int, Field(ge=1, le=31 * 86_400)]
    minimum_s: Annotated[int, Field(ge=0, le=31 * 86_400)] = 0

    def paid_s(self, leased_s: float) -> float:
        """Return the seconds that are paid for a lease of ``leased_s`` seconds; a lease of 0 s is one that began."""
        units = max(1, math.ceil(leased_s / self.unit_s - 1e-9))
        return float(max(units * self.unit_s, self.minimum_s))


class InstanceType(Strict):
    """A virtual machine that can be leased.

    Attributes
    ----------
    cores, memory_mb
        What containers can be given, virtual cores and MB.
    price_per_h
        In the list's currency, for one hour.
    start_up_s
        From the lease to the first container, seconds.
    """

    cores: Positive
    memory_mb: Positive
    price_per_h: Annotated[float, Field(ge=0)]
    start_up_s: Annotated[float, Field(ge=0)] = 45.0


class PriceList(Strict):
    """Instance types of one provider and region.

    Attributes
    ----------
    as_of
        When the prices were looked up: they change.
    """

    name: str
    description: str = ""
    currency: Annotated[str, Field(pattern=r"[A-Z]{3}|unit")]
    as_of: date
    billing: Billing
    instance_types: Annotated[dict[str, InstanceType], Field(min_length=1)]

    def cost(self, instance_type: str, leased_s: float) -> float:
        """Return what a lease of ``leased_s`` seconds costs, in the list's currency. Raises ``KeyError``."""
        return self.billing.paid_s(leased_s) / 3600.0 * self.instance_types[instance_type].price_per_h


def prices_folder() -> Path:
    """Return the folder of the price lists."""
    return conf_folder() / "prices"


def load_prices(name: str, folder: Path | None = None) -> PriceList:
    """Read the price list called ``name``. Raises ``SettingsError`` naming file, line and mend."""
    return load_model((folder or prices_folder()) / f"{name}.yaml", PriceList, name=name)
