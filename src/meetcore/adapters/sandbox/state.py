"""What happened to a sandbox meeting after it was made, as one table.

::

    (nothing yet) ─→ STARTED ─→ ENDED
        ├──────────────────────→ ENDED
        └──→ REMOVED

Owns the steps and their memory, and that of the keys of hosts. A meeting that was made and nothing else has
no state: making one leaves no trace here.
"""

from enum import StrEnum
from typing import Final, Protocol

__all__ = ["STEPS", "MemorySandboxState", "SandboxMeetingState", "SandboxState"]


class SandboxMeetingState(StrEnum):
    """What happened last."""

    STARTED = "started"
    ENDED = "ended"
    REMOVED = "removed"


STEPS: Final = frozenset(
    {
        (None, SandboxMeetingState.STARTED),
        (None, SandboxMeetingState.ENDED),
        (None, SandboxMeetingState.REMOVED),
        (SandboxMeetingState.STARTED, SandboxMeetingState.ENDED),
    }
)
"""From, to. A pair that is missing is illegal and changes nothing."""


class SandboxState(Protocol):
    """Remembers states and keys. Of several that put a state at the same time, one wins."""

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        """What happened last; none while nothing did.

        Raises:
            StoreAway: the memory does not answer.
        """
        ...

    async def put(self, provider_meeting_id: str, state: SandboxMeetingState) -> bool:
        """Take a step of the table.

        Returns:
            Whether this call took it; False when the table has no such step from where it is.

        Raises:
            StoreAway: the memory does not answer.
        """
        ...

    async def host_key(self, provider_user_id: str) -> str | None:
        """The key that a host has now; none while it was given none.

        Raises:
            StoreAway: the memory does not answer.
        """
        ...

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Give a host another key in place of the one before.

        Raises:
            StoreAway: the memory does not answer.
        """
        ...


class MemorySandboxState:
    """States and keys in the memory of one process: gone with it, and unknown to the others."""

    def __init__(self) -> None:
        self._states: dict[str, SandboxMeetingState] = {}
        self._host_keys: dict[str, str] = {}

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        """What happened last; none while nothing did."""
        return self._states.get(provider_meeting_id)

    async def put(self, provider_meeting_id: str, state: SandboxMeetingState) -> bool:
        """Take a step of the table; see `SandboxState.put`."""
        if (self._states.get(provider_meeting_id), state) not in STEPS:
            return False
        self._states[provider_meeting_id] = state
        return True

    async def host_key(self, provider_user_id: str) -> str | None:
        """The key that a host has now; none while it was given none."""
        return self._host_keys.get(provider_user_id)

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Give a host another key; see `SandboxState.put_host_key`."""
        self._host_keys[provider_user_id] = host_key
