"""``perdix jobs``: how every stream job stands, and since when nobody looked at it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdix.cli.main import app
from perdix.control.clock import WallClock
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.store import StateStore
from perdix.settings.home import Home
from tests.cli.width import wide
from tests.control.published import a_status


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateStore]:
    """The store of a home with a job file ``ads``, at a wide terminal."""
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    wide(monkeypatch)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "ads.yaml").write_text("{}\n")
    with closing(StateStore(Home(tmp_path).state_url)) as opened:
        yield opened


def listed(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """The row of the job as JSON, and all that is said to a person, in one line."""
    app(["jobs", "--json"], standalone_mode=False)
    (row,) = (row for row in json.loads(capsys.readouterr().out)["jobs"] if row["job"] == "ads")
    app(["jobs"], standalone_mode=False)
    return row, " ".join(capsys.readouterr().out.split())


def test_a_job_on_which_perdix_fails_is_not_listed_with_what_ran_before(
    store: StateStore, capsys: pytest.CaptureFixture[str]
) -> None:
    a_status(store, 1_760_000_000.0, "ads", scale_out=6, wape=0.1)
    broken = JobStatus("ads", Status.BROKEN, 1_760_000_060.0, "ValueError: a defect")
    store.journal.record_tick(Tick(1_760_000_060.0, 1_760_000_060.0, "a", {}), [broken])
    row, _ = listed(capsys)
    assert (row["status"], row["scale_out"], row["wape"]) == ("broken", None, None)


def test_it_is_said_since_when_nobody_looks_at_a_job(store: StateStore, capsys: pytest.CaptureFixture[str]) -> None:
    """A controller that died hours ago must not look like one that is content."""
    now_s = WallClock().now_s()
    a_status(store, now_s - 3 * 3600.0, "ads", scale_out=6)
    row, sentence = listed(capsys)
    assert row["updated_s"] == now_s - 3 * 3600.0
    assert "No tick looked at ads for 3 h: does perdix controller run" in sentence
    a_status(store, now_s, "ads", scale_out=6)
    assert "No tick" not in listed(capsys)[1]
    a_status(store, now_s - 3 * 3600.0, "ads/operators")
    assert "No tick" not in listed(capsys)[1]  # its loop may look once, and end


def test_a_controller_that_looks_seldom_is_not_taken_for_one_that_is_gone(
    store: StateStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """``perdix controller --interval 1200``, where the settings have ticks come every minute."""
    now_s = WallClock().now_s()
    a_status(store, now_s - 900.0, "ads", scale_out=6)
    assert "No tick looked at ads for 15 min" in listed(capsys)[1]
    store.journal.record_tick(Tick(now_s - 900.0, now_s - 900.0, "a", {"interval_s": 1_200.0}), [])
    assert "No tick" not in listed(capsys)[1]
    app(["explain", "ads"], standalone_mode=False)
    assert "No tick" not in capsys.readouterr().out


def test_what_is_advised_is_listed_beside_what_runs(store: StateStore, capsys: pytest.CaptureFixture[str]) -> None:
    """Who lets perdix only advise in its first week sees at a look where it would do otherwise."""
    a_status(store, WallClock().now_s(), "ads", scale_out=6, advised=4)
    row, sentence = listed(capsys)
    assert (row["scale_out"], row["advised"]) == (6, 4)
    assert "│ 6, 4 advised │" in sentence
    a_status(store, WallClock().now_s(), "ads", scale_out=6, advised=6)
    assert "│ 6, of other sizes advised │" in listed(capsys)[1]


def test_a_pause_is_listed_before_the_next_tick(store: StateStore, capsys: pytest.CaptureFixture[str]) -> None:
    a_status(store, WallClock().now_s(), "ads", scale_out=6)
    app(["pause", "ads", "--for", "2h", "--why", "load test"], standalone_mode=False)
    capsys.readouterr()
    row, sentence = listed(capsys)
    assert row["status"] == "acting"
    assert re.fullmatch(r"by an operator until .* UTC \(load test\)", row["paused"])
    assert "│ paused" in sentence
    assert "Paused: by an operator until" in sentence
    store.journal.resume("ads")
    assert listed(capsys)[0]["paused"] is None
