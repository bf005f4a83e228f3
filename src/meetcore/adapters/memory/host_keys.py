"""The keys of hosts in memory: due, replaced under a lease, in place."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from meetcore.adapters.memory.state import StoredHostKey, Tables
from meetcore.ports.clock import Clock
from meetcore.ports.host_keys import DueHostKey
from meetcore.ports.lease import Lease

_EVER = datetime.min.replace(tzinfo=UTC)


class MemoryHostKeyRepository:
    """Whose key is to be replaced, on one open transaction. A host without an entry has been due for ever."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[DueHostKey]:
        keys, now = self._tables.host_keys, self._clock.now()
        due = [
            host
            for host in self._tables.hosts.values()
            if host.is_active and host.max_concurrent == 1 and _is_due(keys.get(host.id), now)
        ]
        due.sort(key=lambda host: _since(keys.get(host.id)))
        until = now + timedelta(seconds=lease.seconds)
        for host in due[:limit]:
            keys[host.id] = StoredHostKey(due_at=until, token=lease.token)
        return [DueHostKey(host.id, host.provider_user_id, lease.token) for host in due[:limit]]

    async def save(self, host_id: UUID, token: UUID, host_key: str) -> bool:
        if not self._is_claimed(host_id, token):
            return False
        self._tables.host_keys[host_id] = StoredHostKey(host_key)
        return True

    async def postpone(self, host_id: UUID, token: UUID, seconds: float) -> None:
        if self._is_claimed(host_id, token):
            due_at = self._clock.now() + timedelta(seconds=seconds)
            self._tables.host_keys[host_id] = StoredHostKey(due_at=due_at)

    def _is_claimed(self, host_id: UUID, token: UUID) -> bool:
        stored = self._tables.host_keys.get(host_id)
        return stored is not None and stored.token == token


def _is_due(stored: StoredHostKey | None, now: datetime) -> bool:
    return stored is None or (stored.due_at is not None and stored.due_at <= now)


def _since(stored: StoredHostKey | None) -> datetime:
    return _EVER if stored is None or stored.due_at is None else stored.due_at
