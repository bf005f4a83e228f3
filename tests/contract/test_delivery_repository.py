"""The outbox in every store: each delivery is claimed once, recorded under its lease and never lost."""

import pytest

from meetcore.domain.money import ledger
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES
from meetcore.testing.contracts import DeliveryLimitsContract, DeliveryRepositoryContract
from meetcore.testing.contracts.outbox import BAD, claim, outbox, record
from meetcore.testing.contracts.transactions import (
    AT,
    new_event,
    new_id,
)
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
        view = await tx.ledger.load_locked(customer.account_id, "topup:x")
        posting = ledger.top_up(view.funds, new_id(), "x", 5, AT)
        assert posting.entry is not None
        await tx.ledger.append(posting.funds, posting.entry, [new_event(customer)])
        assert await record(rig, claimed, lease.token, BAD)
    waiting = [one.status for one in (await rig.deliveries(customer.account_id)).values()]
    assert sorted(waiting) == [DeliveryStatus.HELD, DeliveryStatus.PENDING]
    assert (await claim(rig))[0] == []
    found = (await rig.deliveries(customer.account_id)).values()
    assert [one.status for one in found] == [DeliveryStatus.HELD] * 2
