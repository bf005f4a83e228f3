"""The outbox in every store: each delivery is claimed once, recorded under its lease and never lost."""

import asyncio

import pytest

from meetcore.domain.money import ledger
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES
from meetcore.testing.contracts import DeliveryLimitsContract, DeliveryRepositoryContract
from meetcore.testing.contracts.appending import append_one
from meetcore.testing.contracts.outbox import BAD, GOOD, SCHEDULE, claim, outbox, record
from meetcore.testing.contracts.transactions import (
    AT,
    new_event,
    new_id,
)
from meetcore.usecases.judge_attempts import JudgedAttempts
from tests.support.postgres_rig import PostgresRig


@pytest.mark.spec("3/disable-at-20", "6/5")
class TestDeliveryRepository(DeliveryRepositoryContract):
    """In memory and in Postgres."""


@pytest.mark.spec("6/5")
class TestDeliveryLimits(DeliveryLimitsContract):
    """In memory and in Postgres."""


async def test_the_next_claim_holds_what_an_event_left_waiting_at_an_endpoint_that_was_being_disabled(
    postgres_rig: PostgresRig,
):
    """The event saw the endpoint active, the attempt did not see the event's delivery."""
    rig = postgres_rig
    customer, _ = await outbox(rig, 1, consecutive_failures=DISABLE_AFTER_FAILURES - 1)
    ((claimed,), lease) = await claim(rig)
    async with rig.store.begin() as tx:
        view = await tx.postings.load_locked(customer.account_id, [])
        posting = ledger.top_up(view.funds, new_id(), "x", 5, AT)
        assert await append_one(tx, view.funds, posting, new_event(customer)) == 1
        assert await record(rig, claimed, lease.token, BAD)
    waiting = [one.status for one in (await rig.deliveries(customer.account_id)).values()]
    assert sorted(waiting) == [DeliveryStatus.HELD, DeliveryStatus.PENDING]
    assert (await claim(rig))[0] == []
    found = (await rig.deliveries(customer.account_id)).values()
    assert [one.status for one in found] == [DeliveryStatus.HELD] * 2


async def test_a_claim_that_was_taken_again_while_its_record_waited_for_the_endpoint_is_lost(
    postgres_rig: PostgresRig,
):
    rig = postgres_rig
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    async with rig.store.begin() as tx:
        await tx.endpoints.load_locked(customer.account_id, endpoint.id)
        recording = asyncio.create_task(record(rig, claimed, lease.token, BAD))
        await rig.until_lock_contended()
        await rig.tamper_with(
            "UPDATE deliveries SET lease_token = %(token)s WHERE id = %(id)s",
            token=new_id(), id=claimed.delivery_id,
        )  # fmt: skip
    assert not await recording
    assert await rig.attempts(customer.account_id) == []
    assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) == endpoint


async def test_no_attempt_is_kept_of_a_delivery_that_is_erased_while_it_is_recorded(
    postgres_rig: PostgresRig,
):
    rig = postgres_rig
    customer, _ = await outbox(rig)
    found, _ = await claim(rig)
    async with rig.store.begin() as tx:
        judged = JudgedAttempts(await tx.deliveries.load_claimed(found), SCHEDULE)
        judged.add(found[0], GOOD, 0.5)
        await rig.tamper_with("DELETE FROM deliveries WHERE id = %(id)s", id=found[0].delivery_id)
        await tx.deliveries.save_attempts(judged.recorded, judged.endpoints, judged.hosts)
    assert await rig.deliveries(customer.account_id) == {}
    assert await rig.rows("SELECT FROM delivery_attempts") == []
