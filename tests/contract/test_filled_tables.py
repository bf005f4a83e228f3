"""Databases that the benchmarks fill: the ledger verifies, and tables keep their indexes."""

from __future__ import annotations

import asyncio
import re
from uuid import uuid4

import psycopg

from benchmarks.audit import prove
from benchmarks.ledger_rows import Owner, write_histories
from benchmarks.table_rows import (
    DELIVERIES,
    EVENTS,
    IDEMPOTENCY_KEYS,
    MEETINGS,
    REQUESTS,
    add_endpoints,
    fill,
)
from meetcore.adapters.postgres.migrate import migrate
from meetcore.domain.money.chain_keys import ChainKey

KEY = ChainKey.of(bytes(32))
TABLES = (MEETINGS, EVENTS, DELIVERIES, REQUESTS, IDEMPOTENCY_KEYS)
ROWS = 40


def owners(connection: psycopg.Connection, count: int) -> list[Owner]:
    made = [Owner(uuid4(), uuid4()) for _ in range(count)]
    for owner in made:
        connection.execute(
            """INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low)
            VALUES (%s, %s, 'a@example.com', 'A', now(), 0, false)""",
            (owner.account_id, owner.account_id),
        )
    return made


def indexes(connection: psycopg.Connection) -> list[tuple[str, str]]:
    """Tables with the definitions of their indexes, without the names, which the server chooses."""
    rows = connection.execute(
        "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'"
    ).fetchall()
    return sorted((table, re.sub(r"INDEX \S+ ON", "INDEX ON", definition)) for table, definition in rows)


def unusable(connection: psycopg.Connection) -> list[tuple[str]]:
    """Indexes that the server does not read or does not keep."""
    return connection.execute(
        "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT (indisvalid AND indisready AND indislive)"
    ).fetchall()


def test_a_filled_ledger_verifies(empty_database_url: str) -> None:
    migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        first, second = owners(connection, 2)
    write_histories(empty_database_url, [(first, 1_050), (second, 3)], KEY)
    write_histories(empty_database_url, [(second, 25)], KEY)
    assert asyncio.run(prove(empty_database_url, KEY)) > 0
    with psycopg.connect(empty_database_url) as connection:
        kinds = connection.execute("SELECT kind, count(*) FROM ledger_transfers GROUP BY kind").fetchall()
        days = connection.execute("SELECT sum(entries), sum(credits) FROM ledger_day_totals").fetchone()
        assert unusable(connection) == []
        balances = connection.execute("SELECT sum(entries), sum(balance) FROM accounts").fetchone()
    assert {kind for kind, _ in kinds} == {"topup", "meeting_charge", "meeting_refund", "notulen_charge"}
    assert days == balances
    assert sum(count for _, count in kinds) == 1_075


def test_filled_tables_keep_their_indexes(empty_database_url: str) -> None:
    migrate(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        before = indexes(connection)
        of = owners(connection, 2)
        add_endpoints(connection, of, 3)
        for table in TABLES:
            fill(empty_database_url, table, ROWS, of, 3)
        assert indexes(connection) == before
        assert unusable(connection) == []
        for table in TABLES:
            for name in table.tables:
                row = connection.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()
                assert row == (ROWS,)
        row = connection.execute(
            """SELECT count(*) FROM deliveries d
            JOIN events e ON e.account_id = d.account_id AND e.id = d.event_id
            JOIN webhook_endpoints w ON w.account_id = d.account_id AND w.id = d.endpoint_id"""
        ).fetchone()
        assert row == (ROWS,)
