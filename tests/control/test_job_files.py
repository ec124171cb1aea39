"""A job file that cannot be used is that job's fault, told with its place; the jobs of all other files go on."""

import errno
import os
import time
from pathlib import Path

import pytest

from perdix.control.fleet import tick_fleet
from perdix.control.fleet_report import LoopFault
from perdix.control.job_files import FollowedFiles, JobFiles, stream_jobs
from perdix.control.state.journal import Status
from perdix.control.state.store import StateStore
from perdix.policies.build import check_policy
from perdix.settings.home import Home
from perdix.settings.yaml_files import SettingsError
from perdix.twin.living import SimulatedClock
from tests.control.rig import LOW, Rig

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{now}: &{now} [{', '.join([f'*{before}'] * 9)}]\n" for before, now in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "jobs"
    made.mkdir()
    for name in ("ads", "zoo"):  # before and after every name below
        (made / f"{name}.yaml").write_text("mode: advise\n", encoding="utf-8")
    return made


def look(folder: Path) -> JobFiles:
    began_s = time.perf_counter()
    files = FollowedFiles((folder,), check_policy).look(float("inf"))
    assert time.perf_counter() - began_s < 10.0
    return files


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link_loop(path: Path) -> None:
    path.symlink_to(path)


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "absent")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def nested_deeply(path: Path) -> None:
    path.write_text("[" * 5_000, encoding="utf-8")


def an_alias_bomb(path: Path) -> None:
    path.write_text(f"{BOMB}mode: *i\n", encoding="utf-8")


def markup(path: Path) -> None:
    path.write_text("mode: '[/]'\n", encoding="utf-8")


def half_a_pair(path: Path) -> None:
    path.write_text('mode: "\\ud800"\n', encoding="utf-8")


def bytes_of_another_encoding(path: Path) -> None:
    path.write_bytes(b"mode: \xff\n")


def a_policy_that_is_not_known(path: Path) -> None:
    path.write_text("policy: {name: '[/]'}\n", encoding="utf-8")


@pytest.mark.parametrize(
    "damage",
    [
        a_folder, a_link_loop, a_link_to_nowhere, a_pipe, nested_deeply, an_alias_bomb, markup, half_a_pair,
        bytes_of_another_encoding, a_policy_that_is_not_known,
    ],
)  # fmt: skip
def test_whatever_lies_under_one_jobs_name_costs_that_job_alone(folder: Path, damage) -> None:
    damage(folder / "bad.yaml")
    files = look(folder)
    assert set(files.jobs) == {"ads", "zoo"}
    assert set(files.faults) == {"bad"}
    assert "bad.yaml" in files.faults["bad"]


def test_a_file_whose_name_is_not_utf8_is_told_under_a_name_that_can_be_stored(folder: Path, store: StateStore) -> None:
    (folder / os.fsdecode(b"caf\xe9.yaml")).write_text("mode: act\n", encoding="utf-8")
    files = look(folder)
    assert set(files.jobs) == {"ads", "zoo"}
    assert set(files.faults) == {r"caf\xe9"}
    rig = Rig.of(store, LOW)
    tick_fleet([rig.job], rig.io, SimulatedClock(rig.now_s), holder="a", files=files)
    assert store.journal.statuses()[r"caf\xe9"].status is Status.BROKEN


def test_a_defect_that_one_file_meets_is_that_jobs_fault(folder: Path) -> None:
    def defective(job) -> None:
        if job.policy.name == "hpa":
            raise ZeroDivisionError("a defect")

    (folder / "bad.yaml").write_text("policy: {name: hpa}\n", encoding="utf-8")
    files = FollowedFiles((folder,), defective).look()
    assert set(files.jobs) == {"ads", "zoo"}
    assert "ZeroDivisionError: a defect" in files.faults["bad"]


def test_a_job_without_a_usable_file_is_broken_where_people_look_and_the_others_are_served(
    folder: Path, store: StateStore
) -> None:
    (folder / "bad.yaml").write_text("mode: go\n", encoding="utf-8")
    rig = Rig.of(store, LOW)
    report = tick_fleet([rig.job], rig.io, SimulatedClock(rig.now_s), holder="a", files=look(folder))
    assert "orders" in report.reports
    assert report.others["bad"].status is Status.BROKEN
    assert "bad.yaml:1: 'mode'" in report.others["bad"].sentence
    assert store.journal.statuses()["bad"].sentence == report.others["bad"].sentence
    assert report.faults == ()


