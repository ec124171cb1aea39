"""What may be set of Daedalus, and what of it the paper prints."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from perdix.policies.forecast_quantile import ForecastQuantile
from perdix.settings.strict import Strict

KEPT_S = 600.0  # how long a scale-out is kept at least as long as it carries the load (paper, lines 1-3)


class DaedalusOptions(Strict):
    """Options of the policy. :data:`AS_PRINTED` are those with which it decides as the paper prints it.

    The defaults differ from the paper in two, because its rule scales in as early and out as little as it may: onto a
    capacity that is not sure, and whatever the stop costs those who wait. What that costs and saves on the twin:
    docs/results.md.

    ``recovery_time_s``: target of the predicted recovery time in seconds; the job's objective when absent.
    ``grace_s``: no action for so long after a rescale.
    ``recent_s``: for so long after a rescale, a scale-out that carries the present load is kept.
    ``long_lived``: whether a new scale-out must carry the maximum of the forecast within ``horizon_s``.
    ``horizon_s``: how far ahead a new scale-out must last, in seconds; the whole forecast when absent (in the paper 15
    minutes). Shorter for workloads that rise and fall within minutes, where rescales are cheap.
    ``count_lag``: whether the present consumer lag counts as work to catch up. The paper does not mention it; its
    program adds it.
    ``quantile``: decide on this quantile: of the highest rate where a capacity must carry all that comes, of the rate
    in each second where arrivals add up to a backlog. On the mean forecast when absent, as the paper does.
    ``confidence``: probability with which a scale-out other than the one that runs must have the capacity that is
    counted on: keys may fall badly after a rescale. The paper takes the mean, which is 0.5.
    ``worth_delay_s``: what a rescale must be worth: delaying every record by this many seconds, on average over the
    time for which the scale-out stays, weighs as much as the workers that the load keeps busy. Scaling in must save
    more workers than its delay weighs; it stays until the forecast leaves what it suits, ``KEPT_S`` at least. Of larger
    scale-outs that hold, the one is taken whose workers and delay over ``KEPT_S`` weigh least together. Where none
    holds, what runs is kept if less will wait so than after a rescale. When absent the delay weighs nothing, as in the
    paper.
    """

    recovery_time_s: Annotated[float, Field(gt=0)] | None = None
    grace_s: Annotated[float, Field(ge=0)] = 180.0
    recent_s: Annotated[float, Field(ge=0)] = KEPT_S
    long_lived: bool = True
    horizon_s: Annotated[float, Field(gt=0)] | None = None
    count_lag: bool = True
    quantile: ForecastQuantile | None = None
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.8
    worth_delay_s: Annotated[float, Field(gt=0)] | None = 5.0


AS_PRINTED: Mapping[str, Any] = {"confidence": 0.5, "worth_delay_s": None}
