"""Plans of the pages' statements, and the tables that plans are measured on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from benchmarks.ledger import fill_ledger, verify
from benchmarks.rows import DELIVERIES, EVENTS, IDEMPOTENCY_KEYS, MEETINGS, REQUESTS, fill
from benchmarks.servers import Account, Endpoint, Place
from meetcore.adapters.postgres import dashboard
from meetcore.adapters.postgres.money import reads as transaction_reads
from meetcore.adapters.postgres.notes import reads as note_reads
from meetcore.adapters.postgres.pool import Pool
from meetcore.domain.ids import id_bound
from meetcore.domain.money.ledger import TransferKind
from meetcore.domain.money.views import MAX_ENTRIES_LOOKED_AT, TransactionFilter
from meetcore.domain.notes.views import NoteFilter
from tests.support.api_harness import SECRETS_KEY
from tests.support.fakes import PlainCipher
from tests.support.note_transactions import completed, fail_unclaimed, queued, recorded
from tests.support.postgres_rig import PostgresRig
from tests.support.servers import migrated_database
from tests.support.transactions import AT, Customer, open_customer, top_up

ROWS = 40


@pytest.fixture
def where(postgres_server_url: str) -> Iterator[Place]:
    with migrated_database(postgres_server_url) as url:
        yield Place(url, {"database_url": url, "secrets_key": SECRETS_KEY})


def opened(where: Place, count: int) -> list[Account]:
    made = [Account(uuid4(), uuid4(), "") for _ in range(count)]
    with psycopg.connect(where.database_url) as connection:
        for each in made:
            connection.execute(
                """INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low)
                VALUES (%s, %s, 'a@example.com', 'A', now(), 0, false)""",
                (each.id, each.id),
            )
    return made


def counted(where: Place, statement: str) -> tuple[object, ...] | None:
    with psycopg.connect(where.database_url) as connection:
        return connection.execute(statement.encode()).fetchone()


def test_a_filled_ledger_verifies(where: Place) -> None:
    accounts = opened(where, 3)
    fill_ledger(where, accounts, 1_000)
    fill_ledger(where, accounts, 40)
    assert verify(where) > 0
    entries = counted(where, "SELECT sum(entries) FROM accounts")
    assert entries == (1_040,)
    assert counted(where, "SELECT sum(entries) FROM ledger_day_totals") == entries


def test_deliveries_of_filled_tables_have_their_events_and_endpoints(where: Place) -> None:
    accounts = opened(where, 2)
    endpoints = [Endpoint(each.id, uuid4()) for each in accounts]
    for rows in (MEETINGS, EVENTS, DELIVERIES, REQUESTS, IDEMPOTENCY_KEYS):
        fill(where, rows, ROWS, accounts, endpoints)
        assert counted(where, f"SELECT count(*) FROM {rows.table}") == (ROWS,)
    attempts = "(SELECT count(*) FROM delivery_attempts), (SELECT count(success_at) FROM deliveries)"
    assert counted(where, f"SELECT {attempts}") == (ROWS // 100, ROWS - ROWS // 100)
    joined = "deliveries d JOIN events e ON e.id = d.event_id AND e.account_id = d.account_id"
    assert counted(where, f"SELECT count(*) FROM {joined}") == (ROWS,)
    assert counted(where, "SELECT count(DISTINCT (account_id, endpoint_id)) FROM deliveries") == (2,)


ENTRIES = 20_000
NOTES = 5_000
A_PAGE = 21
FEW = 3 * A_PAGE
"""The most rows that any step of a plan may read for a page."""

# Top-ups of one credit, a minute apart.
_FILL_LEDGER = """
WITH transfers AS (
    INSERT INTO ledger_transfers
    SELECT (jsonb_populate_record(t, jsonb_build_object(
        'id', gen_random_uuid(), 'operation', 'fill:' || n))).*
    FROM ledger_transfers t, generate_series(2, %(entries)s) AS n WHERE t.account_id = %(account_id)s
    RETURNING id, substr(operation, 6)::bigint AS number
)
INSERT INTO ledger_entries
SELECT (jsonb_populate_record(e, jsonb_build_object('number', f.number, 'transfer_id', f.id,
    'at', e.at + (f.number - 1) * interval '1 minute'))).*
