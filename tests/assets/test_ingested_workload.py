"""An ingested job's workload, from the lake to a replay's trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from perdix.assets.history import ingested
from perdix.replay.asked import twin_and_trace
from perdix.telemetry.lake import Lake

NOW_S = pd.Timestamp("2026-02-01", tz="UTC").timestamp()


def test_all_of_it_that_is_in_the_lake_is_the_trace(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    for day, level in (("2026-01-30", 100.0), ("2026-01-31", 200.0)):
        times = pd.date_range(f"{day}T23:00", f"{day}T23:59:50", freq="10s", tz="UTC")
        rates = level + np.arange(len(times), dtype=np.float64) % 7
        lake.replace("workload_features", "ramp", day, pd.DataFrame({"ts": times, "workload_per_s": rates}))
    jobs = ingested(lake, NOW_S)
    assert list(jobs.names()) == ["ramp"]
    parameters, trace = twin_and_trace("ramp", None, 3_600, jobs=jobs, fill_gaps=True)
    assert parameters.name == "wordcount"
    assert trace.step_s == 10.0
    assert trace.peak == 206.0
    assert 24.9 <= trace.length_s / 3_600.0 <= 25.1, "both days, and the gap between them"
    assert trace.notes[0] == "the workload of the ingested job 'ramp'"
