"""Money outside meetings and notes: top-ups and adjustments."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.deliveries.outbox import WRITE_EVENTS, event_parameters
from meetcore.adapters.postgres.ledger.parts import (
    APPEND_ENTRY,
    ENTRY,
    FUNDS,
    LOCK_ACCOUNT,
    TRANSFER,
    WRITE_FUNDS,
    entry,
    entry_parameters,
)
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import NotFound
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.webhooks.events import Event
from meetcore.ports.store import LedgerView

# Reads an account's funds under its lock, and the entry of one operation, if it is in the ledger.
_LOAD = f"""
WITH {LOCK_ACCOUNT}
SELECT {ENTRY.select}, {TRANSFER.select}, locked.*,
    (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version
FROM locked
LEFT JOIN ledger_transfers t ON t.account_id = %(account_id)s AND t.operation = %(operation)s
LEFT JOIN ledger_entries e ON e.account_id = %(account_id)s AND e.transfer_id = t.id AND e.book = 'customer'
"""

# Appends one entry with its events, outside any meeting.
_APPEND = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {APPEND_ENTRY}, {WRITE_FUNDS}, {WRITE_EVENTS}
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""


class PostgresLedgerRepository(Repository):
    """Top-ups and adjustments."""

    async def load_locked(self, account_id: UUID, operation: str) -> LedgerView:
        row = await self._locked(_LOAD, {"account_id": account_id, "operation": operation})
        if row is None:
            raise NotFound("No account with this id.")
        return LedgerView(FUNDS.read(row), entry(row))

    async def append(self, funds: Funds, entry: Entry, events: Sequence[Event]) -> int:
        parameters = (
            FUNDS.parameters(funds) | entry_parameters(entry) | event_parameters(events, self._cipher)
        )
        return await self._due(_APPEND, parameters)
