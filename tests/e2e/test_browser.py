"""The API reference in a real browser with the network closed: it renders without external requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import frozen

from tests.conftest import absent
from tests.support.program import Site

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DESKTOP, PHONE = "1400,1000", "500,900"


@frozen
class PageResult:
    """A page as rendered by the browser."""

    dom: str
    console: str
    requested: tuple[str, ...]
    """The addresses that the page asked for."""


def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        absent("no Chromium is installed")
    return str(found)


def read_log(text: str) -> Any:
    """The net log; a browser that is in a hurry to end leaves its list open."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(text.rstrip().rstrip(",") + "]}")


def look(url: str, size: str, place: Path) -> PageResult:
    """Open a page, let its scripts run, and record its requests."""
    log = place / "net.json"
    command = [
        browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--disable-background-networking", "--disable-component-update", "--no-first-run",
        "--no-proxy-server",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--window-size={size}",
        f"--user-data-dir={place / 'profile'}", f"--log-net-log={log}", "--enable-logging=stderr",
        "--virtual-time-budget=15000", "--dump-dom", url,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env=os.environ)
    console = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    network_log = read_log(log.read_text())
    params = [event.get("params", {}) for event in network_log["events"]]
    requested = [
        each["url"] for each in params if "url" in each and str(each.get("initiator", "")).startswith("http")
    ]
    return PageResult(done.stdout, console, tuple(requested))


PAGES = (
    "errors", "errors/service_unavailable", "integrating", "webhooks", "notulen", "compatibility", "client",
    "agents", "limits", "changelog", "../docs", "api/create_meeting", "api/get_note", "api/on_note_completed",
)  # fmt: skip
WIDTHS = (390, 1400)

# Each page in a frame, which may be narrower than a window; the pages themselves may not be framed and run no
# script, so copies are. The title says what of each sticks out.
FRAME = '<iframe id="{name} {width}" srcdoc="{text}" width="{width}" height="844" frameborder="0"></iframe>'
MEASURE = """<script>onload = () => {
document.title = JSON.stringify(Object.fromEntries([...document.querySelectorAll("iframe")].map(frame => {
    const view = frame.contentWindow, page = frame.contentDocument;
    const pushed = [...page.querySelectorAll("main *")].filter(each => each.scrollWidth > each.clientWidth + 1
        && view.getComputedStyle(each).overflowX !== "visible" && each.tagName !== "PRE");
    return [frame.id, [page.documentElement.scrollWidth, pushed.length]] }))) }</script>"""


def test_the_documentation_pages_fit_phone_and_desktop_screens(site: Site, tmp_path: Path) -> None:
    with site.serve() as api, httpx.Client(base_url=f"{api.url}/docs/", trust_env=False) as http:
        texts = {name: http.get(name).raise_for_status().text for name in PAGES}
    frames = [
        FRAME.format(name=name, width=width, text=escape(text))
        for name, text in texts.items()
        for width in WIDTHS
    ]
    copy = tmp_path / "pages.html"
    copy.write_text(f"<!doctype html><title></title>{''.join(frames)}{MEASURE}", "utf-8")
    page = look(copy.as_uri(), DESKTOP, tmp_path)
    measured = json.loads(unescape(page.dom.partition("<title>")[2].partition("</title>")[0]))
    assert len(measured) == len(frames)
    for name, (page_px, pushed) in measured.items():
        assert page_px <= int(name.split()[1]), name
        assert pushed == 0, f"nothing of {name} has to be pushed aside to be read"


@pytest.mark.spec("9/3")
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_reference_renders_without_external_requests(site: Site, tmp_path: Path, size: str) -> None:
    with site.serve() as api:
        operation = look(f"{api.url}/docs/api/create_meeting", size, tmp_path)
    assert "Create a meeting and deduct its credits" in operation.dom
    assert "Idempotency-Key" in operation.dom
    assert "Refused to" not in operation.console
    assert "Content Security Policy" not in operation.console
    assert [url for url in operation.requested if not url.startswith((api.url, "data:"))] == []
