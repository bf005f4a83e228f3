"""Statements that were planned on empty tables do not read full ones from end to end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime, timedelta
from itertools import product
from uuid import UUID

import psycopg
import pytest

from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.postgres.partitions import PostgresPartitions
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.requests.rate_counters import PostgresRateCounters
from meetcore.adapters.postgres.webhooks.deliveries import LOOK_AT_LEAST
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.views import MeetingFilter, StartCursor
from meetcore.domain.money.ledger import TransferKind
from meetcore.domain.money.views import TransactionFilter
from meetcore.domain.notes.views import NoteFilter
from meetcore.domain.payments.payments import Payment
from meetcore.domain.payments.refunds import Refund
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.domain.webhooks.deliveries import Attempt, DeliveryStatus
from meetcore.domain.webhooks.views import DeliveryFilter, EventFilter
from meetcore.ports.queries import CallerIncludes
from tests.support.api_harness import until
from tests.support.fakes import PlainCipher
from tests.support.outbox import BAD, GOOD, claim, record_all, sweep
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    KIND,
    Customer,
    MeetingSpec,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    register,
    scheduled,
    top_up,
)

SHOWN = (None, *(MeetingStatus(name) for name in ("scheduled", "started", "ended", "cancelled")))
SOON = datetime.now(UTC) + timedelta(days=1)
ROWS = 5_000

# No temporary table: making one has every connection make its plans anew.
_UNKNOWN_IDS = f"(SELECT md5(n::text)::uuid AS id FROM generate_series(1, {ROWS}) AS n) AS strangers"

# Rows that belong to no account, as many in each table as a busy day leaves.
_FILL = f"""
INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low)
SELECT id, id, 'a@example.com', 'A', now(), 0, false FROM {_UNKNOWN_IDS};
INSERT INTO api_keys (id, account_id, digest, scopes, created_at)
SELECT gen_random_uuid(), id, sha256(id::text::bytea), '{{}}', now() FROM {_UNKNOWN_IDS};
INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, created_at)
SELECT gen_random_uuid(), 'host-' || n, 300, 1, now() FROM generate_series(1, {ROWS}) AS n;
INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, during)
SELECT gen_random_uuid(), gen_random_uuid(), id, 0,
    tstzrange(now() + interval '90 days', now() + interval '91 days') FROM hosts;
INSERT INTO ledger_transfers
    (account_id, id, operation, kind, amount, source, destination, reference_type, reference_id)
SELECT id, gen_random_uuid(), 'x', 'topup', 1, 'topups', 'customer', 'topup', 'x' FROM {_UNKNOWN_IDS};
INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash)
SELECT account_id, 1000, 'customer', id, 1, 1, now(), sha256('x') FROM ledger_transfers
WHERE operation = 'x';
INSERT INTO note_holds
    (account_id, id, operation, kind, amount, reference_type, reference_id, api_key_id, cap_day)
SELECT id, gen_random_uuid(), 'x', 'meeting_charge', 1, 'meeting', 'x', id, current_date FROM {_UNKNOWN_IDS};
INSERT INTO cap_usage (account_id, api_key_id, day, spent, held)
SELECT id, id, current_date, 0, 0 FROM {_UNKNOWN_IDS};
INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, created_at)
SELECT id, 'x', 'x', true, now() FROM {_UNKNOWN_IDS};
INSERT INTO webhook_endpoints
    (account_id, id, url, url_key, event_types, state, consecutive_failures, created_by, created_at, secret)
SELECT id, gen_random_uuid(), 'x', 'x', '{{}}', 'active', 0, 'x', now(), 'x' FROM {_UNKNOWN_IDS};
INSERT INTO events (account_id, id, kind, payload, created_at)
SELECT id, gen_random_uuid(), 'webhook.test', 'x', now() FROM {_UNKNOWN_IDS};
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, created_at)
SELECT account_id, gen_random_uuid(), id, gen_random_uuid(), 'webhook.test', 'succeeded', now()
FROM webhook_endpoints WHERE url = 'x';
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms)
SELECT account_id, id, 1, now(), 1 FROM deliveries WHERE event_kind = 'webhook.test';
INSERT INTO payments
    (id, status, account_id, gateway, credits, price, tax, currency, created_at, expires_at, looks, method)
