"""Restores and the fence in every store, and what only PostgreSQL can do wrong."""

import asyncio

import psycopg
import pytest
from typed_settings import SecretStr

from meetcore.adapters.postgres import fence
from meetcore.adapters.postgres.fence import OUTSIDE_FENCE, PostgresFence
from meetcore.adapters.postgres.hosts.keys import host_key_context
from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher, text_from_keys
from meetcore.adapters.settings import Settings
from meetcore.adapters.system import SystemClock, SystemEntropy
from meetcore.composition.secret_keys import open_sealed_values
from meetcore.ports.lease import Lease
from meetcore.ports.restores import FenceRefused
from meetcore.ports.store import StoreFenced
from meetcore.testing.contracts import RestoreRepositoryContract
from meetcore.testing.contracts.restore_repository import fenced
from meetcore.testing.contracts.store_rig import FullRig
from meetcore.testing.contracts.transactions import new_host, new_id, open_customer, scheduled
from meetcore.usecases.cancel_meeting import Running, start_cancelling
from meetcore.usecases.idempotency import IdempotentRequest
from meetcore.usecases.restores import Restores
from meetcore.usecases.runtime import Runtime
from tests.support import servers
from tests.support.postgres_rig import PostgresRig

_UNFENCED = """
    SELECT relname AS name FROM pg_class c
    WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = current_schema()::regnamespace
        AND NOT EXISTS (
            SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'refuse_while_fenced')"""


class TestRestores(RestoreRepositoryContract):
    """In memory and in Postgres."""


async def test_a_running_meeting_is_not_ended_at_the_provider_while_the_fence_stands(rig: FullRig) -> None:
    """Without a key nothing else is written before the provider is called."""
    customer = await open_customer(rig, 100)
    await rig.put_hosts(new_host())
    meeting = await scheduled(rig, customer)
    request, lease = IdempotentRequest(None, b"f" * 32), Lease(new_id(), 30)

    async def start() -> object:
        async with rig.store.begin() as tx:
            return await start_cancelling(
                tx, customer.account_id, meeting.id, request, lease, meeting.start_at
            )

    async with fenced(rig):
        with pytest.raises(StoreFenced):
            await start()
    assert isinstance(await start(), Running)


async def _tables_outside(rig: PostgresRig) -> set[str]:
    return {row["name"] for row in await rig.rows(_UNFENCED)}


async def test_every_table_is_fenced_but_those_that_are_named(postgres_rig: PostgresRig) -> None:
    await postgres_rig.fence.put_up()
    left = await _tables_outside(postgres_rig)
    assert left == {*OUTSIDE_FENCE, "schema_migrations", "schema_migrations_batches"}
    await postgres_rig.fence.take_away()
    assert left < await _tables_outside(postgres_rig)
    assert await postgres_rig.rows("SELECT FROM pg_trigger WHERE tgname = 'refuse_while_fenced'") == []


async def test_the_services_own_role_cannot_put_the_fence_up_or_take_it_away(
    postgres_rig: PostgresRig, service_pool: Pool, postgres_server_url: str
) -> None:
    servers.skip_without_roles(postgres_server_url)
    fence = PostgresFence(service_pool)
    with pytest.raises(FenceRefused, match="owner"):
        await fence.put_up()
    await postgres_rig.fence.put_up()
    with pytest.raises(FenceRefused, match="owner"):
        await fence.take_away()
    await postgres_rig.fence.take_away()


async def test_the_services_own_role_releases_nothing(
    postgres_rig: PostgresRig, service_database: str, postgres_server_url: str
) -> None:
    servers.skip_without_roles(postgres_server_url)
    pool = make_pool(service_database, min_size=0, max_size=2, passes_fence=True)
    await pool.open()
    use_cases = Restores(
        PostgresStore(pool, postgres_rig.cipher), PostgresFence(pool), Runtime(SystemClock(), SystemEntropy())
    )
    try:
        async with fenced(postgres_rig) as restore:
            with pytest.raises(FenceRefused, match="owner"):
                await use_cases.release()
            assert await use_cases.latest() == restore, "it says that it did nothing, and sells nothing"
    finally:
        await pool.close()


