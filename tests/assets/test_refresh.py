"""What was landed of some jobs goes the way of a whole day: ingest, checks, features; a job that fails goes alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from perdix.assets.expectation_suite import load_suites
from perdix.assets.observation_tasks import write_observations
from perdix.assets.refresh import Refresh
from perdix.assets.spark.tasks import Answer
from perdix.settings.home import Home
from perdix.telemetry.lake import Lake
from perdix.telemetry.tables import JOB_OBSERVATIONS
from tests.assets.observing import run_here, sampled

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


def observed(lake: Lake, job: str) -> Path:
    """Put a day of observations into the lake; returns their file."""
    times = pd.date_range(f"{DAY}T06:00", periods=100, freq="15s", tz="UTC")
    known = {"ts": times, "workload_per_s": 900.0, "throughput_per_s": 900.0, "workers_reporting": 1}
    lacking = [name for name in JOB_OBSERVATIONS.columns.names if name not in known]
    lake.replace("job_observations", job, DAY, pd.DataFrame(known).assign(**dict.fromkeys(lacking)))
    (path,) = lake.files("job_observations", job)
    return path


def a_week(home: Home) -> list[str]:
    """Put samples of seven days into the lake; returns the days."""
    days = [f"2026-03-0{n}" for n in range(1, 8)]
    for day in days:
        sampled(home, "ads", 0.5, day)
    return days


@pytest.mark.parametrize("broken", ["manifest", "data"])
def test_a_job_whose_files_in_the_lake_are_broken_goes_no_further_and_the_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    home = Home(tmp_path).make()
    lake = Lake(home.lake)
    observed(lake, "sound")
    path = observed(lake, "broken")
    path = path if broken == "data" else path.parent / "_manifest.json"
    path.write_bytes(b"PAR1")
    asked: list[Mapping[str, object]] = []
    monkeypatch.setattr("perdix.assets.refresh.run_tasks", lambda _, keys, __: asked.extend(keys) or [])
    refresh = Refresh(home, lake, lambda: None, load_suites(), START_S + 3_600.0)  # type: ignore[arg-type,return-value]
    refresh.run({"broken": [DAY], "sound": [DAY]})
    assert [key["job"] for key in asked] == ["sound"]
    assert list(refresh.problems) == ["broken"]
    (problem,) = refresh.problems["broken"]
    assert str(path) in problem
    assert "ingest its source again" in problem


def test_one_bad_day_keeps_no_other_day_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path).make()
    days = [f"2026-03-0{n}" for n in range(1, 8)]
    for day in days:
        sampled(home, "ads", 50.0 if day == DAY else 0.5, day)
    asked: list[Mapping[str, object]] = []
    monkeypatch.setattr("perdix.assets.refresh.run_tasks", lambda _, keys, __: asked.extend(keys) or [])
    refresh = Refresh(home, Lake(home.lake), lambda: None, load_suites(), START_S + 5 * 86_400.0)  # type: ignore[arg-type,return-value]
    refresh.run({"ads": days})
    assert [key["day"] for key in asked] == [day for day in days if day != DAY]
    (problem,) = refresh.problems["ads"]
    assert problem.startswith(f"not trained on {DAY}: samples failed cpu_load_is_a_ratio")


def test_a_bad_day_that_is_not_looked_at_is_no_fault_of_another_jobs_same_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path).make()
    for job, day, cpu in (("ads", DAY, 50.0), ("ads", "2026-03-05", 0.5), ("orders", DAY, 0.5)):
        sampled(home, job, cpu, day)
    monkeypatch.setattr("perdix.assets.refresh.run_tasks", lambda *_: [])
    refresh = Refresh(home, Lake(home.lake), lambda: None, load_suites(), START_S + 2 * 86_400.0)  # type: ignore[arg-type,return-value]
    refresh.run({"ads": ["2026-03-05"], "orders": [DAY]})
    assert [outcome.name for outcome in refresh.outcomes["samples"] if not outcome.success] == []


def test_days_whose_observation_was_cut_are_observed_by_the_next_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their samples are in the lake, so nothing pulls or ingests them again."""
    home = Home(tmp_path).make()
    lake, days = Lake(home.lake), a_week(home)
    monkeypatch.setattr("perdix.assets.refresh.run_tasks", run_here)
    now_s = START_S + 30 * 86_400.0
    refresh = Refresh(home, lake, lambda: None, load_suites(), now_s, 5)  # type: ignore[arg-type,return-value]
    refresh.run({"ads": days[6:]})
    assert lake.days("workload_features", "ads") == days[2:], "none is older than the five that a training reads"
    assert not refresh.problems


def test_days_that_were_observed_of_other_samples_are_observed_by_the_next_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a corrected export replaced them, and the run ended before it had observed them."""
    home = Home(tmp_path).make()
    lake, days = Lake(home.lake), a_week(home)
    done: list[str] = []

    def tasks(_: object, keys: list[dict[str, str]], task: Any) -> list[Answer]:
        done.extend(key["day"] for key in keys if task is write_observations)
        return run_here(_, keys, task)

    monkeypatch.setattr("perdix.assets.refresh.run_tasks", tasks)

    def refreshed() -> list[str]:
        done.clear()
        Refresh(home, lake, lambda: None, load_suites(), START_S + 3 * 86_400.0, 14).run({"ads": ()})  # type: ignore[arg-type,return-value]
        return list(done)

    assert refreshed() == days
    assert refreshed() == [], "nothing is new"
    sampled(home, "ads", 0.25, days[3])
    assert refreshed() == [days[3]]
    assert refreshed() == []
    assert set(lake.read("capacity_features", "ads", days=[days[3]])["cpu_load"].to_pylist()) == {0.25}


def test_a_day_of_wrong_samples_is_not_made_features_of_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its observations are those of the samples before, which each training would only write once more."""
    home = Home(tmp_path).make()
    done: list[str] = []

    def tasks(_: object, keys: list[dict[str, str]], task: Any) -> list[Answer]:
        done.append(task.__name__)
        return run_here(_, keys, task)

    monkeypatch.setattr("perdix.assets.refresh.run_tasks", tasks)
    for cpu, expected in ((0.5, ["write_observations", "write_features"]), (50.0, [])):
        sampled(home, "ads", cpu, DAY)
        done.clear()
        Refresh(home, Lake(home.lake), lambda: None, load_suites(), START_S + 86_400.0, 14).run({"ads": ()})  # type: ignore[arg-type,return-value]
        assert done == expected


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
    (problem,) = refresh.problems.pop("percent")
    assert problem.startswith(f"not trained on {DAY}: samples failed cpu_load_is_a_ratio: CPU loads beyond")
    assert not refresh.problems

    again = Refresh(home, lake, lambda: spark, load_suites(), START_S + 3_600.0)
    again.run({"sound": (), "percent": ()})
    assert again.reports == [], "what the lake knows is not read again"
