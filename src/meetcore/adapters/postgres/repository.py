"""What every repository and every read has: a way to run statements."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.ports.cipher import Cipher

NEWEST = UUID(int=(1 << 128) - 1)
"""An id that no record has, and that every id is less than."""


class Repository:
    """Statements on one open transaction. An aggregate's methods stand beside their statements."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def _all(self, query: str, parameters: Row) -> list[Row]:
        return await self._connection.fetch(query, parameters)

    async def _one(self, query: str, parameters: Row) -> Row | None:
        found = await self._connection.fetch(query, parameters)
        return found[0] if found else None

    async def _locked(self, query: str, parameters: Row) -> Row | None:
        """Read under the account's lock, again if the lock was waited for.

        The former holder of the lock may have changed rows that this snapshot shows; the lock is
        held now, so the second reading is true to the end of the transaction.
        """
        row = await self._one(query, parameters)
        if row is not None and row["seen_version"] != row["version"]:
            row = await self._one(query, parameters)
        return row

    async def _due(self, query: str, parameters: Row) -> int:
        """Write, and return how many deliveries became due."""
        row = await self._one(query, parameters)
        return 0 if row is None else int(row["due"])

    async def _changed(self, query: str, parameters: Row) -> bool:
        """Write one row, and return whether it was there."""
        return (await self._connection.execute(query, parameters)).rowcount == 1


class Reads:
    """Statements that only read, each on a connection of its own, outside any transaction."""

    def __init__(self, pool: Pool, cipher: Cipher) -> None:
        self._pool = pool
        self._cipher = cipher

    async def _all(self, query: str, parameters: Row) -> Sequence[Row]:
        with translated():
            return await self._pool.read(query, parameters)

    async def _one(self, query: str, parameters: Row) -> Row | None:
        found = await self._all(query, parameters)
        return found[0] if found else None
