"""Known events in the loop: perdix is ready when they begin, and stops getting ready for what never comes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from perdix.control.explain import explain
from perdix.control.explain_text import render
from perdix.control.job_memory import KNOWN_EVENTS, recall
from perdix.control.memories import Memories
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.known_events import KnownEvent
from perdix.settings.stream_job import PolicySettings
from tests.control.rig import START_S, Rig, applied

USUAL, MINUTES = 14_000.0, 20
HOUR_S = 3_600
FIRST_S = START_S - START_S % HOUR_S + 2 * HOUR_S  # a full hour, after most of another was seen


@pytest.fixture
def store() -> Iterator[StateStore]:
    opened = StateStore("sqlite://")
    yield opened
    opened.close()


def hourly(times: float, hours: int = 14) -> np.ndarray:
    """A steady load that is ``times`` as high in the first minutes of each hour."""
    seconds = np.arange(hours * HOUR_S) + START_S
    high = (seconds % HOUR_S < MINUTES * 60) & (seconds >= FIRST_S)
    return np.where(high, times * USUAL, USUAL)


def event(**changes: Any) -> dict[str, KnownEvent]:
    given = {"cron": "0 * * * *", "lasts": MINUTES * 60, "factor": 3.0}
    return {"batch": KnownEvent.model_validate({**given, **changes})}


def job_of(store: StateStore, load: np.ndarray, **job: Any) -> Rig:
    return Rig.of(store, load, scale_out=3, warm_s=900, **{"policy": PolicySettings(name="perdix"), **job})


def until(rig: Rig, at_s: float) -> None:
    rig.minutes(round((at_s - rig.now_s) / 60))


def scale_outs_before(rig: Rig, hour: int) -> list[tuple[int, int]]:
    """What was scaled out in the quarter of an hour before a full hour."""
    begin_s = FIRST_S + hour * HOUR_S
    ups = [
        outage
        for outage in rig.twin.outages
        if outage.cause != "failure" and outage.to_scale_out > outage.from_scale_out
    ]
    return [
        (rescale.from_scale_out, rescale.to_scale_out) for rescale in ups if begin_s - 900 <= rescale.start_s < begin_s
    ]


@pytest.mark.slow
def test_perdix_scales_out_before_an_event_that_it_knows_of(store: StateStore) -> None:
    rig = job_of(store, hourly(3.0), events=event())
    until(rig, FIRST_S - 60)
    report = rig.tick()
    assert rig.twin.scale_out >= 5, "ready a minute before"
    assert scale_outs_before(rig, 0)
    assert report.forecast is not None
    assert report.forecast.maximum_per_s() == pytest.approx(3 * USUAL, rel=0.1)
    decided = next(
        report for report in rig.reports if report.decision is not None and report.decision.reason is Reason.SCALE_OUT
    )
    told = explain(store, "orders", decided_s(store, decided.decision_id)).to_dict()["decision"]["believed"]["events"]
    assert [(row["name"], row["factor"], row["share"]) for row in told] == [("batch", 3.0, 1.0)]
    begins = datetime.fromtimestamp(FIRST_S, UTC)
    expected = f"Known event batch, {begins:%Y-%m-%d %H:%M:%S} UTC for 20 min: 3 times the load, believed to 100%"
    assert expected in render(explain(store, "orders"), verbose=True)
    until(rig, FIRST_S + 40 * 60)
    assert recall(store, "orders").memory.known_events.share("batch") > 0.9
    late = rig.twin.history.column("latency_p95_ms")[-40 * 60 :] > rig.job.objectives.latency_p95_ms
    assert late.mean() < 0.08  # of 40 minutes: the two rescales before it, and no more


def decided_s(store: StateStore, decision_id: str | None) -> float:
    return next(
        decision.intent.made_s for decision in store.ledger.decisions("orders") if decision.decision_id == decision_id
    )


@pytest.mark.slow
def test_without_the_event_it_is_late(store: StateStore) -> None:
    rig = job_of(store, hourly(3.0))
    until(rig, FIRST_S - 60)
    assert rig.twin.scale_out < 5
    assert KNOWN_EVENTS not in recall(store, "orders").documents


@pytest.mark.slow
def test_an_event_that_never_comes_is_no_longer_scaled_out_for(store: StateStore) -> None:
    rig = job_of(store, hourly(1.0), events=event(), policy=PolicySettings(name="perdix"))
    rig.memories = Memories()
    until(rig, FIRST_S + 6 * HOUR_S - 60)
    told = render(explain(store, "orders"), verbose=True)
    assert scale_outs_before(rig, 0)
    assert not scale_outs_before(rig, 6), applied(rig)
    assert recall(store, "orders").memory.known_events.share("batch") < 0.1
    assert "3 times the load, left out: lately" in told


@pytest.mark.parametrize(
    ("policy", "changes"),
    [("perdix", {"cron": None, "at": datetime.fromtimestamp(START_S - 86_400.0, UTC)}), ("hpa", {})],
)
def test_events_of_the_past_and_policies_without_forecasts_leave_decisions_as_they_are(
    store: StateStore, policy: str, changes: dict[str, Any]
) -> None:
    other = StateStore("sqlite://")
    plain = job_of(store, hourly(3.0), policy=PolicySettings(name=policy))
    known = job_of(other, hourly(3.0), policy=PolicySettings(name=policy), events=event(**changes))
    for rig in (plain, known):
        until(rig, FIRST_S + 5 * 60)
    assert [report.sentence for report in plain.reports] == [report.sentence for report in known.reports]
    other.close()


def test_what_an_older_version_stored_is_read(store: StateStore) -> None:
    rig = job_of(store, hourly(1.0))
    rig.minutes(2)
    found = recall(store, "orders")
    assert not found.notes
    assert found.memory.known_events.share("batch") == 1.0
    store.learned.learn("orders", rig.now_s, {KNOWN_EVENTS: {"shares": {"batch": "often"}}})
    rig.job = rig.job.model_copy(update={"events": event()})
    notes = rig.minutes(1)[0].notes
    assert any("'known_events' is stored but cannot be used" in note for note in notes)
