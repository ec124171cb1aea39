"""What a job can take at each scale-out, answered from its history: behind ``perdix capacity``."""

import pandas as pd

from perdix.models.capacity.contract import Estimate
from perdix.models.capacity.scale_outs import ScaleOuts


def below_cpu(features: pd.DataFrame, cpu_below: float) -> pd.DataFrame:
    """Return the minutes of ``capacity_features`` in which the hottest worker's CPU load was below ``cpu_below``.

    Whole minutes are kept or dropped: dropping single workers would keep only the idle ones of each minute, and skew
    would look like slowness.

    Raises ``ValueError`` when no minute is left; the message names the lowest CPU load that there was.
    """
    hottest = features.groupby("ts")["cpu_load"].transform("max")
    kept = features[hottest < cpu_below]
    if kept.empty:
        lowest = hottest.min()
        found = f"the calmest minute had {lowest:.2f}" if pd.notna(lowest) else "no CPU load was measured"
        raise ValueError(f"no minute had its hottest worker below a CPU load of {cpu_below}: {found}")
    return kept


def capacity_report(features: pd.DataFrame, maximum: int, cpu_below: float | None = None) -> list[Estimate]:
    """Return the capacity of 1 .. ``maximum`` workers (at least up to what was seen) as learnt from ``features``.

    Raises ``ValueError`` when ``maximum`` is below 1, or when no usable minute is left.

    ``features``: the lake table ``capacity_features`` of one job.
    ``maximum``: largest scale-out of interest; scale-outs that were seen are reported even above it.
    ``cpu_below``: learn only from minutes in which the hottest worker stayed below this CPU load: what would have been
    said before the job was ever loaded.
    """
    if maximum < 1:
        raise ValueError(f"capacity is reported for 1 worker or more, not up to {maximum}")
    model = ScaleOuts.from_features(features if cpu_below is None else below_cpu(features, cpu_below))
    return list(model.table(max(maximum, model.scale_out or 1, *model.memory), dated=True).values())
