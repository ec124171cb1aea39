"""A calendar of a job: what is known to come, when, and what is refused with its place and the fix."""

import pickle
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdix.settings.known_events import Calendar, KnownEvent
from perdix.settings.stream_job import StreamJob, load_stream_job
from perdix.settings.yaml_files import SettingsError

HOUR_S = 3_600.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def starts(calendar: Calendar, begin_s: float, end_s: float) -> list[str]:
    found = calendar.starting(begin_s, end_s)
    return [f"{event.name} {datetime.fromtimestamp(event.start_s, UTC):%m-%d %H:%M}" for event in found]


def of(**events: dict[str, object]) -> Calendar:
    return StreamJob(name="orders", events=events).calendar  # type: ignore[arg-type]


def test_a_job_file_names_its_events(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(
        "events:\n"
        '  nightly-batch: {cron: "0 2 * * *", timezone: Europe/Berlin, lasts: 45m, factor: 3}\n'
        "  sale: {at: 2026-11-27T08:00:00+01:00, lasts: 12h, factor: 2.5}\n"
        "  launches:\n"
        "    at: [2026-12-01T10:00:00Z, 2026-12-08T10:00:00Z]\n"
        "    lasts: 1800\n"
        "    factor: 0.5\n",
        encoding="utf-8",
    )
    job = load_stream_job(path)
    assert [(name, event.lasts, event.factor) for name, event in job.events.items()] == [
        ("nightly-batch", 2_700.0, 3.0),
        ("sale", 43_200.0, 2.5),
        ("launches", 1_800.0, 0.5),
    ]
    day_s = at("2026-11-27T00:00:00+00:00")
    assert starts(job.calendar, day_s, day_s + 24 * HOUR_S) == ["nightly-batch 11-27 01:00", "sale 11-27 07:00"]
    found = job.calendar.starting(day_s, day_s + 2 * HOUR_S)[0]
    assert found.end_s - found.start_s == 2_700.0
    assert job.model_copy(deep=True) == job, "the zone of a time is not lost"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("at: 2026-01-31T06:00:00, lasts: 1h, factor: 2", "time zone"),
        ("at: tomorrow, lasts: 1h, factor: 2", "write it as 2026-01-31T06:00:00Z"),
        ("at: [], lasts: 1h, factor: 2", "at least 1"),
        ("lasts: 1h, factor: 2", "give 'at' or 'cron'"),
        ('at: 2026-01-31T06:00:00Z, cron: "0 2 * * *", lasts: 1h, factor: 2', "not both"),
        ("at: 2026-01-31T06:00:00Z, timezone: UTC, lasts: 1h, factor: 2", "leave 'timezone' out"),
        ('cron: "0 25 * * *", lasts: 1h, factor: 2', "Bad hour"),
        ('cron: "0 0 31 2 *", lasts: 1h, factor: 2', "day-of-month"),
        ('cron: "0 2 * *", lasts: 1h, factor: 2', "five fields"),
        ('cron: "0 0 2 * * *", lasts: 1h, factor: 2', "five fields"),
        ('cron: "@daily", lasts: 1h, factor: 2', "five fields"),
        ('cron: "0 2 * * *", timezone: Europe/Berln, lasts: 1h, factor: 2', "did you mean 'Europe/Berlin'?"),
        ('cron: "0 2 * * *", timezone: CEST, lasts: 1h, factor: 2', "write for example Europe/Berlin"),
        ('cron: "0 2 * * *", timezone: GMT+1, lasts: 1h, factor: 2', "write for example Europe/Berlin"),
        ('cron: "0 2 * * *", timezone: ../../etc/passwd, lasts: 1h, factor: 2', "time zone"),
        ('cron: "0 2 * * *", timezone: Europe, lasts: 1h, factor: 2', "time zone"),
        ('cron: "0 2 * * *", lasts: soon, factor: 2', "45m"),
        ('cron: "0 2 * * *", lasts: 0, factor: 2', "greater than 0"),
        ('cron: "0 2 * * *", lasts: .inf, factor: 2', "finite"),
        ('cron: "0 2 * * *", lasts: 9w, factor: 2', "604800"),
        ('cron: "* 2 * * *", lasts: 45m, factor: 2', "it would start again after 1 min, while it lasts"),
        ('cron: "0 2 * * MON,TUE", lasts: 2d, factor: 2', "it would start again after 1 d, while it lasts"),
        (
            "at: [2026-01-31T06:00:00Z, 2026-01-31T07:00:00+01:00], lasts: 1h, factor: 2",
            "a moment is given twice under 'at'; leave one out",
        ),
        ('cron: "0 2 * * *", lasts: 1h, factor: 0', "greater than 0"),
        ('cron: "0 2 * * *", lasts: 1h, factor: -1', "greater than 0"),
        ('cron: "0 2 * * *", lasts: 1h, factor: 1.0e+300', "less than or equal to 1000"),
        ('cron: "0 2 * * *", lasts: 1h, factor: .nan', "finite number"),
        ('cron: "0 2 * * *", lasts: 1h, factr: 2', "did you mean 'factor'?"),
        ('cron: "0 2 * * *", lasts: 1h', "'events.sale.factor' is missing"),
    ],
)
def test_a_wrong_event_is_answered_with_file_line_and_mend(tmp_path: Path, event: str, words: str) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(f"mode: advise\nevents:\n  sale: {{{event}}}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as error:
        load_stream_job(path)
    assert words in str(error.value)
    assert f"{path}:3:" in str(error.value)
    assert "events.sale" in str(error.value)


def test_an_event_may_last_until_it_starts_again() -> None:
    for cron, lasts in (("*/10 * * * *", "10m"), ("0 2 * * *", "1d"), ("0 2 * * MON", "7d"), ("0 0 29 2 *", "7d")):
        assert of(on={"cron": cron, "timezone": "Europe/Berlin", "lasts": lasts, "factor": 2}).events
    with pytest.raises(ValueError, match="it would start again after 10 min, while it lasts"):
        of(on={"cron": "*/10 * * * *", "lasts": "11m", "factor": 2})


def test_an_event_without_a_proper_name_is_refused() -> None:
    with pytest.raises(ValueError, match="use letters"):
        of(**{"big sale!": {"cron": "0 2 * * *", "lasts": 60, "factor": 2}})


def test_events_of_the_past_are_no_fault_and_do_not_come() -> None:
    gone = of(
        gone={"at": "1970-01-01T00:00:00Z", "lasts": "1h", "factor": 2},
        first={"at": "0001-01-01T00:00:00+14:00", "lasts": 1, "factor": 2},
    )
    assert starts(gone, at("2026-01-01T00:00:00+00:00"), at("2027-01-01T00:00:00+00:00")) == []


def test_in_spring_the_hour_that_is_missing_starts_later_and_in_autumn_the_hour_that_comes_twice_counts_once() -> None:
    nightly = of(nightly={"cron": "30 2 * * *", "timezone": "Europe/Berlin", "lasts": "30m", "factor": 2})
    spring = at("2026-03-28T00:00:00+00:00")
    assert starts(nightly, spring, spring + 72 * HOUR_S) == [
        "nightly 03-28 01:30",
        "nightly 03-29 01:00",  # 2:30 does not exist: at 3:00 summer time
        "nightly 03-30 00:30",
    ]
    autumn = at("2026-10-24T00:00:00+00:00")
    assert starts(nightly, autumn, autumn + 72 * HOUR_S) == [
        "nightly 10-24 00:30",
        "nightly 10-25 00:30",
        "nightly 10-26 01:30",
    ]


def test_what_starts_is_the_same_however_it_is_asked_for() -> None:
    given = {"cron": "*/7 * * * *", "lasts": 60, "factor": 2}
    begin = at("2026-03-28T23:00:00+00:00")
    whole = of(often=given).starting(begin, begin + 6 * HOUR_S)
    walked = of(often=given)
    parts = [event for k in range(360) for event in walked.starting(begin + 60 * k, begin + 60 * (k + 1))]
    assert list(whole) == parts
    assert len(whole) == 6 * 9
    assert list(walked.starting(begin, begin + 6 * HOUR_S)) == parts, "a clock that was set back"
    far = begin + 400 * 86_400.0
    assert walked.starting(far, far + HOUR_S) == of(often=given).starting(far, far + HOUR_S)


def test_a_cron_that_comes_once_in_decades_costs_nothing() -> None:
    rare = of(rare={"cron": "0 0 * 2 MON#5", "lasts": 60, "factor": 2})
    begin = at("2026-03-28T23:00:00+00:00")
    began = time.perf_counter()
    for k in range(24 * 60):
        rare.starting(begin + 60 * k, begin + 60 * k + 900)
    assert time.perf_counter() - began < 1.0


def test_thousands_of_events_cost_little_per_look() -> None:
    zones = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
    events = {
        f"event-{k}": KnownEvent.model_validate(
            {"cron": f"{k % 60} {k % 24} * * *", "timezone": zones[k % 4], "lasts": "20m", "factor": 2}
        )
        for k in range(2_000)
    }
    calendar = StreamJob(name="orders", events=events).calendar
    begin = at("2026-03-28T23:00:00+00:00")
    assert len(calendar.starting(begin, begin + 24 * HOUR_S)) == pytest.approx(2_000, rel=0.1)
    began = time.perf_counter()
    for k in range(60):
        calendar.starting(begin + 60 * k, begin + 60 * k + 900)
    assert (time.perf_counter() - began) / 60 < 0.01


def test_a_job_whose_calendar_was_looked_at_can_be_copied_and_sent_to_another_process() -> None:
    job = StreamJob.model_validate({"name": "orders", "events": {"a": {"cron": "0 * * * *", "lasts": 60, "factor": 2}}})
    found = job.calendar.starting(0.0, 86_400.0)
    for other in (pickle.loads(pickle.dumps(job)), job.model_copy(deep=True), job.model_copy()):
        assert other == job
        assert other.calendar.starting(0.0, 86_400.0) == found


def test_a_calendar_belongs_to_the_events_of_its_job() -> None:
    job = StreamJob(name="orders", events={"a": {"at": "2026-01-01T00:00:00Z", "lasts": 60, "factor": 2}})  # type: ignore[dict-item]
    assert job.calendar is job.calendar
    other = job.model_copy(update={"events": {}})
    assert other.calendar.starting(0.0, 4e9) == ()
    assert len(job.calendar.starting(0.0, 4e9)) == 1
    assert job == StreamJob.model_validate(job.model_dump())
