"""haproxy with the configuration of deploy/, before servers of a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.conftest import absent
from tests.support.deploy_files import DEPLOY
from tests.support.program import TIMEOUT_S, free_port


def balanced(ports: list[int], directory: Path) -> AbstractContextManager[tuple[str, str]]:
    """Run haproxy before servers on ports of this machine."""
    return balanced_hosts([f"127.0.0.1:{port}" for port in ports], directory)


@contextmanager
def balanced_hosts(addresses: list[str], directory: Path) -> Iterator[tuple[str, str]]:
    """Run haproxy; yield its address and that of its metrics."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        absent("no haproxy")
    front, figures = free_port(), free_port()
    variables = {
        "HAPROXY_BIND": f"127.0.0.1:{front}",
        "HAPROXY_STATS": f"127.0.0.1:{figures}",
        **{f"MEETCORE_SERVER_{number}": address for number, address in enumerate(addresses, 1)},
    }
    with (directory / "haproxy.log").open("wb") as log:
        child = subprocess.Popen(
            [str(program), "-db", "-f", str(DEPLOY / "haproxy.cfg")],
            env=os.environ | variables, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{front}", f"http://127.0.0.1:{figures}"
    finally:
        child.terminate()
        child.wait(TIMEOUT_S)
