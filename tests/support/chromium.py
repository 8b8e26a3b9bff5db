"""A real Chromium, found or installed as the database servers are (`ENDMARK_TEST_CHROMIUM` names one), and driven."""

import os
import shutil
import subprocess
from contextlib import contextmanager

from tests.support.servers import NoServer, Server, server

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def program():
    """The path of a Chromium. Skips the test where there is none, and the summary says so."""
    return server("chromium", _find).url


def _find(given):
    found = given or _installed()
    if found is None:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise NoServer("no Chromium is installed here: the dashboard was not seen in a browser")
        done = subprocess.run(_INSTALL, capture_output=True, timeout=600, check=False)
        found = _installed()
        if done.returncode != 0 or found is None:
            raise NoServer("no Chromium is installed here, and apt-get could not install one")
    return Server(found, [], None)


def _installed():
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def running():
    """A browser with a profile that is empty, and gone afterwards."""
    from playwright.sync_api import sync_playwright

    path = program()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()
