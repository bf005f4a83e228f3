"""Lists from a standby of PostgreSQL that may be behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from attrs import define, field

from meetcore.adapters.postgres import standby as standby_module
from meetcore.adapters.postgres.console import PostgresFigures
from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.postgres.standby import ListSource, Standby, StandbyLists
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.views import MeetingFilter
from meetcore.domain.notes.views import NoteFilter
from meetcore.domain.requests.views import AccountVersion
from meetcore.domain.webhooks.views import DeliveryFilter, EventFilter
from meetcore.ports.observability import LISTS, Metric, NoMetrics
from meetcore.ports.queries import ListQueries, Lists
from tests.support import pooler
from tests.support.fakes import PlainCipher
from tests.support.postgres_rig import PostgresRig
from tests.support.program import until
from tests.support.replicated_postgres import Pair, find_programs, postgres_pair
from tests.support.transactions import (
    AT,
    Customer,
    MeetingSpec,
    new_endpoint,
    new_host,
    open_customer,
    register,
    scheduled,
)


async def test_what_a_caller_has_written_is_listed_whatever_the_copy_has(rig: PostgresListsRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    await rig.pause()
    made: list[Meeting] = []
    for hour in range(3):
        made.insert(0, await scheduled(rig, customer, _spec(hour)))
        found = await meetings(rig.lists.since(await version_of(rig, customer)), customer)
        assert found == made
    await rig.resume()
    assert await meetings(rig.lists.since(await version_of(rig, customer)), customer) == made


async def test_what_was_written_since_may_be_missing_and_comes(rig: PostgresListsRig) -> None:
    """A list of an earlier version is read from the copy: else nothing would be gained."""
    customer = await open_customer(rig, 100, new_host())
    earlier = await version_of(rig, customer)
    await rig.pause()
    meeting = await scheduled(rig, customer)
    assert await meetings(rig.lists.since(earlier), customer) == []
    assert await meetings(rig.lists.since(None), customer) == [meeting], (
        "without a version, of the store itself"
    )
    await rig.resume()
    assert await meetings(rig.lists.since(earlier), customer) == [meeting]


async def test_what_one_account_writes_does_not_concern_another(rig: PostgresListsRig) -> None:
    customer, other = await open_customer(rig, 100), await open_customer(rig, 100)
    await rig.put_hosts(new_host())
    version = await version_of(rig, customer)
    await rig.pause()
    meeting = await scheduled(rig, other)
    assert await meetings(rig.lists.since(version), customer) == []
    assert await meetings(rig.lists.since(await version_of(rig, other)), other) == [meeting]
    await rig.resume()


async def test_every_list_is_read(rig: PostgresListsRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    endpoint = await register(rig, new_endpoint(customer))
    await rig.pause()  # so that the copy has it
    lists, account_id = rig.lists.since(await version_of(rig, customer)), customer.account_id
    assert await lists.list_endpoints(account_id, 10, None) == [endpoint]
    assert await lists.list_deliveries(account_id, endpoint.id, DeliveryFilter(), 10, None) == []
    assert await lists.list_events(account_id, EventFilter(AT), 10, None) == []
    assert await lists.list_recordings(account_id, None, 10, None) == []
    assert await lists.list_notes(account_id, NoteFilter(), 10, None) == []
    assert await lists.list_deliveries(account_id, account_id, DeliveryFilter(), 10, None) is None
    await rig.resume()


async def version_of(rig: PostgresListsRig, customer: Customer) -> AccountVersion:
    """The version of the account as a request finds it."""
    caller = await rig.queries.find_caller(customer.digest)
    assert caller is not None
    assert caller.version is not None
    return caller.version


async def meetings(lists: ListQueries, customer: Customer) -> list[Meeting]:
    return list(await lists.list_meetings(customer.account_id, MeetingFilter(AT), 10, None))


def _spec(hour: int) -> MeetingSpec:
    first = MeetingSpec()
    return MeetingSpec(first.start_at + timedelta(hours=hour))


MOST_S = 60.0


@define
class Sources(NoMetrics):
    """Where lists were read."""

    counts: Counter[str | int] = field(factory=Counter)

    def count(self, metric: Metric, *labels: str | int, by: float = 1) -> None:
        if metric is LISTS:
            self.counts[labels[0]] += 1


class PostgresListsRig(PostgresRig):
    """A primary, and lists from its standby."""

    def __init__(self, pair: Pair, pool: Pool, standby: Pool, most_s: float = MOST_S) -> None:
        super().__init__(pool, PlainCipher())
        self.pair = pair
        self.sources = Sources()
        self.standby = Standby(standby, most_s, self.sources)
        self.lists: Lists = StandbyLists(self.standby, pool, PlainCipher())

    async def pause(self) -> None:
        await asyncio.to_thread(caught_up, self.pair)
        self.pair.ask(self.pair.standby, "SELECT pg_wal_replay_pause()")
        paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'"
        await asyncio.to_thread(
            until, lambda: self.pair.ask(self.pair.standby, paused) == [(True,)], "paused"
        )

    async def resume(self) -> None:
        self.pair.ask(self.pair.standby, "SELECT pg_wal_replay_resume()")
        await asyncio.to_thread(caught_up, self.pair)


def caught_up(pair: Pair) -> None:
    """Wait until the standby has replayed what the primary has written."""
    [(position,)] = pair.ask(pair.primary, "SELECT pg_current_wal_insert_lsn()")
    replayed = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
    pair.ask(pair.primary, "SELECT pg_logical_emit_message(true, 'meetcore', 'flush what is written')")
    until(lambda: pair.ask(pair.standby, replayed) == [(True,)], "the standby has caught up", 30)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    programs = find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server programs")
    with postgres_pair(programs) as made:
        migrate(made.primary.url)
        made.attach_standby(is_synchronous=False)
        yield made


LIMIT_S = 30
"""How long a busy machine may take for what the standby answers."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lists wait for the standby: they do without one that is slow."""
    monkeypatch.setattr(standby_module, "_CONNECTION_S", LIMIT_S)
    monkeypatch.setattr(standby_module, "ANSWER_S", LIMIT_S)


