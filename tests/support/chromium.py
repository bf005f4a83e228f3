"""A browser for tests: Debian's Chromium under Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from attrs import define, field
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

from tests.conftest import absent
from tests.support.program import TIMEOUT_S

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_MS = TIMEOUT_S * 1000
expect.set_options(timeout=TIMEOUT_MS)


def chromium_path() -> str:
    """Return the installed browser; it is never downloaded."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        absent("no Chromium is installed")
    return str(found)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a headless browser without name resolution."""
    arguments = [
        "--no-proxy-server", "--disable-background-networking", "--disable-component-update",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    ]  # fmt: skip
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=arguments, timeout=TIMEOUT_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@define
class Window:
    """A browser page at one service, and its errors since `clear`."""

    page: Page
    url: str
    console: list[str] = field(factory=list)
    foreign: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))
        self.page.on("request", lambda request: self._check(request))

    def open(self, path: str) -> int:
        """Open a path; return the status."""
        answer = self.page.goto(f"{self.url}{path}")
        assert answer is not None, path
        return answer.status

    def press(self, button: str) -> None:
        """Press the only button with this text, and wait for the next page."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=button, exact=True).click()

    @property
    def path(self) -> str:
        return urlsplit(self.page.url).path

    def clear(self) -> None:
        self.console.clear()
        self.foreign.clear()

    def close(self) -> None:
        self.page.context.close()

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.console.append(text)

    def _check(self, request: Request) -> None:
        if not request.url.startswith((f"{self.url}/", "data:")):
            self.foreign.append(request.url)


def window(context: BrowserContext, url: str) -> Window:
    """Open an empty page in a context."""
    return Window(context.new_page(), url)


def enter(context: BrowserContext, link: str) -> None:
    """Sign a browser in by a one-time link."""
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(link)
    with page.expect_navigation():
        page.locator("main button").click()
    page.close()
