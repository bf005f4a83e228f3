"""SIGTERM: the program reports not ready, continues to serve, and ends when nothing is in flight."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from attrs import define, field, frozen

from tests.conftest import absent
from tests.support.program import PROGRAM, START_S, TIMEOUT_S, Running, Site, free_port, until, whole_lines

DRAIN_S = 4
LATE_S = DRAIN_S + 8.0
RATE_PER_S = 100


def status_of(url: str) -> int:
    """Return the status of a GET on a new connection, or 0 without an answer."""
    try:
        return httpx.get(url, trust_env=False).status_code
    except httpx.TransportError:
        return 0


def answering(server: Running, url: str) -> set[int]:
    """Send a request; return the processes that have answered so far."""
    status_of(f"{url}/api/v1/me")
    lines = [json.loads(line) for line in whole_lines(server.err)]
    return {line["pid"] for line in lines if line.get("path") == "/api/v1/me"}


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split()]


@pytest.mark.parametrize("is_group", [False, True], ids=["the parent", "every process"])
@pytest.mark.parametrize("workers", [1, 2])
def test_it_continues_to_serve_and_reports_not_ready(site: Site, workers: int, is_group: bool) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = site.launcher.start(
        "serve", "--port", port, "--workers", workers, env=site.env(drain_s=DRAIN_S, base_url=url)
    )
    try:
        until(lambda: status_of(f"{url}/readyz") == 200, "the API is up", START_S)
        until(lambda: len(answering(server, url)) == workers, "each of its processes is", START_S)
        processes = [server.pid, *(children_of(server.pid) if is_group else [])]
        began = time.monotonic()
        for pid in processes:  # a service manager signals all of a group
            os.kill(pid, signal.SIGTERM)
        until(lambda: server.err.read_text().count('"drain started"') == workers, "each has taken the signal")
        answers: list[tuple[int, ...]] = []
        while time.monotonic() < began + DRAIN_S - 0.5:
            found = tuple(status_of(f"{url}/{path}") for path in ("readyz", "api/v1/me", "healthz"))
            is_running = server.poll() is None
            if time.monotonic() < began + DRAIN_S:  # what comes later may have met its end
                assert (found, is_running) == ((503, 401, 200), True)
                answers.append(found)
        assert answers
        done = server.wait(LATE_S)
        assert done.code in (0, -signal.SIGTERM)
        assert "Traceback" not in done.err
        assert done.err.count('"drain started"') == workers
        assert DRAIN_S <= time.monotonic() - began < LATE_S
        assert status_of(f"{url}/healthz") == 0
    finally:
        server.kill()


def test_requests_in_flight_at_shutdown_are_answered(site: Site) -> None:
    account = site.cli("account", "create", "--email", "drain@example.test", "--full-name", "D")
    key = site.cli("key", "create", "--account", account["id"], "--scope", "webhooks:write")["key"]
    with site.serve(drain_s=1) as server:
        with socket.create_connection(
            ("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=TIMEOUT_S
        ) as wire:
            wire.sendall(
                b"POST /api/v1/webhooks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Expect: 100-continue\r\nContent-Length: 2\r\nAuthorization: Bearer "
                + key.encode()
                + b"\r\n\r\n"
            )
            assert wire.recv(65536).startswith(b"HTTP/1.1 100 "), "its body is being read"
            wire.sendall(b"{")
            server.signal(signal.SIGTERM)
            until(lambda: status_of(f"{server.url}/healthz") == 0, "the listener is closed")
            assert server.poll() is None
            wire.sendall(b"}")
            answer = wire.recv(65536)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert server.poll(LATE_S) is not None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_with_a_full_log_disk_it_serves_and_ends(site: Site) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Path("/dev/full").open("w") as full:
        server = subprocess.Popen(
            [*PROGRAM, "serve", "--port", str(port)], env=site.env(drain_s=1, base_url=url),
            stdout=subprocess.DEVNULL, stderr=full,
        )  # fmt: skip
    try:
        until(lambda: status_of(f"{url}/readyz") == 200, "the API is up", START_S)
        assert status_of(f"{url}/api/v1/me") == 401
        server.terminate()
        assert server.wait(LATE_S) in (0, 120, -signal.SIGTERM)
    finally:
        server.kill()


@contextmanager
def service_manager() -> Iterator[tuple[str, socket.socket]]:
    """The socket of a service manager, as systemd names it to the processes of a unit."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{folder}/notify")
        manager.settimeout(START_S)
        yield f"{folder}/notify", manager


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_manager_is_notified_at_the_first_200(site: Site, workers: int) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with service_manager() as (place, manager):
        env = site.env(base_url=url) | {"NOTIFY_SOCKET": place}
        server = site.launcher.start("serve", "--port", port, "--workers", workers, env=env)
        try:
            assert manager.recv(100) == b"READY=1"
            assert status_of(f"{url}/readyz") == 200
        finally:
            server.kill()


