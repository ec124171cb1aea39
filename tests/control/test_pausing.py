"""Whether a job is paused, by whom, and until when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdix.control.explain import explain
from perdix.control.explain_text import render
from perdix.control.pausing import why_paused
from perdix.control.state.journal import Pause
from perdix.control.state.store import StateStore
from perdix.settings.stream_job import StreamJob
from tests.control.rig import LOW, Rig

NOW_S = 1_770_000_000.0
HOUR_S = 3_600.0


def paused_until(at_s: float) -> StreamJob:
    return StreamJob(name="orders", paused_until=datetime.fromtimestamp(at_s, UTC))


def by_operator(until_s: float, why: str = "") -> Pause:
    return Pause(until_s, why)


def test_nobody_pauses_a_job_whose_pauses_are_over() -> None:
    assert why_paused(StreamJob(name="orders"), None, NOW_S) is None
    assert why_paused(paused_until(NOW_S), None, NOW_S) is None


@pytest.mark.parametrize(("file_h", "operator_h"), [(2, 1), (1, 2)])
def test_the_later_of_two_pauses_counts(file_h: int, operator_h: int) -> None:
    job = paused_until(NOW_S + file_h * HOUR_S)
    why = why_paused(job, by_operator(NOW_S + operator_h * HOUR_S, "load test"), NOW_S)
    assert why is not None
    assert why.startswith("by its job file until" if file_h > operator_h else "by an operator until")
    assert f"{datetime.fromtimestamp(NOW_S + 2 * HOUR_S, UTC):%H:%M:%S} UTC" in why
    assert ("load test" in why) is (operator_h > file_h)


@pytest.mark.parametrize("until_s", [8.7e11, 1e15, 1e300])
def test_a_pause_beyond_any_calendar_is_said_in_words(until_s: float, store: StateStore) -> None:
    assert "after the year 9999" in str(why_paused(StreamJob(name="orders"), by_operator(until_s), NOW_S))
    rig = Rig.of(store, LOW, scale_out=2)
    store.journal.pause("orders", until_s, rig.now_s)
    rig.minutes(1)
    for verbose in (False, True):
        assert "after the year 9999" in render(explain(store, "orders"), verbose=verbose)


def test_an_explanation_knows_the_pause_of_the_job_file(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=2)
    until_s = rig.now_s + 2 * HOUR_S
    rig.job = rig.job.model_copy(update={"paused_until": datetime.fromtimestamp(until_s, UTC)})
    rig.minutes(1)
    explained = explain(store, "orders", job_file_until=rig.job.paused_until)
    assert explained.to_dict()["paused_until_s"] == until_s
    assert "remove paused_until" in render(explained, verbose=True)
    assert explain(store, "orders").to_dict()["paused_until_s"] is None
    store.journal.pause("orders", until_s - HOUR_S, rig.now_s, "load test")
    assert explain(store, "orders", job_file_until=rig.job.paused_until).to_dict()["paused_until_s"] == until_s
    store.journal.pause("orders", until_s + HOUR_S, rig.now_s, "load test")
    longer = explain(store, "orders", job_file_until=rig.job.paused_until)
    assert longer.to_dict()["paused_until_s"] == until_s + HOUR_S
