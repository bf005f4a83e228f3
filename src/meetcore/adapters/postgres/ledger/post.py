"""Entries of several accounts, appended by one statement where the funds are those that were decided on.

Each kind of row is one parameter, a JSON array of objects by the names of the table's columns: a statement has a
handful of parameters however many rows it writes, and the driver has little to convert.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from uuid import UUID

import msgspec

from meetcore.adapters.postgres.audit_log import AUDIT_COLUMNS, audit_row
from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.deliveries.outbox import EVENT_COLUMNS, WRITE_DELIVERIES, event_row
from meetcore.adapters.postgres.ledger.parts import (
    ENTRY,
    FUNDS,
    FUNDS_AFTER,
    LOCK_ACCOUNT,
    TRANSFER,
    entry,
    system_book,
)
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import NotFound
from meetcore.domain.money.ledger import Entry
from meetcore.domain.webhooks.events import Event
from meetcore.ports.postings import AccountPostings, OperationsView

# Reads an account's funds under its lock, and the entries of operations that are in the ledger.
_LOAD = f"""
WITH {LOCK_ACCOUNT}
SELECT {ENTRY.select}, {TRANSFER.select}, locked.*,
    (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version
FROM locked
LEFT JOIN ledger_transfers t ON t.account_id = %(account_id)s AND t.operation = ANY (%(operations)s::text[])
LEFT JOIN ledger_entries e ON e.account_id = %(account_id)s AND e.transfer_id = t.id AND e.book = 'customer'
"""

# Appends entries with their events and audit entries to accounts whose funds are as they were read, that have none of the
# operations, and that nobody else has locked. What is known is read once, by its keys; each account is found by its key.
_APPEND_IF_UNCHANGED = f"""
WITH posted AS MATERIALIZED (
    SELECT account_id, {TRANSFER.names}
    FROM json_populate_recordset(NULL::ledger_transfers, %(transfers)s::json)
), known AS MATERIALIZED (
    SELECT p.account_id FROM posted p CROSS JOIN LATERAL (
        SELECT FROM ledger_transfers t WHERE t.account_id = p.account_id AND t.operation = p.operation OFFSET 0) AS t
), guard AS MATERIALIZED (
    SELECT a.account_id FROM json_populate_recordset(NULL::accounts, %(funds_read)s::json) w CROSS JOIN LATERAL (
        SELECT a.id AS account_id FROM accounts a
        WHERE a.id <> ALL (ARRAY(SELECT account_id FROM known))
    AND {FUNDS.equal("a", "w")}
        FOR NO KEY UPDATE OF a SKIP LOCKED) AS a
), transfer AS (
    INSERT INTO ledger_transfers (account_id, {TRANSFER.names})
    SELECT account_id, {TRANSFER.names} FROM posted WHERE account_id IN (SELECT account_id FROM guard)
), entry AS (
    INSERT INTO ledger_entries (book, transfer_id, {ENTRY.names})
    SELECT book, transfer_id, {ENTRY.names}
    FROM json_populate_recordset(NULL::ledger_entries, %(legs)s::json)
    WHERE account_id IN (SELECT account_id FROM guard)
), action AS (
    INSERT INTO audit_log ({AUDIT_COLUMNS})
    SELECT {AUDIT_COLUMNS} FROM json_populate_recordset(NULL::audit_log, %(actions)s::json)
    WHERE account_id IN (SELECT account_id FROM guard)
), event AS (
    INSERT INTO events ({EVENT_COLUMNS})
    SELECT {EVENT_COLUMNS} FROM json_populate_recordset(NULL::events, %(events)s::json)
    WHERE account_id IN (SELECT account_id FROM guard)
    RETURNING account_id, id, kind, created_at
), {WRITE_DELIVERIES.format(account_id="e.account_id")}, account AS (
    UPDATE accounts a SET ({FUNDS_AFTER.names}) = (
            {FUNDS_AFTER.select}
        ), version = a.version + 1
    FROM json_populate_recordset(NULL::accounts, %(funds_after)s::json) w
    WHERE a.id = w.id AND a.id = ANY (ARRAY(SELECT account_id FROM guard))
)
SELECT account_id, (SELECT count(*) FROM delivery d WHERE d.account_id = guard.account_id AND status = 'pending') AS due
FROM guard
"""


class PostgresPostingRepository(Repository):
    """Top-ups and adjustments, several at once."""

    async def load_locked(self, account_id: UUID, operations: Sequence[str]) -> OperationsView:
        named = {"account_id": account_id, "operations": list(operations)}
        rows = await self._all(_LOAD, named)
        if rows and rows[0]["seen_version"] != rows[0]["version"]:  # see `Repository._locked`
            rows = await self._all(_LOAD, named)
        if not rows:
            raise NotFound("No account with this id.")
        found = [made for row in rows if (made := entry(row)) is not None]
        return OperationsView(FUNDS.read(rows[0]), {each.transfer.operation: each for each in found})

    async def append_if_unchanged(self, postings: Sequence[AccountPostings]) -> Mapping[UUID, int]:
        rows = await self._all(_APPEND_IF_UNCHANGED, self.parameters(postings))
        return {row["account_id"]: row["due"] for row in rows}

    def parameters(self, postings: Sequence[AccountPostings]) -> Row:
        """Return the parameters of `append_if_unchanged`."""
        entries = [each for posting in postings for each in posting.entries]
        events = [self._event_row(each) for posting in postings for each in posting.events]
        return {
            "funds_read": _encode([_of_texts(FUNDS.row(posting.before)) for posting in postings]),
            "funds_after": _encode([_of_texts(FUNDS.row(posting.after)) for posting in postings]),
            "transfers": _encode([_transfer_row(each) for each in entries]),
            "legs": _encode(list(chain.from_iterable(map(_leg_rows, entries)))),
            "actions": _encode([audit_row(each) for posting in postings for each in posting.actions]),
            "events": _encode(events),
        }

    def _event_row(self, event: Event) -> Row:
        row = event_row(event, self._cipher)
        return row | {"payload": _hex(row["payload"])}


def _transfer_row(entry: Entry) -> Row:
    return TRANSFER.row(entry.transfer) | {"account_id": entry.account_id}


def _leg_rows(entry: Entry) -> tuple[Row, Row]:
    """Both legs of a transfer: the customer's, with the balance after it and the hash, and the system's."""
    leg = ENTRY.row(entry) | {"transfer_id": entry.transfer.id, "chain_key": entry.key_id or None}
    own = {"balance_after": None, "hash": None, "chain_key": None}
    return (
        _of_texts(leg | {"book": "customer"}),
        leg | own | {"book": system_book(entry), "amount": -entry.amount},
    )


def _of_texts(row: Row) -> Row:
    """Return a row whose bytes are texts, as JSON has them."""
    return {name: _hex(value) if isinstance(value, bytes) else value for name, value in row.items()}


def _hex(value: bytes) -> str:
    """Return bytes as the server reads them of a text."""
    return f"\\x{value.hex()}"


def _encode(rows: Sequence[Row]) -> str:
    return msgspec.json.encode(rows).decode()
