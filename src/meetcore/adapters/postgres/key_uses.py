"""When API keys were used last, in PostgreSQL: one statement for all keys of a minute."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.pool import Pool, translated

# Writes later uses than are stored. The rows are locked in one order, for other processes write the same ones.
_SAVE = """
WITH due AS MATERIALIZED (
    SELECT k.id, used.at FROM api_keys k
    JOIN unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) AS used (id, at) ON used.id = k.id
    WHERE k.last_used_at IS NULL OR k.last_used_at < used.at
    ORDER BY k.id FOR NO KEY UPDATE OF k
)
UPDATE api_keys k SET last_used_at = GREATEST(k.last_used_at, due.at) FROM due WHERE k.id = due.id
"""


class PostgresKeyUses:
    """The last uses of keys."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def save(self, used: Mapping[UUID, datetime]) -> None:
        with translated():
            async with self._pool.connection() as connection:
                await connection.execute(_SAVE, {"ids": list(used), "times": list(used.values())})
