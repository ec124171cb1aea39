"""The wheel carries everything, under one name, and works in an empty folder. In full: tests/e2e/test_wheel_live.py."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdix.settings.home import PROJECT
from tests.installed_wheel import InstalledWheel, install_wheel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledWheel:
    return install_wheel(tmp_path_factory.mktemp("wheel"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def files_of(folder: Path, within: str) -> Iterator[str]:
    """Every file, through links."""
    for path in folder.iterdir():
        name = f"{within}/{path.name}"
        if path.is_dir() and path.name != "__pycache__":
            yield from files_of(path, name)
        elif path.is_file():
            yield name


def test_no_other_name_reaches_site_packages(installed: InstalledWheel) -> None:
    tops = {name.split("/")[0] for name in names(installed.wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"perdix"}


def test_every_file_of_the_rooms_is_there_but_for_the_operators_own_jobs(installed: InstalledWheel) -> None:
    expected = set(files_of(installed.sources / "perdix", "perdix"))
    found = {name for name in names(installed.wheel) if name.startswith("perdix/")}
    assert expected - found == {"perdix/conf/jobs/orders.yaml"}
    assert found <= expected
    assert {
        "perdix/docs/json.md",
        "perdix/conf/perdix.yaml",
        "perdix/models/fleet_pyfunc.py",
        "perdix/workspace.yaml",
    } <= found


def test_it_says_its_version_and_is_not_the_checkout(installed: InstalledWheel, tmp_path: Path) -> None:
    said = installed.perdix("--version", folder=tmp_path)
    assert (said.returncode, said.stdout.split()[0]) == (0, "perdix"), said.stderr
    assert not installed.package.resolve().is_relative_to(PROJECT)


def test_a_replay_in_an_empty_folder_uses_the_twins_that_come_along(installed: InstalledWheel, tmp_path: Path) -> None:
    before = {path for path in installed.package.rglob("*") if path.suffix != ".pyc"}
    asked = (
        "--workload",
        "ads",
        "--policy",
        "static-6",
        "--hours",
        "0.05",
        "--seeds",
        "1",
        "--no-mlflow",
        "--no-pictures",
        "--json",
    )
    said = installed.perdix("replay", *asked, folder=tmp_path)
    assert said.returncode == 0, said.stderr
    document = json.loads(said.stdout)
    assert (document["trace"]["name"], document["twin"]["name"]) == ("ads", "ads")
    after = {path for path in installed.package.rglob("*") if path.suffix != ".pyc"}
    assert {path for path in after - before if path.name != "__pycache__"} == set()


def test_jobs_are_those_of_the_working_folder_and_what_its_conf_lacks_comes_along(
    installed: InstalledWheel, tmp_path: Path
) -> None:
    jobs = tmp_path / "conf" / "jobs"
    jobs.mkdir(parents=True)
    (jobs / "payments.yaml").write_text("engine: flink\nprometheus: {url: 'http://127.0.0.1:9'}\n")
    said = installed.perdix("jobs", "--json", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    assert [row["job"] for row in json.loads(said.stdout)["jobs"]] == ["payments"]
