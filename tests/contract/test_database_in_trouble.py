"""A PostgreSQL server that is frozen, cuts connections, or takes no writes, as the adapters see it.

The server is these tests' own: nothing here touches that of other tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest

from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.postgres.pool import Pool, make_pool, network_parameters, translated
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.requests.rate_counters import PostgresRateCounters
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.domain.errors import NotFound
from meetcore.domain.meetings.views import MeetingFilter
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.observability import STORE_UNAVAILABLE, Metric, NoMetrics
from meetcore.ports.requests import RateStoreUnavailable
from meetcore.ports.store import (
    CommitLost,
    ConnectionLost,
    OutcomeUnknown,
    StoreReadOnly,
    StoreSessionRefused,
    StoreUnavailable,
)
from tests.support.fakes import PlainCipher
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.program import TIMEOUT_S, until
from tests.support.running_time import running_time
from tests.support.texts import assert_contains

UNKNOWN_ACCOUNT = UUID(int=7)
DEADLINE_S = 3
SLACK_S = 1.0


@pytest.fixture(scope="module")
def server() -> Iterator[OwnPostgres]:
    with own_postgres() as server:
        migrate(server.url)
        yield server


@asynccontextmanager
async def pool_of(url: str, size: int = 4, deadline_s: int = DEADLINE_S) -> AsyncIterator[Pool]:
    pool = make_pool(url, min_size=size, max_size=size, deadline_s=deadline_s)
    await pool.open(wait=True)
    try:
        await asyncio.to_thread(wait_for_connections, url, size)  # those of the test before may end late
        yield pool
    finally:
        await pool.close()


@pytest.fixture
async def pool(server: OwnPostgres) -> AsyncIterator[Pool]:
    async with pool_of(server.url) as pool:
        yield pool


async def until_it_answers(pool: Pool) -> None:
    queries = PostgresQueries(pool, PlainCipher())
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                return await queries.ping()
            except StoreUnavailable:
                await asyncio.sleep(0.05)


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    writing = "-c default_transaction_read_only=off"
    with psycopg.connect(url, autocommit=True, options=writing) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description is not None else []


def cut_all(url: str) -> int:
    """End every other connection; how many there were."""
    ended = execute(
        url,
        """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE starts_with(application_name, 'meetcore') AND datname = current_database()""",
    )
    return len(ended)


def wait_for_connections(url: str, count: int) -> None:
    """Wait until the service has so many connections open."""
    statement = """SELECT pid FROM pg_stat_activity
        WHERE starts_with(application_name, 'meetcore') AND datname = current_database()"""
    until(lambda: len(execute(url, statement)) == count, f"{count} connections")


async def lookup(pool: Pool) -> None:
    page = await PostgresQueries(pool, PlainCipher()).list_meetings(
        UNKNOWN_ACCOUNT, MeetingFilter(datetime.now(UTC)), 5, None
    )
    assert page == []


async def change(pool: Pool) -> None:
    with pytest.raises(NotFound):  # the account does not exist, which the database has to be asked for
        async with PostgresStore(pool, PlainCipher()).begin() as tx:
            await tx.postings.load_locked(UNKNOWN_ACCOUNT, ["topup:x"])


async def test_a_frozen_server_is_given_up_within_the_deadline(server: OwnPostgres, pool: Pool):
    """Every caller fails in time, whether it reads or writes, waits for a connection or has one."""
    await change(pool)
    server.freeze()
    try:
        calls = [call(pool) for call in (lookup, change) for _ in range(10)]
        with running_time() as passed_s:
            faults = await asyncio.gather(*calls, return_exceptions=True)
            took_s = passed_s()
        with running_time() as passed_s:
            with pytest.raises(StoreUnavailable):
                await lookup(pool)
            later_s = passed_s()
    finally:
        server.thaw()
    assert {type(fault) for fault in faults} == {StoreUnavailable}
    assert took_s < DEADLINE_S + SLACK_S
    assert later_s < DEADLINE_S + SLACK_S, "idle connections are given up together with the first"
    await until_it_answers(pool)
    await change(pool)


async def test_a_connection_is_used_for_its_time_limit_in_all(pool: Pool):
    """Statements that are short enough each do not hold a connection for longer."""

    async def dawdle() -> None:
        with translated():
            async with pool.connection() as connection:
                while True:
                    await connection.execute("SELECT pg_sleep(0.2)")

    with running_time() as passed_s:
        with pytest.raises(StoreUnavailable):
            await dawdle()
        assert passed_s() < DEADLINE_S + SLACK_S
    await change(pool)


async def test_a_cancelled_statement_does_not_wait_for_the_server(server: OwnPostgres, pool: Pool):
    await change(pool)
    server.freeze()
    try:
        with running_time() as passed_s:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await change(pool)
            assert passed_s() < SLACK_S
    finally:
        server.thaw()
    await until_it_answers(pool)


async def test_the_rate_store_is_given_up_early(server: OwnPostgres, pool: Pool):
    await change(pool)
    server.freeze()
    try:
        with running_time() as passed_s:
            with pytest.raises(RateStoreUnavailable):
                await PostgresRateCounters(pool).hit(UNKNOWN_ACCOUNT, OperationClass.READ, 60)
            assert passed_s() < 2 + SLACK_S
    finally:
        server.thaw()
    await until_it_answers(pool)


async def test_connections_that_the_server_closed_fail_no_request(server: OwnPostgres, pool: Pool):
    for call in (lookup, change):
        await asyncio.gather(*(call(pool) for _ in range(4)))
        await pool.check()  # a connection that was cut and not used since is replaced, too
        await asyncio.to_thread(wait_for_connections, server.url, 4)
        assert await asyncio.to_thread(cut_all, server.url) == 4
        await asyncio.gather(*(call(pool) for _ in range(8)))


async def waiting_backend(pool: Pool, what: str) -> None:
    """Until a connection of the pool runs a statement that has this in it; then it is ended."""
    statement = """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND state = 'active' AND query LIKE %s"""
    async with await psycopg.AsyncConnection.connect(str(pool.conninfo), autocommit=True) as connection:
        async with asyncio.timeout(TIMEOUT_S):
            while not await (await connection.execute(statement, [f"%{what}%"])).fetchall():
                pass


@pytest.fixture
async def patient(server: OwnPostgres) -> AsyncIterator[Pool]:
    """A pool whose statements may take until each has been found and ended."""
    async with pool_of(server.url, deadline_s=30) as pool:
        yield pool


async def test_a_read_whose_connection_is_cut_is_made_once_more(server: OwnPostgres, patient: Pool):
    statement = "SELECT pg_advisory_xact_lock_shared(7)::text, 'a read' AS found"
    with psycopg.connect(server.url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(7)")
        reading = asyncio.create_task(patient.read(statement, {}))
        await waiting_backend(patient, "a read")
    assert (await reading)[0]["found"] == "a read"


async def test_a_read_whose_connection_is_cut_twice_is_not_made_a_third_time(patient: Pool):
    reading = asyncio.create_task(patient.read("SELECT pg_sleep(20), 'cut twice' AS found", {}))
    await waiting_backend(patient, "cut twice")
    await waiting_backend(patient, "cut twice")
    with pytest.raises(psycopg.OperationalError):
        await reading


async def test_a_change_whose_connection_is_cut_is_not_made_once_more(server: OwnPostgres, patient: Pool):
    execute(server.url, "CREATE TABLE IF NOT EXISTS made (at timestamptz DEFAULT clock_timestamp())")

    async def make() -> None:
        with translated():
            async with patient.connection() as connection:
                await connection.execute("INSERT INTO made SELECT clock_timestamp() FROM pg_sleep(20)")

    making = asyncio.create_task(make())
    await waiting_backend(patient, "INSERT INTO made")
    with pytest.raises(StoreUnavailable):
        await making
    assert execute(server.url, "SELECT count(*) FROM made") == [(0,)]


class Kinds(NoMetrics):
    """Notes why the server was unavailable."""

    def __init__(self) -> None:
        self.found: list[str | int] = []

    def count(self, metric: Metric, *labels: str | int, by: float = 1) -> None:
        assert metric is STORE_UNAVAILABLE
        self.found.append(labels[1])


@pytest.mark.parametrize(
    ("point", "fault"), [("before", ConnectionLost), ("commit", CommitLost), ("at once", CommitLost)]
)
async def test_a_connection_that_is_cut_at_the_commit_is_told_from_one_that_is_cut_before(
    server: OwnPostgres, patient: Pool, point: str, fault: type[StoreUnavailable]
):
    store, patient.metrics = PostgresStore(patient, PlainCipher()), Kinds()

    async def work() -> None:
        async with store.at_once() if point == "at once" else store.begin() as tx:
            assert not await tx.was_removed(UNKNOWN_ACCOUNT, UNKNOWN_ACCOUNT)
            assert await asyncio.to_thread(cut_all, server.url) == 4
            if point != "commit":
                await tx.was_removed(UNKNOWN_ACCOUNT, UNKNOWN_ACCOUNT)

    with pytest.raises(StoreUnavailable) as lost:
        await work()
    assert type(lost.value) is fault
    assert patient.metrics.found == ["lost"]


@pytest.mark.parametrize(
    ("point", "fault", "kept"),
    [("before", StoreUnavailable, 0), ("commit", OutcomeUnknown, 1), ("at once", OutcomeUnknown, 2)],
)
async def test_a_commit_that_is_not_answered_in_time_may_be_kept_and_says_so(
    server: OwnPostgres, point: str, fault: type[StoreUnavailable], kept: int
):
    """The server works on what it was sent when it goes on, though nobody waits for it any more."""
    execute(server.url, "DROP TABLE IF EXISTS kept; CREATE TABLE kept (at int)")
    write = "INSERT INTO kept VALUES (1)"

    async def work(store: PostgresStore) -> None:
        if point == "at once":
            async with store.at_once() as tx:
                await tx._connection.execute(write)  # prepares it
                server.freeze()
                await tx._connection.execute(write)
            return
        async with store.begin() as tx:
            await tx._connection.execute(write)
            server.freeze()
            if point == "before":
                await tx._connection.execute(write)

    async with pool_of(server.url, size=1, deadline_s=1) as pool:
        pool.metrics = Kinds()
        try:
            with pytest.raises(StoreUnavailable) as late:
                await work(PostgresStore(pool, PlainCipher()))
        finally:
            server.thaw()
        assert type(late.value) is fault
        assert pool.metrics.found == ["timeout"]
    await until_idle(server.url)
    assert execute(server.url, "SELECT count(*) FROM kept") == [(kept,)]


async def until_idle(url: str) -> None:
    """Until the server has ended what connections that were dropped had sent."""
    statement = "SELECT FROM pg_stat_activity WHERE starts_with(application_name, 'meetcore')"
    async with asyncio.timeout(TIMEOUT_S):
        while await asyncio.to_thread(execute, url, statement):
            pass


async def test_a_transaction_that_the_server_ended_for_idling_is_no_bug(server: OwnPostgres, pool: Pool):
    async def idle() -> None:
        with translated():
            async with pool.connection() as connection, connection.transaction():
                await connection.execute("SET idle_in_transaction_session_timeout = 1")
                async with asyncio.timeout(10):
                    while not connection.is_lost():  # noqa: ASYNC110  (the server's doing, not ours)
                        await asyncio.sleep(0.01)
                await connection.execute("SELECT 1")

    with pytest.raises(StoreUnavailable):
        await idle()
    await change(pool)


async def test_a_server_that_takes_no_writes_reports_it(server: OwnPostgres, pool: Pool):
    """Connections from before it took writes again are replaced."""
    name = execute(server.url, "SELECT current_database()")[0][0]
    execute(server.url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        cut_all(server.url)
        with pytest.raises(StoreReadOnly):
            await PostgresQueries(pool, PlainCipher()).ping()
        for _ in range(4):
            with pytest.raises(StoreReadOnly):
                async with PostgresStore(pool, PlainCipher()).begin() as tx:
                    await tx.lock_account(UNKNOWN_ACCOUNT)
    finally:
        execute(server.url, f"ALTER DATABASE {name} RESET ALL")
    await until_it_answers(pool)
    # A connection that was being opened meanwhile may be read-only too, and is replaced after its first use.
    async with asyncio.timeout(TIMEOUT_S):
        while found := await asyncio.gather(*(change(pool) for _ in range(8)), return_exceptions=True):
            others = [one for one in found if one is not None and not isinstance(one, StoreReadOnly)]
            assert others == []
            if not any(found):
                break


async def test_a_hot_standby_is_read_only():
    """Rate counters too, whose unlogged table a standby cannot even read."""
    with own_postgres(wal_level="replica") as server:
        migrate(server.url)
        server.restart_as_standby()
        async with pool_of(server.url) as pool:
            with pytest.raises(StoreReadOnly):
                await PostgresQueries(pool, PlainCipher()).ping()
            with pytest.raises(StoreReadOnly):
                async with PostgresStore(pool, PlainCipher()).begin() as tx:
                    await tx.postings.load_locked(UNKNOWN_ACCOUNT, ["topup:x"])
            counters = PostgresRateCounters(pool)
            with pytest.raises(RateStoreUnavailable):
                await counters.hit(UNKNOWN_ACCOUNT, OperationClass.READ, 60)
            with pytest.raises(RateStoreUnavailable):
                await counters.purge(60)
            await lookup(pool)


async def test_a_host_that_vanishes_is_noticed_by_the_network(server: OwnPostgres, pool: Pool):
    async with pool.connection() as connection:
        used = connection.info.get_parameters()
    assert used["tcp_user_timeout"] == str(DEADLINE_S * 1000)
    assert [used[f"keepalives_{name}"] for name in ("idle", "interval", "count")] == ["10", "5", "3"]


def test_network_options_of_the_address_are_kept():
    given = network_parameters("postgresql://db.example/x?connect_timeout=2&keepalives_idle=60")
    assert_contains(given, absent=("connect_timeout", "keepalives_idle"))
    assert given["keepalives"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "unsupported startup parameter: options",  # PgBouncer to 1.19
        "unsupported startup parameter in options: statement_timeout",
        "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed",
    ],
)
def test_a_pooler_that_refuses_the_settings_of_a_session_is_told_from_a_server_that_is_away(text: str):
    with pytest.raises(StoreSessionRefused), translated():
        raise psycopg.OperationalError(
            f'connection failed: connection to server at "10.0.0.1" failed: {text}'
        )
