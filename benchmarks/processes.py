"""Programs under measurement: started on a free port, inspected through /proc, and ended with their block.

It imports next to nothing, for the generators of load.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

__all__ = ["ROOT", "Program", "cpu_s", "running"]

ROOT = Path(__file__).parents[1]
START_S = 60.0
STOP_S = 20.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_NO_SETTINGS: Mapping[str, object] = {}


def cpu_s(pid: int) -> float:
    """Processor seconds of a process and all its threads, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


@frozen
class Program:
    """A running server."""

    pid: int
    port: int

    def memory_mb(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


@contextmanager
def running(
    module: str, *arguments: object, settings: Mapping[str, object] = _NO_SETTINGS
) -> Iterator[Program]:
    """Run a module that takes `--port`, with these settings and no others, and wait until it answers."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEETCORE_")}
    given = {f"MEETCORE_{name.upper()}": str(value) for name, value in settings.items()}
    child = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments), "--port", str(port)],
        env=clean | given, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + START_S
        while not _listens(port):
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{child.args!r} did not come up on port {port}")
            time.sleep(0.02)
        yield Program(child.pid, port)
    finally:
        child.terminate()
        child.wait(STOP_S)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
