"""Partitions of events, deliveries and attempts, made ahead and dropped beside a service that runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import Any
from uuid import UUID

import psycopg
import pytest
from attrs import evolve
from psycopg import sql
from psycopg.rows import dict_row

from meetcore.adapters.postgres import partitions as module
from meetcore.adapters.postgres.partitions import AHEAD, KEYS, WEEK, Change, Partition, PostgresPartitions
from meetcore.adapters.postgres.pool import make_pool
from meetcore.domain.ids import first_id, uuid7
from meetcore.domain.webhooks.deliveries import Delivery, DeliveryStatus, open_delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import EVENTS_KEPT, Event, EventKind
from meetcore.domain.webhooks.views import (
    ClaimedBatch,
    ClaimLimits,
    DeliveryFilter,
    EventFilter,
    GivenUp,
    GiveUpReason,
)
from meetcore.ports.maintenance import Maintained
from meetcore.ports.runtime import Lease
from tests.support import servers
from tests.support.fakes import PlainCipher
from tests.support.outbox import GOOD, claim, outbox, record_all
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import KIND, new_id, top_up

MONDAY = datetime(2026, 11, 30, tzinfo=UTC)
NOW = MONDAY + timedelta(days=1)
OVER = NOW + EVENTS_KEPT + 2 * WEEK
"""When what was made at `NOW` is past its retention, with all of its week."""
ACCOUNT = UUID(int=1)
MADE = ["20261207", "20261214", "20261221", "20261228", "20270104"]
"""What a first round makes; the last one is open."""


@pytest.fixture
def url(postgres_server_url: str) -> Iterator[str]:
    with servers.migrated_database(postgres_server_url) as found:
        yield found


@pytest.fixture
async def rig(url: str) -> AsyncIterator[PostgresRig]:
    """A store of its own for each test: a partition that was dropped does not come back."""
    pool = make_pool(url, max_size=6, timeout_s=20.0)
    await pool.open()
    try:
        yield PostgresRig(pool, PlainCipher())
    finally:
        await pool.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIES", 2)
    monkeypatch.setattr(module, "PAUSE_S", 0.01)


async def maintain(url: str, now: datetime = NOW, *, is_dry: bool = False) -> Maintained:
    return await PostgresPartitions(url).maintain(now, EVENTS_KEPT, is_dry=is_dry)


async def maintain_as_planned(url: str, now: datetime = NOW) -> Maintained:
    """Maintain the partitions; a dry run before it reported the same."""
    planned = await maintain(url, now, is_dry=True)
    done = await maintain(url, now)
    assert planned == evolve(done, ahead=planned.ahead)
    return done


def ids(*days: float) -> list[UUID]:
    return [uuid7(NOW + timedelta(days=day), bytes(10)) for day in days]


def write(url: str, *days: float) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.cursor().executemany(
            "INSERT INTO events VALUES (%s, %s, 'webhook.test', 'x', now())",
            [(ACCOUNT, each) for each in ids(*days)],
        )


def read(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def places(url: str) -> list[tuple[object, ...]]:
    return read(url, "SELECT tableoid::regclass::text, id FROM events ORDER BY id")


def layout(url: str) -> module.Layout:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return module.layout_of(connection.execute(module.LAYOUT.encode()).fetchall())


async def test_a_first_round_makes_partitions_ahead_and_once_is_enough(url: str) -> None:
    done = await maintain_as_planned(url)
    assert done == Maintained(tuple(f"{table}_{day}" for table in KEYS for day in MADE), ahead=AHEAD)
    assert await maintain(url) == Maintained(ahead=AHEAD)
    assert (await maintain_as_planned(url, NOW + WEEK)).made == tuple(f"{table}_20270111" for table in KEYS)


async def test_without_a_time_the_databases_own_counts(url: str) -> None:
    done = await PostgresPartitions(url).maintain(None, EVENTS_KEPT)
    assert (done.ahead, done.dropped) == (AHEAD, ())
    assert await maintain(url, datetime.now(UTC)) == Maintained(ahead=AHEAD)


async def test_rows_of_clocks_that_are_slow_or_fast_go_where_they_belong(url: str) -> None:
    days = (-30, 0, 5.99, 6, 15, 400)
    write(url, *days)
    await maintain(url)
    first, second, third, last = "events_first", "events_20261207", "events_20261214", "events_20270104"
    assert places(url) == list(zip((first, first, first, second, third, last), ids(*days), strict=True))
    await maintain(url, NOW + WEEK)
    assert places(url)[-1] == ("events_20270111", ids(400)[0])


async def test_each_id_has_a_partition_and_enough_are_ahead_whenever_rounds_are(url: str) -> None:
    """A partition that is made ahead is a week long; the open one gets the rows of months without a round."""
    days = [0, 3, 7, 8, 60, 61, 200]
    write(url, *days, 4000)
    for day in days:
        now = NOW + timedelta(days=day)
        assert (await maintain_as_planned(url, now)).ahead == AHEAD
        assert await maintain(url, now) == Maintained(ahead=AHEAD)
    weeks = [first_id(MONDAY + week * WEEK) for week in range(29, 29 + AHEAD + 1)]
    for partitions in layout(url).values():
        assert module.gaps(partitions) == []
        assert [(one.lower, one.upper) for one in partitions[-AHEAD - 1 :]] == list(pairwise([*weeks, None]))
    [young, fast] = ids(200, 4000)
    assert places(url) == [("events_20270301", young), ("events_20270719", fast)]


async def test_several_at_once_do_not_disturb_each_other(url: str) -> None:
    done = await asyncio.gather(*(maintain(url) for _ in range(4)))
    made = [name for one in done for name in one.made]
    assert sorted(made) == sorted(f"{table}_{day}" for table in KEYS for day in MADE)
    assert {one.is_busy for one in done} == {False}


async def test_a_round_that_is_interrupted_leaves_nothing_half_done(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(url, 0, 6, 400)
    made = module.extension
    tables = "SELECT relname FROM pg_class WHERE relname ~ '^events_' ORDER BY 1"
    before = read(url, tables)
    for done in range(9):

        def interrupted(*arguments: Any, done: int = done, **named: Any) -> Change:
            statements = made(*arguments, **named).statements
            return Change(("x",), (*statements[:done], sql.SQL("SELECT 1 / 0").format()))

        with monkeypatch.context() as killed:
            killed.setattr(module, "extension", interrupted)
            with pytest.raises(psycopg.errors.DivisionByZero):
                await maintain(url)
        assert read(url, tables) == before
        assert len(places(url)) == 3
    assert (await maintain(url)).ahead == AHEAD


@pytest.mark.usefixtures("impatient")
async def test_a_long_transaction_delays_a_round_and_blocks_no_writer(url: str) -> None:
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM events")
        done = await maintain(url)
        assert (done.is_busy, done.ahead) == (True, 0)
        assert not [name for name in done.made if name.startswith("events")]
        write(url, 0)
    await maintain(url)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM deliveries")
        done = await maintain(url, OVER)
        assert (done.is_busy, done.waiting) == (True, ("deliveries_first", "deliveries_20261207"))
    assert "deliveries_first" in (await maintain(url, OVER)).dropped


async def test_a_role_that_does_not_own_the_tables_is_refused(url: str) -> None:
    servers.skip_without_roles(url)
    with servers.service_role(url) as service_url:
        done = await maintain(service_url)
        assert "run `meetcore partitions` as their owner" in done.refusal
        assert done == Maintained(refusal=done.refusal)
        await maintain(url)
        write(service_url, -30, 0, 14, 30, 300)
        assert (await maintain(service_url, is_dry=True)).ahead == AHEAD


@pytest.mark.parametrize(("name", "day"), [("events_20270104", 43), ("events_20261214", 15)])
async def test_a_partition_that_an_operator_took_out_is_replaced(url: str, name: str, day: int) -> None:
    """The open one, and one in the middle: new rows would be refused."""
    await maintain(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE events DETACH PARTITION {name}".encode())
    with pytest.raises(psycopg.errors.CheckViolation):
        write(url, day)
    [made] = (await maintain_as_planned(url)).made
    write(url, day)
    assert [place for place, _ in places(url)] == [made]
    assert read(url, f"SELECT to_regclass('{name}')::text") == [(name,)]
    await maintain(url, NOW + 12 * WEEK)
    assert (await maintain(url, NOW + 12 * WEEK)) == Maintained(ahead=AHEAD)


async def test_partitions_are_alike(url: str) -> None:
    """A later one has the indexes and the parameters of the first."""
    await maintain(url)
    for table in KEYS:
        found = read(
            url,
            f"""SELECT c.relname, c.reloptions,
                regexp_replace(pg_get_indexdef(x.indexrelid), 'INDEX .* USING', '')
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_index x ON x.indrelid = c.oid
            WHERE i.inhparent = '{table}'::regclass""",
        )
        alike: dict[object, set[str]] = {}
        for name, options, index in found:
            alike.setdefault(name, set()).add(f"{options} {index}")
        first = alike.pop(f"{table}_first")
        assert len(alike) == AHEAD + 1
        assert all(one == first for one in alike.values()), table


# What is past its retention


def test_what_is_past_its_retention_goes_to_the_millisecond_up_to_what_is_kept() -> None:
    bounds = [None, *(first_id(MONDAY + week * WEEK) for week in range(5)), None]
    partitions = [Partition(f"events_{n}", *ends) for n, ends in enumerate(pairwise(bounds))]
    end = first_id(MONDAY + 2 * WEEK)
    assert module.removal(partitions, end).names == ("events_0", "events_1", "events_2")
    assert module.removal(partitions, UUID(int=end.int - 1)).names == ("events_0", "events_1")
    assert module.removal(partitions, end, ["events_1"]).names == ("events_0",)
    assert module.removal(partitions, UUID(int=2**128 - 1)).names[-1] == "events_4", "the open one stays"
    detaching = [evolve(partitions[0], is_detaching=True), *partitions[1:]]
    assert module.removal(detaching, end) == Change(), "an operator takes it out"


async def posted(rig: PostgresRig, endpoint: Endpoint, at: datetime) -> tuple[Event, Delivery]:
    """Write an event of an instant for one endpoint, and a delivery that is as old."""
    event_id, id_ = (uuid7(at, new_id().bytes[-10:]) for _ in range(2))
    event = Event(event_id, endpoint.account_id, EventKind.WEBHOOK_TEST, at, {})
    async with rig.store.begin() as tx:
        view = await tx.endpoints.load_for_posting(endpoint.account_id, endpoint.id)
        assert view is not None
        delivery = open_delivery(
            id=id_, endpoint=endpoint, event_id=event_id, event_kind=event.kind, created_at=at, now=view.now
        )
        await tx.endpoints.add_event_for_endpoint(event, delivery)
    return event, delivery


async def claimed(rig: PostgresRig, since: datetime = NOW - EVENTS_KEPT) -> ClaimedBatch:
    """Claim what is due, of events from about an instant on."""
    async with rig.store.begin() as tx:
        limits = ClaimLimits(per_endpoint=100, per_host=100, events_kept=datetime.now(UTC) - since)
        return await tx.deliveries.claim_due(limits, Lease(new_id(), 60.0))


async def test_what_is_past_its_retention_goes_and_nothing_before(url: str, rig: PostgresRig) -> None:
    await maintain(url)
    customer, endpoint = await outbox(rig, 0)
    old, gone = await posted(rig, endpoint, NOW)
    young, kept = await posted(rig, endpoint, OVER - EVENTS_KEPT + timedelta(hours=1))
    await record_all(rig, list((await claimed(rig)).claimed), GOOD)
    assert (await maintain(url, MONDAY + WEEK + EVENTS_KEPT - timedelta(hours=1))).dropped == ()
    assert set(await rig.deliveries(customer.account_id)) == {gone.id, kept.id}
    done = await maintain_as_planned(url, OVER)
    assert (len(done.dropped), done.waiting) == (2 * len(KEYS), ())
    assert await rig.queries.find_event(customer.account_id, old.id) is None
    assert await rig.queries.find_event(customer.account_id, young.id) is not None
    assert set(await rig.deliveries(customer.account_id)) == {kept.id}
    assert await rig.attempts(customer.account_id) == [1]


async def test_a_delivery_that_waits_is_over_before_its_week_goes(url: str, rig: PostgresRig) -> None:
    await maintain(url)
    customer, endpoint = await outbox(rig, 0)
    _, sent = await posted(rig, endpoint, NOW)
    await record_all(rig, list((await claimed(rig)).claimed), GOOD)
    event, waiting = await posted(rig, endpoint, NOW)
    done = await maintain_as_planned(url, OVER)
    assert done.waiting == ("deliveries_first", "deliveries_20261207")
    assert await rig.queries.find_event(customer.account_id, event.id) is None
    assert set(await rig.deliveries(customer.account_id)) == {sent.id, waiting.id}
    assert await rig.attempts(customer.account_id) == [1]
    batch = await claimed(rig)
    assert batch.claimed == [], "there is nothing to post"
    assert [one.delivery_id for one in batch.given_up] == [waiting.id]
    failed = (await rig.deliveries(customer.account_id))[waiting.id]
    assert (failed.status, failed.attempts_made) == (DeliveryStatus.FAILED, 0)
    assert (await maintain(url, OVER)).waiting == ()
    assert await rig.deliveries(customer.account_id) == {}
    assert await rig.attempts(customer.account_id) == []


async def test_an_event_that_is_past_its_retention_is_not_posted(rig: PostgresRig) -> None:
    """Before its week is."""
    customer, endpoint = await outbox(rig, 0)
    event, old = await posted(rig, endpoint, NOW)
    _, young = await posted(rig, endpoint, NOW + timedelta(hours=2))
    batch = await claimed(rig, since=NOW + timedelta(hours=1))
    assert [one.delivery_id for one in batch.claimed] == [young.id]
    assert list(batch.given_up) == [
        GivenUp(customer.account_id, old.id, endpoint.id, event.id, GiveUpReason.PAST_RETENTION)
    ]
    failed = (await rig.deliveries(customer.account_id))[old.id]
    assert (failed.status, failed.next_attempt_at) == (DeliveryStatus.FAILED, None)
    assert failed.failed_at is not None


# Under load


_OLD = """
CREATE TEMP TABLE made AS SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'
    || substr(md5('x' || n), 1, 3) || '8' || substr(md5('x' || n), 4, 15))::uuid AS id, at
