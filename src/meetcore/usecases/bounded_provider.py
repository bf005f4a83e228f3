"""A video provider whose every call ends in time.

The leases rely on it: a call that outlived its lease would race its new owner. A call that takes too
long is unknown, never refused.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from attrs import frozen

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import Meeting, ProviderAbilities, Provisioned
from meetcore.ports.metrics import NO_METRICS, Metrics
from meetcore.ports.tracing import NO_TRACING, Tracing
from meetcore.ports.video_provider import (
    FoundMeeting,
    ListedMeeting,
    ProviderOrder,
    ProviderRefused,
    ProviderUnknown,
    VideoProvider,
)

PROVIDER_TIMEOUT_S = 10.0

T = TypeVar("T")


def require_own(provider: VideoProvider, meeting: Meeting) -> None:
    """Make sure that a meeting is this provider's: another provider's answer about it is meaningless.

    Raises:
        ProviderUnknown: it is not; its outcome is known when its own provider is configured again.
    """
    if meeting.provider != provider.abilities.name:
        raise ProviderUnknown(f"the meeting is at {meeting.provider}, which is not configured")


@frozen
class BoundedProvider:
    """Calls another provider, for `timeout_s` seconds at most.

    `metrics` take each call and its result, `tracing` a span of it.
    """

    provider: VideoProvider
    timeout_s: float = PROVIDER_TIMEOUT_S
    metrics: Metrics = NO_METRICS
    tracing: Tracing = NO_TRACING

    @property
    def abilities(self) -> ProviderAbilities:
        """The provider's abilities."""
        return self.provider.abilities

    async def create(self, order: ProviderOrder) -> Provisioned:
        """Make a meeting."""
        return await self._within("create", self.provider.create(order))

    async def find(self, order: ProviderOrder) -> Sequence[Provisioned]:
        """Every meeting that exists under an order's id."""
        return await self._within("find", self.provider.find(order))

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        """Delete a meeting that has not started."""
        return await self._within("remove", self.provider.remove(provider_meeting_id))

    async def end(self, provider_meeting_id: str) -> None:
        """End a meeting that runs."""
        await self._within("end", self.provider.end(provider_meeting_id))

    async def list_host(self, provider_user_id: str) -> Sequence[ListedMeeting]:
        """Every meeting of a host."""
        return await self._within("list", self.provider.list_host(provider_user_id))

    async def read(self, provider_meeting_id: str) -> FoundMeeting | None:
        """A meeting with what we wrote into it."""
        return await self._within("read", self.provider.read(provider_meeting_id))

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Replace a host's key."""
        await self._within("set_host_key", self.provider.set_host_key(provider_user_id, host_key))

    async def _within(self, name: str, call: Awaitable[T]) -> T:
        clock = asyncio.get_running_loop().time
        start, result = clock(), "unknown"
        try:
            with self.tracing.span(f"provider {name}", provider=self.provider.abilities.name):
                async with asyncio.timeout(self.timeout_s):
                    answer = await call
            result = "done"
        except ProviderRefused as refusal:
            result = refusal.code
            raise
        except TimeoutError as error:
            raise ProviderUnknown(f"no answer within {self.timeout_s:g} s") from error
        finally:
            self.metrics.provider_called(name, result, clock() - start)
        return answer