SELECT id, 'pending', id, 'x', 1, 1, 0, 'IDR', now(), now(), 0, '' FROM {_UNKNOWN_IDS};
INSERT INTO payment_refunds (payment_id, account_id, credits, amount, reason, created_at)
SELECT id, id, 1, 1, 'x', now() FROM {_UNKNOWN_IDS};
INSERT INTO meetings
SELECT made.* FROM meetings m, {_UNKNOWN_IDS}, jsonb_populate_record(m, jsonb_build_object(
    'id', gen_random_uuid(), 'account_id', strangers.id, 'status', 'ended', 'provider_meeting_id', NULL,
    'password', NULL)) AS made
WHERE m.id = %(meeting_id)s;
"""

# Rows that were read in reading tables from end to end, of the tables that hold many.
_READ_THROUGH = f"""
SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = 'public' AND n_live_tup > {ROWS // 2}
"""


@pytest.fixture
async def rig(empty_database_url: str) -> AsyncIterator[PostgresRig]:
    """A store on one connection, and on tables that are known to be empty."""
    migrate(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("VACUUM")
    pool = make_pool(empty_database_url, max_size=1, deadline_s=60)
    await pool.open()
    try:
        yield PostgresRig(pool, PlainCipher())
    finally:
        await pool.close()


async def sell(rig: PostgresRig, customer: Customer, hour: int) -> Meeting:
    """What every sale and every delivery does."""
    meeting = await scheduled(rig, customer, MeetingSpec(SOON + timedelta(hours=hour), key=str(new_id())))
    await top_up(rig, customer, 1, str(new_id()), KIND)
    await PostgresRateCounters(rig.pool).hit(customer.key_id, OperationClass.READ, 60 * hour)
    await claim(rig)
    return meeting


async def deliver(rig: PostgresRig, customer: Customer) -> None:
    """What a worker does with what is due, and what a customer sees of it."""
    await top_up(rig, customer, 1, str(new_id()), KIND)
    claimed, _ = await claim(rig)
    assert await record_all(rig, claimed, GOOD) is not None
    await sweep(rig)
    (endpoint, *_) = await rig.queries.list_endpoints(customer.account_id, 5, None)
    found = await rig.queries.find_delivery(customer.account_id, endpoint.id, claimed[0].delivery_id)
    assert found is not None


async def buy(rig: PostgresRig, customer: Customer) -> None:
    """Add a payment that was refunded in part."""
    now = datetime.now(UTC)
    payment = Payment(
        id=new_id(), account_id=customer.account_id, gateway="x", credits=2, price=2, tax=0, currency="IDR",
        created_at=now, expires_at=now,
    )  # fmt: skip
    refund = Refund(
        payment_id=payment.id, account_id=customer.account_id, credits=1, amount=1, reason="x", created_at=now
    )
    async with rig.store.begin() as tx:
        await tx.payments.add(payment)
        await tx.payments.add_refund(refund)


async def use(rig: PostgresRig, customer: Customer, hour: int) -> None:
    """What requests and workers do all day."""
    queries, now = rig.queries, datetime.now(UTC)
    account_id, page = customer.account_id, (5, None)
    meeting = await sell(rig, customer, hour)
    await deliver(rig, customer)
    for includes in (
        CallerIncludes(),
        CallerIncludes(meeting_id=meeting.id),
        CallerIncludes(usage_on=now.date()),
    ):
        assert await queries.find_caller(customer.digest, includes) is not None
    assert await queries.find_meeting(account_id, meeting.id) is not None
    for status in SHOWN:
        await queries.list_meetings(account_id, MeetingFilter(now, status), *page)
        await queries.list_meetings(account_id, MeetingFilter(now, status, SOON), *page)
    for kind in (None, TransferKind.TOPUP):
        for made_from, made_before in product((None, now - timedelta(days=1)), (None, now)):
            wanted = TransactionFilter(kind, made_from, made_before)
            await queries.list_transactions(account_id, wanted, *page)
    after = StartCursor(SOON, meeting.id)
    for status, behind, is_ascending in product(SHOWN, (None, after), (False, True)):
        wanted_meetings = MeetingFilter(now, status, None if behind else SOON)
        await queries.list_meetings_by_start(
            account_id, wanted_meetings, 5, behind, is_ascending=is_ascending
        )
    (endpoint, *_) = await queries.list_endpoints(account_id, *page)
    statuses = (None, DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED)
    for delivered, event_kind, since, about in product(
        statuses, (None, KIND), (None, now), (None, account_id)
    ):
        wanted_deliveries = DeliveryFilter(delivered, event_kind, since, since, about)
        await queries.list_deliveries(account_id, endpoint.id, wanted_deliveries, *page)
    [papers] = await queries.list_payments(account_id, *page)
    assert await queries.find_payment(account_id, papers.payment.id) == papers
    for of_kind in (None, KIND):
        for before in (None, now):
            wanted_events = EventFilter(now - timedelta(days=90), of_kind, before)
            await queries.list_events(account_id, wanted_events, *page)
    for of_meeting in (None, meeting.id):
        await queries.list_recordings(account_id, of_meeting, *page)
        for of_recording in (None, meeting.id):
            await queries.list_notes(account_id, NoteFilter(of_recording, of_meeting), *page)


async def read_through(rig: PostgresRig) -> dict[str, int]:
    await rig.rows("SELECT pg_stat_force_next_flush()")
    return {row["relname"]: row["seq_tup_read"] for row in await rig.rows(_READ_THROUGH)}


# Blocks of tables and indexes that statements looked at.
_BLOCKS = """
SELECT sum(heap_blks_hit + heap_blks_read + COALESCE(idx_blks_hit + idx_blks_read, 0))::bigint AS blocks
FROM pg_statio_user_tables
"""


async def blocks(rig: PostgresRig) -> int:
    await rig.rows("SELECT pg_stat_force_next_flush()")
    [row] = await rig.rows(_BLOCKS)
    return int(row["blocks"])


async def blocks_of(rig: PostgresRig, doing: Awaitable[object]) -> int:
    before = await blocks(rig)
    await doing
    return await blocks(rig) - before


def fill(url: str, meeting_id: UUID) -> None:
    options = "-c session_replication_role=replica"
    with psycopg.connect(url, options=options, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(_FILL.encode(), {"meeting_id": meeting_id})


async def test_no_statement_reads_a_table_through_that_was_empty_when_it_was_planned(
    rig: PostgresRig, empty_database_url: str
):
    rig.pool.sizes.look_every_s = 0.5
    await rig.put_hosts(new_host())
    customer = await open_customer(rig, 10_000)
    await register(rig, new_endpoint(customer))
    await buy(rig, customer)
    few = 0
    for hour in range(6):
        few = await blocks_of(rig, use(rig, customer, hour))
    meeting = await scheduled(rig, customer, MeetingSpec(SOON + timedelta(hours=8)))
    fill(empty_database_url, meeting.id)
    hour = 20

    async def has_found_plans() -> bool:
        # The pool looks twice a second whether its tables have grown. An index that is read from end to
        # end shows in the blocks; one of some thousand rows is deeper than one of a few.
        nonlocal hour
        before = await read_through(rig)
        many = await blocks_of(rig, use(rig, customer, hour := hour + 1))
        return len(before) >= 12 and await read_through(rig) == before and many < 3 * few

    await until(has_found_plans, seconds=300)


# Reservations behind every meeting of the tests, as many on each host as it has in months.
_FILL_HOSTS = """
INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, during)
SELECT gen_random_uuid(), gen_random_uuid(), id, 0, tstzrange(n, n + interval '10 minutes')
FROM hosts CROSS JOIN generate_series(now() + interval '60 hours', now() + interval '8 days', '20 minutes') n
WHERE capacity = 100
"""


async def test_what_was_planned_on_empty_tables_holds(rig: PostgresRig, empty_database_url: str):
    """Without plans made anew: what was prepared on tables of which the server knows that they are empty."""
    rig.pool.keeps_plans = False
    await rig.put_hosts(*(new_host() for _ in range(4)))
    customer = await open_customer(rig, 10_000)
    await register(rig, new_endpoint(customer))
    await sell(rig, customer, 0)
    empty = await blocks_of(rig, sell(rig, customer, 1))
    meeting = await scheduled(rig, customer, MeetingSpec(SOON + timedelta(hours=8)))
    fill(empty_database_url, meeting.id)
    await rig.rows(_FILL_HOSTS)
    before = await read_through(rig)
    assert len(before) >= 12
    full = await blocks_of(rig, sell(rig, customer, 20))
    assert await read_through(rig) == before
    # An index of some thousand rows is deeper than one of none; read through, each row of it would count.
    assert full < 3 * empty


# Entries of indexes that may be read to write an event, claim its deliveries and record the posts, beside one
# for each post in flight.
ENTRIES_OF_POST = 400
IN_FLIGHT = 300
_ENTRIES = "SELECT sum(idx_tup_read)::bigint AS entries FROM pg_stat_user_indexes"


async def entries_read(rig: PostgresRig) -> int:
    await rig.rows("SELECT pg_stat_force_next_flush()")
    [row] = await rig.rows(_ENTRIES)
    return int(row["entries"])


# Deliveries of the account that are over.
_FILL_SUCCEEDED = f"""
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, created_at)
SELECT %(account_id)s, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'webhook.test', 'succeeded',
    now()
