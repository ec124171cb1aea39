"""What a person does in MLflow's UI."""

from __future__ import annotations

from collections.abc import Sequence

from tests.e2e.browser import Browser

_ROW = "//*[@role='row'][.//a[{}]]"


class MLflow:
    """MLflow's UI under ``url``, seen through a browser."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser, self.url = browser, url

    def open_experiment(self, name: str) -> None:
        """Open an experiment from the first page, which greets with its assistant and with what GenAI needs."""
        browser = self.browser
        browser.open(self.url)
        browser.click("//button[@aria-label='Close']")
        browser.click("//*[normalize-space(text())='Model training']")
        browser.wait("the pages for models", lambda: not browser.all("//a[normalize-space(.)='Prompts']"))
        browser.click("//a[normalize-space(.)='Experiments']")
        browser.click(f"//a[normalize-space(.)='{name}']")
        browser.see("matching runs")

    def compare(self, training: str, runs: Sequence[str]) -> None:
        """Unfold the run whose name begins with ``training``, select ``runs`` of it, and compare them."""
        parent = _ROW.format(f"starts-with(normalize-space(.), '{training}')")
        self.browser.click(f"{parent}//button[contains(@data-component-id, 'runnamecell')]")
        for name in runs:
            row = _ROW.format(f"normalize-space(.)='{name}'")
            self.browser.click(f"{row}//div[contains(@class, 'ag-selection-checkbox')]")
        self.browser.button("Compare")
        self.browser.see("Comparing")
