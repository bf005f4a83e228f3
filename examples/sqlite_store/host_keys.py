"""The keys of hosts in SQLite: due, replaced under a lease, in place. In the clear, as passwords are here."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from meetcore.ports.clock import Clock
from meetcore.ports.host_keys import DueHostKey
from meetcore.ports.lease import Lease

from . import rows
from .connection import Connection

__all__ = ["SqliteHostKeyRepository"]

# Takes hosts whose keys are due, the longest due first.
_CLAIM_DUE = """
UPDATE hosts SET host_key = NULL, key_token = :token, key_due_at = :until
WHERE id IN (
    SELECT id FROM hosts WHERE key_due_at <= :now AND is_active AND max_concurrent = 1
    ORDER BY key_due_at LIMIT :limit)
RETURNING id AS host_id, provider_user_id, key_token AS token
"""

# The key is in place, unless it became due again.
_SAVE = """
UPDATE hosts SET host_key = :host_key, key_token = NULL, key_due_at = NULL
WHERE id = :host_id AND key_token = :token
"""

_POSTPONE = (
    "UPDATE hosts SET key_token = NULL, key_due_at = :due_at WHERE id = :host_id AND key_token = :token"
)


class SqliteHostKeyRepository:
    """Whose key is to be replaced, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[DueHostKey]:
        """Take hosts whose keys are due, the longest due first."""
        now = self._clock.now()
        until = now + timedelta(seconds=lease.seconds)
        wanted = {"now": now, "until": until, "token": lease.token, "limit": limit}
        return [rows.record(DueHostKey, row) for row in await self._connection.fetch(_CLAIM_DUE, wanted)]

    async def save(self, host_id: UUID, token: UUID, host_key: str) -> bool:
        """Write the key that the provider was given, for the holder of the token only."""
        key = {"host_id": host_id, "token": token, "host_key": host_key}
        return await self._connection.change(_SAVE, key) > 0

    async def postpone(self, host_id: UUID, token: UUID, seconds: float) -> None:
        """Make the host due later, for the holder of the token only."""
        due_at = self._clock.now() + timedelta(seconds=seconds)
        await self._connection.change(_POSTPONE, {"host_id": host_id, "token": token, "due_at": due_at})
