"""Events, deliveries and attempts past their retention: gone with their period, and none before its end."""

import asyncio
from datetime import datetime, timedelta

import pytest
from attrs import evolve

from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.webhooks.deliveries import Delivery, DeliveryStatus, open_delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.ports.deliveries import Claimed, ClaimedBatch, ClaimLimits, GivenUp, GiveUpReason
from meetcore.ports.lease import Lease
from meetcore.ports.partitions import FEW_AHEAD, PartitionRules
from meetcore.testing.contracts.outbox import GOOD, outbox, record_all
from meetcore.testing.contracts.store_rig import PartitionsRig, Rig
from meetcore.testing.contracts.transactions import AT, new_id

RULES = PartitionRules()
OVER = AT + RULES.kept + 3 * RULES.length
"""When what was made at `AT` is past its retention, and with it the period that it was made in."""


async def posted(rig: Rig, endpoint: Endpoint, at: datetime) -> tuple[Event, Delivery]:
    """Write an event of an instant for one endpoint, and a delivery that is as old."""
    event_id, id_ = (uuid7(at, new_id().bytes[-RANDOM_BYTES:]) for _ in range(2))
    event = Event(event_id, endpoint.account_id, EventKind.WEBHOOK_TEST, at, {})
    async with rig.store.begin() as tx:
        view = await tx.endpoints.load_for_posting(endpoint.account_id, endpoint.id)
        assert view is not None
        delivery = open_delivery(
            id=id_, endpoint=endpoint, event_id=event_id, event_kind=event.kind, created_at=at, now=view.now
        )
        await tx.endpoints.post_event(event, delivery)
    return event, delivery


async def claimed_since(rig: Rig, since: datetime = AT - timedelta(days=365)) -> ClaimedBatch:
    """Claim what is due, without what was made before an instant."""
    async with rig.store.begin() as tx:
        limits = ClaimLimits(per_endpoint=100, per_host=100, events_since=since)
        return await tx.deliveries.claim_due(limits, Lease(new_id(), 60.0))


async def taken(rig: Rig) -> list[Claimed]:
    """Claim what is due."""
    return list((await claimed_since(rig)).claimed)


