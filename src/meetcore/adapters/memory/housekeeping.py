"""Forgetting in memory."""

from datetime import date, datetime, timedelta

from attrs import evolve

from meetcore.adapters.memory.state import MemoryState
from meetcore.domain.ids import first_id
from meetcore.ports.clock import Clock


class MemoryHousekeeping:
    """Delete what has expired."""

    def __init__(self, state: MemoryState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def purge_idempotency(self, older_than_s: float) -> int:
        limit = self._clock.now() - timedelta(seconds=older_than_s)
        async with self._state.change() as tables:
            old = [
                name
                for name, since in tables.idempotency_since.items()
                if since < limit and tables.idempotency[name].lease_until is None
            ]
            for name in old:
                del tables.idempotency[name], tables.idempotency_since[name]
        return len(old)

    async def purge_provider_events(self, older_than_s: float) -> int:
        limit = self._clock.now() - timedelta(seconds=older_than_s)
        async with self._state.change() as tables:
            old = [
                id_
                for id_, stored in tables.provider_events.items()
                if stored.due_at is None and stored.received_at < limit
            ]
            for id_ in old:
                del tables.provider_events[id_]
        return len(old)

    async def purge_creations(self, before: date) -> int:
        async with self._state.change() as tables:
            old = [name for name in tables.creations if name[1] < before]
            for name in old:
                del tables.creations[name]
        return len(old)

    async def purge_mails(self, older_than_s: float) -> int:
        limit = self._clock.now() - timedelta(seconds=older_than_s)
        async with self._state.change() as tables:
            old = [
                id_
                for id_, stored in tables.mails.items()
                if stored.mail.due_at is None and stored.mail.created_at < limit
            ]
            for id_ in old:
                del tables.mails[id_]
        return len(old)

    async def purge_requests(self, before: datetime) -> int:
        async with self._state.change() as tables:
            old = [id_ for id_ in tables.requests if id_ < first_id(before)]
            for id_ in old:
                del tables.requests[id_]
        return len(old)

    async def purge_previous_secrets(self, before: datetime) -> int:
        async with self._state.change() as tables:
            old = [
                (name, one)
                for name, one in tables.endpoints.items()
                if one.previous_secret_until is not None and one.previous_secret_until < before
            ]
            for name, one in old:
                tables.endpoints[name] = evolve(one, previous_secret=None, previous_secret_until=None)
        return len(old)
