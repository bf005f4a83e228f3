"""The pages of the documentation in a real browser: nothing sticks out of a phone's or a desktop's screen."""

from __future__ import annotations

import json
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import httpx

from tests.conftest import absent
from tests.support.program import START_S, Site

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        absent("no Chromium is installed")
    return str(found)


def dom_of(url: str, place: Path) -> str:
    """Open a page with the network closed, let its scripts run, and return its DOM."""
    command = [
        browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--disable-background-networking", "--disable-component-update", "--no-first-run",
        "--no-proxy-server",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--window-size=1400,1000",
        f"--user-data-dir={place / 'profile'}", "--virtual-time-budget=15000", "--dump-dom", url,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=5 * START_S, check=False).stdout


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
    dom = dom_of(copy.as_uri(), tmp_path)
    measured = json.loads(unescape(dom.partition("<title>")[2].partition("</title>")[0]))
    assert len(measured) == len(frames)
    for name, (page_px, pushed) in measured.items():
        assert page_px <= int(name.split()[1]), name
        assert pushed == 0, f"nothing of {name} has to be pushed aside to be read"
