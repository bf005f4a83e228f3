"""The end of notes in a store: their money once, their events once, and nothing left of what is erased."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.money.ledger import TransferKind
from meetcore.domain.notes.notes import Language, Note, NoteStatus, note_operation
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.notes import NoteTask
from meetcore.ports.queries import NoteFilter
from meetcore.testing.contracts.note_transactions import (
    claim_notes,
    completed,
    erase,
    fail_unclaimed,
    find_note,
    give_up,
    queued,
    recorded,
    settle,
    written,
)
from meetcore.testing.contracts.outbox import BAD, GOOD, claim, post_again, record
from meetcore.testing.contracts.reads import money
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    Customer,
    new_endpoint,
    open_customer,
    register,
    top_up,
)

DONE, FAILED = EventKind.NOTE_COMPLETED, EventKind.NOTE_FAILED


async def _notes_on(rig: StoreRig, note: Note) -> list[Note]:
    async with rig.store.begin() as tx:
        await tx.lock_account(note.account_id)
        return list(await tx.notes.load_of_recording(note.account_id, note.recording_id))


async def _paid(rig: StoreRig, customer: Customer) -> list[int]:
    entries = await rig.entries(customer.account_id)
    return [entry.amount for entry in entries if entry.transfer.kind is TransferKind.NOTULEN_CHARGE]


@pytest.mark.asyncio
class NoteEndingsContract:
    """Notes that end. A part of `NoteRepositoryContract`."""

    async def test_a_completed_note_is_charged_in_place_of_its_hold_and_emits_an_event(
        self, rig: StoreRig
    ) -> None:
        customer = await open_customer(rig, 50, cap=30)
        await register(rig, new_endpoint(customer, DONE))
        note = await queued(rig, customer, price=7)
        (task,) = await claim_notes(rig)
        done = await settle(rig, task, price=5)
        assert done is not None
        assert await find_note(rig, note) == done
        assert (done.status, done.credits_charged) == (NoteStatus.COMPLETED, 5)
        assert await rig.holds(customer.account_id) == []
        assert await money(rig, customer) == (45, 0, 5, 0)
        entry = (await rig.entries(customer.account_id))[-1]
        assert (entry.transfer.id, entry.transfer.operation) == (done.charge_id, note_operation(note.id))
        assert len(await rig.deliveries(customer.account_id)) == 1

    async def test_a_failed_note_costs_nothing_and_emits_an_event(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        await register(rig, new_endpoint(customer, FAILED))
        note = await queued(rig, customer)
        (task,) = await claim_notes(rig)
        async with rig.store.begin() as tx:
            assert await tx.notes.save_step(task, written(task.note))
        failed = await give_up(rig, task)
        assert failed is not None
        assert await find_note(rig, note) == failed
        assert (failed.status, failed.draft, failed.transcript) == (NoteStatus.FAILED, None, ())
        assert await rig.holds(customer.account_id) == []
        assert await money(rig, customer) == (50, 0, 0, 0)
        assert len(await rig.deliveries(customer.account_id)) == 1

    async def test_a_charge_may_be_larger_than_its_hold_and_leave_less_than_nothing(
        self, rig: StoreRig
    ) -> None:
        customer = await open_customer(rig, 3, cap=3)
        await queued(rig, customer, price=2)
        (task,) = await claim_notes(rig)
        assert await settle(rig, task, price=9)
        assert await money(rig, customer) == (-6, 0, 9, 0)

    async def test_a_note_ends_once(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        await queued(rig, customer)
        (task,) = await claim_notes(rig)
        assert await settle(rig, task)
        assert await settle(rig, task) is None
        assert await give_up(rig, task) is None
        assert await fail_unclaimed(rig, task.note) is None
        assert await _paid(rig, customer) == [-2]
        assert await money(rig, customer) == (48, 0, 2, 0)

    async def test_of_two_ends_at_once_one_is_written(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 500)
        await register(rig, new_endpoint(customer, DONE, FAILED))
        ends = 0
        for turn in range(6):
            note = await queued(rig, customer)
            (task,) = await claim_notes(rig)
            works = [
                settle(rig, task),
                fail_unclaimed(rig, note),
                settle(rig, task),
            ]
            results = await asyncio.gather(*(works if turn % 2 else works[::-1]))
            (ended,) = [one for one in results if one is not None]
            assert await find_note(rig, note) == ended
            ends += ended.status is NoteStatus.COMPLETED
        assert await _paid(rig, customer) == [-2] * ends
        assert await money(rig, customer) == (500 - 2 * ends, 0, 2 * ends, 0)
        assert await rig.holds(customer.account_id) == []
        assert len(await rig.deliveries(customer.account_id)) == 6

    async def test_many_notes_that_end_at_once_are_each_paid_once(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        for _ in range(8):
            await queued(rig, customer)
        tasks = await claim_notes(rig)
        done = await asyncio.gather(*(settle(rig, task, price=3) for task in tasks for _ in range(2)))
        assert sum(one is not None for one in done) == 8
        assert await _paid(rig, customer) == [-3] * 8
        assert await money(rig, customer) == (76, 0, 24, 0)

    async def test_a_note_ends_over_its_workers_head(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        note = await queued(rig, customer)
        (task,) = await claim_notes(rig)
        failed = await fail_unclaimed(rig, note)
        async with rig.store.begin() as tx:
            assert not await tx.notes.renew(task, 60)
            assert not await tx.notes.save_step(task, written(task.note))
            assert not await tx.notes.postpone(task, task.note, 0)
            assert not await tx.notes.save_transcript_chunk(task, "s", 0, ())
        assert await settle(rig, task) is None
        assert await find_note(rig, note) == failed

    async def test_a_step_and_an_end_at_once_leave_the_end(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        for _ in range(4):
            note = await queued(rig, customer)
            (task,) = await claim_notes(rig)

            async def step(task: NoteTask = task) -> None:
                async with rig.store.begin() as tx:
                    await tx.notes.save_step(task, written(task.note))

            async def transcribe(task: NoteTask = task) -> None:
                async with rig.store.begin() as tx:
                    await tx.notes.save_transcript_chunk(task, "s", 0, ())

            _, _, failed = await asyncio.gather(step(), transcribe(), fail_unclaimed(rig, note))
            assert failed is not None
            assert await find_note(rig, note) == failed
            assert failed.transcript == ()

    async def test_a_note_that_waits_ends_without_a_worker(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        note = await queued(rig, customer)
        assert await fail_unclaimed(rig, note)
        assert await claim_notes(rig) == []
        assert await money(rig, customer) == (50, 0, 0, 0)

    async def test_another_accounts_note_is_not_there(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig, 50), await open_customer(rig, 50)
        note = await queued(rig, customer)
        foreign = evolve(note, account_id=other.account_id)
        assert await fail_unclaimed(rig, foreign) is None
        assert await _notes_on(rig, foreign) == []

    async def test_the_notes_on_a_recording_are_all_that_are_not_erased(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        erased = await fail_unclaimed(rig, await queued(rig, customer, recording))
        assert erased is not None
        await erase(rig, erased)
        failed = await fail_unclaimed(rig, await queued(rig, customer, recording))
        waiting = [await queued(rig, customer, recording, language) for language in Language]
        await queued(rig, customer)
        assert await _notes_on(rig, waiting[0]) == [failed, *waiting]

    async def test_what_is_erased_leaves_ids_and_money(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        note = await completed(rig, customer)
        erased = await erase(rig, note)
        assert erased == evolve(note, status=NoteStatus.ERASED, draft=None, transcript=(), error=None)
        assert await find_note(rig, note) == erased
        assert await _paid(rig, customer) == [-2]
        assert await rig.queries.list_notes(customer.account_id, NoteFilter(), 10, None) == []

    async def test_with_a_note_its_events_are_erased_and_no_others(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        endpoint = await register(rig, new_endpoint(customer, DONE, FAILED))
        note = await completed(rig, customer)
        other = await completed(rig, customer)
        await top_up(rig, customer, 5, "INV-1", DONE)
        found, lease = await claim(rig)
        assert len(found) == 3
        found.sort(key=lambda one: one.event_id)
        assert await record(rig, found[0], lease.token, BAD)
        assert await record(rig, found[1], lease.token, GOOD)
        left = {one.delivery_id for one in found[1:]}
        assert await rig.attempts(customer.account_id) == [1, 1]
        await erase(rig, note)
        assert set(await rig.deliveries(customer.account_id)) == left
        assert await rig.attempts(customer.account_id) == [1]
        assert await record(rig, found[2], lease.token, GOOD)
        assert await rig.queries.find_delivery(customer.account_id, endpoint.id, found[0].delivery_id) is None
        await erase(rig, other)
        assert set(await rig.deliveries(customer.account_id)) == {found[2].delivery_id}

    async def test_a_post_in_flight_of_what_is_erased_is_recorded_nowhere(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        endpoint = await register(rig, new_endpoint(customer, DONE))
        note = await completed(rig, customer)
        ((flying,), lease) = await claim(rig)
        await erase(rig, note)
        assert await rig.deliveries(customer.account_id) == {}
        assert not await record(rig, flying, lease.token, BAD)
        assert await rig.attempts(customer.account_id) == []
        stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
        assert stored == endpoint, "nothing is counted against it"
        assert (await claim(rig))[0] == []

    async def test_what_is_erased_is_not_sent_again(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        endpoint = await register(rig, new_endpoint(customer, DONE))
        note = await completed(rig, customer)
        ((first,), lease) = await claim(rig)
        assert await record(rig, first, lease.token, GOOD)
        assert await post_again(rig, endpoint, first.delivery_id)
        await erase(rig, note)
        assert await rig.deliveries(customer.account_id) == {}
        assert await post_again(rig, endpoint, first.delivery_id) is None

    async def test_an_erasure_and_a_repetition_at_once_leave_nothing_to_send(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        endpoint = await register(rig, new_endpoint(customer, DONE))
        for _ in range(5):
            note = await completed(rig, customer)
            ((first,), lease) = await claim(rig)
            assert await record(rig, first, lease.token, GOOD)
            await asyncio.gather(
                *(post_again(rig, endpoint, first.delivery_id) for _ in range(3)), erase(rig, note)
            )
            assert await rig.deliveries(customer.account_id) == {}

    async def test_an_erasure_and_the_outbox_at_work_do_not_stand_in_each_others_way(
        self, rig: StoreRig
    ) -> None:
        customer = await open_customer(rig, 500)
        for _ in range(3):
            await register(rig, new_endpoint(customer, DONE))
        for _ in range(5):
            note = await completed(rig, customer)
            kept = await completed(rig, customer)
            (found, lease), _ = await asyncio.gather(claim(rig), erase(rig, note))
            again = (await claim(rig))[0]
            left = await rig.deliveries(customer.account_id)
            taken = {one.delivery_id for one in [*found, *again]}
            assert set(left) <= taken
            for one in found:
                assert await record(rig, one, lease.token, GOOD) is (one.delivery_id in left)
            await erase(rig, kept)
            assert await rig.deliveries(customer.account_id) == {}

    async def test_the_end_loads_the_note_its_hold_and_the_funds(self, rig: StoreRig) -> None:
        note = await queued(rig, await open_customer(rig, 50))
        async with rig.store.begin() as tx:
            view = await tx.notes.load_settlement(note.account_id, note.id, None)
            assert view is not None
            assert (view.note, view.hold.operation) == (note, note_operation(note.id))
            assert (view.hold.amount, view.usage.held, view.funds.held) == (2, 2, 2)