@pytest.mark.asyncio
class PartitionsContract:
    """What `ports.partitions.Partitions` promises."""

    async def test_there_are_partitions_ahead_and_once_is_enough(self, rig: PartitionsRig) -> None:
        planned = await rig.partitions.plan(AT, RULES)
        done = await rig.partitions.maintain(AT, RULES)
        assert done.made == planned.made
        assert done.ahead > FEW_AHEAD
        again = await rig.partitions.maintain(AT, RULES)
        assert again == evolve(done, made=())
        assert (await rig.partitions.maintain(AT + RULES.length, RULES)).ahead > FEW_AHEAD

    async def test_any_time_has_a_partition(self, rig: PartitionsRig) -> None:
        """Of a clock that is behind or ahead, and where nobody looks after them."""
        customer, endpoint = await outbox(rig, 0)
        days = (-20, 0, 3, 40, 4000)
        written = [await posted(rig, endpoint, AT + timedelta(days=day)) for day in days]
        await rig.partitions.maintain(AT, RULES)
        written += [await posted(rig, endpoint, AT + timedelta(days=day)) for day in days]
        await rig.partitions.maintain(AT + timedelta(days=60), RULES)
        for event, delivery in written:
            assert await rig.queries.find_event(customer.account_id, event.id) is not None
            assert (await rig.deliveries(customer.account_id))[delivery.id].event_id == event.id
        assert len(await taken(rig)) == len(written)

    async def test_what_is_past_its_retention_goes_and_nothing_before(self, rig: PartitionsRig) -> None:
        await rig.partitions.maintain(AT, RULES)
        customer, endpoint = await outbox(rig, 0)
        old, gone = await posted(rig, endpoint, AT)
        assert await record_all(rig, await taken(rig), GOOD) is not None
        young, kept = await posted(rig, endpoint, OVER - RULES.kept + timedelta(hours=1))
        assert await record_all(rig, await taken(rig), GOOD) is not None
        assert (await rig.partitions.maintain(AT + RULES.kept - timedelta(hours=1), RULES)).dropped == ()
        assert set(await rig.deliveries(customer.account_id)) == {gone.id, kept.id}
        planned = await rig.partitions.plan(OVER, RULES)
        done = await rig.partitions.maintain(OVER, RULES)
        assert (done.dropped, done.waiting) == (planned.dropped, ())
        assert await rig.queries.find_event(customer.account_id, old.id) is None
        assert await rig.queries.find_event(customer.account_id, young.id) is not None
        assert set(await rig.deliveries(customer.account_id)) == {kept.id}
        assert await rig.attempts(customer.account_id) == [1]

    async def test_a_delivery_that_waits_is_over_before_its_period_goes(self, rig: PartitionsRig) -> None:
        await rig.partitions.maintain(AT, RULES)
        customer, endpoint = await outbox(rig, 0)
        _, sent = await posted(rig, endpoint, AT)
        assert await record_all(rig, await taken(rig), GOOD) is not None
        event, waiting = await posted(rig, endpoint, AT)
        planned = await rig.partitions.plan(OVER, RULES)
        done = await rig.partitions.maintain(OVER, RULES)
        assert done.waiting
        assert planned.waiting == done.waiting
        assert await rig.queries.find_event(customer.account_id, event.id) is None
        assert set(await rig.deliveries(customer.account_id)) == {sent.id, waiting.id}
        assert await rig.attempts(customer.account_id) == [1]
        batch = await claimed_since(rig)
        assert batch.claimed == [], "there is nothing to post"
        assert [one.delivery_id for one in batch.given_up] == [waiting.id]
        failed = (await rig.deliveries(customer.account_id))[waiting.id]
        assert (failed.status, failed.attempts_made) == (DeliveryStatus.FAILED, 0)
        assert (await rig.partitions.maintain(OVER, RULES)).waiting == ()
        assert await rig.deliveries(customer.account_id) == {}
        assert await rig.attempts(customer.account_id) == []

    async def test_an_event_that_is_past_its_retention_is_not_posted(self, rig: PartitionsRig) -> None:
        """Before its period is."""
        customer, endpoint = await outbox(rig, 0)
        event, old = await posted(rig, endpoint, AT)
        _, young = await posted(rig, endpoint, AT + timedelta(milliseconds=1))
        batch = await claimed_since(rig, since=AT + timedelta(milliseconds=1))
        assert [one.delivery_id for one in batch.claimed] == [young.id]
        assert list(batch.given_up) == [
            GivenUp(customer.account_id, old.id, endpoint.id, event.id, GiveUpReason.PAST_RETENTION)
        ]
        failed = (await rig.deliveries(customer.account_id))[old.id]
        assert (failed.status, failed.next_attempt_at) == (DeliveryStatus.FAILED, None)
        assert failed.failed_at is not None

    async def test_nothing_is_made_or_dropped_while_a_restore_is_fenced(self, rig: PartitionsRig) -> None:
        await rig.partitions.maintain(AT, RULES)
        customer, endpoint = await outbox(rig, 0)
        old, _ = await posted(rig, endpoint, AT)
        assert await record_all(rig, await taken(rig), GOOD) is not None
        async with rig.operator_store.begin() as tx:
            restore = await tx.restores.add(rig.now())
        planned = await rig.partitions.plan(OVER, RULES)
        done = await rig.partitions.maintain(OVER, RULES)
        assert (done.is_fenced, done.made, done.dropped, done.waiting) == (True, (), (), ())
        assert await rig.partitions.plan(OVER, RULES) == planned
        assert await rig.queries.find_event(customer.account_id, old.id) is not None
        async with rig.operator_store.begin() as tx:
            await tx.restores.release(restore.epoch)
        done = await rig.partitions.maintain(OVER, RULES)
        assert (done.is_fenced, done.made, done.dropped) == (False, planned.made, planned.dropped)
        assert await rig.queries.find_event(customer.account_id, old.id) is None

    async def test_several_at_once_do_not_disturb_each_other(self, rig: PartitionsRig) -> None:
        done = await asyncio.gather(*(rig.partitions.maintain(AT, RULES) for _ in range(4)))
        made = [one.made for one in done if one.made]
        assert len(made) <= 1
        assert (await rig.partitions.maintain(AT, RULES)).ahead > FEW_AHEAD
