"""A small fixed part of the zoo, played: every kind of workload, what a second call does, and what comes out."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.zoo import __main__ as command
from benchmarks.zoo import campaign
from benchmarks.zoo.campaign import Campaign
from benchmarks.zoo.contenders import BEST_STATIC, default_policy
from benchmarks.zoo.document import document
from benchmarks.zoo.jobs import KINDS, TRACE, kind_of
from benchmarks.zoo.text import show
from perdix.replay.frontier import FRONTIER

pytestmark = pytest.mark.slow
SEED, HOURS = 3, 0.5
NOWHERE = Path("nowhere")


def number_of(kind: str) -> int:
    return next(k for k in range(len(KINDS)) if kind_of(SEED, k) == kind)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zoo")


@pytest.fixture(scope="module")
def played(folder: Path) -> list[dict]:
    """One job of each kind for half an hour, under the policy that ships by default."""
    return Campaign(SEED, range(len(KINDS)), (default_policy(),), HOURS, folder, NOWHERE).run(processes=1)


def test_every_kind_is_played_to_its_end(played: list[dict]) -> None:
    assert [row["failed"] for row in played if "failed" in row] == []
    assert {row["kind"] for row in played} == set(KINDS) - {TRACE}
    assert {row["policy"] for row in played} == {BEST_STATIC, default_policy()}


def test_nearly_every_job_can_be_held_by_a_fixed_size(played: list[dict]) -> None:
    fixed = [row for row in played if row["policy"] == BEST_STATIC]
    assert sum(row["held"] for row in fixed) >= len(fixed) - 1
    assert all(1 <= row["size"] <= row["maximum"] for row in fixed)
    assert len({row["size"] for row in fixed}) > 2


def test_a_row_agrees_with_itself(played: list[dict]) -> None:
    for row in played:
        assert row["worker_s"] == pytest.approx(3_600 * HOURS * row["average_workers"])
        assert row["average_workers"] <= row["peak_workers"] <= row["maximum"]
        assert row["held"] == (row["late_share"] <= 0.05 and row["unprocessed"] <= 0)
        assert row["rescales_per_day"] == pytest.approx(24 / HOURS * row["rescales"])


def test_capacity_intervals_were_looked_at(played: list[dict]) -> None:
    counted = {(where, name) for row in played for where, mine in row["coverage"].items() for name in mine}
    assert {"here", "elsewhere"} == {where for where, _ in counted}
    assert len(counted) >= 6


def test_a_second_call_plays_nothing_again(played: list[dict], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = []
    real = campaign.side_by_side
    monkeypatch.setattr(campaign, "side_by_side", lambda todo, **how: tasks.extend(todo) or real(todo, **how))
    again = Campaign(SEED, range(len(KINDS)), (default_policy(),), HOURS, folder, NOWHERE)
    assert again.left() == 0
    assert again.run(processes=1) == json.loads(json.dumps(played))
    assert tasks == []


def test_what_was_broken_off_goes_on(played: list[dict], folder: Path, tmp_path: Path) -> None:
    """The first lines of the file are there; the others come out as they would have."""
    lines = (folder / campaign.FILE).read_bytes().splitlines(keepends=True)
    kept = tmp_path / campaign.FILE
    kept.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    broken = Campaign(SEED, range(3), (default_policy(),), HOURS, tmp_path, NOWHERE)
    assert broken.left() == 1
    rows = broken.run(processes=2)
    expected = [row for row in played if row["job"] < 3]
    assert len(rows) == len(expected)
    for row, same in zip(rows, expected, strict=True):
        assert {**row, "wall_s": 0} == {**same, "wall_s": 0}


def test_without_traces_their_jobs_are_left_out_and_said(folder: Path) -> None:
    one = Campaign(SEED, range(len(KINDS)), ("daedalus",), HOURS, folder, NOWHERE)
    assert one.skipped == tuple(k for k in range(len(KINDS)) if kind_of(SEED, k) == TRACE)
    assert len(one.skipped) == 1
    assert not {key.job for key in one.wanted()} & set(one.skipped)


def test_a_job_that_raises_is_a_row_with_its_reason(tmp_path: Path) -> None:
    """Job 0 of a seed whose hours are so few that the policy's own ticks do not fit."""
    one = Campaign(SEED, [0], ("hpa-80:tick_s=3600",), 0.1, tmp_path, NOWHERE)
    fixed, failed = one.run(processes=1)
    assert "failed" not in fixed
    assert "do not cover one tick" in failed["failed"]
    assert one.left() == 1, "the next call tries it again"


