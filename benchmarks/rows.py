"""Rows of a long past: ledgers that verify, and meetings, deliveries and requests of a year.

Of each table every second row is the first account's, the others are spread over all accounts. Ids begin with
their milliseconds, as those of the service do.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
from attrs import frozen

from benchmarks.servers import Account, Endpoint, Place
from meetcore.domain.ids import uuid7
from meetcore.domain.money import ledger
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.money.ledger import Entry, Funds, Reference, Transfer
from meetcore.domain.money.transfers import Book, TransferKind

__all__ = ["DELIVERIES", "EVENTS", "IDEMPOTENCY_KEYS", "MEETINGS", "REQUESTS", "Rows", "fill", "write_ledger"]

_CHUNK = 100_000
_SPAN_S = 365 * 86_400
_OPTIONS = "-c synchronous_commit=off"
_CREDITS = 10

_TRANSFERS = """COPY ledger_transfers (account_id, id, operation, kind, amount, source, destination, reference_type,
    reference_id) FROM STDIN"""
_ENTRIES = """COPY ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash, chain_key)
    FROM STDIN"""
_READ_FUNDS = (
    "SELECT balance, held, low_threshold, is_low, entries, last_hash, last_at FROM accounts WHERE id = %s"
)
_WRITE_FUNDS = "UPDATE accounts SET balance = %s, entries = %s, last_hash = %s, last_at = %s WHERE id = %s"


def write_ledger(where: Place, account_id: UUID, entries: int, key: ChainKey) -> None:
    """Append so many top-ups and adjustments to an account's ledger, by the rules of the domain."""
    with psycopg.connect(where.database_url, options=_OPTIONS) as connection:
        row = connection.execute(_READ_FUNDS, [account_id]).fetchone()
        assert row is not None
        funds = Funds(account_id, *row)
        at = funds.last_at or datetime.now(UTC)
        for first in range(0, entries, _CHUNK):
            made = []
            for _ in range(min(_CHUNK, entries - first)):
                at += timedelta(microseconds=1)
                funds, entry = _next(funds, at, key)
                made.append(entry)
            for statement, rows in ((_TRANSFERS, _transfers(made)), (_ENTRIES, _legs(made))):
                with connection.cursor() as cursor, cursor.copy(statement) as copy:
                    copy.write("".join(rows))
        values = (funds.balance, funds.entries, funds.last_hash, funds.last_at, account_id)
        connection.execute(_WRITE_FUNDS, values)


def _next(funds: Funds, at: datetime, key: ChainKey) -> tuple[Funds, Entry]:
    id_ = uuid7(at, os.urandom(10))
    kind, source, destination = TransferKind.ADJUSTMENT, Book.CUSTOMER, Book.ADJUSTMENTS
    if funds.entries % 10 == 0:
        kind, source, destination = TransferKind.TOPUP, Book.TOPUPS, Book.CUSTOMER
    reference = Reference(kind.value, "bench")
    transfer = Transfer(id_, f"{kind}:{id_}", kind, _CREDITS, source, destination, reference)
    posting = ledger.post(funds, transfer, at, key=key)
    assert posting.entry is not None
    return posting.funds, posting.entry


def _transfers(entries: Sequence[Entry]) -> Iterator[str]:
    for each in entries:
        it = each.transfer
        yield (
            f"{each.account_id}\t{it.id}\t{it.operation}\t{it.kind}\t{it.amount}\t{it.source}\t{it.destination}"
            f"\t{it.reference.type}\t{it.reference.id}\n"
        )


def _legs(entries: Sequence[Entry]) -> Iterator[str]:
    for each in entries:
        book = ledger.system_book(each.transfer.kind)
        head, id_ = f"{each.account_id}\t{each.number}\t", each.transfer.id
        yield (
            f"{head}customer\t{id_}\t{each.amount}\t{each.balance_after}\t{each.at}\t\\\\x{each.hash.hex()}"
            f"\t\\\\x{each.key_id.hex()}\n{head}{book}\t{id_}\t{-each.amount}\t\\N\t{each.at}\t\\N\t\\N\n"
        )


