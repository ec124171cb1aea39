"""A headless Chromium that is used as a person would: it opens pages, clicks what it sees, and takes pictures."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

WIDTH_PX, HEIGHT_PX = 1400, 900
MOST_PICTURE_BYTES = 200_000
PATIENCE_S = 120.0  # until a page shows what it should; other work may share the cores
PROGRAMS = {"chromium": "chromium", "chromedriver": "chromium-driver"}  # program -> Debian package

_LOCAL = ("127.0.0.1", "localhost", "::1", "")
_INSIDE = ("data", "blob", "about", "chrome", "devtools")  # addresses that no network carries
_FLAGS = (
    "--headless=new",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nobody but loopback has an address
)

_TO_THE_END = """let e = arguments[0];
while (e.parentElement && !(e.scrollHeight > e.clientHeight + 5 && getComputedStyle(e).overflowY != 'visible'))
  e = e.parentElement;
e.scrollTop = e.scrollHeight;"""
# Pixels that are neither clear nor grey: of the line, that is, not of axes, grid and labels.
_COLOURS = """const c = arguments[0], d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
let n = 0;
for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 128 && d[i + 2] - d[i] > 60) n++;
return n;"""

Seen = TypeVar("Seen")


def missing_programs() -> dict[str, str]:
    """Return the programs that are absent and the Debian package of each."""
    return {program: package for program, package in PROGRAMS.items() if shutil.which(program) is None}


@dataclass
class Browser:
    """One window of Chromium.

    Attributes
    ----------
    pictures
        Folder of the screenshots.
    foreign
        Addresses elsewhere than on loopback that pages asked for.
    errors
        What pages wrote into the console as an error.
    """

    driver: WebDriver
    pictures: Path
    foreign: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, url: str) -> None:
        """Open an address."""
        self.driver.get(url)

    def wait(self, what: str, until: Callable[[], Seen | None], timeout_s: float = PATIENCE_S) -> Seen:
        """Return what ``until`` finds as soon as it finds something.

        Raises
        ------
        AssertionError
            Naming ``what``, the page and its text when time is up; the page is kept as ``failed.png``.
        """
        waiting = WebDriverWait(self.driver, timeout_s, poll_frequency=0.25, ignored_exceptions=(WebDriverException,))
        try:
            return waiting.until(lambda _: until() or False)
        except TimeoutException:
            (self.pictures / "failed.png").write_bytes(self.driver.get_screenshot_as_png())
            text = self.driver.find_element(By.TAG_NAME, "body").text
            raise AssertionError(
                f"{what} did not show within {timeout_s:.0f} s at {self.driver.current_url}; see "
                f"{self.pictures / 'failed.png'}; the page says:\n{text[:3000]}"
            ) from None

    def find(self, xpath: str, timeout_s: float = PATIENCE_S) -> WebElement:
        """Return the first visible element."""
        return self.wait(xpath, lambda: next(iter(self.all(xpath)), None), timeout_s)

    def all(self, xpath: str) -> list[WebElement]:
        """Return the visible elements that are there now."""
        return [element for element in self.driver.find_elements(By.XPATH, xpath) if element.is_displayed()]

    def click(self, xpath: str, timeout_s: float = PATIENCE_S) -> None:
        """Click the first visible, enabled element, as soon as nothing covers it."""

        def clicked() -> bool:
            found = next((element for element in self.all(xpath) if element.is_enabled()), None)
            if found is not None:
                found.click()
            return found is not None

        self.wait(f"to click: {xpath}", clicked, timeout_s)

    def button(self, text: str, within: str = "") -> None:
        """Click the button that begins with ``text``, inside ``within`` (an XPath)."""
        self.click(f"{within}//button[starts-with(normalize-space(.), '{text}')]")

    def write(self, xpath: str, text: str) -> None:
        """Write into a field, over what is in it, and leave it."""
        found = self.find(xpath)
        found.click()
        found.send_keys(Keys.CONTROL + "a")
        found.send_keys(text + Keys.TAB)

    def see(self, *texts: str, timeout_s: float = PATIENCE_S) -> str:
        """Wait until the page says each of ``texts``; return all that it says."""
        for text in texts:
            self.wait(repr(text), lambda text=text: text in self.text(), timeout_s)
        return self.text()

    def text(self) -> str:
        """Return what can be read on the page."""
        return str(self.driver.find_element(By.TAG_NAME, "body").text)

    def bottom(self, heading: str) -> None:
        """Scroll what holds a plot down to its end."""
        self.driver.execute_script(_TO_THE_END, self.find(f"//*[normalize-space(text())='{heading}']"))

    def drawn(self, heading: str) -> None:
        """Wait until the plot under a heading has a line: pixels of more than one colour."""
        chart = f"//*[normalize-space(text())='{heading}']/following::canvas[1]"
        self.wait(f"a line under {heading!r}", lambda: self.driver.execute_script(_COLOURS, self.find(chart)) > 50)

    def picture(self, name: str) -> Path:
        """Keep the page as ``<name>.png``, in as many colours as fit into :data:`MOST_PICTURE_BYTES`."""
        image = Image.open(BytesIO(self.driver.get_screenshot_as_png())).convert("RGB")
        assert len(image.resize((140, 90)).getcolors(140 * 90) or []) > 8, f"{name}: the page is blank"
        path = self.pictures / f"{name}.png"
        for colours in (256, 128, 64, 32):
            image.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
            if path.stat().st_size <= MOST_PICTURE_BYTES:
                break
        self.listen()
        return path

    def listen(self) -> None:
        """Note what pages have asked for, and complained of, since the last time."""
        for entry in self.driver.get_log("performance"):
            said = json.loads(entry["message"])["message"]
            if said["method"] == "Network.requestWillBeSent":
                address = urlsplit(said["params"]["request"]["url"])
                if address.scheme not in _INSIDE and (address.hostname or "") not in _LOCAL:
                    self.foreign.append(address.geturl()[:200])
        for entry in self.driver.get_log("browser"):
            if entry["level"] == "SEVERE":
                self.errors.append(entry["message"][:500])


@contextmanager
def chromium(pictures: Path, profile: Path) -> Iterator[Browser]:
    """Start a Chromium with a profile of its own, and end it with its driver whatever happens.

    The driver's path is given, so that selenium looks for none, and downloads none.
    """
    programs = {program: shutil.which(program) for program in PROGRAMS}
    options = Options()
    options.binary_location = str(programs["chromium"])
    for flag in (*_FLAGS, f"--window-size={WIDTH_PX},{HEIGHT_PX}", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # its sandbox refuses to start for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(executable_path=str(programs["chromedriver"])))
    try:
        size = {"width": WIDTH_PX, "height": HEIGHT_PX, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.set_page_load_timeout(PATIENCE_S)
        yield Browser(driver, pictures)
    finally:
        driver.quit()
