"""What the gate says of a challenger, whatever the models are of: four families of them are judged, one verdict."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Whether a challenger becomes the champion, and why."""

    promoted: bool
    sentence: str
    # challenger_error, champion_error: what decided, of both on the same data that the challenger had not learned from,
    # lower is better: the score of a forecast, the error of a capacity (1.0 = 100 %), the balanced error of a latency
    # model (1.0 = 100 %), the RMSE of a performance model in records/s. NaN where one was not judged
    challenger_error: float = math.nan
    champion_error: float = math.nan
