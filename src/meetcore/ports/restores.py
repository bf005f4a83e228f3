"""Restores of the store, the fence that stands after one, and what is compared with the provider.

While a restore is fenced, every write of a process of the service raises `StoreFenced`: no use case can
forget to ask. Reads go on, and so do the commands of an operator, whose store passes the fence.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.requests.restores import Restore

__all__ = ["Fence", "FenceRefused", "OpenMeeting", "RestoreRepository"]


class FenceRefused(Exception):
    """The fence cannot be put up or taken away, or another process is at it; the message says what to do."""


@frozen
class OpenMeeting:
    """A meeting that can still take place, and its host at the provider; empty where there is none."""

    meeting: Meeting
    provider_user_id: str


class Fence(Protocol):
    """What enforces the fence in a store; without a restore that is fenced it refuses nothing."""

    async def put_up(self) -> None:
        """Prepare the store to refuse writes. Twice is once.

        Raises:
            FenceRefused: the store does not allow it.
        """

    async def take_away(self) -> None:
        """Undo `put_up`, so that a write costs what it did before. Twice is once.

        Raises:
            FenceRefused: the store does not allow it.
        """

    async def check_owner(self) -> None:
        """Make sure that this process may put up the fence and take it away; nothing is changed.

        Raises:
            FenceRefused: it may not.
        """

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Let no other process into such a block while this one lasts; the block of one that dies is over.

        Raises:
            FenceRefused: another process is in one.
        """


class RestoreRepository(Protocol):
    """Restores, and the reads that compare the store with the provider."""

    async def latest(self) -> Restore | None:
        """The restore of the highest epoch."""

    async def add(self, restored_to: datetime) -> Restore:
        """Begin the next epoch, fenced from now on; while one is fenced, return that one.

        One that was fenced before `restored_to` came with the backup: its `fenced_at` is moved to now, so
        that it covers what was lost after it, too. Twice is once.
        """

    async def release(self, epoch: int) -> Restore | None:
        """Release a restore from now on; `None` where it is not fenced."""

    async def known_at_provider(self, provider: str, provider_meeting_ids: Sequence[str]) -> AbstractSet[str]:
        """Those of a provider's meetings that a meeting of the store names, in whatever state."""

    async def meetings_by_id(self, ids: Sequence[UUID]) -> Mapping[UUID, Meeting]:
        """Meetings in any state, of any account."""

    async def open_meetings(self, provider: str, after: UUID | None, limit: int) -> Sequence[OpenMeeting]:
        """Meetings of a provider that can still take place, by their ids, those after one."""

    async def known_events(self, events: Sequence[tuple[UUID, UUID]]) -> AbstractSet[UUID]:
        """Those of the events, each an account and an id, that the store has."""
