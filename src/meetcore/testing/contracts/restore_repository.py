"""Restores in a store: the fence refuses every write and no read, and the reads of a comparison are true."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from attrs import evolve

from meetcore.domain.ids import uuid7
from meetcore.domain.money import ledger
from meetcore.domain.money.ledger import Reference
from meetcore.domain.requests.restores import KEY_MARGIN, Restore
from meetcore.ports.deliveries import ClaimLimits
from meetcore.ports.lease import Lease
from meetcore.ports.restores import FenceRefused
from meetcore.ports.store import Store, StoreFenced, Transaction
from meetcore.testing.contracts.appending import append_one
from meetcore.testing.contracts.reads import cancel_view
from meetcore.testing.contracts.store_rig import RestoresRig
from meetcore.testing.contracts.transactions import (
    AT,
    KIND,
    Customer,
    MeetingSpec,
    new_endpoint,
    new_event,
    new_host,
    new_id,
    open_customer,
    query_of,
    register,
    reserved,
    scheduled,
    top_up,
)
from meetcore.testing.contracts.unlocked_creation import reserve_on, state_of

_LEASE = Lease(UUID(int=7), 30)
_LOST = timedelta(minutes=10)
_WRITES: dict[str, Callable[[Transaction, Customer], Awaitable[object]]] = {
    "a sale or a top-up": lambda tx, customer: tx.lock_account(customer.account_id),
    "posts": lambda tx, _: tx.deliveries.claim_due(ClaimLimits(), _LEASE),
    "mails": lambda tx, _: tx.mails.claim_due(10, _LEASE),
    "notes": lambda tx, _: tx.notes.claim(10, 10, _LEASE),
    "recordings": lambda tx, _: tx.recordings.claim(10, _LEASE),
    "orphans": lambda tx, _: tx.orphan_checks.claim_due(10, _LEASE),
    "meetings in progress": lambda tx, _: tx.meetings.claim_expired(10, _LEASE),
    "meetings at their end": lambda tx, _: tx.meetings.claim_due(10, 30),
    "the events of a provider": lambda tx, _: tx.inbox.claim(10, _LEASE),
    "host keys": lambda tx, _: tx.host_keys.claim_due(10, _LEASE),
}


async def _latest(store: Store) -> Restore | None:
    async with store.begin() as tx:
        return await tx.restores.latest()


@asynccontextmanager
async def fenced(rig: RestoresRig) -> AsyncIterator[Restore]:
    """Fence the store while the block runs."""
    await rig.fence.put_up()
    async with rig.operator_store.begin() as tx:
        restore = await tx.restores.add(rig.now() - _LOST)
    try:
        yield restore
    finally:
        async with rig.operator_store.begin() as tx:
            await tx.restores.release(restore.epoch)
        await rig.fence.take_away()


@pytest.mark.asyncio
class RestoreRepositoryContract:
    """The suite for `RestoreRepository` and `Fence`, in the fixture `rig`."""

    async def test_an_epoch_is_counted_and_released_once(self, rig: RestoresRig) -> None:
        assert await _latest(rig.operator_store) is None
        restored_to = rig.now() - _LOST
        async with rig.operator_store.begin() as tx:
            assert await tx.restores.release(1) is None
            first = await tx.restores.add(restored_to)
            again = await tx.restores.add(restored_to - _LOST)
        assert (first.epoch, first.restored_to, first.released_at) == (1, restored_to, None)
        assert again == first, "one that is fenced stays"
        async with rig.operator_store.begin() as tx:
            released = await tx.restores.release(1)
            assert await tx.restores.release(1) is None
            second = await tx.restores.add(restored_to)
            assert await tx.restores.release(2) is not None
        assert released is not None
        assert released.released_at is not None
        assert evolve(released, released_at=None) == first
        assert second.epoch == 2
        latest = await _latest(rig.operator_store)
        assert latest is not None
        assert (latest.epoch, latest.is_fenced) == (2, False)

    async def test_a_fence_that_came_with_the_backup_covers_what_was_lost_after_it(
        self, rig: RestoresRig
    ) -> None:
        second = timedelta(seconds=1)
        customer = await open_customer(rig, 100)
        async with rig.operator_store.begin() as tx:
            first = await tx.restores.add(rig.now() - _LOST)
        moment = first.fenced_at + second
        async with rig.operator_store.begin() as tx:
            assert await tx.restores.add(first.fenced_at) == first
            moved = await tx.restores.add(moment)
        async with rig.operator_store.begin() as tx:
            assert await tx.restores.add(moment) == moved, "twice is once"
            assert await tx.restores.add(rig.now() - _LOST) == moved
        assert evolve(moved, fenced_at=first.fenced_at) == first
        assert moved.fenced_at >= moment
        assert await _latest(rig.operator_store) == moved
        async with rig.operator_store.begin() as tx:
            key = str(uuid7(moment - second / 2, bytes(10)))
            assert (await tx.idempotency.load_locked(customer.account_id, key)).is_lost

    @pytest.mark.parametrize("work", _WRITES)
    async def test_a_fenced_store_refuses_the_services_work(self, rig: RestoresRig, work: str) -> None:
        customer = await open_customer(rig, 100)
        await register(rig, new_endpoint(customer, KIND))
        assert await top_up(rig, customer, 1, "due", KIND) == 1
        async with fenced(rig):
            with pytest.raises(StoreFenced):
                async with rig.store.begin() as tx:
                    await _WRITES[work](tx, customer)
            async with rig.operator_store.begin() as tx:
                await _WRITES[work](tx, customer)
        async with rig.store.begin() as tx:
            await _WRITES[work](tx, customer)

    async def test_a_fenced_store_reserves_nothing_without_a_lock(self, rig: RestoresRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        state = await state_of(rig, customer)
        async with fenced(rig):
            with pytest.raises(StoreFenced):
                await reserve_on(rig, customer, MeetingSpec(), state)
        assert await reserve_on(rig, customer, MeetingSpec(), state) is not None

    async def test_a_fenced_store_is_read(self, rig: RestoresRig) -> None:
        customer = await open_customer(rig, 100)
        async with fenced(rig):
            caller = await rig.queries.find_caller(customer.digest)
            account = await rig.registry.find_account(customer.account_id)
        assert caller is not None
        assert account.balance == 100

    async def test_a_fence_may_be_put_up_and_taken_away_twice(self, rig: RestoresRig) -> None:
        customer = await open_customer(rig, 100)
        async with fenced(rig):
            await rig.fence.put_up()
        await rig.fence.take_away()
        assert await top_up(rig, customer, 1, "after") == 0

    async def test_a_fence_that_is_only_put_up_refuses_nothing(self, rig: RestoresRig) -> None:
        await rig.fence.put_up()
        customer = await open_customer(rig, 100)
        await rig.fence.take_away()
        assert await top_up(rig, customer, 1, "after") == 0

    async def test_one_process_at_a_time_changes_a_restored_store(self, rig: RestoresRig) -> None:
        customer = await open_customer(rig, 100)
        async with fenced(rig):
            async with rig.fence.alone():
                with pytest.raises(FenceRefused):
                    async with rig.fence.alone():
                        pytest.fail("another one is in it")
                async with rig.operator_store.begin() as tx:
                    await tx.lock_account(customer.account_id)
            async with rig.fence.alone():
                pass

    async def test_the_owner_may_put_up_the_fence_and_take_it_away(self, rig: RestoresRig) -> None:
        await rig.fence.check_owner()

    async def test_a_key_of_the_lost_time_is_lost(self, rig: RestoresRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host(max_concurrent=9))
        meeting = await scheduled(rig, customer)
        async with fenced(rig) as restore:
            pass
        begin, end = restore.restored_to - KEY_MARGIN, restore.fenced_at
        second = timedelta(seconds=1)
        lost = [str(uuid7(at, bytes(10))) for at in (begin + second, end - second)]
        kept = [str(uuid7(at, bytes(10))) for at in (begin - second, end + second)]
        other = [str(uuid4()), "a-key", "x" * 36]
        for key in (*lost, *kept, *other):
            spec = MeetingSpec(key=key)
            async with rig.store.begin() as tx:
                view = await tx.idempotency.load_locked(customer.account_id, key)
                creation = await tx.meetings.load_creation(query_of(customer, spec))
            cancellation = await cancel_view(rig, meeting, key)
            assert cancellation is not None
            views = (view, creation.idempotency, cancellation.idempotency)
            assert {each.is_lost for each in views} == {key in lost}, key
            made = await reserve_on(rig, customer, spec, await state_of(rig, customer))
            assert (made is None) is (key in lost), key

    async def test_meetings_are_found_by_the_providers_name_and_by_their_own(self, rig: RestoresRig) -> None:
        await rig.put_hosts(new_host(max_concurrent=5))
        customer = await open_customer(rig, 100)
        made, other = await scheduled(rig, customer), await scheduled(rig, customer)
        begun = await reserved(rig, customer, MeetingSpec())
        names = [made.provider_meeting_id or "", other.provider_meeting_id or ""]
        async with rig.store.begin() as tx:
            known = await tx.restores.known_at_provider("sandbox", [*names, "no-such-room"])
            elsewhere = await tx.restores.known_at_provider("zoom", names)
            found = await tx.restores.meetings_by_id([made.id, begun.meeting.id, new_id()])
        assert known == set(names)
        assert elsewhere == set()
        assert {id_: each.status for id_, each in found.items()} == {
            made.id: made.status, begun.meeting.id: begun.meeting.status,
        }  # fmt: skip
        assert found[made.id] == made

    async def test_open_meetings_come_in_pages_with_their_hosts(self, rig: RestoresRig) -> None:
        host = new_host(max_concurrent=5)
        await rig.put_hosts(host)
        customer, another = await open_customer(rig, 100), await open_customer(rig, 100)
        made = [await scheduled(rig, each) for each in (customer, another, customer)]
        await reserved(rig, customer, MeetingSpec())
        pages, after = [], None
        for _ in range(3):
            async with rig.store.begin() as tx:
                page = await tx.restores.open_meetings("sandbox", after, 2)
            pages.append([each.meeting for each in page])
            assert all(each.provider_user_id == host.provider_user_id for each in page)
            after = page[-1].meeting.id if page else after
        by_id = sorted(made, key=lambda each: each.id)
        assert pages == [by_id[:2], by_id[2:], []]

    async def test_events_that_are_there_are_known(self, rig: RestoresRig) -> None:
        customer, another = await open_customer(rig), await open_customer(rig)
        event, reference = new_event(customer), Reference("ticket", "1")
        async with rig.store.begin() as tx:
            view = await tx.postings.load_locked(customer.account_id, [])
            posting = ledger.adjust(view.funds, new_id(), "gift", 5, reference, AT)
            assert await append_one(tx, view.funds, posting, event) is not None
        asked = [
            (customer.account_id, event.id),
            (customer.account_id, new_id()),
            (another.account_id, event.id),
        ]
        async with rig.store.begin() as tx:
            assert await tx.restores.known_events(asked) == {event.id}
            assert await tx.restores.known_events([]) == set()
