"""From what a tick knows to the horizon that mixes are planned for: levels, sizes, prices, bounds."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from perdix.models.forecasting.contract import Forecast
from perdix.models.mixes.problem import Problem, Sizes
from perdix.models.mixes.qcesa import INDIFFERENCE
from perdix.policies.contract import Situation
from perdix.policies.forecast_quantile import ForecastQuantile
from perdix.settings.durations import HOUR_S
from perdix.settings.strict import Strict
from perdix.telemetry.window import Values

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class MixOptions(Strict):
    """Options of the policies that choose mixes.

    ``epoch_s``: length of an epoch in seconds, at least the forecast's step: a mix is chosen to carry the highest rate
    of one.
    ``horizon_s``: how much of the forecast is planned for, seconds.
    ``quantile``: the first epoch is planned for this quantile of the forecast, those after it for as much above the
    mean as it is then; all for the mean when ``None``. (A quantile further ahead is no rise of the load, only less
    certain.).
    ``headroom``: share of the performance that is left free. What waits is worked off with it.
    ``kept_headroom``: share that must be left free of what runs for it to stay for another epoch: less than of a new
    mix, so that a load that rises a little more does not stop the job again.
    ``catch_up_s``: seconds in which the consumer lag must be worked off; the job's objective for recoveries when
    absent. It asks for more than the head-room only where that would take longer.
    ``start_s``, ``stop_s``: prices of starting and of stopping a worker, as seconds of running it.
    ``change_s``: price of a change of the mix, as seconds of running what runs: it stops the whole job, which is not in
    the paper. A plan with fewer changes is cheaper by it, so it must save that much to be worth one.
    ``refuse_extrapolated``: start no worker of a size whose performance was extrapolated. Else such sizes are used, and
    named.
    ``indifference``: share of a plan's cost for which a change is made with workers of the smallest size alone: they
    can be stopped one by one when the forecast was wrong.
    ``exact_candidates``: most mixes per epoch up to which the plan is certain to be the cheapest; beyond, it is a good
    one.
    """

    epoch_s: Annotated[float, Field(ge=1, le=86_400)] = 300.0
    horizon_s: Annotated[float, Field(ge=1, le=7 * 86_400)] = 900.0
    quantile: ForecastQuantile | None = 0.8
    headroom: Annotated[float, Field(ge=0, lt=1)] = 0.2
    kept_headroom: Annotated[float, Field(ge=0, lt=1)] = 0.05
    catch_up_s: Annotated[float, Field(gt=0)] | None = None
    start_s: Seconds = 60.0
    stop_s: Seconds = 15.0
    change_s: Seconds = 300.0
    refuse_extrapolated: bool = False
    indifference: Annotated[float, Field(ge=0, le=1)] = INDIFFERENCE
    exact_candidates: Annotated[int, Field(ge=0, le=10_000)] = 2_500


@dataclass(frozen=True)
class Horizon:
    """What is to be planned."""

    problem: Problem
    first_per_s: float  # what arrives in the first epoch at most, records/s
    staying: bool  # whether what runs may stay for the first epoch although it leaves less free than a new mix must
    epoch_s: float  # length of an epoch, seconds
    by_cores: bool  # whether cores stand for prices, because every size is free

    @property
    def length_s(self) -> float:
        """Seconds planned for."""
        return self.epoch_s * len(self.problem)


def horizon_of(situation: Situation, running: dict[str, int], options: MixOptions, only: str | None) -> Horizon:
    """Return the horizon of a situation whose load and forecast are usable.

    Raises ``ValueError`` when the sizes do not allow as many workers as the bounds ask for.

    ``running``: size -> workers that run, all of sizes that the situation knows.
    ``only``: the one size of which workers may be started; ``None``: every size.
    """
    sizes = situation.sizes
    epoch_s = max(options.epoch_s, situation.forecast.step_s)
    rates = epoch_rates_per_s(situation.forecast, situation.now_s, epoch_s, options.horizon_s, options.quantile)
    rates[0] = max(float(rates[0]), situation.workload_per_s)
    by_cores = all(size.price_per_h == 0 for size in sizes.values())
    per_s = np.array([size.per_s for size in sizes.values()])
    price_per_s = np.array([size.cpu_cores if by_cores else size.price_per_h for size in sizes.values()]) / HOUR_S
    begin = np.array([running.get(name, 0) for name in sizes], dtype=np.int64)
    levels = demanded_per_s(situation, rates, epoch_s, options.headroom, options.catch_up_s)
    kept = float(demanded_per_s(situation, rates[:1], epoch_s, options.kept_headroom, options.catch_up_s)[0])
    least, runs_per_s = situation.bounds.minimum, float(begin @ per_s)
    staying = kept <= runs_per_s < levels[0]
    if staying:
        levels[0] = runs_per_s
    if situation.lag_records is None:  # what may still wait is not known, so nothing is taken away
        levels = np.maximum(levels, runs_per_s)
        least = min(max(least, situation.scale_out), situation.bounds.maximum)
    change = float(begin @ price_per_s) * options.change_s
    made = Sizes.of(
        tuple(sizes),
        per_s,
        price_per_s * epoch_s,
        start=price_per_s * options.start_s,
        stop=price_per_s * options.stop_s,
        most=[_most(situation, name, running, options, only) for name in sizes],
    )
    problem = Problem.of(made, levels, begin, least, situation.bounds.maximum, change=change)
    return Horizon(problem, float(rates[0]), staying, epoch_s, by_cores)


def demanded_per_s(
    situation: Situation, rates: Values, epoch_s: float, headroom: float, catch_up_s: float | None
) -> Values:
    """Return what each epoch asks for, records/s: head-room, or the lag worked off in time where that is more."""
    catch_up_s = catch_up_s or situation.objectives.recovery_time_s
    begins_s = epoch_s * np.arange(len(rates))
    lag_per_s = np.where(begins_s < catch_up_s, (situation.lag_records or 0.0) / catch_up_s, 0.0)
    return np.asarray(np.maximum(rates / (1.0 - headroom), rates + lag_per_s))


def epoch_rates_per_s(
    forecast: Forecast, now_s: float, epoch_s: float, horizon_s: float, quantile: float | None
) -> Values:
    """Return the highest rate of each epoch from now on, records/s; one epoch at least, also where it is cut short.

    Mean rates, raised by as much as the quantile is above the mean in the first epoch, if there is such a quantile to
    rely on.
    """
    rates = _highest_per_s(forecast, forecast.mean, now_s, epoch_s, horizon_s)
    chosen = None if quantile is None else forecast.quantiles.get(quantile)
    if chosen is None or not bool(np.isfinite(chosen).all()) or not rates[0] > 0:
        return rates
    first = _highest_per_s(forecast, chosen, now_s, epoch_s, epoch_s)[0]
    return np.asarray(rates * max(float(first / rates[0]), 1.0))


def _highest_per_s(forecast: Forecast, rates: Values, now_s: float, epoch_s: float, horizon_s: float) -> Values:
    past_s = max(now_s - forecast.origin_s, 0.0)
    left_s = forecast.horizon_s - past_s
    count = max(1, math.ceil(min(horizon_s, left_s) / epoch_s - 1e-9))
    highest = []
    for epoch in range(count):
        begin = math.floor((past_s + epoch * epoch_s) / forecast.step_s + 1e-9)
        end = math.ceil((past_s + (epoch + 1) * epoch_s) / forecast.step_s - 1e-9)
        highest.append(float(np.max(rates[min(begin, len(rates) - 1) : max(end, begin + 1)])))
    return np.asarray(np.maximum(np.array(highest), 0.0))


def _most(situation: Situation, name: str, running: dict[str, int], options: MixOptions, only: str | None) -> int:
    if only is not None and name != only:
        return 0
    if options.refuse_extrapolated and situation.sizes[name].extrapolated:
        return running.get(name, 0)
    return situation.bounds.maximum
