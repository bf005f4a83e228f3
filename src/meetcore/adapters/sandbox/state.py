"""States of a sandbox meeting after its creation, and its sessions.

::

    (nothing yet) ─→ STARTED ←→ LEFT ─→ REMOVED
        │               └──→ ENDED ←──┘
        ├──────────────────────→ ENDED
        └──→ REMOVED

Creation stores nothing, so a meeting that was only created has no state. Each start begins a session; leaving
or ending the meeting ends it. ENDED is for good: a meeting that ends before anyone started it has a session
that ends at once, so that a demonstration gets a recording.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from attrs import frozen

MAX_SESSIONS: Final = 100
"""How many sessions of one meeting can be started: anyone with the link can."""


class SandboxMeetingState(StrEnum):
    """The last state."""

    STARTED = "started"
    LEFT = "left"
    ENDED = "ended"
    REMOVED = "removed"


STEPS: Final = frozenset(
    {
        (None, SandboxMeetingState.STARTED),
        (None, SandboxMeetingState.ENDED),
        (None, SandboxMeetingState.REMOVED),
        (SandboxMeetingState.STARTED, SandboxMeetingState.LEFT),
        (SandboxMeetingState.STARTED, SandboxMeetingState.ENDED),
        (SandboxMeetingState.LEFT, SandboxMeetingState.STARTED),
        (SandboxMeetingState.LEFT, SandboxMeetingState.ENDED),
        (SandboxMeetingState.LEFT, SandboxMeetingState.REMOVED),
    }
)
"""From, to. Other pairs are illegal and change nothing."""


@frozen
class SandboxSession:
    """A session; `removed_files` are the files of its recording that were removed."""

    id: str
    started_at: datetime
    ended_at: datetime | None = None
    removed_files: frozenset[str] = frozenset()


def session_id(provider_meeting_id: str, number: int) -> str:
    """Return the id of a meeting's session, numbered from 1."""
    return f"{provider_meeting_id}-{number}"


class SandboxState(Protocol):
    """Stores states and host keys; of concurrent changes one wins. May raise `StoreUnavailable`."""

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        """Return the last state, `None` before the first."""

    async def put(
        self, provider_meeting_id: str, state: SandboxMeetingState, at: datetime | None = None
    ) -> bool:
        """Take a step of `STEPS`, now or `at` an earlier instant; return whether this call took it."""

    async def host_key(self, provider_user_id: str) -> str | None:
        """Return a host's key, `None` before the first."""

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None: ...

    async def sessions(self, provider_meeting_id: str) -> tuple[SandboxSession, ...]:
        """Return the sessions of a meeting in the order of time."""

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        """Record that a file was removed; idempotent."""
