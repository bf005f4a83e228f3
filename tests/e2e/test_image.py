"""The image: its command, health check, user and file system.

Collected if `MEETCORE_TEST_IMAGE` names an image, as `scripts/try_packages.py` does.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import absent
from tests.support.program import ROOT, START_S, Running, Site, until

IMAGE = Path(os.environ["MEETCORE_TEST_IMAGE"])
PORT = 8000


def is_healthy() -> bool:
    """Run the image's health check."""
    check = [sys.executable, str(ROOT / "scripts" / "image.py"), "health"]
    return subprocess.run(check, capture_output=True, check=False, timeout=START_S).returncode == 0


@pytest.fixture
def container(site: Site) -> Iterator[Running]:
    """Run the image's own command."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", PORT)) == 0:
            absent(f"another program is on port {PORT}")
    running = site.launcher.start(env=site.env())
    try:
        yield running
    finally:
        running.kill()


def test_the_image_s_own_command_is_healthy_until_it_is_stopped(container: Running) -> None:
    until(is_healthy, "the health check passes", START_S)
    status = Path(f"/proc/{container.pid}/status").read_text()
    assert re.search(r"^Uid:\t10001\t10001\t10001\t10001$", status, re.MULTILINE)
    assert re.search(r"^Gid:\t10001\t10001\t10001\t10001$", status, re.MULTILINE)
    assert set(re.findall(r"^Cap(?:Prm|Eff|Bnd|Amb):\t(\w+)$", status, re.MULTILINE)) == {"0" * 16}
    assert "NoNewPrivs:\t1" in status
    container.stop()
    assert not is_healthy()


def test_the_image_s_file_system_is_not_its_user_s(container: Running) -> None:
    until(is_healthy, "the health check passes", START_S)
    mounts = Path(f"/proc/{container.pid}/mountinfo").read_text()
    root = re.search(r"^\d+ \d+ \S+ \S+ / (\S+)", mounts, re.MULTILINE)
    assert root is not None
    assert "ro" in root[1].split(",")
    tree = json.loads(IMAGE.read_text())["Root"]
    find = ["find", tree, "-path", f"{tree}/tmp", "-prune", "-o", "-uid", "10001", "-print"]
    owned = subprocess.run(find, capture_output=True, text=True, check=True).stdout.splitlines()
    assert owned == [f"{tree}/scratch"]