@pytest.fixture
async def rig(pair: Pair) -> AsyncIterator[PostgresListsRig]:
    primary = make_pool(pair.primary.url, max_size=4, timeout_s=20.0)
    standby = make_pool(pair.standby.url, max_size=2, deadline_s=LIMIT_S, role="lists")
    for pool in (primary, standby):
        await pool.open(wait=True)
    try:
        rig = PostgresListsRig(pair, primary, standby)
        await rig.reset()
        yield rig
        pair.ask(pair.standby, "SELECT pg_wal_replay_resume()")
    finally:
        for pool in (primary, standby):
            await pool.close()


async def listed(rig: PostgresListsRig, customer: Any) -> list[Any]:
    """The account's meetings, as a request of this moment has them."""
    return await meetings(rig.lists.since(await version_of(rig, customer)), customer)


async def test_each_list_is_counted_by_where_it_was_read(rig: PostgresListsRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    await rig.pause()
    await listed(rig, customer)
    await scheduled(rig, customer)
    await listed(rig, customer)
    assert rig.sources.counts == {ListSource.STANDBY: 1, ListSource.OWN_WRITE: 1}


async def test_a_standby_that_is_far_behind_is_left_alone_for_a_while(
    rig: PostgresListsRig, pair: Pair
) -> None:
    customer = await open_customer(rig, 100)
    await rig.pause()
    strict = PostgresListsRig(pair, rig.pool, rig.standby._pool, most_s=0.0)
    for _ in range(3):
        assert await listed(strict, customer) == []
    assert strict.sources.counts == {ListSource.BEHIND: 3}


async def test_a_primary_is_no_standby(rig: PostgresListsRig, pair: Pair) -> None:
    """As after a failover: what was the standby takes writes, or an earlier primary has come back."""
    customer = await open_customer(rig, 100)
    misled = PostgresListsRig(pair, rig.pool, rig.pool)
    assert await listed(misled, customer) == []
    assert misled.sources.counts == {ListSource.BEHIND: 1}


async def backends(pool: Pool) -> set[int]:
    """The processes of the server behind the connections that a pool keeps."""
    async with pool.connection() as connection:
        row = await (await connection.execute("SELECT pg_backend_pid() AS pid")).fetchone()
    assert row is not None
    return {row["pid"]}


@pytest.mark.parametrize(
    ("is_promoted", "renew_s", "is_renewed"), [(True, 30, True), (False, 0, True), (False, 30, False)]
)
async def test_connections_that_lead_to_no_use_are_replaced(
    rig: PostgresListsRig, pair: Pair, monkeypatch: pytest.MonkeyPatch, is_promoted: bool,
    renew_s: float, is_renewed: bool,
) -> None:  # fmt: skip
    """Their address may lead to another server by now; of one that is behind only when it stays so."""
    monkeypatch.setattr(standby_module, "_RENEW_EVERY_S", renew_s)
    customer = await open_customer(rig, 100)
    pool = make_pool(pair.primary.url if is_promoted else pair.standby.url, max_size=1, deadline_s=LIMIT_S)
    await pool.open(wait=True)
    try:
        before = await backends(pool)
        late = PostgresListsRig(pair, rig.pool, pool, most_s=-1.0)
        assert await listed(late, customer) == []
        assert (await backends(pool) != before) is is_renewed
    finally:
        await pool.close()


async def test_the_figures_have_the_standbys_that_follow_and_what_one_that_hangs_lacks(
    rig: PostgresListsRig, pair: Pair
) -> None:
    await rig.pause()
    pair.ask(pair.primary, "SELECT pg_logical_emit_message(true, 'meetcore', repeat('x', 100000))")
    found = await PostgresFigures(rig.pool).read()
    assert found.standbys_streaming == 1
    assert found.replication_lag_bytes is not None
    assert found.replication_lag_bytes > 100_000


async def test_a_statement_that_is_in_the_way_of_replaying_goes_to_the_primary(
    rig: PostgresListsRig, pair: Pair
) -> None:
    customer = await open_customer(rig, 100)
    version = await version_of(rig, customer)
    await rig.put_hosts(new_host())
    await asyncio.to_thread(caught_up, pair)
    _set_delay(pair, "= 0", "0")
    try:
        reading = asyncio.create_task(rig.standby.read("SELECT id, pg_sleep(600) FROM hosts", {}, version))
        await asyncio.to_thread(until, lambda: pair.ask(pair.standby, _SLEEPS), "it runs")
        await asyncio.to_thread(_clean_up, pair)
        assert await reading is None
    finally:
        _set_delay(pair, "TO DEFAULT", "30s")
    assert rig.sources.counts == {ListSource.GIVEN_UP: 1}
    await asyncio.to_thread(caught_up, pair)
    assert await listed(rig, customer) == []
    assert rig.sources.counts == {ListSource.GIVEN_UP: 1, ListSource.STANDBY: 1}


_SLEEPS = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def _set_delay(pair: Pair, value: str, shown: str) -> None:
    """Set how long the standby's statements may be in the way."""
    pair.ask(pair.standby, f"ALTER SYSTEM SET max_standby_streaming_delay {value}")
    pair.ask(pair.standby, "SELECT pg_reload_conf()")
    until(lambda: pair.ask(pair.standby, "SHOW max_standby_streaming_delay") == [(shown,)], "it is set")


def _clean_up(pair: Pair) -> None:
    """Remove rows that the standby's statement can still see, until that has ended."""
    pair.ask(pair.primary, "DELETE FROM hosts")

    def has_ended() -> bool:
        pair.ask(pair.primary, "VACUUM hosts")  # it leaves what another transaction can still see
        return not pair.ask(pair.standby, _SLEEPS)

    until(has_ended, "the statement has ended")


async def test_a_pooler_may_stand_before_the_standby(rig: PostgresListsRig, pair: Pair) -> None:
    if pooler.program() is None:
        pytest.skip("no PgBouncer")
    customer = await open_customer(rig, 100)
    with pooler.pooling(pair.standby.url, connections=1) as running:
        pool = make_pool(running.url(pair.standby.url), max_size=2, deadline_s=LIMIT_S, is_pooled=True)
        await pool.open(wait=True)
        try:
            rig = PostgresListsRig(pair, rig.pool, pool)
            await asyncio.to_thread(caught_up, pair)
            for _ in range(3):
                assert await listed(rig, customer) == []
            assert rig.sources.counts == {ListSource.STANDBY: 3}
        finally:
            await pool.close()


async def test_a_standby_that_dies_fails_no_list(
    rig: PostgresListsRig, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is found again when it is back. The last test: it takes the standby away."""
    customer = await open_customer(rig, 100, new_host())
    meeting = await scheduled(rig, customer)
    await asyncio.to_thread(caught_up, pair)
    assert await listed(rig, customer) == [meeting]
    pair.kill(pair.standby)
    monkeypatch.setattr(standby_module, "_CONNECTION_S", 0.2)
    with pytest.raises(psycopg.OperationalError):
        pair.ask(pair.standby, "SELECT 1")
    for _ in range(20):
        assert await listed(rig, customer) == [meeting]
    assert rig.sources.counts[ListSource.AWAY] == 20
    senders = "SELECT 1 FROM pg_stat_replication"
    await asyncio.to_thread(until, lambda: not pair.ask(pair.primary, senders), "the primary knows")
    found = await PostgresFigures(rig.pool).read()
    assert (found.standbys_streaming, found.replication_lag_bytes) == (0, 0)
    await asyncio.to_thread(pair.start, pair.standby)
    before = rig.sources.counts[ListSource.STANDBY]
    async with asyncio.timeout(30):
        while rig.sources.counts[ListSource.STANDBY] == before:
            assert await listed(rig, customer) == [meeting]
            await scheduled_elsewhere(rig)


async def scheduled_elsewhere(rig: PostgresListsRig) -> None:
    """Write something, as other accounts do all the time, and leave the standby a moment."""
    await open_customer(rig, 1)
    await asyncio.sleep(0.1)
