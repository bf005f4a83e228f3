"""States of a sandbox meeting after its creation.

::

    (nothing yet) ─→ STARTED ─→ ENDED
        ├──────────────────────→ ENDED
        └──→ REMOVED

Creation stores nothing, so a meeting that was only created has no state.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from attrs import frozen


class SandboxMeetingState(StrEnum):
    """The last state."""

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
"""From, to. Other pairs are illegal and change nothing."""


@frozen
class SandboxEnding:
    """The end of a meeting, and the files of its recording removed since."""

    ended_at: datetime
    removed_files: frozenset[str] = frozenset()


class SandboxState(Protocol):
    """Stores states and host keys; of concurrent changes one wins. May raise `StoreUnavailable`."""

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        """Return the last state, `None` before the first."""

    async def put(self, provider_meeting_id: str, state: SandboxMeetingState) -> bool:
        """Take a step of `STEPS`; return whether this call took it."""

    async def host_key(self, provider_user_id: str) -> str | None:
        """Return a host's key, `None` before the first."""

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None: ...

    async def ending(self, provider_meeting_id: str) -> SandboxEnding | None:
        """Return the end of a meeting, `None` before it."""

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        """Record that a file was removed; idempotent."""
