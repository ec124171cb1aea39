"""What of observing samples is reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from perdix.assets.observation_tasks import came_twice, write_observations
from perdix.settings.home import Home
from perdix.telemetry.lake import Lake
from tests.assets.observing import DAY, sampled

KEY = {"job": "ads", "day": DAY}


@pytest.mark.parametrize("result", [{}, {"twice": {}}, {"twice": {"workload_per_s": 0.0, "cpu_load": 0.04}}])
def test_exports_that_overlap_are_nothing_to_report(result: dict[str, dict[str, float]]) -> None:
    assert came_twice(KEY, result) == ""


def test_samples_that_are_taken_for_copies_are_reported(tmp_path: Path) -> None:
    """Two topics may have the very same rates: who exported both must be able to find out that one counts.

    However many samples of workers there are besides.
    """
    home = Home(tmp_path).make()
    sampled(home, "ads", 0.5)
    lake, keys = Lake(home.lake), {"job": "ads", "source": "b.json"}
    rows = lake.read("samples", "ads").to_pandas().drop(columns=["job", "day", "source"])
    lake.put("samples", {**keys, "day": DAY}, rows[rows["metric"] == "workload_per_s"])
    lake.put("series", keys, lake.read("series", "ads").drop_columns(["job", "source"]))
    workers = [rows[rows["metric"] == "cpu_load"].assign(series_id=n, worker=f"w{n}") for n in range(10, 30)]
    lake.put("samples", {**keys, "source": "c.json", "day": DAY}, pd.concat(workers))
    named = {"metric": "cpu_load", "name": "", "labels": "{}", "mapped": True, "kind": "gauge"}
    lake.put(
        "series",
        {**keys, "source": "c.json"},
        pd.concat(workers)[["series_id", "worker"]].drop_duplicates().assign(**named),
    )
    result = write_observations({"lake": str(home.lake), **KEY})
    assert came_twice(KEY, result).startswith(
        "ads, 2026-03-04: samples of workload_per_s count once with others (50 %), of the same series"
    )


@pytest.mark.parametrize(
    ("source", "worker", "says"),
    [("d.txt", "w", True), ("d.txt", "other", False), ("prometheus-2026-03-04.json.gz", "w", False)],
)
def test_counters_beside_rates_of_one_metric_are_reported(tmp_path: Path, source: str, worker: str, says: bool) -> None:
    """A dump beside a dashboard's CSV doubled the throughput, and nothing said so."""
    home = Home(tmp_path).make()
    sampled(home, "ads", 0.5)
    lake, keys = Lake(home.lake), {"job": "ads", "source": source}
    rows = lake.read("samples", "ads").to_pandas().drop(columns=["job", "day", "source"])
    counted = rows[rows["metric"] == "throughput_per_s"].assign(series_id=10, worker=worker)
    counted["value"] = 135_000.0 * np.arange(1, len(counted) + 1)
    lake.put("samples", {**keys, "day": DAY}, counted)
    labels = {"name": "numRecordsIn", "labels": '{"task": "Source"}', "mapped": True, "kind": "counter"}
    lake.put("series", keys, counted[["series_id", "metric", "worker"]].drop_duplicates().assign(**labels))
    said = came_twice(KEY, write_observations({"lake": str(home.lake), **KEY}))
    expected = (
        "ads, 2026-03-04: throughput_per_s is the sum of counters and of rates; where both count the same records"
    )
    assert said.startswith(expected) if says else said == ""