def test_a_service_manager_is_notified_when_a_worker_works(site: Site) -> None:
    with service_manager() as (place, manager):
        worker = site.launcher.start("worker", env=site.env() | {"NOTIFY_SOCKET": place})
        try:
            assert manager.recv(100) == b"READY=1"
            worker.wait_until_working()
        finally:
            worker.kill()


def test_an_interrupt_ends_it_at_once(site: Site) -> None:
    with site.serve(drain_s=60) as server:
        server.signal(signal.SIGTERM)
        until(lambda: status_of(f"{server.url}/readyz") == 503, "it is not ready")
        server.signal(signal.SIGINT)
        assert server.poll(LATE_S) is not None


# Behind a balancer


@frozen
class Balancer:
    """haproxy before two servers with readiness checks and no retries."""

    url: str
    admin: Path

    def is_up(self, port: int) -> bool:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self.admin))
            asking.sendall(b"show stat\n")
            table = b"".join(iter(lambda: asking.recv(65536), b"")).decode().removeprefix("# ")
        rows = csv.DictReader(table.splitlines())
        return any(row["svname"] == f"s{port}" and row["status"].startswith("UP") for row in rows)


CONFIGURATION = """
global
    stats socket {admin} level user
defaults
    mode http
    retries 0
    timeout connect 5s
    timeout check 5s
    timeout client 30s
    timeout server 30s
    option http-keep-alive
frontend front
    bind 127.0.0.1:{port}
    default_backend back
backend back
    balance roundrobin
    option httpchk GET /readyz
    http-check expect status 200
    http-reuse always
    default-server check inter 200 fall 2 rise 1
{servers}
"""


@contextmanager
def balancing(directory: Path, ports: list[int]) -> Iterator[Balancer]:
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        absent("no haproxy")
    port = free_port()
    servers = "\n".join(f"    server s{each} 127.0.0.1:{each}" for each in ports)
    file = directory / "haproxy.cfg"
    admin = Path(tempfile.mkdtemp()) / "admin"  # the name of a socket has at most 107 bytes
    file.write_text(CONFIGURATION.format(port=port, servers=servers, admin=admin))
    child = subprocess.Popen([str(program), "-db", "-f", str(file)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: status_of(f"http://127.0.0.1:{port}/healthz") == 200, "haproxy is up")
        yield Balancer(f"http://127.0.0.1:{port}", admin)
    finally:
        child.terminate()
        child.wait(TIMEOUT_S)
        shutil.rmtree(admin.parent)


@define
class Customers:
    """Threads that send requests at a common rate over keep-alive connections, and count the answers."""

    url: str
    statuses: Counter[int] = field(factory=Counter)
    _is_over: threading.Event = field(factory=threading.Event)

    def ask(self, threads: int) -> None:
        with httpx.Client(trust_env=False) as http:
            due = time.monotonic()
            while not self._is_over.is_set():
                try:
                    status = http.get(f"{self.url}/api/v1/me").status_code
                except httpx.TransportError:
                    status = 0
                self.statuses[status] += 1
                due += threads / RATE_PER_S
                self._is_over.wait(max(0.0, due - time.monotonic()))

    @contextmanager
    def asking(self, threads: int = 10) -> Iterator[Counter[int]]:
        """Send requests until the block ends."""
        running = [threading.Thread(target=self.ask, args=(threads,)) for _ in range(threads)]
        for each in running:
            each.start()
        try:
            yield self.statuses
        finally:
            self._is_over.set()
            for each in running:
                each.join()


def test_two_restarts_behind_a_balancer_lose_nothing(site: Site, tmp_path: Path) -> None:
    ports = [free_port(), free_port()]

    def start(port: int) -> Running:
        env = site.env(drain_s=DRAIN_S, base_url=f"http://127.0.0.1:{port}")
        server = site.launcher.start("serve", "--port", port, env=env)
        until(lambda: status_of(f"http://127.0.0.1:{port}/readyz") == 200, "a server is up", START_S)
        return server

    servers = {port: start(port) for port in ports}
    try:
        with balancing(tmp_path, ports) as balancer, Customers(balancer.url).asking() as statuses:
            until(lambda: statuses[401] > RATE_PER_S // 2, "the customers ask")
            for port in ports:
                before = statuses.total()
                servers[port].signal(signal.SIGTERM)
                servers[port].wait(LATE_S)
                servers[port] = start(port)
                until(partial(balancer.is_up, port), "haproxy sees that it is back", START_S)
                assert statuses.total() > before
        assert set(statuses) == {401}, statuses
    finally:
        for server in servers.values():
            server.kill()
