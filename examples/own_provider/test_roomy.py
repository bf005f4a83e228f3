"""The provider on the contract suite of meetcore's kit: `pytest`, with `meetcore[testing]`."""

from collections.abc import AsyncIterator

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
