"""What perdix pulled itself is removed once it is old; what a user ingested stays."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from perdix.assets.resources import Workspace
from perdix.assets.retention import forget_pulled
from perdix.settings.home import Home
from perdix.settings.product import ProductSettings, TrainingSettings
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.telemetry.lacking import lacking, remember_asked
from perdix.telemetry.lake import Lake
from perdix.telemetry.landing import pulled_name
from perdix.telemetry.tables import TABLES
from tests.assets.observing import NoSpark

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.ingest import samples
    from perdix.assets.recent_range import recent_range

NOW_S = 1_788_220_800.0  # 2026-09-01
BY_HAND = "mine.csv"
WHOLE_DAYS = tuple(name for name, table in TABLES.items() if table.partition == ("job", "day"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


def nothing(table: str) -> pa.Table:
    return TABLES[table].columns.empty_table()


def a_day(home: Home, day: str, source: str | None = None, job: str = "ads") -> Path:
    """A day of a job in the landing folder and in every table of the lake."""
    lake, source = Lake(home.lake), source or pulled_name(day)
    landed = home.landing / job / source
    landed.parent.mkdir(parents=True, exist_ok=True)
    landed.write_text("")
    sample = {"series_id": 1, "metric": "workload_per_s", "worker": None, "ts": None, "value": 1.0, "mask": None}
    rows = pa.Table.from_pylist([sample], schema=TABLES["samples"].columns)
    lake.put("samples", {"job": job, "day": day, "source": source}, rows)
    for table in ("series", "sources", "quarantine"):
        lake.put(table, {"job": job, "source": source}, nothing(table))
    for table in WHOLE_DAYS:
        lake.replace(table, job, day, nothing(table))
    return landed


def held(home: Home, job: str = "ads") -> set[str]:
    """The days and sources that are anywhere in the lake."""
    return {
        value
        for table in TABLES
        for part in Lake(home.lake).manifests(table, job)
        for key, value in part.keys.items()
        if key != "job"
    }


def forgotten(home: Home, keep_days: int = 90, asked: tuple[str, ...] = (), job: str = "ads") -> list[str]:
    return forget_pulled(home, Lake(home.lake), job, keep_days, NOW_S, asked)


def test_days_before_the_last_ones_are_gone_from_the_landing_folder_and_every_table(home: Home) -> None:
    old, new = a_day(home, "2026-06-02"), a_day(home, "2026-08-31")
    a_day(home, "2026-06-03")
    assert forgotten(home) == ["2026-06-02"]
    assert (old.exists(), new.exists()) == (False, True)
    assert held(home) == {day for known in ("2026-06-03", "2026-08-31") for day in (known, pulled_name(known))}
    assert not list(home.lake.rglob("*2026-06-02*")), "no folder stays, not even an empty one"
    assert forgotten(home) == []


def test_what_was_ingested_by_hand_stays_with_all_that_was_made_of_it(home: Home) -> None:
    pulled, given = a_day(home, "2026-01-02"), a_day(home, "2026-01-02", BY_HAND)
    a_day(home, "2026-08-31")
    assert forgotten(home) == ["2026-01-02"]
    assert (pulled.exists(), given.exists()) == (False, True)
    parts = Lake(home.lake).manifests
    assert [part.keys["source"] for part in parts("samples", "ads", days=["2026-01-02"])] == [BY_HAND]
    assert all(parts(table, "ads", days=["2026-01-02"]) for table in WHOLE_DAYS)


def test_a_job_of_which_nothing_new_comes_keeps_its_last_days(home: Home) -> None:
    """Its Prometheus is away, or the job was stopped in the spring: its newest day counts, and not today."""
    a_day(home, "2025-03-01")
    a_day(home, "2025-04-01")
    before = held(home)
    assert forgotten(home) == []
    assert held(home) == before
    assert forgotten(home, keep_days=31) == ["2025-03-01"]


def test_a_day_that_was_asked_for_stays_until_the_next_run(home: Home) -> None:
    """A backfill of a day in the spring: what it derives must find its samples."""
    a_day(home, "2026-03-01")
    a_day(home, "2026-08-31")
    assert forgotten(home, asked=("2026-03-01",)) == []
    assert forgotten(home) == ["2026-03-01"]


@pytest.mark.parametrize("ahead", ["2026-09-02", "2027-08-31"])
def test_a_day_of_a_clock_that_ran_ahead_makes_no_day_old(home: Home, ahead: str) -> None:
    for day in ("2026-08-31", "2026-09-01", ahead):
        a_day(home, day)
    assert forgotten(home, keep_days=2) == []


def test_a_day_that_is_gone_is_lacking_again_once_trainings_read_that_far_back(home: Home) -> None:
    """It was taken for one that was asked for, and of which there is nothing."""
    job = StreamJob(name="ads", prometheus=PrometheusSource(url="http://prometheus:9090"))
    for day in ("2026-06-02", "2026-08-31"):
        a_day(home, day)
    asked_s = NOW_S - 91 * 86_400.0, NOW_S - 86_400.0
    remember_asked(home, job, [asked_s], [(NOW_S - 86_400.0, NOW_S)])
    assert forgotten(home) == ["2026-06-02"]
    first, last = lacking(home, Lake(home.lake), job, NOW_S, 100)
    assert first == (NOW_S - 100 * 86_400.0, pytest.approx(NOW_S - 90 * 86_400.0, abs=1.0))
    assert last[1] == NOW_S, "what was answered in part"
    (home.landing / "ads" / ".asked.json").write_text("[]")
    a_day(home, "2026-06-02")
    assert forgotten(home) == ["2026-06-02"], "what cannot be read keeps no day"


def test_the_day_in_which_the_history_of_a_training_begins_is_not_removed_and_pulled_again_by_each(home: Home) -> None:
    """A history of so many days begins and ends within a day, so that it touches another one."""
    job = StreamJob(name="ads", prometheus=PrometheusSource(url="http://prometheus:9090"))
    noon_s, settings = NOW_S + 43_200.0, ProductSettings(training=TrainingSettings(history_days=120))
    for day in ("2026-05-03", "2026-05-04", "2026-09-01"):
        a_day(home, day)
    remember_asked(home, job, [(noon_s - 120 * 86_400.0, noon_s)])
    assert forget_pulled(home, Lake(home.lake), "ads", settings.kept_days, noon_s) == ["2026-05-03"]
    assert lacking(home, Lake(home.lake), job, noon_s, 120) == ()


def test_one_that_was_cut_off_is_finished_by_the_next(home: Home) -> None:
    a_day(home, "2026-06-02").unlink()
    a_day(home, "2026-08-31")
    Lake(home.lake).drop("samples", {"job": "ads", "day": "2026-06-02", "source": pulled_name("2026-06-02")})
    assert forgotten(home) == ["2026-06-02"]
    assert not list(home.lake.rglob("*2026-06-02*"))


def test_another_job_and_a_file_that_is_only_named_like_a_day_are_left_alone(home: Home) -> None:
    a_day(home, "2026-08-31")
    a_day(home, "2026-06-02", job="other")
    odd = a_day(home, "2026-06-02", "prometheus-2026-13-45.json.gz")
    assert forgotten(home) == []
    assert odd.exists()
    assert held(home, "other") == {"2026-06-02", pulled_name("2026-06-02")}


def test_a_job_without_anything_is_nothing(home: Home) -> None:
    assert forgotten(home, job="nobody") == []


@pytest.mark.parametrize("asset", [samples, recent_range])
def test_the_daily_ingest_and_a_training_remove_what_is_old(tmp_path: Path, home: Home, asset: Any) -> None:
    """A day that a backfill asks for stays in the ingest; a job whose manifest is broken keeps no other's days."""
    (tmp_path / "perdix.yaml").write_text("lake: {keep_days: 20}\n")
    days = ("2026-03-01", "2026-03-02", "2026-08-31")
    for job in ("ads", "broken"):
        for day in days:
            a_day(home, day, job=job).unlink()
    (home.lake / "sources" / "job=broken" / f"source={pulled_name(days[0])}" / "_manifest.json").write_text('{"tab')
    workspace = Workspace(home=str(home.root), conf=str(tmp_path))
    with dg.DagsterInstance.ephemeral() as instance, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        instance.add_dynamic_partitions("stream_jobs", ["ads", "broken"])
        keys = [days[0]] if asset is samples else ["ads", "broken"]
        done = dg.materialize(
            [asset],
            tags={"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]},
            resources={"workspace": workspace, "spark": NoSpark(workspace=workspace)},
            instance=instance,
        )
        logged = [entry.user_message for entry in instance.all_logs(done.run_id) if "removed" in entry.user_message]
    assert done.success
    assert held(home) == {day for known in days if known in {*keys, days[2]} for day in (known, pulled_name(known))}
    gone = days[1] if asset is samples else days[0]
    assert logged == [f"ads: what was pulled of {gone} to {days[1]} is removed; 20 days are kept"]
