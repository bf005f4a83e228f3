"""Forgetting in SQLite."""

from datetime import date, timedelta

from meetcore.ports.clock import Clock

from .connection import Database

__all__ = ["SqliteHousekeeping"]

PORTION = 1_000

# Deletes the oldest keys that are past their time, in portions small enough that no writer waits long for the
# writer's turn. A key whose work still runs is kept.
_PURGE_IDEMPOTENCY = """
DELETE FROM idempotency_keys WHERE rowid IN (
    SELECT rowid FROM idempotency_keys WHERE created_at < :before AND lease_until IS NULL
    ORDER BY created_at LIMIT :portion)
"""

# Forgets the oldest events of providers that are done.
_PURGE_PROVIDER_EVENTS = """
DELETE FROM provider_events WHERE rowid IN (
    SELECT rowid FROM provider_events WHERE received_at < :before AND due_at IS NULL
    ORDER BY received_at LIMIT :portion)
"""


# Forgets what accounts used of days that are over.
_PURGE_CREATIONS = """
DELETE FROM account_creations WHERE rowid IN (
    SELECT rowid FROM account_creations WHERE day < :before LIMIT :portion)
"""


class SqliteHousekeeping:
    """The store's broom."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def purge_idempotency(self, older_than_s: float) -> int:
        """Delete keys first seen longer ago than this, unless work under them still runs."""
        return await self._purge(_PURGE_IDEMPOTENCY, self._clock.now() - timedelta(seconds=older_than_s))

    async def purge_provider_events(self, older_than_s: float) -> int:
        """Delete provider events that were received longer ago than this and are done."""
        return await self._purge(_PURGE_PROVIDER_EVENTS, self._clock.now() - timedelta(seconds=older_than_s))

    async def purge_creations(self, before: date) -> int:
        """Delete the counts of meetings that accounts made on days before this one."""
        return await self._purge(_PURGE_CREATIONS, before)

    async def _purge(self, statement: str, before: date) -> int:
        old = {"before": before, "portion": PORTION}
        gone = 0
        while True:
            async with self._database.transaction() as connection:
                portion = await connection.change(statement, old)
            gone += portion
            if portion < PORTION:
                return gone