def test_the_command_ends_with_a_table_a_picture_and_figures(
    played: list[dict], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "zoo.json"
    asked = ["--seed", str(SEED), "--jobs", str(len(KINDS)), "--hours", str(HOURS), "--policy", default_policy()]
    code = command.main([*asked, "--folder", str(folder), "--data", str(NOWHERE), "--json", str(figures)])
    assert code == 0
    found = json.loads(figures.read_bytes())
    assert (found["seed"], found["jobs"], found["hours"]) == (SEED, len(KINDS), HOURS)
    mine = found["policies"][0]
    assert mine["policy"] == default_policy()
    assert {"held_share", "of_best_static", "most_of_best_static", "rescales_per_day", "jobs"} <= set(mine)
    assert [violation["target"] for violation in found["violations"]] == ["calm", "beaten", "coverage"]
    assert len(found["worst"]) == 5
    assert len(found["rows"]) == len(played)
    assert Path(found["picture"]).read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "best-static" in printed
    assert found["worst"][0]["command"] in printed.replace("\n", " ")
    assert "are left out, all others are the same" in printed.replace("\n", " ")


def test_one_job_is_replayed_with_its_course(
    folder: Path, played: list[dict], capsys: pytest.CaptureFixture[str]
) -> None:
    idle = number_of("idle")
    asked = ["--seed", str(SEED), "--job", str(idle), "--hours", str(HOURS), "--policy", default_policy()]
    assert command.main([*asked, "--folder", str(folder), "--data", str(NOWHERE)]) == 0
    printed = capsys.readouterr().out
    (row,) = [row for row in played if row["job"] == idle and row["policy"] == default_policy()]
    assert f"{row['average_workers']:.2f} workers on average" in printed, "the same as in the campaign"
    assert (folder / f"zoo-seed-{SEED}-job-{idle}-{default_policy()}.png").is_file()


def test_the_frontier_takes_part_as_a_policy_and_all_are_held_against_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Campaign(SEED, [number_of("steps")], (default_policy(), FRONTIER), 2.0, tmp_path, NOWHERE)
    found = document(asked, asked.run(processes=1))
    mine, frontier, fixed = (row["of_frontier"] for row in found["policies"])
    assert mine >= 0.99
    assert fixed >= 0.99, "both are plans, and no plan needs less"
    assert frontier == pytest.approx(1.0)
    assert found["policies"][1]["held_share"] == 1.0
    workers = {row["policy"]: row["worker_s"] for row in found["rows"]}
    assert workers[FRONTIER] < workers[BEST_STATIC]
    show(found)
    printed = capsys.readouterr().out
    assert "x frontier" in printed
    (head,) = [line for line in printed.splitlines() if "x frontier" in line and "jobs" in line and "policy" in line]
    assert "failed" not in head, "a column of nothing is left out"
    (row,) = [row for row in found["rows"] if row["policy"] == FRONTIER]
    one_job = ["--seed", str(SEED), "--job", str(row["job"]), "--hours", "2", "--policy", FRONTIER]
    assert command.main([*one_job, "--folder", str(tmp_path), "--data", str(NOWHERE)]) == 0
    assert f"{FRONTIER}: {row['average_workers']:.2f} workers on average" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["--policy", "perdix,frontier", "--hours", "48"], "the frontier is worked out for up to 24 hours"),
        (["--policy", "deadalus"], "did you mean 'daedalus'"),
        (["--regime", "in-plcae"], "there is no regime 'in-plcae'"),
        (["--jobs", "0"], "--jobs from 1"),
        (["--hours", "0.01"], "--hours must be from 0.1"),
        (["--json", "nowhere/at/all.json"], "cannot be written (No such file or directory); name another file"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_played(
    asked: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(asked) == 2
    assert says in capsys.readouterr().err.replace("\n", " ")


def test_rows_hold_plain_numbers(played: list[dict]) -> None:
    assert not [value for row in played for value in row.values() if isinstance(value, np.generic)]