# Of its milliseconds, the table and the number of the row.
_ID = """(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008{table}' || lpad(to_hex(n), 14, '0'))::uuid"""
# The instant and the place of the owner of each row, computed once: OFFSET keeps them out of the lists of columns.
_NUMBERS = f"""(
    SELECT n, %(until)s::timestamptz - interval '1 second' * ({_SPAN_S} * (1 - n::float8 / %(rows)s)) AS at,
        CASE WHEN n %% 2 = 0 THEN 1 ELSE 1 + n / 2 %% cardinality(%(accounts)s::uuid[]) END AS owner
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n OFFSET 0
) AS numbered"""
_ACCOUNT = "(%(accounts)s::uuid[])[owner]"
_KEY = "(%(keys)s::uuid[])[owner]"
# One instant for every table, so that a delivery finds its event.
_UNTIL = datetime.now(UTC)


@frozen
class Rows:
    """The rows of a table, or of two that belong together."""

    table: str
    statement: str


MEETINGS = Rows("meetings", f"""
INSERT INTO meetings (account_id, id, api_key_id, status, title, start_at, end_at, duration, pricing_tier_id, credits,
    with_recording, auto_notulen, must_login, mic_off, email_notification, provider, created_at, credits_refunded,
    provider_meeting_id)
SELECT {_ACCOUNT}, {_ID.format(table=1)}, {_KEY}, CASE WHEN n %% 50 = 0 THEN 'cancelled' ELSE 'ended' END,
    'Rapat ' || (ARRAY['anggaran', 'produk', 'mingguan', 'tim', 'pelanggan'])[1 + n %% 5] || ' ' || substr(md5(n::text), 1, 5),
    at, at + interval '1 hour', 60, 'standard-100', 10, true, false, false, false, false, 'sandbox', at,
    CASE WHEN n %% 50 = 0 THEN 10 END, 'bench-' || n
FROM {_NUMBERS}
""")  # fmt: skip
EVENTS = Rows("events", f"""
INSERT INTO events (account_id, id, kind, payload, created_at)
SELECT {_ACCOUNT}, {_ID.format(table=2)}, 'meeting.created', decode(repeat(md5(n::text), 4), 'hex'), at
FROM {_NUMBERS}
""")  # fmt: skip
DELIVERIES = Rows("deliveries", f"""
WITH made AS (
    INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, created_at, attempts_made, failed_at,
        success_at, success_duration_ms, success_status_code)
    SELECT {_ACCOUNT}, {_ID.format(table=3)}, (%(endpoints)s::uuid[])[owner], {_ID.format(table=2)},
        'meeting.created', CASE WHEN n %% 100 = 0 THEN 'failed' ELSE 'succeeded' END, at, 1,
        CASE WHEN n %% 100 = 0 THEN at END, CASE WHEN n %% 100 <> 0 THEN at END, CASE WHEN n %% 100 <> 0 THEN 20 END,
        CASE WHEN n %% 100 <> 0 THEN 200 END
    FROM {_NUMBERS} RETURNING account_id, id, failed_at
)
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, status_code, error)
SELECT account_id, id, 1, failed_at, 20, 500, 'http_status' FROM made WHERE failed_at IS NOT NULL
""")  # fmt: skip
REQUESTS = Rows("api_requests", f"""
INSERT INTO api_requests (id, account_id, api_key_id, at, method, path, status, duration_ms)
SELECT {_ID.format(table=4)}, {_ACCOUNT}, {_KEY}, at, 'GET', '/meetings',
    CASE WHEN n %% 100 = 0 THEN 404 ELSE 200 END, 5
FROM {_NUMBERS}
""")  # fmt: skip
IDEMPOTENCY_KEYS = Rows("idempotency_keys", f"""
INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, created_at)
SELECT {_ACCOUNT}, gen_random_uuid()::text, sha256(n::text::bytea), true, now() FROM {_NUMBERS}
""")  # fmt: skip


def fill(
    where: Place, rows: Rows, count: int, accounts: Sequence[Account], endpoints: Sequence[Endpoint]
) -> None:
    """Add so many rows in portions, without checks of references; each account has the endpoint of its place."""
    parameters = {
        "rows": count, "accounts": [each.id for each in accounts], "keys": [each.key_id for each in accounts],
        "endpoints": [each.id for each in endpoints], "until": _UNTIL,
    }  # fmt: skip
    options = f"{_OPTIONS} -c session_replication_role=replica"
    with psycopg.connect(where.database_url, autocommit=True, options=options) as connection:
        for first in range(1, count + 1, _CHUNK):
            last = min(first + _CHUNK - 1, count)
            connection.execute(rows.statement.encode(), parameters | {"first": first, "last": last})
        connection.execute(f"VACUUM ANALYZE {rows.table}".encode())
