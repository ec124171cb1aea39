"""How many instances of an operator type the forecast asks for."""

import math
from dataclasses import dataclass

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.policies.hosts.contract import Seen
from perdix.policies.wording import per_s
from perdix.settings.stream_job import MOST_WORKERS

ROUNDING = 1e-9


@dataclass(frozen=True)
class Demand:
    """What a type must work off, and with how many instances."""

    arriving_per_s: float  # highest forecast rate, data items/s
    instances: int  # at least 1

    def in_words(self, over: str) -> str:
        """Return it in words."""
        return f"{per_s(self.arriving_per_s)} forecast within {over} take {self.instances:,}"


@dataclass(frozen=True)
class Draining:
    """How many instances beyond the present load what waits is worth.

    While a queue is worked off by ``m`` instances for ``queue / (m each)`` seconds, all that arrives is late, too. With
    the price of an instance for a billing unit, ``m price + penalty arriving queue / (m each)`` is least at the square
    root of ``penalty arriving queue / (each price)``.
    """

    longest_s: float  # a queue must be worked off within this many seconds whatever it costs
    penalty: float = 0.0  # of one late data item
    # Of one instance for one unit: its share of a host; ``None``: not known, ``longest_s`` alone counts
    price: float | None = None

    def instances(self, queue_items: float, arriving_per_s: float, each_per_s: float) -> float:
        """Return the instances, not rounded."""
        least = queue_items / (each_per_s * self.longest_s)
        if self.price is None or self.price <= 0:
            return least
        worth = self.penalty * arriving_per_s * queue_items / (each_per_s * self.price)
        return max(least, math.sqrt(worth))


def demand(
    seen: Seen, now_s: float, ahead_s: float, *, quantile: float | None, use: float, draining: Draining
) -> Demand | None:
    """Return the instances for the highest forecast rate of the next ``ahead_s`` seconds, and for what waits.

    ``quantile``: of the forecast; its mean where ``None``, or where that was not forecast.
    ``use``: share of its capacity that an instance is planned to be used to.
    Returns ``None`` where the queue, the forecast or what an instance works off is not known.
    """
    each, queue = seen.per_instance_s, seen.queue_items
    if each is None or not math.isfinite(each) or each <= 0 or queue is None or not math.isfinite(queue) or queue < 0:
        return None
    highest = None if seen.forecast is None else highest_per_s(seen.forecast, now_s, ahead_s, quantile)
    if highest is None:
        return None
    needed = max(highest / (each * use), highest / each + draining.instances(queue, highest, each))
    return Demand(highest, math.ceil(min(max(1.0, needed - ROUNDING), MOST_WORKERS)))


def highest_per_s(forecast: Forecast, now_s: float, ahead_s: float, quantile: float | None) -> float | None:
    """Return the highest forecast rate from now on, records/s; ``None`` where the forecast says nothing of it.

    Where it reaches less far than ``ahead_s``, what it covers must do.
    """
    passed_s = now_s - forecast.origin_s
    begin = max(0, math.floor(passed_s / forecast.step_s + ROUNDING))
    end = math.ceil((passed_s + ahead_s) / forecast.step_s - ROUNDING)
    path = forecast.mean if quantile is None else forecast.quantiles.get(quantile, forecast.mean)
    steps = np.asarray(path[begin : max(end, begin + 1)], dtype=np.float64)
    if passed_s < 0 or len(steps) == 0 or not np.isfinite(steps).all():
        return None
    if quantile is not None and quantile in forecast.maxima and begin == 0:
        return float(forecast.maxima[quantile][len(steps) - 1])
    return float(max(steps.max(), 0.0))
