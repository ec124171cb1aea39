"""A controller in an environment of its own, from the lock alone: it reads what another environment trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from perdix.settings.home import PROJECT
from tests.installed_wheel import OTHERS, install_wheel

pytestmark = pytest.mark.e2e

MOST_MB = 1_100
JOB = "ads"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose jobs have champions, made with everything that perdix depends on."""
    home = tmp_path_factory.mktemp("trained") / "home"
    said = _run([str(Path(sys.executable).parent / "perdix"), "demo", "--json"], home, 1_200.0)
    assert said.returncode == 0, said.stderr[-3000:]
    return home


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment's folder of programs."""
    folder = tmp_path_factory.mktemp("alone")
    wheel = install_wheel(folder / "wheel").wheel
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment" / "bin"
    lock = PROJECT / "deploy" / "controller" / "requirements.lock"
    for words in (["--require-hashes", "-r", str(lock)], ["--no-deps", str(wheel)]):
        command = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    return programs


def test_it_is_a_third_of_the_size_and_holds_no_spark(alone: Path) -> None:
    files = [path for path in alone.parent.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < MOST_MB * 1e6
    (libraries,) = alone.parent.glob("lib/python*/site-packages")
    assert not {"pyspark", "dagster", "great_expectations", "nvidia"} & {path.name for path in libraries.iterdir()}


def test_a_champion_that_was_trained_elsewhere_forecasts(alone: Path, trained: Path) -> None:
    said = _run([str(alone / "perdix"), "forecast", JOB, "--json"], trained)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["version"] == 1


def test_the_doctor_and_the_controller_work(alone: Path, trained: Path) -> None:
    said = _run([str(alone / "perdix"), "doctor"], trained)
    assert said.returncode == 0, said.stdout
    said = _run([str(alone / "perdix"), "controller", "--ticks", "1", "--interval", "1", "--json"], trained)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout.splitlines()[0])["jobs"] == 3


def _run(command: list[str], home: Path, timeout_s: float = 180.0) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in OTHERS}
    environment = {**kept, "PERDIX_HOME": str(home)}
    return subprocess.run(
        command, cwd=home.parent, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )
