"""Partitions in every store; in PostgreSQL beside a service that runs, interrupted, and after an upgrade."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

import psycopg
import pytest
from attrs import define, field

from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.postgres import migrate as migrate_module
from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.postgres.migration_steps import load_migrations
from meetcore.adapters.postgres.partitions import extending, maintenance, plan, proofs, session
from meetcore.adapters.postgres.partitions.layout import KEYS, MARK, Layout, Partition
from meetcore.adapters.postgres.partitions.maintenance import PostgresPartitions
from meetcore.adapters.postgres.partitions.plan import Extension
from meetcore.adapters.postgres.pool import make_pool
from meetcore.domain.ids import first_id, uuid7
from meetcore.ports.partitions import PartitionRules, PartitionsRefused
from meetcore.ports.queries import EventFilter
from meetcore.testing.contracts import PartitionsContract
from meetcore.testing.contracts.outbox import GOOD, claim, outbox, record_all
from meetcore.testing.contracts.transactions import KIND, top_up
from tests.support import servers
from tests.support.postgres_rig import PostgresRig

NOW = datetime(2026, 12, 1, tzinfo=UTC)
RULES = PartitionRules()
OVER = NOW + RULES.kept + 3 * RULES.length
ACCOUNT = UUID(int=1)

_FILL = """
INSERT INTO events SELECT %(account)s, id, 'webhook.test', 'x', now() FROM unnest(%(ids)s::uuid[]) AS id
"""


@pytest.fixture
def url(postgres_server_url: str) -> Iterator[str]:
    with servers.migrated_database(postgres_server_url) as found:
        yield found


@pytest.fixture
async def postgres_rig(url: str) -> AsyncIterator[PostgresRig]:
    """A store of its own for each test: a partition that was dropped does not come back."""
    pool = make_pool(url, max_size=6, timeout_s=20.0)
    await pool.open()
    try:
        yield PostgresRig(pool, PlainCipher())
    finally:
        await pool.close()


class TestPartitions(PartitionsContract):
    """In memory and in Postgres."""


def ids(*days: float) -> list[UUID]:
    return [uuid7(NOW + timedelta(days=day), bytes(10)) for day in days]


def write(url: str, *days: float) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_FILL.encode(), {"account": ACCOUNT, "ids": ids(*days)})


def read(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def places(url: str) -> list[tuple[object, ...]]:
    """Where each event is."""
    return read(url, "SELECT tableoid::regclass::text, id FROM events ORDER BY id")


def leave_proof(url: str, name: str, end: datetime) -> None:
    """Leave what a round leaves that is killed while it proves where a partition ends."""
    with psycopg.connect(url, autocommit=True) as connection:
        left = f"ALTER TABLE {name} ADD CONSTRAINT {name}_ends CHECK (id < '{first_id(end)}') NOT VALID"
        connection.execute(left.encode())


def left_proofs(url: str) -> list[tuple[object, ...]]:
    return read(url, "SELECT conname FROM pg_constraint WHERE conname LIKE '%ends'")


async def maintain(url: str, now: datetime = NOW, rules: PartitionRules = RULES) -> tuple[str, ...]:
    done = await PostgresPartitions(url).maintain(now, rules)
    assert not done.is_busy
    return done.dropped


async def test_what_a_fast_clock_wrote_goes_where_it_belongs(url: str) -> None:
    days = (-30, 0, 12.99, 13, 22, 400)
    write(url, *days)
    await maintain(url)
    first, second, third, last = "events_first", "events_20261214", "events_20261221", "events_20270111"
    assert places(url) == list(zip((first, first, first, second, third, last), ids(*days), strict=True))
    await maintain(url, NOW + timedelta(days=14))
    assert places(url)[-1] == ("events_20270118", ids(400)[0])


# A large partition, which is never read while its table is locked


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition with a row in it is taken to be large."""
    monkeypatch.setattr(proofs, "READ_UNDER_LOCK_BYTES", 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often each partition was read whole while it was attached anew, under the lock of its table."""
    found: dict[str, int] = {}
    original = extending._attach_ended

    async def scans(on: session.Session, name: str) -> int:
        counted = await on.execute("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = %s", [name])
        row = await counted.fetchone()
        assert row is not None
        return int(row["seq_scan"])

    async def attach(on: session.Session, extension: Extension, last: Partition, *, is_proved: bool) -> None:
        before = await scans(on, last.name)
        await original(on, extension, last, is_proved=is_proved)
        found[last.name] = await scans(on, last.name) - before

    monkeypatch.setattr(extending, "_attach_ended", attach)
    return found


@pytest.mark.usefixtures("large")
async def test_a_large_partition_is_not_read_under_the_lock_of_its_table(
    url: str, reads: dict[str, int]
) -> None:
    """The first one, and one that has a lower bound, too."""
    write(url, -30, 0)
    await maintain(url)
    write(url, 41, 50)
    await maintain(url, NOW + timedelta(days=50))
    assert (reads["events_first"], reads["events_20270111"]) == (0, 0)
    assert reads["deliveries_first"] > 0, "a small one is"
    assert left_proofs(url) == []
    assert [place for place, _ in places(url)] == [*["events_first"] * 2, *["events_20270111"] * 2]


@pytest.mark.usefixtures("large")
async def test_a_large_partition_that_is_in_use_waits_for_the_next_round(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "TRIES", 1)
    monkeypatch.setattr(session, "PAUSE_S", 0.01)
    write(url, 0)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM events_first")

        async def patiently(on: session.Session, work: Callable[[], Awaitable[object]]) -> bool:
            is_done = await session.patiently(on, work)
            holder.rollback()
            return is_done

        with monkeypatch.context() as held:
            held.setattr(proofs, "patiently", patiently)
            done = await PostgresPartitions(url).maintain(NOW, RULES)
    assert done.is_busy
    assert not [name for name in done.made if name.startswith("events")]
    await maintain(url)
    assert len(read(url, "SELECT FROM pg_inherits WHERE inhparent = 'events'::regclass")) == RULES.ahead + 2


@pytest.mark.usefixtures("large")
async def test_a_large_partition_ends_behind_what_a_fast_clock_wrote(url: str, reads: dict[str, int]) -> None:
    days = (-30, 0, 30)
    write(url, *days)
    await maintain(url)
    write(url, 40, 41)
    assert [place for place, _ in places(url)] == [*["events_first"] * 4, "events_20270111"]
    assert reads["events_first"] == 0


@pytest.mark.usefixtures("large")
async def test_a_large_partition_does_not_end_behind_a_clock_that_is_years_ahead(url: str) -> None:
    write(url, 0, 400)
    done = await PostgresPartitions(url).maintain(NOW, RULES)
    [problem] = done.problems
    assert "events_first" in problem
    assert str(ids(400)[0]) in problem
    assert not [name for name in done.made if name.startswith("events")]
    assert len([name for name in done.made if name.startswith("deliveries")]) == RULES.ahead + 1
    write(url, 14)
    assert left_proofs(url) == []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM events WHERE id = %s", ids(400))
    assert (await PostgresPartitions(url).maintain(NOW, RULES)).problems == ()


async def test_a_proof_that_an_interrupted_round_left_refuses_nothing_for_long(url: str) -> None:
    leave_proof(url, "events_first", NOW + timedelta(days=13))
    await maintain(url)
    write(url, 14, 30, 300)
    assert len(places(url)) == 3


@pytest.mark.parametrize("name", ["events_first", "events_20270111"])
async def test_a_proof_that_was_left_goes_also_where_no_partition_is_lacking(url: str, name: str) -> None:
    """Of the open partition, where it would refuse every row from its end on, and of one that has ended."""
    await maintain(url)
    leave_proof(url, name, NOW + timedelta(days=60))
    assert left_proofs(url) == [(f"{name}_ends",)]
    done = await PostgresPartitions(url).maintain(NOW, RULES)
    assert done.made == ()
    assert left_proofs(url) == []


async def test_what_was_detached_and_not_dropped_is_dropped_by_the_next_round(url: str) -> None:
    await maintain(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"COMMENT ON TABLE events_first IS '{MARK}'".encode())
        connection.execute("ALTER TABLE events DETACH PARTITION events_first CONCURRENTLY")
        connection.execute("ALTER TABLE deliveries DETACH PARTITION deliveries_20261221 CONCURRENTLY")
    assert await maintain(url) == ("events_first",)
    kept = "SELECT to_regclass('events_first')::text, to_regclass('deliveries_20261221')::text"
    assert read(url, kept) == [(None, "deliveries_20261221")], "what an operator took out stays"


async def test_what_was_made_and_not_attached_is_made_anew(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "TRIES", 1)
    monkeypatch.setattr(session, "PAUSE_S", 0.01)
    with psycopg.connect(url) as reader:
        reader.execute("SELECT FROM events")
        assert (await PostgresPartitions(url).maintain(NOW, RULES)).is_busy
    made = [f"events_{day}" for day in (20261214, 20261221, 20261228, 20270104, 20270111)]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE events ADD COLUMN later integer")
    assert sorted(await maintain(url)) == sorted(made)
    assert read(url, "SELECT count(*) FROM pg_description WHERE description LIKE 'meetcore: past%'") == [(0,)]
    assert read(url, "SELECT count(later) FROM events") == [(0,)]


async def test_a_detachment_that_was_interrupted_is_finished(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "DETACH_TIMEOUT_MS", 100)
    monkeypatch.setattr(session, "TRIES", 1)
    write(url, 0, 60)
    await maintain(url)
    with psycopg.connect(url) as reader:
        reader.execute("SELECT FROM events")
        done = await PostgresPartitions(url).maintain(OVER, RULES)
        assert done.is_busy
        assert "events_first" in done.waiting
        assert read(url, "SELECT inhdetachpending FROM pg_inherits WHERE inhdetachpending") == [(True,)]
        assert len(places(url)) == 1, "it is out for those who come"
    assert "events_first" in await maintain(url, OVER)
    assert read(url, "SELECT FROM pg_inherits WHERE inhdetachpending") == []


@pytest.mark.parametrize("ends", ["in use", "killed"])
async def test_a_partition_whose_detachment_did_not_begin_can_be_taken_out_and_kept(
    url: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round marked it. It then got no lock on the table, or was killed."""
    monkeypatch.setattr(session, "DETACH_TIMEOUT_MS", 50)
    monkeypatch.setattr(session, "TRIES", 1)
    write(url, 0)
    await maintain(url)
    with psycopg.connect(url) as other:
        if ends == "in use":
            other.execute("LOCK TABLE ONLY events IN SHARE UPDATE EXCLUSIVE MODE")
            done = await PostgresPartitions(url).maintain(OVER, RULES)
            assert (done.is_busy, "events_first" in done.waiting, done.dropped) == (True, True, ())
        else:
            other.execute(f"COMMENT ON TABLE events_first IS '{MARK}'".encode())
    if ends == "killed":
        assert await maintain(url) == ()
    state = "relispartition, obj_description(oid, 'pg_class')"
    assert read(url, f"SELECT {state} FROM pg_class WHERE relname = 'events_first'") == [(True, None)]
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("ALTER TABLE events DETACH PARTITION events_first")
    assert "events_first" not in await maintain(url, OVER)
    assert read(url, "SELECT id FROM events_first") == [(ids(0)[0],)]


DETACH_FIRST = "ALTER TABLE events DETACH PARTITION events_first"


def begin_detaching(url: str) -> None:
    """Begin to detach the first partition of events, as an operator does who then gives up."""
    with psycopg.connect(url) as reader, psycopg.connect(url, autocommit=True) as operator:
        reader.execute("SELECT FROM events")
        operator.execute("SET statement_timeout = 50")
        with pytest.raises(psycopg.errors.QueryCanceled):
            operator.execute(f"{DETACH_FIRST} CONCURRENTLY".encode())


async def test_a_partition_that_an_operator_is_detaching_is_left_to_the_operator(url: str) -> None:
    write(url, 0)
    await maintain(url)
    begin_detaching(url)
    planned = await PostgresPartitions(url).plan(OVER, RULES)
    done = await PostgresPartitions(url).maintain(OVER, RULES)
    assert [name for name in (*planned.dropped, *done.dropped) if name.startswith("events")] == []
    assert "events_first is being detached by hand" in done.problems[0]
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute(f"{DETACH_FIRST} FINALIZE".encode())
    done = await PostgresPartitions(url).maintain(OVER, RULES)
    assert (done.problems, "events_first" in done.dropped) == ((), False)
    assert read(url, "SELECT id FROM events_first") == [(ids(0)[0],)]


async def test_a_partition_that_an_operator_begins_to_detach_beside_a_round_is_left(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator is a moment earlier than the round that has decided to drop it."""
    await maintain(url)

    def past_retention(layout: Layout, table: str, now: datetime, rules: PartitionRules) -> list[Partition]:
        if table == "events":
            begin_detaching(url)
        return plan.past_retention(layout, table, now, rules)

    with monkeypatch.context() as beside:
        beside.setattr(maintenance, "past_retention", past_retention)
        done = await PostgresPartitions(url).maintain(OVER, RULES)
    assert (done.is_busy, done.waiting, done.dropped) == (True, ("events_first",), ())
    done = await PostgresPartitions(url).maintain(OVER, RULES)
    assert done.dropped == ()
    assert "events_first is being detached by hand" in done.problems[0]


async def test_a_long_transaction_delays_making_and_keeps_nobody(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "TRIES", 3)
    monkeypatch.setattr(session, "PAUSE_S", 0.01)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM events")
        done = await PostgresPartitions(url).maintain(NOW, RULES)
        assert done.is_busy
        assert done.ahead == 0
        write(url, 0)
    await maintain(url)


async def test_a_role_that_does_not_own_the_tables_is_told_so(url: str) -> None:
    servers.skip_without_roles(url)
    with servers.service_role(url) as service_url:
        with pytest.raises(PartitionsRefused, match="run `meetcore partitions` as their owner"):
            await PostgresPartitions(service_url).maintain(NOW, RULES)
        await maintain(url)
        write(service_url, -30, 0, 14, 30, 300)
        assert (await PostgresPartitions(service_url).plan(NOW, RULES)).ahead >= 3


# What an operator did


async def test_a_default_partition_leaves_its_table_as_it_is_and_no_other(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE events_default PARTITION OF events DEFAULT")
        planned = await PostgresPartitions(url).plan(NOW, RULES)
        done = await PostgresPartitions(url).maintain(NOW, RULES)
        assert done.made == planned.made
        assert {name.rpartition("_")[0] for name in done.made} == {"deliveries", "delivery_attempts"}
        assert done.problems == planned.problems
        assert "events_default" in done.problems[0]
        assert (await PostgresPartitions(url).maintain(OVER, RULES)).dropped == ()
        connection.execute("ALTER TABLE events DETACH PARTITION events_default")
    done = await PostgresPartitions(url).maintain(NOW, RULES)
    assert (done.ahead, done.problems) == (RULES.ahead, ())


@pytest.mark.parametrize(("name", "day"), [("events_20270111", 43), ("events_20261221", 22)])
async def test_a_partition_that_an_operator_took_out_and_keeps_is_replaced(
    url: str, name: str, day: int
) -> None:
    """The open one, and one in the middle: an id without a partition would be refused."""
    await maintain(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE events DETACH PARTITION {name}".encode())
    with pytest.raises(psycopg.errors.CheckViolation):
        write(url, day)
    planned = await PostgresPartitions(url).plan(NOW, RULES)
    done = await PostgresPartitions(url).maintain(NOW, RULES)
    assert f"{name}_2" in done.made
    assert (done.made, done.dropped) == (planned.made, ())
    write(url, day)
    assert [place for place, _ in places(url)] == [f"{name}_2"]
    assert read(url, f"SELECT to_regclass('{name}')::text") == [(name,)]
    assert (await PostgresPartitions(url).maintain(NOW, RULES)).made == ()
    await maintain(url, NOW + timedelta(days=70))


# An upgrade


async def test_a_filled_database_is_converted_beside_a_service_that_runs(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements that the release before has prepared go on, in the transaction of nobody but themselves."""
    url = empty_database_url
    steps = load_migrations()
    before = steps[: next(place for place, step in enumerate(steps) if step.name == "partitions")]
    monkeypatch.setattr(migrate_module, "load_migrations", lambda: before)
    migrate(url)
    write(url, -30, 0)
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as service:
        count = "SELECT count(*), max(id::text) FROM events WHERE account_id = %s"
        assert service.execute(count, [ACCOUNT]).fetchone() == (2, str(ids(0)[0]))
        service.execute(_FILL.encode(), {"account": ACCOUNT, "ids": ids(1)})
        monkeypatch.setattr(migrate_module, "load_migrations", lambda: steps)
        migrate(url)
        service.execute(_FILL.encode(), {"account": ACCOUNT, "ids": ids(2)})
        assert service.execute(count, [ACCOUNT]).fetchone() == (4, str(ids(2)[0]))
        await maintain(url)
        service.execute(_FILL.encode(), {"account": ACCOUNT, "ids": ids(14)})
        assert service.execute(count, [ACCOUNT]).fetchone() == (5, str(ids(14)[0]))
    assert [place for place, _ in places(url)] == [*["events_first"] * 4, "events_20261214"]


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
        assert len(alike) == RULES.ahead + 1
        assert all(one == first for one in alike.values()), table


# Under load


MEASURED = "MEETCORE_TEST_PARTITION_ROWS"
ROWS = int(os.environ.get(MEASURED, "2000"))
"""Old deliveries that are dropped, each with its event and an attempt."""
WARM = 20
LONGEST_S = 0.5 if MEASURED in os.environ else 5.0
"""What no transaction of the service may take beside partitions that are made and dropped, where that is
measured.

Else the machine does other things meanwhile: then what is less than the limit of a statement, which ends a
wait for a lock.
"""

_OLD = """
CREATE TEMP TABLE made AS SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'
    || substr(md5('x' || n), 1, 3) || '8' || substr(md5('x' || n), 4, 15))::uuid AS id, at
FROM (
    SELECT n, %(base)s + n %% 200 * interval '1 hour' AS at FROM generate_series(1, %(rows)s) AS n) AS
    numbers;
INSERT INTO events SELECT %(account)s, id, 'webhook.test', 'x', at FROM made;
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, attempts_made, created_at)
SELECT %(account)s, id, %(endpoint)s, id, 'webhook.test', 'succeeded', 1, at FROM made;
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms)
SELECT %(account)s, id, 1, at, 1 FROM made
"""


@define
class Load:
    """What a service does all day, with how long each transaction took, until it is asked to stop."""

    rig: PostgresRig
    is_over: bool = False
    took_s: list[float] = field(factory=list)
    is_warm: asyncio.Event = field(factory=asyncio.Event)

    async def repeat(self, work: Callable[[int], Awaitable[object]]) -> None:
        for number in count():
            started = time.monotonic()
            await work(number)
            self.took_s.append(time.monotonic() - started)
            if number > WARM:
                self.is_warm.set()
            if self.is_over:
                return
            await asyncio.sleep(0)


async def test_partitions_are_made_and_dropped_under_load(url: str, postgres_rig: PostgresRig) -> None:
    """No error, and nobody waits for long. `MEETCORE_TEST_PARTITION_ROWS` says how many rows are dropped."""
    rig, now = postgres_rig, datetime.now(UTC)
    customer, endpoint = await outbox(rig, 0)
    base = now - timedelta(days=200)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        named = {"base": base, "rows": ROWS, "account": customer.account_id, "endpoint": endpoint.id}
        connection.execute(_OLD.encode(), named)
        connection.execute("VACUUM ANALYZE")
    await maintain(url, base)
    load = Load(rig)

    async def sell(number: int) -> None:
        await top_up(rig, customer, 1, f"load-{number}", KIND)

    async def send(_: int) -> None:
        claimed, _lease = await claim(rig)
        await record_all(rig, claimed, GOOD)

    async def look(_: int) -> None:
        await rig.queries.list_deliveries(customer.account_id, endpoint.id, None, 20, None)
        await rig.queries.list_events(customer.account_id, EventFilter(now - timedelta(days=90)), 20, None)

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        for work in (sell, send, look):
            group.create_task(load.repeat(work))
        await load.is_warm.wait()
        before = max(load.took_s[20:])
        load.took_s.clear()
        done = await PostgresPartitions(url).maintain(now, RULES)
        load.is_over = True
    assert "events_first" in done.dropped
    assert "deliveries_first" in done.dropped
    assert "delivery_attempts_first" in done.dropped
    assert not done.is_busy
    assert done.ahead == RULES.ahead
    sold = read(url, "SELECT count(*) FROM ledger_transfers WHERE operation LIKE '%load-%'")
    assert read(url, "SELECT count(*) FROM events WHERE kind = 'credit.topup.succeeded'") == sold
    longest = f"the longest {max(load.took_s):.3f} s, {before:.3f} s before"
    print(f"{ROWS} deliveries dropped, {len(load.took_s)} transactions, {longest}")
    assert max(load.took_s) < LONGEST_S
