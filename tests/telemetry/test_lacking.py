"""What the lake lacks of a live job: not only what came since, and nothing twice."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from perdix.settings.durations import DAY_S
from perdix.settings.home import Home
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.telemetry.lacking import Ranges, lacking, lacking_of_day, remember_asked
from perdix.telemetry.lake import Lake
from perdix.telemetry.tables import SOURCES

NOW_S = datetime(2026, 3, 5, 1, 0, tzinfo=UTC).timestamp()
HOUR_S = 3_600.0
JOB = StreamJob(name="wordcount", prometheus=PrometheusSource(url="http://prometheus:9090"))
PULLED, BY_HAND = "prometheus-2026-03-04.json.gz", "incident.csv"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path).make()
    (made.landing / "wordcount").mkdir(parents=True)
    return made


def holds(home: Home, source: str, first_h: float, last_h: float) -> None:
    """Let a source reach from and to this many hours before now."""
    first, last = (datetime.fromtimestamp(NOW_S - hours * HOUR_S, UTC) for hours in (first_h, last_h))
    zero = dict.fromkeys(("bytes", "read", "kept", "masked", "quarantined", "unmapped"), 0)
    row = {"file": source, "format": "", "digest": "", **zero, "first_ts": first, "last_ts": last, "remarks": ""}
    table = pa.Table.from_pylist([row], schema=SOURCES.columns)
    Lake(home.lake).put("sources", {"job": "wordcount", "source": source}, table)


def in_hours(ranges: Ranges) -> list[tuple[float, float]]:
    """Ranges as hours before now."""
    return [(round((NOW_S - a_s) / HOUR_S, 3), round((NOW_S - b_s) / HOUR_S, 3)) for a_s, b_s in ranges]


def lacked(home: Home, days: int = 1, job: StreamJob = JOB, *, again: bool = False) -> list[tuple[float, float]]:
    return in_hours(lacking(home, Lake(home.lake), job, NOW_S, days, again=again))


def test_a_job_that_the_lake_does_not_know_is_lacking_as_far_back_as_training_looks(home: Home) -> None:
    assert lacking(home, Lake(home.lake), JOB, NOW_S, 14) == ((NOW_S - 14 * DAY_S, NOW_S),)


def test_what_came_since_begins_right_after_the_newest_sample(home: Home) -> None:
    holds(home, PULLED, 24.0, 2.0)
    ((from_s, until_s),) = lacking(home, Lake(home.lake), JOB, NOW_S, 1)
    assert (round(from_s - (NOW_S - 2 * HOUR_S), 6), until_s) == (0.001, NOW_S)


def test_a_day_that_a_schedule_pulled_hides_nothing_before_it(home: Home) -> None:
    """A new job whose first day was pulled at midnight is trained on two weeks all the same."""
    holds(home, PULLED, 25.0, 1.0)
    assert lacked(home, 14) == [(336.0, 25.0), (1.0, 0.0)]


def test_a_day_on_which_the_server_was_away_is_pulled_later(home: Home) -> None:
    for day, first_h in (("02", 73.0), ("04", 25.0)):
        holds(home, f"prometheus-2026-03-{day}.json.gz", first_h, first_h - 24.0)
    assert lacked(home, 3) == [(49.0, 25.0), (1.0, 0.0)]


def test_what_exports_by_hand_hold_is_cut_out_and_what_lies_before_is_not(home: Home) -> None:
    holds(home, PULLED, 24.0, 8.0)
    holds(home, BY_HAND, 2.0, 1.0)
    assert lacked(home) == [(8.0, 2.0), (1.0, 0.0)]


def test_gaps_of_minutes_between_sources_are_not_filled(home: Home) -> None:
    """There what is pulled would be added to what the others hold."""
    for hours in (5, 4, 2):
        holds(home, f"{hours}.csv", hours, hours - 1.0 + 1 / 60)
    assert lacked(home) == [(24.0, 5.0), (3.017, 2.0), (1.017, 0.0)]


def test_what_was_asked_for_and_is_not_there_is_not_asked_for_twice(home: Home) -> None:
    remember_asked(home, JOB, [(NOW_S - 24 * HOUR_S, NOW_S - 12 * HOUR_S)])
    remember_asked(home, JOB, [(NOW_S - 12 * HOUR_S, NOW_S - 3 * HOUR_S)])
    assert lacked(home) == [(3.0, 0.0)]
    elsewhere = PrometheusSource(url="http://prometheus:9090", selector={"job_name": "words"})
    assert lacked(home, job=JOB.model_copy(update={"prometheus": elsewhere})) == [(24.0, 0.0)], "other questions"


def test_what_was_answered_in_part_is_lacking_until_it_is_answered_whole(home: Home) -> None:
    holds(home, PULLED, 24.0, 2.0)
    remember_asked(home, JOB, [(NOW_S - 6 * HOUR_S, NOW_S - 2 * HOUR_S)], [(NOW_S - 24 * HOUR_S, NOW_S - 6 * HOUR_S)])
    assert lacked(home) == [(24.0, 6.0), (2.0, 0.0)]
    remember_asked(home, JOB, [(NOW_S - 24 * HOUR_S, NOW_S - 6 * HOUR_S)])
    assert lacked(home) == [(2.0, 0.0)]


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", '{"of": 1, "ranges": [[1]]}', '{"of": 1, "ranges": 3}'])
def test_where_what_was_asked_for_cannot_be_read_it_is_asked_for_again(home: Home, text: str) -> None:
    (home.landing / "wordcount" / ".asked.json").write_text(text)
    assert lacked(home) == [(24.0, 0.0)]


def test_what_lies_between_two_days_of_an_export_by_hand_is_lacking(home: Home) -> None:
    """One sample of long ago (a clock that stood at zero) is no history that an export holds."""
    holds(home, BY_HAND, NOW_S / HOUR_S, 26.0)
    rows = pd.DataFrame({"series_id": [1], "metric": "workload_per_s", "worker": None, "value": 5.0, "mask": None})
    for day in ("1970-01-01", "2026-03-03"):
        keys = {"job": "wordcount", "day": day, "source": BY_HAND}
        Lake(home.lake).put("samples", keys, rows.assign(ts=pd.to_datetime([day], utc=True)))
    assert lacked(home, 3) == [(72.0, 49.0), (26.0, 0.0)]


def test_again_all_is_lacking_but_what_exports_by_hand_hold(home: Home) -> None:
    holds(home, PULLED, 24.0, 2.0)
    holds(home, "prometheus-nov.csv", 5.0, 4.0)  # a user's file with a name like a pulled one
    remember_asked(home, JOB, [(NOW_S - 24 * HOUR_S, NOW_S)])
    assert lacked(home, again=True) == [(24.0, 5.0), (4.0, 0.0)]


def test_a_source_that_reaches_into_the_future_does_not_count(home: Home) -> None:
    holds(home, BY_HAND, 1.0, -1.0)
    holds(home, PULLED, 1.0, -1.0)
    assert lacked(home) == [(24.0, 0.0)]


def test_a_day_is_lacking_but_for_what_exports_by_hand_hold_until_now(home: Home) -> None:
    holds(home, PULLED, 24.0, 2.0)
    holds(home, BY_HAND, 5.0, 4.0)
    lake = Lake(home.lake)
    assert in_hours(lacking_of_day(lake, JOB, "2026-03-04", NOW_S)) == [(25.0, 5.0), (4.0, 1.0)]
    assert lacking_of_day(lake, JOB, "2026-03-04", NOW_S)[-1][1] == NOW_S - HOUR_S - 0.001, "the next day is another"
    assert lacking_of_day(lake, JOB, "2026-03-05", NOW_S) == ((NOW_S - HOUR_S, NOW_S),)
    assert lacking_of_day(lake, JOB, "2026-03-06", NOW_S) == ()
