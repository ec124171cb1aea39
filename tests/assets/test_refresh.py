"""What was landed of some jobs goes the way of a whole day: ingest, checks, features; a job that fails goes alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdix.assets.expectation_suite import load_suites
from perdix.assets.refresh import Refresh
from perdix.settings.home import Home
from perdix.telemetry.lake import Lake

DAY = "2026-03-04"
START_S = int(datetime(2026, 3, 4, 12, tzinfo=UTC).timestamp())


def landed(home: Home, job: str, cpu: float, count: int = 200) -> None:
    """An hour of one worker in OpenMetrics text."""
    families = {
        "workload_per_s": ("", 9_000.0),
        "throughput_per_s": ('{worker="w"}', 9_000.0),
        "cpu_load": ('{worker="w"}', cpu),
    }
    lines = [
        line
        for name, (labels, value) in families.items()
        for line in (f"# TYPE {name} gauge", *(f"{name}{labels} {value} {START_S + 15 * k}" for k in range(count)))
    ]
    folder = home.landing / job
    folder.mkdir(parents=True)
    (folder / "dump.txt").write_text("\n".join([*lines, "# EOF\n"]))


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_whose_samples_are_wrong_goes_no_further_and_the_others_do(spark: object, tmp_path: Path) -> None:
    home = Home(tmp_path).make()
    landed(home, "sound", 0.5)
    landed(home, "percent", 50.0)
    lake = Lake(home.lake)
    refresh = Refresh(home, lake, lambda: spark, load_suites(), START_S + 3_600.0)
    refresh.run({"sound": (), "percent": ()})
    assert {report["job"] for report in refresh.reports} == {"sound", "percent"}
    assert lake.days("workload_features", "sound") == [DAY]
    assert lake.days("job_observations", "percent") == []
    assert dict(refresh.problems) == {"percent": ["samples failed cpu_load_is_a_ratio: not trained on"]}

    again = Refresh(home, lake, lambda: spark, load_suites(), START_S + 3_600.0)
    again.run({"sound": (), "percent": ()})
    assert again.reports == [], "what the lake knows is not read again"
