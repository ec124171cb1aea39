"""``perdix rescales``: what was scaled overnight, or would have been, why, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdix.cli.main import app
from perdix.cli.output import UserError
from perdix.control.clock import WallClock
from perdix.control.state.ledger import Intent
from perdix.control.state.store import StateStore
from perdix.settings.home import Home
from tests.cli.width import wide
from tests.control.published import a_status


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateStore]:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    wide(monkeypatch)
    with closing(StateStore(Home(tmp_path).state_url)) as opened:
        yield opened


def intent(hours_ago: float, job: str = "ads", *, workers: int = 5, **more: Any) -> Intent:
    at_s = WallClock().now_s() - 3_600.0 * hours_ago
    made = Intent(job, at_s, at_s, 3, workers, "perdix", "scale_out", f"{workers} do.", at_s + 900.0, {}, {})
    return replace(made, **more)


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    app(["rescales", *arguments, "--json"], standalone_mode=False)
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rescales"]
    return rows


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    app(["rescales", *arguments], standalone_mode=False)
    return " ".join(capsys.readouterr().out.split())


def test_what_came_of_each_is_said_and_the_oldest_is_first(
    store: StateStore, capsys: pytest.CaptureFixture[str]
) -> None:
    done, given_up = intent(3.0, predicted_recovery_s=90.0), intent(1.0, workers=7)
    store.ledger.record(done)
    store.ledger.applied(done.decision_id, done.made_s + 2.0)
    store.ledger.confirmed(done.decision_id, done.made_s + 30.0)
    store.ledger.set_outcome(done.decision_id, {}, observed_recovery_s=120.0)
    store.ledger.record(given_up)
    store.ledger.failed(given_up.decision_id, given_up.made_s + 600.0, "422: no room", retriable=False)
    first, second = listed(capsys)
    assert (first["scale_out"], first["state"], first["observed_recovery_s"]) == (5, "confirmed", 120.0)
    assert (second["scale_out"], second["state"], second["error"]) == (7, "failed", "422: no room")
    text = printed(capsys)
    assert "│ 3 to 5 workers │ confirmed │ 5 do. Caught up after 120 s, 90 s had been predicted. │" in text
    assert "│ 3 to 7 workers │ failed │ 7 do. 422: no room. │" in text
    assert "2 rescales of 1 job in 24 h: 1 confirmed, 1 failed" in text


def test_what_changes_nothing_hides_no_rescale_and_what_is_left_out_is_printed(
    store: StateStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdix.cli.rescales.MOST", 2)
    for hours_ago in (6.0, 5.0):
        store.ledger.record(intent(hours_ago, workers=4 + int(hours_ago)))
    store.ledger.record(intent(4.5, from_mix={"large": 3}, mix={"small": 3}, workers=3))
    for k in range(4):
        store.ledger.record(intent(4.0 - k, "orders", act=False, workers=3))
    assert [row["scale_out"] for row in listed(capsys)] == [9, 3]
    assert "older ones are left out: the newest 2 are shown" in printed(capsys)
    assert "left out" not in printed(capsys, "--hours", "4.7")


def test_what_was_only_advised_is_listed_and_what_was_held_is_not(
    store: StateStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.ledger.record(intent(2.0, act=False))
    store.ledger.record(intent(1.0, act=False, workers=3))  # as many as run
    store.ledger.record(intent(1.0, "orders", workers=3))
    assert [(row["job"], row["state"]) for row in listed(capsys)] == [("ads", "advised")]


def test_only_the_hours_and_the_job_that_are_asked_for_are_listed(
    store: StateStore, capsys: pytest.CaptureFixture[str]
) -> None:
    a_status(store, WallClock().now_s(), "ads")
    for each in (intent(30.0), intent(3.0, workers=6), intent(2.0, "orders")):
        store.ledger.record(each)
    assert [row["scale_out"] for row in listed(capsys, "ads", "--hours", "4")] == [6]
    assert len(listed(capsys)) == 2
    assert len(listed(capsys, "--hours", "40")) == 3
    assert printed(capsys, "--hours", "0.5") == "0 rescales of 0 jobs in 0.5 h: none"
    with pytest.raises(UserError, match="job 'adds' is not known; did you mean 'ads'"):
        listed(capsys, "adds")


def test_rescales_of_a_jobs_operators_are_found_from_the_job(
    store: StateStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.ledger.record(intent(2.0, "ads/operators"))
    (Home.from_environment().root / "jobs").mkdir()
    (Home.from_environment().root / "jobs" / "ads.yaml").write_text("{}")
    said = printed(capsys, "ads")
    assert "0 rescales" in said
    assert "its operators were rescaled, too: perdix rescales ads/operators" in said
    assert "operators were" not in printed(capsys, "ads", "--hours", "1")
    (row,) = listed(capsys, "ads/operators")
    assert row["job"] == "ads/operators"
