"""The provider on the contract suite of meetcore's kit: `pytest`, with `meetcore[testing]`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from meetcore.ports.observability import NO_TRACING
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown
from meetcore.testing.contracts import VideoProviderContract
from meetcore.testing.contracts.providers import order_for
from roomy.provider import RoomyProvider
from roomy.stand_in import TOKEN, roomy_stand_in


class TestRoomy(VideoProviderContract):
    """The suite."""

    @pytest.fixture
    async def provider(self) -> AsyncIterator[RoomyProvider]:
        """Give each test a stand-in of its own."""
        with roomy_stand_in() as roomy:
            provider = RoomyProvider(roomy.url, TOKEN, NO_TRACING)
            yield provider
            await provider.aclose()


async def test_a_wrong_token_made_nothing() -> None:
    """A 4xx is a refusal."""
    with roomy_stand_in() as roomy:
        provider = RoomyProvider(roomy.url, "another", NO_TRACING)
        with pytest.raises(ProviderRefused, match="401"):
            await provider.create(order_for(provider))
        await provider.aclose()
        assert roomy.rooms == {}


async def test_without_an_answer_the_outcome_is_unknown() -> None:
    """A lost connection is no refusal."""
    with roomy_stand_in() as roomy:
        provider = RoomyProvider(roomy.url, TOKEN, NO_TRACING)
    with pytest.raises(ProviderUnknown):
        await provider.create(order_for(provider))
    await provider.aclose()


async def test_an_answer_that_drips_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and the answer does not: its time is that of the whole call."""

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n")
        with suppress(OSError):
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)

    monkeypatch.setattr("roomy.provider.TIMEOUT_S", 0.2)
    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        provider = RoomyProvider(f"http://127.0.0.1:{port}", TOKEN, NO_TRACING)
        async with asyncio.timeout(5):
            with pytest.raises(ProviderUnknown):
                await provider.owner()
        await provider.aclose()