FROM generate_series(1, {2 * ROWS}) AS n
"""
# A backlog that is none of the business of a claim or a record: of the account, to be tried again later, and
# in flight for other accounts at other hosts.
_FILL_BACKLOG = f"""
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, created_at)
SELECT %(account_id)s, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'webhook.test', 'pending',
    now() + interval '1 hour', now()
FROM {_UNKNOWN_IDS};
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, created_at,
    lease_token, lease_host)
SELECT id, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'webhook.test', 'pending',
    now() + interval '1 hour', now(), gen_random_uuid(), 'host-' || id
FROM {_UNKNOWN_IDS} LIMIT {IN_FLIGHT};
"""


def execute(url: str, statements: str, customer: Customer) -> None:
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(statements.encode(), {"account_id": customer.account_id})


@pytest.mark.parametrize("attempt", [GOOD, BAD], ids=["good", "bad"])
async def test_a_backlog_is_not_read_by_what_was_planned_before_it(
    rig: PostgresRig, empty_database_url: str, attempt: Attempt
) -> None:
    """Tables double before plans are made anew; what waits and what is in flight may grow a thousandfold."""
    rig.pool.keeps_plans = False
    customer = await open_customer(rig, 10_000)
    for _ in range(8):
        url = f"https://{new_id().hex}.example/hook"
        await register(rig, new_endpoint(customer, url=url, url_key=url))
    execute(empty_database_url, _FILL_SUCCEEDED, customer)

    async def post_all() -> None:
        await top_up(rig, customer, 1, str(new_id()), KIND)
        claimed, _ = await claim(rig)
        assert len(claimed) == 8
        assert await record_all(rig, claimed, attempt) is not None

    await post_all()
    execute(empty_database_url, _FILL_BACKLOG, customer)
    before = await entries_read(rig)
    await post_all()
    assert await entries_read(rig) - before < ENTRIES_OF_POST + IN_FLIGHT


# A backlog that is due, of events that are gone.
_FILL_DUE = f"""
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, created_at)
SELECT account_id, gen_random_uuid(), id, gen_random_uuid(), 'webhook.test', 'pending', now(), now()
FROM webhook_endpoints CROSS JOIN generate_series(1, {ROWS}) WHERE account_id = %(account_id)s
"""


async def test_a_claim_from_a_backlog_reads_no_more_than_it_looks_at(
    rig: PostgresRig, empty_database_url: str
) -> None:
    """Whatever the server's statistics say: they are of an hour in which nothing waited."""
    customer = await open_customer(rig, 10_000)
    await register(rig, new_endpoint(customer))
    execute(empty_database_url, _FILL_SUCCEEDED, customer)
    execute(empty_database_url, "VACUUM ANALYZE", customer)
    execute(empty_database_url, _FILL_DUE, customer)
    before = await entries_read(rig)
    await claim(rig, limit=10)
    assert await entries_read(rig) - before < 5 * LOOK_AT_LEAST
    [left] = await rig.rows("SELECT count(*) AS due FROM deliveries WHERE status = 'pending'")
    assert left["due"] == ROWS - 10


# How often the primary key of each partition of events was used.
_SCANS = """
SELECT relname, idx_scan FROM pg_stat_user_indexes WHERE indexrelname ~ '^events_([0-9]+|first)_pkey$'
ORDER BY indexrelname
"""


async def test_a_claim_reads_events_of_no_partition_that_has_nothing_due(
    rig: PostgresRig, empty_database_url: str
) -> None:
    weeks = 12
    began = datetime.now(UTC) - timedelta(weeks=weeks)
    await PostgresPartitions(empty_database_url).maintain(began, timedelta(days=9_999), ahead=weeks + 3)
    customer = await open_customer(rig, 10_000)
    await register(rig, new_endpoint(customer))
    counts = []
    for _ in range(4):
        await top_up(rig, customer, 1, str(new_id()), KIND)
        claimed, _ = await claim(rig)
        assert len(claimed) == 1
        await rig.rows("SELECT pg_stat_force_next_flush()")
        counts.append(await rig.rows(_SCANS))
    assert len(counts[0]) > weeks
    used = {
        after["relname"]
        for before, after in zip(counts[0], counts[-1], strict=True)
        if after["idx_scan"] > before["idx_scan"]
    }
    assert len(used) == 1, used  # of this week
