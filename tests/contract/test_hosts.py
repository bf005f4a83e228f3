"""Hosts in every store: the best fit, never booked twice, never refused while one is free."""

import asyncio

import psycopg
import pytest

from meetcore.testing.contracts import HostsContract
from meetcore.testing.contracts.transactions import (
    MeetingSpec,
    new_host,
    open_customer,
    provisioning,
    query_of,
    reserve,
    reserved,
)
from tests.support.postgres_rig import PostgresRig


@pytest.mark.spec("1/credits", "5/7")
class TestHosts(HostsContract):
    """In memory and in Postgres."""


async def test_postgres_itself_refuses_two_meetings_on_one_slot(postgres_rig: PostgresRig):
    rig = postgres_rig
    await rig.put_hosts(new_host())
    made = await reserved(rig, await open_customer(rig, 100), MeetingSpec())
    with pytest.raises(psycopg.errors.ExclusionViolation):
        await rig.rows(
            """INSERT INTO host_reservations
            SELECT account_id, gen_random_uuid(), host_id, slot, during FROM host_reservations
            WHERE meeting_id = %(id)s""",
            id=made.meeting.id,
        )


async def test_a_free_host_in_other_hands_is_contended_and_waited_for(postgres_rig: PostgresRig):
    rig = postgres_rig
    await rig.put_hosts(new_host())
    one, other = await open_customer(rig, 100), await open_customer(rig, 100)
    query = query_of(one, MeetingSpec())
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_creation(query)
        assert len(view.free_hosts) == 1
        async with rig.store.begin() as existing_note:
            other_view = await existing_note.meetings.load_creation(query_of(other, MeetingSpec()))
            assert (list(other_view.free_hosts), other_view.is_contended) == ([], True)
        waiting = asyncio.create_task(reserve(rig, other, MeetingSpec()))
        made = provisioning(one, MeetingSpec(), view, query)
        assert await tx.meetings.save_provisioning(made)
    assert await waiting is None