FROM ledger_entries e, transfers f WHERE e.account_id = %(account_id)s AND e.number = 1
"""
_COUNT_ENTRIES = "UPDATE accounts SET entries = %(entries)s WHERE id = %(account_id)s"

# A charge beside each of them.
_FILL_CHARGES = """
INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, at)
SELECT account_id, number, 'meetings', transfer_id, 1, at FROM ledger_entries
WHERE account_id = %(account_id)s AND book = 'customer'
"""

# The notes of one recording each, as another one is.
_FILL_NOTES = """
WITH made AS (
    INSERT INTO recordings
    SELECT (jsonb_populate_record(r, jsonb_build_object(
        'id', gen_random_uuid(), 'meeting_id', gen_random_uuid()))).*
    FROM recordings r, generate_series(1, %(notes)s) WHERE r.id = %(recording_id)s RETURNING id, meeting_id
)
INSERT INTO notes
SELECT (jsonb_populate_record(n, jsonb_build_object('id', gen_random_uuid(), 'recording_id', made.id,
    'meeting_id', made.meeting_id))).* FROM notes n, made WHERE n.id = %(note_id)s
"""


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


async def plan_of(
    rig: PostgresRig, statement: str, parameters: dict[str, Any], mode: str
) -> Sequence[dict[str, Any]]:
    """The steps of a statement's plan, with what each read."""
    async with rig.pool.connection() as connection, connection.transaction():
        await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        cursor = await connection.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters, prepare=True
        )
        [plan] = [row["QUERY PLAN"] for row in await cursor.fetchall()]
    return list(nodes(plan[0]["Plan"]))


async def rows_read(rig: PostgresRig, statement: str, parameters: dict[str, Any], mode: str) -> float:
    """The most rows that one step of the statement's plan read, those included that it dropped."""
    dropped = ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")
    return float(
        max(
            (node["Actual Rows"] + sum(node.get(name, 0) for name in dropped)) * node["Actual Loops"]
            for node in await plan_of(rig, statement, parameters, mode)
        )
    )


@pytest.fixture(scope="module")
async def long_ledger(service_pool: Pool, store_pool: Pool) -> AsyncIterator[tuple[PostgresRig, Customer]]:
    """Fill one ledger for the tests before the first that uses `rig`, which empties the store."""
    rig = PostgresRig(service_pool, PlainCipher(), owner=store_pool)
    await rig.reset()
    customer = await open_customer(rig)
    await top_up(rig, customer, 1, "first")
    filled = {"account_id": customer.account_id, "entries": ENTRIES}
    with rig.view.transaction():  # a connection of the pool has a deadline, and a slow machine takes its time
        for statement in (_FILL_LEDGER, _COUNT_ENTRIES):
            rig.view.execute(statement.encode(), filled)
    rig.read("ANALYZE ledger_entries, ledger_transfers, accounts")
    yield rig, customer
    rig.close()


