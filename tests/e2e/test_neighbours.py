"""The effect of an attacking customer on others: the latency of `GET /me`."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from meetcore.adapters.system import allow_open_files
from tests.support.program import TIMEOUT_S, Running, Site, until

REQUESTS = 200
PAUSE_S = 0.01
MAX_RATIO = 2.0
NOISE_S = 0.05
"""Tolerance for a busy machine."""
TRIES = 5
"""An attack slows every try, other work of the machine does not."""

SILENT = 1030
PER_ADDRESS = 180
QUERIES = (
    "&".join(f"a{number}" for number in range(9_000)),  # 58 KB, more than a head may have
    "&".join(f"a{number}" for number in range(4_500)),  # 28 KB, which a head may have and a query not
    "&".join(f"a{number}={'x' * 120}" for number in range(32)),  # the largest that is read
)


def key_of(site: Site, name: str) -> str:
    account = site.cli("account", "create", "--email", f"{name}@example.test", "--full-name", name)
    scope = ("--scope", "meetings:read")
    return str(site.cli("key", "create", "--account", account["id"], *scope)["key"])


async def times_of(url: str, keys: list[str]) -> list[float]:
    """Return the latencies of `GET /me`; every request must be answered."""
    host, port = url.removeprefix("http://").split(":")

    async def ask(key: str) -> list[float]:
        request = (
            f"GET /api/v1/me HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
            "Connection: close\r\n\r\n"
        )
        taken = []
        for _ in range(REQUESTS):
            start = time.perf_counter()
            # A connection of its own for each: one that is not admitted must show.
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request.encode())
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            taken.append(time.perf_counter() - start)
            writer.close()
            await writer.wait_closed()
            await asyncio.sleep(PAUSE_S)
        return taken

    return sorted(each for times in await asyncio.gather(*map(ask, keys)) for each in times)


def p95(times: list[float]) -> float:
    return times[len(times) * 95 // 100]


@asynccontextmanager
async def worst_queries(url: str, key: str) -> AsyncIterator[None]:
    """At the default quota, five per second."""

    async def send() -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            for number in range(10**6):
                query = QUERIES[number % len(QUERIES)]
                headers = {"Authorization": f"Bearer {key}"}
                answer = await http.get(f"{url}/api/v1/meetings?{query}", headers=headers)
                assert answer.status_code in (400, 431)
                await asyncio.sleep(0.2)

    sending = asyncio.create_task(send())
    yield
    assert not sending.done()
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending


@asynccontextmanager
async def silent_sockets(url: str, _: str) -> AsyncIterator[None]:
    """From several addresses, each below its own limit."""
    allow_open_files(SILENT + 1000)
    host, port = url.removeprefix("http://").split(":")
    sockets = []
    for number in range(SILENT):
        source = (f"127.0.2.{number // PER_ADDRESS + 1}", 0)
        sockets.append(socket.create_connection((host, int(port)), timeout=TIMEOUT_S, source_address=source))
    try:
        yield
    finally:
        for each in sockets:
            each.close()


@pytest.mark.parametrize("attack", [worst_queries, silent_sockets])
async def test_other_customers_are_barely_affected_by_an_attacker(
    site: Site, attack: Callable[[str, str], AbstractAsyncContextManager[None]]
) -> None:
    name = attack.__name__.replace("_", "-")
    keys = [key_of(site, f"{name}-{number}") for number in range(2)]
    attacker = key_of(site, f"{name}-attacker")
    with site.serve(connections=1000) as server:
        for _ in range(TRIES):
            quiet = p95(await times_of(server.url, keys))
            async with attack(server.url, attacker):
                noisy = p95(await times_of(server.url, keys))
            print(f"{name}: p95 of GET /me {quiet * 1000:.1f} ms quiet, {noisy * 1000:.1f} ms under attack")
            if noisy < MAX_RATIO * quiet + NOISE_S:
                return
    raise AssertionError("other customers wait for the attacker")


def links_of(directory: Path) -> Iterator[str]:
    """Where the links in a directory lead that is changed meanwhile."""
    for each in directory.iterdir():
        with suppress(OSError):
            yield os.readlink(each)


def test_silent_sockets_are_closed_and_leave_nothing(site: Site) -> None:
    def open_files(server: Running) -> int:
        """Count open files without connections to other servers, which come and go."""
        own = f":{port:04X}"
        unix = Path("/proc/net/unix").read_text().splitlines()[1:]
        others = {f"socket:[{line.split()[6]}]" for line in unix}
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, _, *fields = line.split()
            if not local.endswith(own):
                others.add(f"socket:[{fields[6]}]")
        return sum(each not in others for each in links_of(Path(f"/proc/{server.pid}/fd")))

    with site.serve() as server:
        port = int(server.url.rpartition(":")[2])
        before = open_files(server)
        sockets = [socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) for _ in range(150)]
        until(lambda: open_files(server) > before + 100, "they are connected")
        until(lambda: open_files(server) <= before + 2, "they are closed")
        assert all(each.recv(1) == b"" for each in sockets)
        for each in sockets:
            each.close()
