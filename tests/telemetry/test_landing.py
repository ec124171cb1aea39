"""Which files are meant, and their copies."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from perdix.settings.home import Home
from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.landing import export_files, land, landed, pulled_name, was_pulled


@pytest.fixture
def exports(tmp_path):
    folder = tmp_path / "exports"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "a.csv").write_text("Time,a\n1,2\n")
    (folder / "deep" / "a.csv").write_text("Time,a\n3,4\n")
    (folder / "deep" / "deeper" / "b c.json").write_text("{}")
    (folder / ".hidden").write_text("x")
    return folder


def test_a_folder_is_read_to_its_depths(exports):
    files = export_files([exports])
    assert [file.name for file in files] == ["a.csv", "deep/a.csv", "deep/deeper/b c.json"]
    assert len({file.source for file in files}) == 3
    assert not any(file.problem for file in files)


def test_a_file_given_twice_is_read_once(exports):
    assert [file.name for file in export_files([exports / "a.csv", exports])] == [
        "a.csv",
        "deep/a.csv",
        "deep/deeper/b c.json",
    ]


def test_files_of_the_same_name_are_told_apart_by_their_folders(exports):
    files = export_files([exports / "a.csv", exports / "deep" / "a.csv"])
    assert [file.name for file in files] == ["deep/a.csv", "exports/a.csv"]
    assert len({file.source for file in files}) == 2


def test_what_cannot_be_read_is_named(exports, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("Time,a\n5,6\n")
    (exports / "escape.csv").symlink_to(secret)
    (exports / "inside.csv").symlink_to(exports / "a.csv")
    (exports / "dangling.csv").symlink_to(exports / "gone.csv")
    os.mkfifo(exports / "pipe")
    problems = {file.name: file.problem for file in export_files([exports, tmp_path / "absent.csv"]) if file.problem}
    assert set(problems) == {"escape.csv", "dangling.csv", "pipe", "absent.csv"}
    assert "leads out" in problems["escape.csv"]
    assert problems["absent.csv"] == "no such file"


def test_landed_copies_keep_their_partitions_and_replace_each_other(exports, tmp_path):
    home = Home(tmp_path / "home")
    first = land(home, [exports], "job")
    assert [file.source for file in first] == [file.source for file in export_files([exports])]
    (exports / "a.csv").write_text("Time,a\n7,8\n")
    land(home, [exports], "job")
    again = landed(home, "job")
    assert {file.source for file in again} == {file.source for file in first}
    assert (home.landing / "job" / "a.csv").read_text() == "Time,a\n7,8\n"
    assert land(home, [home.landing / "job"], "job") == again


def test_a_copy_does_not_change_with_the_original(exports, tmp_path):
    [copy] = land(Home(tmp_path / "home"), [exports / "a.csv"], "job")
    with (exports / "a.csv").open("a") as stream:
        stream.write("9,9\n")
    assert copy.path.read_text() == "Time,a\n1,2\n"


def test_a_job_cannot_name_another_folder(exports, tmp_path):
    with pytest.raises(Exception, match="cannot be a job"):
        land(Home(tmp_path / "home"), [exports], "../elsewhere")
    assert landed(Home(tmp_path / "home"), "nobody") == []


def test_a_users_file_is_not_taken_for_a_pulled_day(tmp_path):
    home, pulled = Home(tmp_path / "home"), pulled_name("2026-03-04")
    folder = home.landing / "ramp"
    folder.mkdir(parents=True)
    (folder / pulled).write_text("pulled")
    (tmp_path / pulled).write_text("mine")
    (file,) = land(home, [tmp_path / pulled], "ramp")
    assert (file.name, was_pulled(file.source)) == (pulled, False)
    assert (folder / pulled).read_text() == "pulled"
    assert {file.source for file in landed(home, "ramp")} == {pulled, file.source}
    assert [file.source for file in land(home, [tmp_path / pulled], "ramp")] == [file.source]
    assert [file.source for file in land(home, [folder / pulled], "ramp")] == [pulled], "its own copy is what it is"


def test_a_users_file_that_is_named_like_a_pulled_day_is_not_taken_for_another(tmp_path):
    home, pulled = Home(tmp_path / "home"), pulled_name("2026-03-04")
    (tmp_path / "mine").mkdir()
    for name in (pulled, f"given-{pulled}"):
        (tmp_path / "mine" / name).write_text(name)
    files = land(home, [tmp_path / "mine"], "ramp")
    assert sorted(file.path.read_text() for file in files) == [f"given-{pulled}", pulled]
    assert {file.source for file in landed(home, "ramp")} == {file.source for file in files}
    assert not any(was_pulled(file.source) for file in files)


@pytest.mark.parametrize("name", ["prometheus-nov.csv", "prometheus-2026-03-04.csv", "a-prometheus-2026-03-04.json.gz"])
def test_only_the_names_of_pulled_days_are_pulled(name):
    assert was_pulled(pulled_name("2026-03-04"))
    assert not was_pulled(name)


def test_what_the_user_knows_of_a_file_stays_with_its_copy(exports, tmp_path):
    """Whoever takes the copy up after an ingest that died reads it as it was meant."""
    home, hint = Home(tmp_path / "home"), Hint("cpu_load", "Europe/Berlin")
    assert [file.hint for file in land(home, [exports / "a.csv"], "job", hint)] == [hint]
    (kept,) = landed(home, "job")
    assert (kept.source, kept.hint) == ("a.csv", hint)
    assert [file.hint for file in land(home, [home.landing / "job"], "job")] == [hint]
    land(home, [exports / "a.csv"], "job")
    assert [file.hint for file in landed(home, "job")] == [Hint()], "given again without"


def test_what_the_user_knows_of_a_copy_stays_when_another_cannot_be_made(exports, tmp_path, monkeypatch):
    home, hint = Home(tmp_path / "home"), Hint("cpu_load")
    land(home, [exports / "a.csv"], "job", hint)
    (exports / "a.csv").write_text("Time,a\n5,6\n")
    monkeypatch.setattr("shutil.copyfile", full)
    for other in (Hint(), Hint("busy_ratio")):
        assert "No space" in land(home, [exports / "a.csv"], "job", other)[0].problem
        assert [(file.hint, file.problem) for file in landed(home, "job")] == [(hint, "")]


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_the_user_knows_of_a_copy_stays_when_it_cannot_be_replaced(exports, tmp_path, monkeypatch):
    """As when the machine dies between what is known of a copy and the copy."""
    home, hint = Home(tmp_path / "home"), Hint("cpu_load")
    land(home, [exports / "a.csv"], "job", hint)
    (exports / "a.csv").write_text("Time,a\n5,6\n")
    replaced = Path.replace
    monkeypatch.setattr(Path, "replace", lambda own, to: full() if to.name == "a.csv" else replaced(own, to))
    land(home, [exports / "a.csv"], "job", Hint("busy_ratio"))
    assert [(file.hint, file.problem) for file in landed(home, "job")] == [(hint, "")]


def test_what_the_user_knows_of_a_copy_is_not_of_one_that_was_put_in_its_place(exports, tmp_path):
    home = Home(tmp_path / "home")
    (copy,) = land(home, [exports / "a.csv"], "job", Hint("cpu_load"))
    copy.path.write_text("Time,a\n5,6\n")
    assert [(file.hint, file.problem) for file in landed(home, "job")] == [(Hint(), "")]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"metric": "cpu"}', '{"a": {"timezone": "Nowhere"}}'])
def test_a_kept_hint_that_cannot_be_read_is_named_with_the_fix(exports, tmp_path, damage):
    home = Home(tmp_path / "home")
    land(home, [exports / "a.csv"], "job", Hint("cpu_load"))
    (sidecar,) = (home.landing / "job").glob(".*")
    sidecar.write_text(damage)
    (file,) = landed(home, "job")
    assert f"{sidecar} cannot be read" in file.problem
    assert "ingest the file again with --metric or --timezone" in file.problem
