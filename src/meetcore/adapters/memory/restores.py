"""Restores in memory. The store itself refuses while one is fenced."""

from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import Tables
from meetcore.domain.meetings.meetings import OPEN, Meeting
from meetcore.domain.requests.restores import Restore
from meetcore.ports.clock import Clock
from meetcore.ports.restores import FenceRefused, OpenMeeting


class MemoryFence:
    """Nothing to put up: `MemoryStore` looks at each transaction."""

    def __init__(self) -> None:
        self._is_taken = False

    async def put_up(self) -> None:
        """Do nothing."""

    async def take_away(self) -> None:
        """Do nothing."""

    async def check_owner(self) -> None:
        """Do nothing."""

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        if self._is_taken:
            raise FenceRefused("another process is at it")
        self._is_taken = True
        try:
            yield
        finally:
            self._is_taken = False


class MemoryRestoreRepository:
    """Restores, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def latest(self) -> Restore | None:
        restores = self._tables.restores
        return restores[max(restores)] if restores else None

    async def add(self, restored_to: datetime) -> Restore:
        latest = await self.latest()
        now = self._clock.now()
        if latest is None or not latest.is_fenced:
            restore = Restore(1 if latest is None else latest.epoch + 1, restored_to, now)
        elif latest.fenced_at < restored_to:
            restore = evolve(latest, fenced_at=max(now, restored_to))
        else:
            return latest
        self._tables.restores[restore.epoch] = restore
        return restore

    async def release(self, epoch: int) -> Restore | None:
        restore = self._tables.restores.get(epoch)
        if restore is None or not restore.is_fenced:
            return None
        self._tables.restores[epoch] = evolve(restore, released_at=self._clock.now())
        return self._tables.restores[epoch]

    async def known_at_provider(self, provider: str, provider_meeting_ids: Sequence[str]) -> AbstractSet[str]:
        wanted = set(provider_meeting_ids)
        return {
            each.provider_meeting_id
            for each in self._meetings()
            if each.provider == provider and each.provider_meeting_id in wanted
        }

    async def meetings_by_id(self, ids: Sequence[UUID]) -> Mapping[UUID, Meeting]:
        wanted = set(ids)
        return {each.id: each for each in self._meetings() if each.id in wanted}

    async def open_meetings(self, provider: str, after: UUID | None, limit: int) -> Sequence[OpenMeeting]:
        found = (each for each in self._meetings() if each.provider == provider and each.status in OPEN)
        later = sorted((each for each in found if after is None or each.id > after), key=lambda each: each.id)
        return [OpenMeeting(each, self._host_of(each)) for each in later[:limit]]

    async def known_events(self, events: Sequence[tuple[UUID, UUID]]) -> AbstractSet[UUID]:
        return {event_id for account_id, event_id in events if (account_id, event_id) in self._tables.events}

    def _meetings(self) -> list[Meeting]:
        return [stored.meeting for stored in self._tables.meetings.values()]

    def _host_of(self, meeting: Meeting) -> str:
        return "" if meeting.host_id is None else self._tables.hosts[meeting.host_id].provider_user_id
