"""The option of a policy that names a quantile of the forecast."""

from typing import Annotated

from pydantic import AfterValidator

from perdix.models.forecasting.contract import PROBABILITIES


def _known(quantile: float) -> float:
    if quantile not in PROBABILITIES:
        raise ValueError(f"forecasts have the quantiles {', '.join(str(known) for known in PROBABILITIES)}")
    return quantile


ForecastQuantile = Annotated[float, AfterValidator(_known)]
