"""The keys of hosts in PostgreSQL: due, replaced under a lease, kept sealed."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import seal_text
from meetcore.adapters.postgres.repository import Repository
from meetcore.ports.host_keys import DueHostKey
from meetcore.ports.lease import Lease

# Takes hosts whose keys are due; what another transaction holds has its turn in the next round. The condition is
# that of the index over them.
_CLAIM_DUE = """
WITH due AS (
    SELECT id FROM hosts
    WHERE key_due_at IS NOT NULL AND is_active AND max_concurrent = 1 AND key_due_at <= clock_timestamp()
    ORDER BY key_due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE hosts h
SET host_key = NULL, key_token = %(token)s, key_due_at = clock_timestamp() + %(lease_s)s * interval '1 second'
FROM due WHERE h.id = due.id RETURNING h.id AS host_id, h.provider_user_id
"""

# The key is in place, unless it became due again.
_SAVE = """
UPDATE hosts SET host_key = %(host_key)s, key_token = NULL, key_due_at = NULL
WHERE id = %(host_id)s AND key_token = %(token)s
"""

# Makes the host due later, for the holder of the token only.
_POSTPONE = """
UPDATE hosts SET key_token = NULL, key_due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE id = %(host_id)s AND key_token = %(token)s
"""


def host_key_context(host_id: UUID) -> str:
    """What a host's key is sealed for."""
    return f"hosts/{host_id}/key"


class PostgresHostKeyRepository(Repository):
    """The keys of hosts, and which are to be replaced."""

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[DueHostKey]:
        found = await self._all(_CLAIM_DUE, {"limit": limit, "token": lease.token, "lease_s": lease.seconds})
        return [DueHostKey(row["host_id"], row["provider_user_id"], lease.token) for row in found]

    async def save(self, host_id: UUID, token: UUID, host_key: str) -> bool:
        sealed = seal_text(self._cipher, host_key, host_key_context(host_id))
        return await self._changed(_SAVE, {"host_id": host_id, "token": token, "host_key": sealed})

    async def postpone(self, host_id: UUID, token: UUID, seconds: float) -> None:
        await self._changed(_POSTPONE, {"host_id": host_id, "token": token, "seconds": seconds})
