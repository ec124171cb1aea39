"""Scaling down by what is forecast: what Hochreiner et al. name as future work."""

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field

from perdix.policies.forecast_quantile import ForecastQuantile
from perdix.policies.hosts.btu import NOTHING, Btu, BtuOptions, Wanted
from perdix.policies.hosts.contract import HostsSituation
from perdix.policies.hosts.fleet import Fleet
from perdix.policies.hosts.forecast_need import Demand, Draining, demand
from perdix.policies.hosts.scale_out_trigger import Trigger
from perdix.policies.hosts.spare import Spare, capped
from perdix.policies.wording import seconds

DRAIN_S = 120.0
Demands = Callable[[HostsSituation, str, float], Demand | None]  # of a type, this many seconds ahead


class BtuForecastOptions(BtuOptions):
    """Options of the policy: those of ``btu``, and how far the forecast is trusted."""

    quantile: ForecastQuantile | None = 0.9  # of the forecast that is decided on; its mean when absent
    use: Annotated[float, Field(gt=0, le=1)] = 1.0  # share of its capacity that an instance is planned to be used to
    # Seconds within which a queue must be worked off. By default a unit where the price of hosts is known, as then more
    # instances drain it while they cost less than the items that are late meanwhile; else two minutes
    drain_s: Annotated[float, Field(gt=0)] | None = None
    # Instances are started for what comes within this many seconds: a look, and a host's start
    lead_s: Annotated[float, Field(gt=0)] = 120.0
    # Whether Algorithm 1 adds instances, too, where a forecast is known: what an instance works off may be wrong
    react: bool = False
    # As of ``btu``; all that the forecast does not need may go, because it says how many stay
    most_dropped: Annotated[float, Field(ge=0, le=1)] = 1.0


class BtuForecast(Btu):
    """As ``btu``, but forecast: the next billing unit in place of Algorithm 3, the next look in place of Algorithm 1.

    A type of which no forecast is known is scaled out by Algorithm 1, and never in.
    """

    name = "btu-forecast"
    options: BtuForecastOptions

    def __init__(self, options: BtuForecastOptions | None = None, demands: Demands | None = None) -> None:
        super().__init__(options or BtuForecastOptions())
        self._demand = demands or self._forecast_demand

    def _wanted(self, situation: HostsSituation, fleet: Fleet, triggers: Mapping[str, Trigger]) -> tuple[Wanted, ...]:
        ahead_s = self.options.lead_s
        demands = {name: self._demand(situation, name, ahead_s) for name in situation.operators}
        blind = {name: found for name, found in triggers.items() if demands[name] is None or self.options.react}
        wanted = {change.operator: change for change in super()._wanted(situation, fleet, blind)}
        for name, found in demands.items():
            if found is None:
                continue
            of = situation.operators[name]
            needed = found.instances if of.most is None else min(found.instances, of.most)
            missing = needed - fleet.count(name)
            if missing > (wanted[name].instances if name in wanted else 0):
                wanted[name] = Wanted(name, missing, found.in_words(seconds(ahead_s)))
        return tuple(wanted.values())

    def _spares(self, situation: HostsSituation, fleet: Fleet) -> dict[str, Spare]:
        """Return what may go: what the highest rate of the next billing unit does not need."""
        spares = {}
        for name in situation.operators:
            runs, found = fleet.count(name), self._demand(situation, name, situation.unit_s)
            if found is None:
                spares[name] = Spare(0, 0.0, "no forecast of it is known")
                continue
            cap = capped(runs, self.options.most_dropped, situation.operators[name].least)
            most = max(0, min(runs - found.instances, cap))
            spares[name] = Spare(most, most / runs if runs else 0.0, found.in_words(seconds(situation.unit_s)))
        return spares

    def _forecast_demand(self, situation: HostsSituation, name: str, ahead_s: float) -> Demand | None:
        options = self.options
        return demand(
            situation.seen.get(name, NOTHING),
            situation.now_s,
            ahead_s,
            quantile=options.quantile,
            use=options.use,
            draining=Draining(self._drain_s(situation), options.penalty, _price(situation, name)),
        )

    def _drain_s(self, situation: HostsSituation) -> float:
        if self.options.drain_s is not None:
            return self.options.drain_s
        return DRAIN_S if situation.unit_price is None else max(situation.unit_s, DRAIN_S)


def _price(situation: HostsSituation, name: str) -> float | None:
    """Return what an instance costs for a unit: the greater of its shares of a host's cores and memory."""
    if situation.unit_price is None:
        return None
    one = situation.operators[name]
    return situation.unit_price * max(one.cpu_cores / situation.host_cores, one.memory_mb / situation.host_memory_mb)
