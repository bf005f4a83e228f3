"""A webhook post without the database: the service's sender compared with a bare aiohttp loop.

Both post the same signed body over TLS to the same receiver, on connections that stay open, so many at a
time, on the event loop that the program runs on. The sender resolves, vets, bounds, reads; the bare one
posts with a session of aiohttp and reads. They alternate in one process, and its processor time is compared.
"""

import asyncio
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch
from uuid import UUID

import aiohttp
import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult

from benchmarks.processes import tls_receiver
from benchmarks.report import Result, middle
from benchmarks.tls_receiver import CA_FILE, NAMES
from meetcore.adapters.webhook_sender import AsyncioWebhookSender
from meetcore.adapters.webhook_sender import sender as sender_module
from meetcore.domain.webhooks.addresses import Address
from meetcore.domain.webhooks.signature import new_secret, signing_headers
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.webhook_sender import OutgoingPost

__all__ = ["bare_posts", "here", "measure_posts"]

IN_FLIGHT = 64
_ACCOUNT = UUID(int=1)
_ID = "0192a3b4-c5d6-7e8f-9012-345678901234"
_BODY = b"x" * 1024
_HEADERS = signing_headers(new_secret(bytes(range(32))), _ID, _BODY, 1_793_588_645) | {
    "Content-Type": "application/json",
    "User-Agent": "meetcore-webhooks/1",
    "X-Service-Event": "meeting.created",
    "X-Service-Delivery": _ID,
}
_HERE = "127.0.0.1"
_TARGET = "/hook?x=1"

Post: TypeAlias = Callable[[], Awaitable[None]]


def measure_posts(rounds: int, seconds: float) -> Result:
    """Return the median of rounds in which both sides alternate, in µs of processor time a post."""
    with (
        tempfile.TemporaryDirectory() as place,
        tls_receiver(place) as receiver,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        turns = runner.run(_turns(str(Path(place) / CA_FILE), receiver.port, rounds, seconds))
    service, floor, rate, floor_rate = (middle(list(column)) for column in zip(*turns, strict=True))
    note = f"{rate:,.0f}/s, bare {floor_rate:,.0f}/s, {IN_FLIGHT} in flight; without the database"
    extra = {"posts_per_s": rate, "floor_posts_per_s": floor_rate, "note": note}
    return Result("post a webhook, CPU", service, floor, "µs", "ratio ≤ 1", extra)


async def _turns(
    ca_file: str, port: int, rounds: int, seconds: float
) -> list[tuple[float, float, float, float]]:
    turns = []
    async with _service(ca_file, port) as service, bare_posts(ca_file, port) as bare:
        for side in (service, bare):
            await _flight(side, seconds / 4)  # the connections are opened
        for _ in range(rounds):
            (cpu_us, rate), (floor_us, floor_rate) = (
                await _flight(service, seconds),
                await _flight(bare, seconds),
            )
            turns.append((cpu_us, floor_us, rate, floor_rate))
    return turns


async def _flight(post: Post, seconds: float) -> tuple[float, float]:
    """Post for a while; µs of processor time a post, and posts a second."""
    count = 0

    async def one_after_the_other() -> None:
        nonlocal count
        while time.monotonic() < stop:
            await post()
            count += 1

    started, cpu_s = time.monotonic(), time.process_time()
    stop = started + seconds
    await asyncio.gather(*(one_after_the_other() for _ in range(IN_FLIGHT)))
    return (time.process_time() - cpu_s) / count * 1e6, count / (time.monotonic() - started)


class _Here:
    """Finds every name on this machine, as the system's resolver would after a lookup."""

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        return (IPv4Address(_HERE),)


def here() -> _Here:
    """A resolver that finds every name on this machine."""
    return _Here()


@asynccontextmanager
async def _service(ca_file: str, port: int) -> AsyncIterator[Post]:
    sender = AsyncioWebhookSender(here(), [IPv4Network(f"{_HERE}/32")], ca_file)
    url = parse_webhook_url(f"https://{NAMES[0]}{_TARGET}")

    async def post() -> None:
        attempt = await sender.post(OutgoingPost(_ACCOUNT, url, _HEADERS, _BODY))
        if attempt.error is not None:
            raise RuntimeError(attempt.error)

    # Port 443 may not be bound here; everything else is as in service, vetting included.
    with patch.object(sender_module, "_HTTPS_PORT", port):
        await sender.start()
        try:
            yield post
        finally:
            await sender.close()


class _BareHere(AbstractResolver):
    def __init__(self, port: int) -> None:
        self._port = port

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host=_HERE, port=self._port, family=2, proto=0, flags=0)]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def bare_posts(ca_file: str, port: int) -> AsyncIterator[Post]:
    """Yield a function that posts one signed body with aiohttp, reads the answer, and records nothing."""
    connector = aiohttp.TCPConnector(
        ssl=ssl.create_default_context(cafile=ca_file), limit=0, resolver=_BareHere(port)
    )
    async with aiohttp.ClientSession(connector=connector) as session:

        async def post() -> None:
            async with session.post(
                f"https://{NAMES[0]}:{port}{_TARGET}", data=_BODY, headers=_HEADERS
            ) as answer:
                await answer.read()
                if answer.status != 200:
                    raise RuntimeError(str(answer.status))

        yield post
