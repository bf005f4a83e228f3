"""A meeting's life in every store: reserved, paid or given back, cancelled, taken over."""

import pytest

from meetcore.ports.lease import Lease
from meetcore.testing.contracts import MeetingRepositoryContract
from meetcore.testing.contracts.transactions import (
    MeetingSpec,
    new_host,
    new_id,
    open_customer,
    reserved,
)
from tests.support.postgres_rig import PostgresRig


@pytest.mark.spec("5/8", "3/cancel-before", "3/cancel-running")
class TestMeetingRepository(MeetingRepositoryContract):
    """In memory and in Postgres."""


async def test_a_leased_meeting_is_not_taken_over(postgres_rig: PostgresRig):
    """Its lease expired, but the transaction that loaded it is about to finish the meeting."""
    rig = postgres_rig
    customer = await open_customer(rig, 100)
    await rig.put_hosts(new_host())
    made = await reserved(rig, customer, MeetingSpec(lease_s=-1))
    async with rig.store.begin() as tx:
        assert await tx.meetings.load_leased(customer.account_id, made.meeting.id, made.token)
        async with rig.store.begin() as other:
            assert await other.meetings.claim_expired(10, Lease(new_id(), 60)) == []
