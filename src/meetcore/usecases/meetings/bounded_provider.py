"""Bound every call of a video provider in time. A call that takes too long is unknown, never refused.

The leases rely on it: a call that outlived its lease would race its new owner.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from attrs import frozen

from meetcore.domain.meetings import cancellation, meetings, views
from meetcore.ports import observability, video_provider

PROVIDER_TIMEOUT_S = 10.0

T = TypeVar("T")


def require_own(provider: video_provider.VideoProvider, meeting: meetings.Meeting) -> None:
    """Raise `ProviderUnknown` for a meeting of another provider, whose answer about it is meaningless."""
    if meeting.provider != provider.abilities.name:
        raise video_provider.ProviderUnknown(f"the meeting is at {meeting.provider}, which is not configured")


@frozen
class BoundedProvider:
    """Calls another provider, for `timeout_s` seconds at most; each call is counted and has a span.

    No call is sent once its lease is over (`video_provider.under_lease`).
    """

    provider: video_provider.VideoProvider
    timeout_s: float = PROVIDER_TIMEOUT_S
    metrics: observability.Metrics = observability.NO_METRICS
    tracing: observability.Tracing = observability.NO_TRACING

    @property
    def abilities(self) -> meetings.ProviderAbilities:
        """The provider's abilities."""
        return self.provider.abilities

    async def create(self, order: views.ProviderOrder) -> meetings.Provisioned:
        """Make a meeting."""
        return await self._within("create", partial(self.provider.create, order))

    async def find(self, order: views.ProviderOrder) -> Sequence[meetings.Provisioned]:
        """Return every meeting that exists under an order's id."""
        return await self._within("find", partial(self.provider.find, order))

    async def remove(self, provider_meeting_id: str) -> cancellation.ProviderMeetingState:
        """Delete a meeting that has not started."""
        return await self._within("remove", partial(self.provider.remove, provider_meeting_id))

    async def end(self, provider_meeting_id: str) -> None:
        """End a meeting that runs."""
        await self._within("end", partial(self.provider.end, provider_meeting_id))

    async def list_host(self, provider_user_id: str) -> Sequence[views.ListedMeeting]:
        """Return every meeting of a host."""
        return await self._within("list", partial(self.provider.list_host, provider_user_id))

    async def read(self, provider_meeting_id: str) -> views.FoundMeeting | None:
        """Return a meeting with our reference in it."""
        return await self._within("read", partial(self.provider.read, provider_meeting_id))

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Replace a host's key."""
        await self._within("set_host_key", partial(self.provider.set_host_key, provider_user_id, host_key))

    async def _within(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        clock = asyncio.get_running_loop().time
        start, result = clock(), "unknown"
        try:
            with self.tracing.span(f"provider {name}", provider=self.provider.abilities.name):
                video_provider.require_lease()
                async with asyncio.timeout(self.timeout_s):
                    answer = await call()
            result = "done"
        except video_provider.ProviderRefused as refusal:
            result = refusal.code
            raise
        except TimeoutError as error:
            raise video_provider.ProviderUnknown(f"no answer within {self.timeout_s:g} s") from error
        finally:
            self.metrics.count(observability.PROVIDER_CALLS, name, result)
            self.metrics.observe(observability.PROVIDER_DURATION, clock() - start, name)
        return answer