FROM (SELECT n, %(base)s + n %% 200 * interval '1 hour' AS at FROM generate_series(1, 2000) AS n) AS numbers;
INSERT INTO events SELECT %(account)s, id, 'webhook.test', 'x', at FROM made;
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, attempts_made, created_at)
SELECT %(account)s, id, %(endpoint)s, id, 'webhook.test', 'succeeded', 1, at FROM made;
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms)
SELECT %(account)s, id, 1, at, 1 FROM made
"""
LONGEST_S = 5.0
"""Less than the limit of a statement, which ends a wait for a lock."""


async def test_partitions_are_made_and_dropped_beside_sales_deliveries_and_lists(
    url: str, rig: PostgresRig
) -> None:
    now = datetime.now(UTC)
    customer, endpoint = await outbox(rig, 0)
    base = now - timedelta(days=200)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        named = {"base": base, "account": customer.account_id, "endpoint": endpoint.id}
        connection.execute(_OLD.encode(), named)
    await maintain(url, base)
    took_s: list[float] = []
    is_warm, is_over = asyncio.Event(), asyncio.Event()

    async def sell(number: int) -> None:
        await top_up(rig, customer, 1, f"load-{number}", KIND)

    async def send(_: int) -> None:
        batch, _lease = await claim(rig)
        await record_all(rig, batch, GOOD)

    async def look(_: int) -> None:
        await rig.queries.list_deliveries(customer.account_id, endpoint.id, DeliveryFilter(), 20, None)
        await rig.queries.list_events(customer.account_id, EventFilter(now - EVENTS_KEPT), 20, None)

    async def repeat(work: Callable[[int], Awaitable[object]]) -> None:
        for number in count():
            started = time.monotonic()
            await work(number)
            took_s.append(time.monotonic() - started)
            if number == 20:
                is_warm.set()
            if is_over.is_set():
                return

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        for work in (sell, send, look):
            group.create_task(repeat(work))
        await is_warm.wait()
        done = await maintain(url, now)
        is_over.set()
    assert {f"{table}_first" for table in KEYS} <= set(done.dropped)
    assert (done.is_busy, done.ahead) == (False, AHEAD)
    sold = read(url, "SELECT count(*) FROM ledger_transfers WHERE operation LIKE '%load-%'")
    assert read(url, "SELECT count(*) FROM events WHERE kind = 'credit.topup.succeeded'") == sold
    assert max(took_s) < LONGEST_S


@pytest.mark.parametrize("is_dry", [False, True])
async def test_without_its_tables_a_database_is_to_be_migrated_first(
    empty_database_url: str, is_dry: bool
) -> None:
    done = await PostgresPartitions(empty_database_url).maintain(None, EVENTS_KEPT, is_dry=is_dry)
    assert (done.refusal, done.made) == ("there are no tables: run `meetcore migrate` first", ())
