#!/usr/bin/env python3
"""Take the picture of the README anew: the overview of `meetcore dev`, in docs/pictures/overview.png.

Needs the packages for development and an installed Chromium. Starts `meetcore dev` with an empty data
directory on a free port, makes some meetings with the demo key, signs in by the printed link, and stops the
program.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

from meetcore.domain.meetings.schedule import WIB

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "overview.png"
MAX_BYTES = 150_000
START_S = 120
MEETINGS = (
    ("Sprint review", "10:00", "standard-100"), ("Interview: product designer", "13:30", "standard-100"),
    ("All hands, first quarter", "15:00", "plus-300"),
)  # fmt: skip


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """Run `meetcore dev`; give what it printed once it is up."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "meetcore.cli.main",
        "dev",
        "--port",
        str(port),
        "--data-dir",
        str(directory / "data"),
    ]
    log = directory / "log"
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            deadline = time.monotonic() + START_S
            while "Ctrl-C" not in log.read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(log.read_text())
                time.sleep(0.2)
            yield log.read_text()
        finally:
            process.terminate()


def fill(url: str, key: str) -> None:
    """Make the meetings, and wait for the notes of the one that the demo account begins with."""
    with httpx.Client(
        base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}, trust_env=False
    ) as api:
        for number, (title, start, tier) in enumerate(MEETINGS, 1):
            day = (datetime.now(WIB) + timedelta(days=number)).date().isoformat()
            body = {"title": title, "date": day, "start_time": start, "pricing_tier_id": tier}
            api.post("/meetings", json=body).raise_for_status()
        deadline = time.monotonic() + START_S
        while not any(each["status"] == "completed" for each in api.get("/notes").json()["data"]):
            if time.monotonic() > deadline:
                raise SystemExit("the notes of the demo account were not written")
            time.sleep(0.5)


def take(link: str) -> None:
    """Sign in, and save what the window shows."""
    browsers = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, browsers)), None)
    if found is None:
        raise SystemExit("no Chromium is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found)
        page = browser.new_page(locale="en", color_scheme="light", viewport={"width": 1200, "height": 860})
        page.goto(link)
        page.locator("main button").click()
        page.get_by_role("heading", name="Overview").wait_for()
        PICTURE.parent.mkdir(exist_ok=True)
        page.screenshot(path=PICTURE)
        browser.close()


def main() -> None:
    """Take the picture."""
    directory = Path(tempfile.mkdtemp(prefix="meetcore-pictures-"))
    directory.chmod(0o711)  # Postgres runs as another user where root starts it
    try:
        with running(directory) as printed:
            url = re.findall(r"meetcore is up at (\S+)", printed)[0]
            fill(url, re.findall(r"demo API key +(\S+)", printed)[0])
            take(re.findall(r"sign in +(\S+)", printed)[0])
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    size = PICTURE.stat().st_size
    print(f"{PICTURE.relative_to(ROOT)}: {size} bytes")
    if size > MAX_BYTES:
        raise SystemExit(f"the picture is larger than {MAX_BYTES} bytes")


if __name__ == "__main__":
    main()
