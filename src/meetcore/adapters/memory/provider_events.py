"""Provider webhook events in memory: claimed by pushing the due time past a lease."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import ConstraintBroken, StoredProviderEvent, Tables
from meetcore.domain.meetings.provider_events import ProviderEvent
from meetcore.ports.clock import Clock
from meetcore.ports.lease import Lease
from meetcore.ports.provider_events import ClaimedEvent


class MemoryProviderEventInbox:
    """The inbox, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def add(self, id: UUID, event: ProviderEvent, digest: bytes) -> bool:
        known = self._tables.provider_events
        if any((one.provider, one.digest) == (event.provider, digest) for one in known.values()):
            return False
        if id in known:
            raise ConstraintBroken(f"provider event {id} is written already")
        now = self._clock.now()
        known[id] = StoredProviderEvent(event.provider, digest, now, event, now)
        return True

    async def claim(self, limit: int, lease: Lease) -> Sequence[ClaimedEvent]:
        now = self._clock.now()
        due = sorted(
            (stored.due_at, id_)
            for id_, stored in self._tables.provider_events.items()
            if stored.due_at is not None and stored.due_at <= now
        )
        until = now + timedelta(seconds=lease.seconds)
        claimed = []
        for _, id_ in due[:limit]:
            stored = self._tables.provider_events[id_]
            taken = evolve(stored, tries=stored.tries + 1, token=lease.token, due_at=until)
            self._tables.provider_events[id_] = taken
            assert taken.event is not None  # what is due is not done
            had_lease = stored.token is not None
            claimed.append(ClaimedEvent(id_, taken.event, taken.tries, lease.token, had_lease))
        return claimed

    async def postpone(self, id: UUID, token: UUID, seconds: float) -> None:
        stored = self._claimed(id, token)
        if stored is not None:
            due_at = self._clock.now() + timedelta(seconds=seconds)
            self._tables.provider_events[id] = evolve(stored, token=None, due_at=due_at)

    async def done(self, id: UUID, token: UUID) -> None:
        stored = self._claimed(id, token)
        if stored is not None:
            self._tables.provider_events[id] = evolve(stored, token=None, due_at=None, event=None)

    def _claimed(self, id: UUID, token: UUID) -> StoredProviderEvent | None:
        stored = self._tables.provider_events.get(id)
        return None if stored is None or stored.token != token else stored
