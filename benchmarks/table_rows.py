"""Rows of a long past: meetings, deliveries and requests of a year, made by the database itself.

Every second row is the first owner's, the others are spread over all of them. Ids begin with their milliseconds, as
those of the service do.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import psycopg
from attrs import frozen

from benchmarks.late_indexes import without_indexes
from benchmarks.ledger_rows import Owner

__all__ = ["DELIVERIES", "EVENTS", "IDEMPOTENCY_KEYS", "MEETINGS", "REQUESTS", "add_endpoints", "fill"]

_CHUNK = 500_000
_SPAN_S = 365 * 86_400
# Of its milliseconds, the table and the number of the row.
_ID = """(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008{table}' || lpad(to_hex(n), 14, '0'))::uuid"""
# One instant for every table, so that a delivery finds its event.
_UNTIL = datetime.now(UTC)
# The instant and the owner of each row, computed once: OFFSET keeps them out of the lists of columns.
_NUMBERS = f"""(
    SELECT n, %(until)s::timestamptz - interval '1 second' * ({_SPAN_S} * (1 - n::float8 / %(rows)s)) AS at,
        CASE WHEN n %% 2 = 0 THEN 1 ELSE 1 + n / 2 %% %(owners)s END AS owner
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n OFFSET 0
) AS numbered"""
_ACCOUNT = "(%(accounts)s::uuid[])[owner]"
_KEY = "(%(keys)s::uuid[])[owner]"
_ENDPOINT = "md5({account} || 'w' || {number})::uuid"
_ENDPOINT_OF_ROW = _ENDPOINT.format(account=_ACCOUNT, number="(1 + n %% %(endpoints)s)")


@frozen
class Rows:
    """The rows of a table, or of two that belong together: how they are made, and where."""

    tables: Sequence[str]
    statement: str


MEETINGS = Rows(("meetings",), f"""
INSERT INTO meetings (account_id, id, api_key_id, status, title, start_at, end_at, duration, pricing_tier_id, credits,
    with_recording, auto_notulen, must_login, mic_off, email_notification, provider, created_at, credits_refunded,
    provider_meeting_id)
SELECT {_ACCOUNT}, {_ID.format(table=1)}, {_KEY}, CASE WHEN n %% 50 = 0 THEN 'cancelled' ELSE 'ended' END,
    'Rapat ' || (ARRAY['anggaran', 'produk', 'mingguan', 'tim', 'pelanggan'])[1 + n %% 5] || ' ' || substr(md5(n::text), 1, 5),
    at, at + interval '1 hour', 60, 'standard-100', 10, true, false, false, false, false, 'sandbox', at,
    CASE WHEN n %% 50 = 0 THEN 10 END, 'bench-' || n
FROM {_NUMBERS}
""")  # fmt: skip
EVENTS = Rows(("events",), f"""
INSERT INTO events (account_id, id, kind, payload, created_at)
SELECT {_ACCOUNT}, {_ID.format(table=2)}, 'meeting.created', decode(repeat(md5(n::text), 4), 'hex'), at
FROM {_NUMBERS}
""")  # fmt: skip
DELIVERIES = Rows(("deliveries", "delivery_attempts"), f"""
WITH made AS (
    INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, created_at, attempts_made, failed_at)
    SELECT {_ACCOUNT}, {_ID.format(table=3)}, {_ENDPOINT_OF_ROW}, {_ID.format(table=2)},
        'meeting.created', CASE WHEN n %% 100 = 0 THEN 'failed' ELSE 'succeeded' END, at, 1,
        CASE WHEN n %% 100 = 0 THEN at END
    FROM {_NUMBERS} RETURNING account_id, id, status, created_at
)
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, status_code, error)
SELECT account_id, id, 1, created_at, 20, CASE status WHEN 'failed' THEN 500 ELSE 200 END,
    CASE status WHEN 'failed' THEN 'http_status' END
FROM made
""")  # fmt: skip
REQUESTS = Rows(("api_requests",), f"""
INSERT INTO api_requests (id, account_id, api_key_id, at, method, path, status, duration_ms)
SELECT {_ID.format(table=4)}, {_ACCOUNT}, {_KEY}, at, 'GET', '/meetings',
    CASE WHEN n %% 100 = 0 THEN 404 ELSE 200 END, 5
FROM {_NUMBERS}
""")  # fmt: skip
IDEMPOTENCY_KEYS = Rows(("idempotency_keys",), f"""
INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, created_at)
SELECT {_ACCOUNT}, gen_random_uuid()::text, sha256(n::text::bytea), true, now() FROM {_NUMBERS}
""")  # fmt: skip

_ADD_ENDPOINTS = f"""
WITH owned AS (
    SELECT account_id, 'host-' || number || '.example' AS host
    FROM unnest(%(accounts)s::uuid[]) WITH ORDINALITY AS o (account_id, number)
), hosts AS (INSERT INTO webhook_hosts (host) SELECT host FROM owned),
of_accounts AS (INSERT INTO webhook_account_hosts (account_id, host) SELECT account_id, host FROM owned)
INSERT INTO webhook_endpoints
    (account_id, id, url, url_key, event_types, state, consecutive_failures, created_by, created_at, secret)
SELECT account_id, {_ENDPOINT.format(account="account_id", number="n")}, 'https://' || host || '/' || n,
    'https://' || host || '/' || n, '{{meeting.created}}', 'active', 0, 'x', now(), 'x'
FROM owned CROSS JOIN generate_series(1, %(endpoints)s) AS n
"""


def add_endpoints(connection: psycopg.Connection, owners: Sequence[Owner], endpoints: int) -> None:
    """Give each owner so many endpoints at a host of its own; their secrets open under no key."""
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(
            _ADD_ENDPOINTS.encode(),
            {"accounts": [owner.account_id for owner in owners], "endpoints": endpoints},
        )


def fill(
    url: str,
    rows: Rows,
    count: int,
    owners: Sequence[Owner],
    endpoints: int = 1,
    on_chunk: Callable[[int], object] = lambda last: None,
) -> None:
    """Add so many rows, in portions; build the indexes of their tables at the end, and vacuum them."""
    parameters = {
        "rows": count, "owners": len(owners), "accounts": [owner.account_id for owner in owners],
        "keys": [owner.key_id for owner in owners], "endpoints": endpoints, "until": _UNTIL,
    }  # fmt: skip
    options = "-c session_replication_role=replica -c synchronous_commit=off -c maintenance_work_mem=1GB"
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        with without_indexes(connection, rows.tables):
            for first in range(1, count + 1, _CHUNK):
                last = min(first + _CHUNK - 1, count)
                connection.execute(rows.statement.encode(), parameters | {"first": first, "last": last})
                on_chunk(last)
        connection.execute(f"VACUUM ANALYZE {', '.join(rows.tables)}".encode())