async def test_a_page_of_a_range_of_a_long_ledger(long_ledger: tuple[PostgresRig, Customer]) -> None:
    rig, customer = long_ledger
    minutes = (None, 0, ENTRIES // 2, ENTRIES - 5, ENTRIES + 9)
    bounds = [None if each is None else AT + timedelta(minutes=each) for each in minutes]
    for first, last, kind in product(bounds, bounds, (None, TransferKind.TOPUP)):
        wanted = TransactionFilter(kind, first, last)
        parameters = transaction_reads.page_parameters(customer.account_id, wanted, A_PAGE, None)
        statement = transaction_reads.page_statement(wanted)
        for mode in ("force_custom_plan", "force_generic_plan"):
            assert await rows_read(rig, statement, parameters, mode) <= FEW, (wanted, mode)
    half = TransactionFilter(None, bounds[2], bounds[3])
    found = await rig.queries.list_transactions(customer.account_id, half, A_PAGE, None)
    assert [each.number for each in found][:2] == [ENTRIES - 5, ENTRIES - 6]


async def test_the_entries_of_a_key_that_caused_few(long_ledger: tuple[PostgresRig, Customer]) -> None:
    """So many are looked at, and the search goes on where they end."""
    rig, customer = long_ledger
    for wanted in (TransactionFilter(), TransactionFilter(TransferKind.TOPUP), TransactionFilter(None, AT)):
        statement = transaction_reads._LISTS_OF_KEY[transaction_reads._given(wanted)]
        parameters = transaction_reads.page_parameters(customer.account_id, wanted, A_PAGE, None)
        parameters |= {"key_id": customer.key_id}
        for mode in ("force_custom_plan", "force_generic_plan"):
            assert await rows_read(rig, statement, parameters, mode) <= MAX_ENTRIES_LOOKED_AT, (wanted, mode)
    list_, before, reached = rig.queries.list_entries_of_key, None, []
    for _ in range(9):
        page = await list_(customer.account_id, customer.key_id, TransactionFilter(), A_PAGE, before)
        assert page.entries == []
        before = page.reached
        if before is None:
            break
        reached.append(before)
    assert reached == list(range(ENTRIES - MAX_ENTRIES_LOOKED_AT + 1, 1, -MAX_ENTRIES_LOOKED_AT))


async def test_the_spending_of_days_with_many_entries_reads_none_of_them(
    long_ledger: tuple[PostgresRig, Customer],
) -> None:
    rig, customer = long_ledger
    rig.read(_FILL_CHARGES, account_id=customer.account_id)
    rig.read("ANALYZE ledger_entries, accounts")
    parameters = {"account_id": customer.account_id, "first_day": AT.date(), "day": AT.date()}
    for mode in ("force_custom_plan", "force_generic_plan"):
        assert await rows_read(rig, dashboard.SQL["overview"], parameters, mode) <= FEW, mode
        plan = await plan_of(rig, dashboard.SQL["overview"], parameters, mode)
        assert not [node for node in plan if node.get("Relation Name") == "ledger_entries"]
    overview = await rig.queries.find_overview(customer.account_id, AT.date(), AT.date())
    assert sum(each.meetings for each in overview.spending) == ENTRIES


@pytest.mark.parametrize("is_analyzed", [False, True])
async def test_the_few_notes_of_one_meeting_among_many(rig: PostgresRig, is_analyzed: bool) -> None:
    customer = await open_customer(rig, 50)
    recording = await recorded(rig, customer)
    wanted_notes = [await fail_unclaimed(rig, await queued(rig, customer, recording)) for _ in range(3)]
    note = await completed(rig, customer)
    named = {"note_id": note.id, "recording_id": note.recording_id}
    rig.read(_FILL_NOTES, notes=NOTES, **named)
    if is_analyzed:
        rig.read("ANALYZE notes, recordings")
    for wanted in (
        NoteFilter(recording.id), NoteFilter(None, recording.meeting_id),
        NoteFilter(recording.id, recording.meeting_id),
    ):  # fmt: skip
        statement = note_reads.notes_statement(wanted)
        parameters = {
            "account_id": customer.account_id,
            "recording_id": wanted.recording_id,
            "meeting_id": wanted.meeting_id,
            "before": id_bound(AT + timedelta(days=9999)),
            "limit": A_PAGE,
        }
        for mode in ("force_custom_plan", "force_generic_plan"):
            assert await rows_read(rig, statement, parameters, mode) <= FEW, (wanted, mode)
        found = await rig.queries.list_notes(customer.account_id, wanted, A_PAGE, None)
        assert list(found) == wanted_notes[::-1]
