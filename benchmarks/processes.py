"""The programs under measurement: started, awaited, inspected through /proc, stopped."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import frozen

__all__ = ["ROOT", "Program", "bare_route", "cpu_s", "family", "meetcore_serve", "tls_receiver"]

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).parents[1]


def cpu_s(pid: int) -> float:
    """Processor seconds of a process and all its threads, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def family(pid: int) -> list[int]:
    """A process, its children and theirs, as they are now."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            parent = int(place.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


@frozen
class Program:
    """A running server."""

    pid: int
    port: int

    def memory_mb(self) -> dict[str, float]:
        """Resident and proportional memory in MB."""
        status = _kilobytes(Path(f"/proc/{self.pid}/status").read_text(), "VmRSS:")
        rollup = _kilobytes(Path(f"/proc/{self.pid}/smaps_rollup").read_text(), "Pss:")
        return {"rss_mb": status * 1024 / 1e6, "pss_mb": rollup * 1024 / 1e6}


def _kilobytes(text: str, label: str) -> int:
    line = next(line for line in text.splitlines() if line.startswith(label))
    return int(line.split()[1])


@contextmanager
def meetcore_serve(database_url: str, redis_url: str, secrets_key: str) -> Iterator[Program]:
    """`meetcore serve` as in production: counters and doorbell in Redis, no worker inside."""
    settings = {
        "MEETCORE_DATABASE_URL": database_url,
        "MEETCORE_RATE_STORE_URL": redis_url,
        "MEETCORE_BROKER_URL": redis_url,
        "MEETCORE_SECRETS_KEY": secrets_key,
        "MEETCORE_QUOTA_READ": "1000000000",
        "MEETCORE_QUOTA_CREDIT": "1000000000",
        "MEETCORE_QUOTA_TOOL": "1000000000",
        "MEETCORE_DRAIN_S": "0",
    }
    with _running(["meetcore.cli.main", "serve"], settings) as program:
        yield program


@contextmanager
def bare_route(database_url: str, account_id: str) -> Iterator[Program]:
    """The floor of `GET /me`."""
    with _running(["benchmarks.bare", database_url, account_id], {}) as program:
        yield program


@contextmanager
def tls_receiver(directory: str) -> Iterator[Program]:
    """Run the receiver of webhooks; it writes its authority's certificate to the directory."""
    with _running(["benchmarks.tls_receiver", directory], {}) as program:
        yield program


@contextmanager
def _running(arguments: list[str], settings: dict[str, str]) -> Iterator[Program]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEETCORE_")}
    child = subprocess.Popen(
        [sys.executable, "-m", *arguments, "--port", str(port)],
        env=clean | settings, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_until_up(child, port)
        yield Program(child.pid, port)
    finally:
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _wait_until_up(child: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{child.args!r} did not come up on port {port}") from None
            time.sleep(0.02)