def test_a_file_is_read_again_once_it_was_fixed(folder: Path) -> None:
    followed = FollowedFiles((folder,))
    bad = folder / "bad.yaml"
    bad.mkdir()
    assert set(followed.look().faults) == {"bad"}
    bad.rmdir()
    bad.write_text("mode: act\n", encoding="utf-8")
    assert set(followed.look().jobs) == {"ads", "bad", "zoo"}
    bad.unlink()
    assert set(followed.look().jobs) == {"ads", "zoo"}


def test_a_file_that_does_not_change_is_read_once(folder: Path) -> None:
    read = []
    followed = FollowedFiles((folder,), lambda policy: read.append(policy.name))
    assert followed.look() == followed.look()
    assert len(read) == 2


def test_an_operators_unusable_file_is_not_replaced_by_the_one_that_perdix_wrote(folder: Path, tmp_path: Path) -> None:
    operators = tmp_path / "conf"
    operators.mkdir()
    (operators / "ads.yaml").write_text("mode: go\n", encoding="utf-8")
    files = FollowedFiles((folder, operators)).look()
    assert set(files.jobs) == {"zoo"}
    assert str(operators / "ads.yaml") in files.faults["ads"]


def test_a_folder_that_cannot_be_listed_for_a_while_stops_no_job(
    folder: Path, store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = FollowedFiles((folder,))
    assert set(followed.look().jobs) == {"ads", "zoo"}
    with monkeypatch.context() as broken:
        broken.setattr(os, "scandir", _no_descriptors_left)
        files = followed.look()
    assert set(files.jobs) == {"ads", "zoo"}
    rig = Rig.of(store, LOW)
    report = tick_fleet([rig.job], rig.io, SimulatedClock(rig.now_s), holder="a", files=files)
    assert report.faults == (LoopFault.JOB_FILES,)
    assert "cannot be listed: Too many open files" in report.notes[0]
    assert followed.look().problems == ()


def _no_descriptors_left(_: object) -> None:
    raise OSError(24, "Too many open files")


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("mode: act\n", encoding="utf-8")
    files = FollowedFiles((tmp_path / "jobs",)).look()
    assert files.names is None
    assert "cannot be listed: Not a directory" in files.complaints[0]


def test_an_absent_folder_is_an_empty_one(tmp_path: Path) -> None:
    assert FollowedFiles((tmp_path / "none",)).look() == JobFiles()


def test_an_error_of_settings_can_always_be_printed_and_stored() -> None:
    message = str(SettingsError("half \ud800, \x1b[2J and http://me:s3cr3t@host/"))
    assert message == r"half \ud800, \x1b[2J and http://***@host/"


def test_a_file_of_another_ending_is_named_and_hides_no_other(folder: Path) -> None:
    (folder / "orders.yml").write_text("mode: act\n", encoding="utf-8")
    (folder / "ads.yml").write_text("mode: act\n", encoding="utf-8")
    files = look(folder)
    assert set(files.jobs) == {"ads", "zoo"}
    assert files.jobs["ads"].mode == "advise"
    assert files.faults == {"orders": f"{folder / 'orders.yml'}: job files end in .yaml; rename it to orders.yaml"}


def test_a_file_that_could_not_be_read_for_a_moment_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files, a share that was away: the file itself never changes."""
    files, opened = FollowedFiles((folder,), check_policy), os.open

    def refuse(path: Path, *args: int) -> int:
        if Path(path).name == "ads.yaml":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, *args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert set(files.look().jobs) == {"zoo"}
    assert set(files.look().jobs) == {"ads", "zoo"}


def test_operators_job_files_win_over_those_that_perdix_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path / "conf"))
    home = Home(tmp_path / "home")
    for folder, name, workers in ((home.jobs, "ads", 3), (home.jobs, "demo", 3), (tmp_path / "conf/jobs", "ads", 9)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yaml").write_text(f"bounds: {{maximum: {workers}}}\n")
    (tmp_path / "conf/jobs/bad.yaml").write_text("bonds: 3\n")
    files = stream_jobs(home)
    assert {name: job.bounds.maximum for name, job in files.jobs.items()} == {"ads": 9, "demo": 3}
    assert "bad.yaml:1: unknown key 'bonds'" in files.faults["bad"]
