"""What happened to a sandbox meeting after it was made, as one table.

::

    (nothing yet) ─→ STARTED ─→ ENDED
        ├──────────────────────→ ENDED
        └──→ REMOVED

Owns the steps and their memory, that of the keys of hosts, and of what was removed of recordings. A meeting
that was made and nothing else has no state: making one leaves no trace here.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol

from attrs import evolve, frozen


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


@frozen
class SandboxEnding:
    """When a meeting ended, and which files of its recording were removed since."""

    ended_at: datetime
    removed_files: frozenset[str] = frozenset()


class SandboxState(Protocol):
    """Stores states and keys. Of several concurrent changes of a state, one wins.

    Each method raises `StoreUnavailable` while the memory does not answer.
    """

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        """Return what happened last; `None` while nothing did."""

    async def put(self, provider_meeting_id: str, state: SandboxMeetingState) -> bool:
        """Take a step of the table.

        Returns:
            Whether this call took it; False when the table has no such step from where it is.
        """

    async def host_key(self, provider_user_id: str) -> str | None:
        """Return a host's current key; `None` while it was given none."""

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Give a host another key in place of the one before."""

    async def ending(self, provider_meeting_id: str) -> SandboxEnding | None:
        """Return when a meeting ended; `None` while it has not."""

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        """Record that a file of a meeting's recording is gone; a second call changes nothing."""


class MemorySandboxState:
    """States and keys in the memory of one process: gone with it, and unknown to the others."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._states: dict[str, SandboxMeetingState] = {}
        self._host_keys: dict[str, str] = {}
        self._endings: dict[str, SandboxEnding] = {}

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        return self._states.get(provider_meeting_id)

    async def put(self, provider_meeting_id: str, state: SandboxMeetingState) -> bool:
        if (self._states.get(provider_meeting_id), state) not in STEPS:
            return False
        self._states[provider_meeting_id] = state
        if state is SandboxMeetingState.ENDED:
            self._endings[provider_meeting_id] = SandboxEnding(self._now())
        return True

    async def host_key(self, provider_user_id: str) -> str | None:
        return self._host_keys.get(provider_user_id)

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None:
        self._host_keys[provider_user_id] = host_key

    async def ending(self, provider_meeting_id: str) -> SandboxEnding | None:
        return self._endings.get(provider_meeting_id)

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        known = self._endings[provider_meeting_id]
        removed = known.removed_files | {provider_file_id}
        self._endings[provider_meeting_id] = evolve(known, removed_files=removed)
