"""What ``perdix dev`` shows in a browser: a training launched by hand, checks, plots, ticks, runs compared.

Run by ``make e2e``; see docs/browser.md. ``PERDIX_UI_PICTURES=docs/pictures`` renews the documentation's pictures.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.browser import Browser, chromium, missing_programs
from tests.e2e.dagster_pages import DIALOG, Dagster
from tests.e2e.dev_servers import DevServers, dev_servers
from tests.e2e.mlflow_pages import MLflow

MISSING = missing_programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"THE BROWSER TEST DID NOT RUN: no {', '.join(MISSING)}; apt-get install {' '.join(MISSING.values())}",
    ),
]

PICTURES = "PERDIX_UI_PICTURES"  # folder, for example docs/pictures
SHOWN = (
    "ui-dagster-run",
    "ui-dagster-checks",
    "ui-dagster-plots",
    "ui-dagster-sensor",
    "ui-dagster-job",
    "ui-mlflow-runs",
    "ui-mlflow-compare",
)
HOURS = 6.0
FAMILIES = ("ensemble", "auto-arima", "fast-arima", "linear", "last-value")  # that six hours are enough for
# Written by MLflow's own pages on any server of one user: it asks who is logged in, and a layout that settles late.
NOT_OURS = ("ajax-api/2.0/mlflow/users/current", "ResizeObserver loop")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    with dev_servers(tmp_path_factory.mktemp("dev") / "home", HOURS) as running:
        yield running


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    pictures = tmp_path_factory.mktemp("pictures")
    with chromium(pictures, tmp_path_factory.mktemp("chromium")) as browser:
        yield browser
    if folder := os.environ.get(PICTURES):
        for name in SHOWN:
            if (found := pictures / f"{name}.png").exists():
                shutil.copy(found, folder)


@pytest.fixture
def browser(window: Browser) -> Iterator[Browser]:
    """The window; afterwards its pages must have asked nobody else, and complained of nothing that is ours."""
    window.foreign.clear()
    window.errors.clear()
    yield window
    window.listen()
    assert not window.foreign, "pages asked others than loopback"
    assert not [said for said in window.errors if not any(known in said for known in NOT_OURS)]


@pytest.fixture(scope="module")
def ingested(servers: DevServers, window: Browser) -> str:
    """The run that pulled the twin's past from its Prometheus."""
    now = datetime.now(UTC)
    days = sorted({(now - timedelta(hours=back)).strftime("%Y-%m-%d") for back in (0.0, HOURS)})
    return Dagster(window, servers.dagster).launch_days("ingest_day", days)


@pytest.fixture(scope="module")
def trained(servers: DevServers, window: Browser, ingested: str) -> str:
    """The run that trained all three jobs."""
    return Dagster(window, servers.dagster).launch_every("train", len(servers.jobs))


@pytest.fixture
def dagster(browser: Browser, servers: DevServers) -> Dagster:
    return Dagster(browser, servers.dagster)


def test_a_training_launched_by_hand_shows_its_steps(dagster: Dagster, browser: Browser, trained: str) -> None:
    browser.open(f"{dagster.url}/runs/{trained}")
    page = browser.see("Success", "5 assets", "forecast_candidates", "RUN_SUCCESS")
    assert "No steps have errored" in page
    browser.picture("ui-dagster-run")


def test_every_check_of_the_samples_has_passed(dagster: Dagster, browser: Browser, ingested: str) -> None:
    dagster.open_asset("samples", "checks")
    page = browser.see("Latest execution", "Passed", "Succeeded")
    found = re.search(r"Checks \((\d+)\)", page)
    assert found
    assert int(found[1]) >= 10
    assert page.count("Succeeded") == int(found[1])
    assert "holds" in page
    browser.picture("ui-dagster-checks")


def test_the_champions_show_the_pictures_of_their_training(dagster: Dagster, browser: Browser, trained: str) -> None:
    for key in ("candidates", "forecast_against_truth"):
        dagster.open_asset("forecast_champions")
        browser.see("Metadata", "mlflow_run")
        browser.click(f"//tr[.//*[normalize-space(text())='{key}']]//*[contains(text(), 'Show Markdown')]")
        picture = browser.find(f"{DIALOG}//img")
        browser.wait("the picture", lambda shown=picture: int(shown.get_property("naturalWidth")) > 400)
        browser.picture(f"ui-dagster-{key}")


def test_the_champions_plot_their_error_of_each_job(dagster: Dagster, browser: Browser, trained: str) -> None:
    dagster.open_asset("forecast_champions")
    browser.button("Plots")
    browser.see("wape")
    browser.bottom("wape")
    browser.drawn("wape")
    browser.picture("ui-dagster-champions")


def test_the_loop_shows_its_ticks_and_what_each_came_to(dagster: Dagster, browser: Browser, trained: str) -> None:
    dagster.open_sensor("control", "control_loop")
    browser.see("Next tick" if dagster.turn_on() else "Latest tick")
    rows = "//tr[.//*[normalize-space(.)='View logs']]"
    browser.wait("three ticks", lambda: len(browser.all(rows)) >= 3, timeout_s=240.0)
    page = browser.see("0 runs requested")
    assert "Failure" not in page
    browser.picture("ui-dagster-sensor")
    browser.click(f"({rows}//button[normalize-space(.)='0 runs requested'])[1]")  # one that rescaled requests a run
    said = browser.see("Skip reason:", "3 acting")
    assert re.search(r"Workers: ads \d+, traffic \d+, wordcount \d+\.", said)


def test_decisions_are_plotted_over_time(dagster: Dagster, browser: Browser, trained: str) -> None:
    dagster.open_asset("scaling_decisions")
    browser.see("External Asset", "workers")
    browser.button("Plots")
    browser.bottom("workers")
    for figure in ("rescales", "seconds", "workers"):
        browser.drawn(figure)
    browser.picture("ui-dagster-plots")


def test_any_job_is_reviewed_with_its_picture(dagster: Dagster, browser: Browser, trained: str) -> None:
    dagster.launch_with("control", "review_jobs", {"ops": {"review": {"config": {"jobs": ["ads"], "hours": 6}}}})
    browser.open(f"{dagster.url}/assets/job_review?view=partitions&partition=ads")
    browser.see("late_percent", "load_per_s", "picture")
    browser.click("//tr[.//*[normalize-space(text())='picture']]//*[contains(text(), 'Show Markdown')]")
    picture = browser.find(f"{DIALOG}//img")
    browser.wait("the picture", lambda: int(picture.get_property("naturalWidth")) > 400)
    browser.picture("ui-dagster-job")


def test_the_list_of_trainings_opens_with_what_decides(browser: Browser, servers: DevServers, trained: str) -> None:
    browser.open(servers.experiments["perdix-forecast"])
    browser.see("forecast of 3 jobs", "chosen_share", "score_median")
    browser.picture("ui-mlflow-runs")


def test_families_are_compared_by_their_error(browser: Browser, servers: DevServers, trained: str) -> None:
    pages = MLflow(browser, servers.mlflow)
    pages.open_experiment("perdix-forecast")
    pages.compare("forecast of 3 jobs", FAMILIES)
    page = browser.see(f"Comparing {len(FAMILIES)} Runs from 1 Experiment", "wape_median", "Run details")
    names = page[page.index("Run Name:") : page.index("Start Time:")]
    assert [name for name in FAMILIES if name not in names] == []
    assert page.index("Parallel Coordinates Plot") < page.index("wape_median") < page.index("Run details")
    assert re.search(r"\n0\.\d+", page[page.index("Metrics\n") :])
    browser.picture("ui-mlflow-compare")