async def test_a_release_that_left_a_trigger_says_that_it_sells(
    postgres_rig: PostgresRig, store_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "_TRIES", 1)
    monkeypatch.setattr(fence, "_LOCK_TIMEOUT_S", 0.02)
    use_cases = Restores(
        postgres_rig.operator_store, postgres_rig.fence, Runtime(SystemClock(), SystemEntropy())
    )
    async with fenced(postgres_rig):
        with psycopg.connect(store_database) as other:
            other.execute("LOCK TABLE accounts IN ROW EXCLUSIVE MODE")
            with pytest.raises(FenceRefused, match="It is released"):
                await use_cases.release()
        assert not (await use_cases.release()).is_fenced
    assert await postgres_rig.rows("SELECT FROM pg_trigger WHERE tgname = 'refuse_while_fenced'") == []


async def test_sessions_that_are_open_are_fenced_at_once(postgres_rig: PostgresRig) -> None:
    customer = await open_customer(postgres_rig)
    await postgres_rig.fence.put_up()
    async with postgres_rig.operator_store.begin() as tx:
        restore = await tx.restores.add(postgres_rig.now())
    with pytest.raises(StoreFenced):
        async with postgres_rig.store.begin() as tx:
            await tx.lock_account(customer.account_id)
    async with postgres_rig.operator_store.begin() as tx:
        await tx.restores.release(restore.epoch)
    async with postgres_rig.store.begin() as tx:
        await tx.lock_account(customer.account_id)
    await postgres_rig.fence.take_away()


async def test_a_table_that_others_hold_is_waited_for(postgres_rig: PostgresRig, store_database: str) -> None:
    with psycopg.connect(store_database) as other:
        other.execute("LOCK TABLE accounts IN ROW EXCLUSIVE MODE")
        fencing = asyncio.create_task(postgres_rig.fence.put_up())
        await postgres_rig.until_lock_contended()
        other.rollback()
        await fencing
    await postgres_rig.fence.take_away()


async def test_a_fenced_database_is_resealed(postgres_rig: PostgresRig, store_database: str) -> None:
    new, old = b"n" * KEY_BYTES, b"o" * KEY_BYTES
    host = new_host()
    await postgres_rig.put_hosts(host)
    sealed = AesGcmCipher([old]).seal(b"123456", host_key_context(host.id))
    await postgres_rig.rows("UPDATE hosts SET host_key = %(sealed)s", sealed=sealed)
    settings = Settings(
        database_url=SecretStr(store_database), secrets_key=SecretStr(text_from_keys([new, old]))
    )
    async with fenced(postgres_rig), open_sealed_values(settings) as values:
        assert (await values.reseal("hosts.host_key", None, 10)).resealed == 1


async def test_a_fenced_database_is_migrated(empty_database_url: str) -> None:
    migrate(empty_database_url)
    pool = make_pool(empty_database_url, min_size=0, max_size=2, passes_fence=True)
    await pool.open()
    try:
        await PostgresFence(pool).put_up()
        async with pool.connection() as connection:
            await connection.execute(
                "INSERT INTO restores (epoch, restored_to, fenced_at) VALUES (1, now(), now())"
            )
            # As if this step had been missing in the backup.
            await connection.execute("DELETE FROM schema_migrations WHERE name = 'pinned_sessions'")
            await connection.execute("ALTER TABLE sessions DROP COLUMN is_pinned")
            await connection.execute("ALTER TABLE sign_in_links DROP COLUMN is_pinned")
            # And one that does.
            await connection.execute("DELETE FROM schema_migrations WHERE name = 'credit_proposals'")
            await connection.execute("DROP TABLE credit_proposals")
        assert [step.name for step in migrate(empty_database_url)] == ["credit_proposals", "pinned_sessions"]
        left = {row["name"] for row in await pool.read(_UNFENCED, {})}
        assert left == {*OUTSIDE_FENCE, "schema_migrations", "schema_migrations_batches"}
    finally:
        await pool.close()
