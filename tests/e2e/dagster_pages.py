"""What a person does in Dagster's UI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from selenium.webdriver.common.by import By

from tests.e2e.browser import Browser

DIALOG = "//*[@role='dialog']"
LAUNCH = f"{DIALOG}//button[starts-with(normalize-space(.), 'Launch') and not(@disabled)]"
RUN_S = 900.0  # the longest that a run may take; a training takes a minute where nothing else runs
_RUNS = """query Runs($job: String!) {
  runsOrError(filter: {pipelineName: $job}, limit: 5) { ... on Runs { results { runId status } } }
}"""

_LAUNCH = """mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename ... on LaunchRunSuccess { run { runId } } }
}"""


class Dagster:
    """Dagster's UI under ``url``, seen through a browser."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser, self.url = browser, url

    def open_asset(self, name: str, view: str = "overview") -> None:
        """Open a page of an asset."""
        self.browser.open(f"{self.url}/assets/{name}?view={view}")

    def open_sensor(self, location: str, name: str) -> None:
        """Open a sensor's page."""
        self.browser.open(f"{self.url}/locations/{location}/sensors/{name}")

    def turn_on(self) -> bool:
        """Turn on the sensor of the page unless it runs; return whether that was needed."""
        row = "//tr[.//*[normalize-space(text())='Running']]"
        switch = self.browser.find(f"{row}//label[.//input[@type='checkbox']]")
        running = switch.find_element(By.TAG_NAME, "input").is_selected()
        if not running:
            switch.click()
        return not running

    def launch_days(self, job: str, days: Sequence[str]) -> str:
        """Launch a job for the first to the last of ``days`` from its page; return its run when it has succeeded."""
        self._materialize(job)
        written = days[0] if len(days) == 1 else f"[{days[0]}...{days[-1]}]"
        self.browser.write(f"{DIALOG}//input[@type='text']", written)
        return self._launched(job, len(days))

    def launch_every(self, job: str, partitions: int) -> str:
        """Launch a job for all of its ``partitions`` from its page; return its run when it has succeeded."""
        self._materialize(job)
        self.browser.button("All", within=DIALOG)
        return self._launched(job, partitions)

    def launch_with(self, location: str, job: str, config: Mapping[str, Any]) -> str:
        """Launch a job with a configuration, as its launchpad does; return its run when it has succeeded."""
        selector = {"repositoryName": "__repository__", "repositoryLocationName": location, "jobName": job}
        params = {"selector": selector, "runConfigData": config}
        asked = {"query": _LAUNCH, "variables": {"params": params}}
        answer = httpx.post(f"{self.url}/graphql", json=asked, timeout=60.0).raise_for_status().json()
        assert answer["data"]["launchRun"]["__typename"] == "LaunchRunSuccess", answer
        return self.browser.wait(f"a run of {job} to succeed", lambda: self._succeeded(job), RUN_S)

    def _materialize(self, job: str) -> None:
        self.browser.open(f"{self.url}/locations/training/jobs/{job}")
        self.browser.button("Materialize all")
        self.browser.see("Partition selection")

    def _launched(self, job: str, partitions: int) -> str:
        self.browser.see(f"{partitions} partition{'' if partitions == 1 else 's'}")
        self.browser.click(LAUNCH)
        self.browser.wait("the dialog to close", lambda: not self.browser.all(DIALOG))
        return self.browser.wait(f"a run of {job} to succeed", lambda: self._succeeded(job), RUN_S)

    def _succeeded(self, job: str) -> str | None:
        """Return the run of a job that has ended well; fail at once when one did not."""
        asked = {"query": _RUNS, "variables": {"job": job}}
        answer = httpx.post(f"{self.url}/graphql", json=asked, timeout=30.0).raise_for_status().json()
        runs = answer["data"]["runsOrError"]["results"]
        failed = [run["runId"] for run in runs if run["status"] in ("FAILURE", "CANCELED")]
        assert not failed, f"{job}: a run did not succeed: {self.url}/runs/{failed[0]}"
        return str(runs[0]["runId"]) if runs and runs[0]["status"] == "SUCCESS" else None
