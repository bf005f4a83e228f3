"""Readers that hold downloads: how many run at once, who is cut, and that a socket goes with its reader."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from attrs import evolve
from starlette.types import Message

from meetcore.adapters.http.downloads import download_routes
from meetcore.domain.notes.downloads import DownloadLimits
from meetcore.testing.clock import SeededEntropy
from meetcore.usecases.runtime import Runtime
from tests.http.test_downloads import Endless, Place, check_refusal, endless, place_with
from tests.support.recording_fakes import a_recording

QUICKLY = DownloadLimits(rate_window_s=1.0)
SHORT_LIMITS = DownloadLimits(streams_per_link=10_000, streams_per_account=10_000, rate_window_s=0.5)


class SlowReader:
    """A socket that asks for a file and takes next to nothing: its kernel buffers little."""

    def __init__(self, url: str, buffer_bytes: int = 4096) -> None:
        parts = urlsplit(url)
        assert parts.port is not None
        self._request = f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        self._address = ("127.0.0.1", parts.port)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.setblocking(False)

    async def ask(self) -> str:
        """Send the request; the status of the answer."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(20):
            await loop.sock_connect(self.socket, self._address)
            await loop.sock_sendall(self.socket, self._request)
            return (await loop.sock_recv(self.socket, 12)).decode()

    async def take(self, size: int) -> bytes:
        """Take up to so many bytes; empty at an ordinary end.

        Raises:
            ConnectionResetError: the server dropped the connection.
        """
        return await asyncio.get_running_loop().sock_recv(self.socket, size)

    async def is_reset(self, at_most: int = 1 << 20, pause_s: float = 0) -> bool:
        """Read on, so many bytes at a time, and return whether the connection was dropped."""
        try:
            async with asyncio.timeout(20):
                while await self.take(at_most):  # noqa: ASYNC110  (its pace is what is tested)
                    await asyncio.sleep(pause_s)
        except ConnectionResetError:
            return True
        return False


@asynccontextmanager
async def slow_readers(url: str, count: int) -> AsyncIterator[list[str]]:
    """Readers that stay, and the statuses that they got."""
    readers = [SlowReader(url) for _ in range(count)]
    try:
        yield [await reader.ask() for reader in readers]
    finally:
        for reader in readers:
            reader.socket.close()


async def until_open(files: Endless, count: int) -> None:
    async with asyncio.timeout(20):
        while files.open_now != count:  # noqa: ASYNC110  (the other side of a connection tells nobody)
            await asyncio.sleep(0.01)


async def other_link(place: Place) -> str:
    recording = evolve(a_recording(sizes=(4 * 2**30,)), provider="endless", account_id=uuid4(), id=uuid4())
    return await place.link_to(place.fake_recordings.put(recording))


async def is_served(place: Place, url: str) -> bool:
    async with place.http.stream("GET", url) as answer:
        return answer.status_code == 200 and len(await anext(answer.aiter_raw())) > 0


@pytest.mark.spec("7/429")
async def test_520_slow_readers_of_one_link_do_not_delay_others() -> None:
    async with endless(DownloadLimits(rate_window_s=3600)) as (files, place, url):
        async with slow_readers(url, 520) as statuses:
            assert statuses.count("HTTP/1.1 200") == 4
            assert statuses.count("HTTP/1.1 429") == 516
            assert files.open_now == 4
            refused = await place.http.get(url)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
            check_refusal(place, refused, "rate_limited")
            assert refused.json()["error"]["details"] == {"limit": 4, "window_seconds": 1}
            assert await is_served(place, await other_link(place))
            assert (await place.http.head(url)).status_code == 200, "a head is no stream"
        await until_open(files, 0)
        assert await is_served(place, url), "who goes away makes room"


async def test_a_link_that_is_not_valid_takes_no_stream() -> None:
    async with endless(DownloadLimits(streams_per_link=1)) as (_, place, url):
        for _ in range(3):
            assert (await place.http.get(f"{url}x")).status_code == 404
        assert await is_served(place, url)


async def test_a_reader_that_takes_nothing_is_cut_and_its_socket_dropped() -> None:
    async with endless(SHORT_LIMITS) as (files, place, url):
        reader = SlowReader(url)
        assert await reader.ask() == "HTTP/1.1 200"
        await until_open(files, 0)
        assert await reader.is_reset(), "what lay in the server's buffer is not sent any more"
        reader.socket.close()
        assert await is_served(place, url)


async def test_a_reader_that_takes_too_little_is_cut() -> None:
    async with endless(SHORT_LIMITS) as (files, _, url):
        reader = SlowReader(url)
        await reader.ask()
        assert await reader.is_reset(at_most=256, pause_s=0.05)
        await until_open(files, 0)
        reader.socket.close()


async def test_a_reader_that_keeps_up_is_not_cut() -> None:
    limits = DownloadLimits(min_bytes_per_s=512 * 1024, rate_window_s=1.0)
    async with endless(limits) as (_, _, url):
        reader, loop = SlowReader(url, 64 * 1024), asyncio.get_running_loop()
        await reader.ask()
        start, taken = loop.time(), 0
        while (elapsed_s := loop.time() - start) < 3.5:
            taken += len(await reader.take(64 * 1024))
            if taken > 3 * 512 * 1024 * elapsed_s:  # it is ahead of its pace
                await asyncio.sleep(0.02)
        assert 3.5 * 512 * 1024 < taken < 20 * 2**20, "it has to wait for the reader"
        reader.socket.close()


async def test_a_slow_source_does_not_cut_the_reader() -> None:
    class Dripping(Endless):
        """A file of which a little comes now and then."""

        async def _endless(self) -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0.05)
                yield b"drip"

    async with place_with(files := Dripping(), QUICKLY) as place:
        recording = place.fake_recordings.put(evolve(a_recording(sizes=(4 * 2**30,)), provider="endless"))
        async with place.http.stream("GET", await place.link_to(recording)) as answer:
            reading, end = answer.aiter_raw(), asyncio.get_running_loop().time() + 2.5
            while asyncio.get_running_loop().time() < end:
                assert await anext(reading)
        await until_open(files, 0)


async def test_where_a_server_cannot_drop_a_connection_the_reading_ends_all_the_same() -> None:
    async with endless(SHORT_LIMITS) as (files, place, url):
        recording_id, query = urlsplit(url).path.rsplit("/", 1)[1], urlsplit(url).query
        runtime = Runtime(place.clock, SeededEntropy(1))
        routes = download_routes(place.download, {"endless": files}, runtime, "", SHORT_LIMITS)
        never = asyncio.Event()

        async def take_nothing(message: Message) -> None:
            if message["type"] == "http.response.body":
                await never.wait()

        async def stay() -> Message:
            await never.wait()
            raise AssertionError("it is set by nobody")

        scope = {
            "type": "http", "method": "GET", "path": f"/downloads/recordings/{recording_id}",
            "query_string": query.encode(), "headers": [], "path_params": {"recording_id": recording_id},
        }  # fmt: skip
        async with asyncio.timeout(20):
            await routes[0].app(scope, stay, take_nothing)
        assert files.open_now == 0
