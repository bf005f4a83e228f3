"""What a provider reports of a meeting with participants, and of one that they have left.

A `Play` brings both about, in each provider's own way.
"""

from typing import Protocol

import pytest

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.ports.video_provider import VideoProvider
from meetcore.testing.contracts.video_provider import order_for


class Play(Protocol):
    """What people do at the provider, without asking us."""

    async def start(self, provider_meeting_id: str) -> None:
        """Come in."""

    async def finish(self, provider_meeting_id: str) -> None:
        """Leave, the last one."""


@pytest.mark.asyncio
class InteractiveProviderContract:
    """The suite for a `VideoProvider` that knows who is in a meeting. Give it `provider` and `play`."""

    async def test_one_that_runs_is_not_removed(self, provider: VideoProvider, play: Play) -> None:
        order = order_for(provider)
        made = await provider.create(order)
        await play.start(made.provider_meeting_id)
        for _ in range(2):
            state = await provider.remove(made.provider_meeting_id)
            assert state is ProviderMeetingState.IN_PROGRESS
        assert list(await provider.find(order)) == [made]

    async def test_one_that_is_over_is_not_removed(self, provider: VideoProvider, play: Play) -> None:
        made = await provider.create(order_for(provider))
        await play.start(made.provider_meeting_id)
        await play.finish(made.provider_meeting_id)
        for _ in range(2):
            assert await provider.remove(made.provider_meeting_id) is ProviderMeetingState.OVER

    async def test_one_that_was_ended_is_over(self, provider: VideoProvider, play: Play) -> None:
        made = await provider.create(order_for(provider))
        await play.start(made.provider_meeting_id)
        await provider.end(made.provider_meeting_id)
        await provider.end(made.provider_meeting_id)
        assert await provider.remove(made.provider_meeting_id) is ProviderMeetingState.OVER

    async def test_ending_one_leaves_the_others(self, provider: VideoProvider, play: Play) -> None:
        ended, runs = [await provider.create(order_for(provider)) for _ in range(2)]
        for made in (ended, runs):
            await play.start(made.provider_meeting_id)
        await provider.end(ended.provider_meeting_id)
        assert await provider.remove(runs.provider_meeting_id) is ProviderMeetingState.IN_PROGRESS
