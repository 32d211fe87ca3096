"""A real browser for pages: Debian's chromium, headless."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,1000",
)


def what_is_missing() -> str | None:
    """One sentence on what the browser tests lack on this machine, or None."""
    for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
        if shutil.which(program) is None:
            return f"there is no {program} on this machine (Debian: apt-get install {package})"
    return None


@contextmanager
def running(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def show(driver: webdriver.Chrome, page: Path) -> None:
    """Open a page, and wait until its charts are drawn or have failed."""
    driver.get_log("browser")  # which empties the log of the page before
    driver.get(page.resolve().as_uri())
    WebDriverWait(driver, 300).until(lambda d: d.execute_script("return document.body.dataset.ready"))


def console_errors(driver: webdriver.Chrome) -> list[str]:
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] != "INFO"]
