"""Erasure of accounts in every store."""

import asyncio
from uuid import UUID

from meetcore.adapters.postgres.pool import Pool
from meetcore.domain.members.members import Membership, User
from meetcore.domain.members.roles import Role
from meetcore.testing.contracts import ErasureRepositoryContract
from meetcore.testing.contracts.transactions import (
    AT,
    email_of,
    finish_cancelling,
    new_host,
    new_id,
    open_customer,
    scheduled,
    start_cancelling,
)
from tests.support.postgres_rig import PostgresRig

_PLACES = "SELECT ctid::text AS place FROM meetings WHERE account_id = %(id)s"


class TestErasures(ErasureRepositoryContract):
    """In memory and in Postgres."""


async def test_an_erased_meeting_is_not_written_again(postgres_rig: PostgresRig, store_pool: Pool) -> None:
    customer = await open_customer(postgres_rig, 100)
    await postgres_rig.put_hosts(new_host())
    meeting = await scheduled(postgres_rig, customer)
    await finish_cancelling(postgres_rig, meeting, await start_cancelling(postgres_rig, meeting))
    places = []
    for _ in range(2):
        async with postgres_rig.store.begin() as tx:
            await tx.erasures.start(customer.account_id, AT)
            assert await tx.erasures.erase_meetings(customer.account_id, None, 10) == meeting.id
        async with store_pool.connection() as connection:
            places.append(await (await connection.execute(_PLACES, {"id": customer.account_id})).fetchone())
    assert places[0] == places[1]


async def test_of_two_erasures_at_once_the_second_erases_the_user_of_both(postgres_rig: PostgresRig) -> None:
    first, second = await open_customer(postgres_rig), await open_customer(postgres_rig)
    user = User(new_id(), email_of(new_id()), "Both", AT)
    async with postgres_rig.store.begin() as tx:
        await tx.members.ensure_user(user)
        for customer in (first, second):
            await tx.members.add_membership(Membership(customer.account_id, user.id, Role.VIEWER, AT))

    async def erase(account_id: UUID) -> None:
        async with postgres_rig.store.begin() as tx:
            await tx.erasures.load_locked(account_id)
            await tx.erasures.start(account_id, AT)

    async with postgres_rig.store.begin() as tx:
        await tx.erasures.load_locked(first.account_id)
        await tx.erasures.start(first.account_id, AT)
        other = asyncio.create_task(erase(second.account_id))
        assert await asyncio.wait({other}, timeout=0.5) == (set(), {other}), "it waits for the user"
    await other
    fresh = User(new_id(), user.email, "Anew", AT)
    async with postgres_rig.store.begin() as tx:
        assert await tx.members.ensure_user(fresh) == fresh, "the address is free"
