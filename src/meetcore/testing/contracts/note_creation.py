"""Asking for notes in a store: one for a recording in a language, paid from a hold within funds and cap."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict, InsufficientCredits, NotFound
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.notes import notes
from meetcore.domain.notes.notes import Language, Note, NoteFault
from meetcore.domain.notes.recordings import RecordingStatus
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.notes import NoteCreationView
from meetcore.testing.contracts.note_transactions import (
    ask,
    claim_notes,
    completed,
    erase,
    fail_unclaimed,
    find_note,
    load_note_creation,
    note_event,
    queued,
    recorded,
    settle,
)
from meetcore.testing.contracts.reads import funds_of, money
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    new_endpoint,
    new_id,
    open_customer,
    register,
)


async def _queue_unseen(
    rig: StoreRig, customer: Customer, note: Note, fault: Exception | None = None, cause: str | None = None
) -> None:
    """Write a note without looking for an existing one; its transaction may fail."""
    funds, usage = await funds_of(rig, customer), CapUsage(customer.key_id, cap_day(AT))
    async with rig.store.begin() as tx:
        await tx.lock_account(customer.account_id)
        hold = notes.hold_for(note, new_id(), 2, usage.day)
        await tx.notes.save_queued(note, hold, evolve(funds, held=2), evolve(usage, held=2), cause)
        if fault is not None:
            raise fault


@pytest.mark.asyncio
class NoteCreationContract:
    """New notes. A part of `NoteRepositoryContract`."""

    async def test_the_decision_on_a_note_reads_money_cap_and_recording(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50, cap=30)
        recording = await recorded(rig, customer)
        usage = CapUsage(customer.key_id, cap_day(AT))
        funds = await funds_of(rig, customer)
        assert funds.balance == 50
        assert await load_note_creation(rig, customer, recording) == NoteCreationView(
            funds, usage, 30, recording, None
        )

    @pytest.mark.parametrize("cause", [None, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
    async def test_every_claim_of_a_note_has_its_cause(self, rig: StoreRig, cause: str | None) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        note = notes.queue(new_id(), recording, customer.key_id, Language.INDONESIAN, AT)
        await _queue_unseen(rig, customer, note, cause=cause)
        for _ in range(2):
            (task,) = await claim_notes(rig, seconds=-1)
            assert task.cause == cause

    async def test_a_key_without_a_cap_has_none(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        view = await load_note_creation(rig, customer, await recorded(rig, customer))
        assert view.daily_cap is None

    @pytest.mark.parametrize("status", list(RecordingStatus))
    async def test_a_recording_is_loaded_in_any_state_by_its_account_only(
        self, rig: StoreRig, status: RecordingStatus
    ) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        recording = await recorded(rig, customer, status=status)
        assert (await load_note_creation(rig, customer, recording)).recording == recording
        view = await load_note_creation(rig, other, recording)
        assert (view.recording, view.existing_note) == (None, None)

    async def test_no_note_is_requested_without_an_account(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        recording = await recorded(rig, customer)
        with pytest.raises(NotFound):
            await load_note_creation(rig, evolve(customer, account_id=new_id()), recording)

    async def test_a_queued_note_is_read_back_and_paid_from_a_hold(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        note = await queued(rig, customer, price=7)
        assert await find_note(rig, note) == note
        assert await rig.holds(customer.account_id) == [7]
        assert await money(rig, customer) == (50, 7, 0, 7)

    async def test_nothing_is_kept_of_a_note_whose_transaction_failed(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        note = notes.queue(new_id(), await recorded(rig, customer), customer.key_id, Language.INDONESIAN, AT)
        with pytest.raises(ZeroDivisionError):
            await _queue_unseen(rig, customer, note, ZeroDivisionError())
        assert await rig.holds(customer.account_id) == []
        assert await money(rig, customer) == (50, 0, 0, 0)
        assert await claim_notes(rig) == []

    async def test_an_open_note_of_the_same_language_blocks_a_new_one(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)

        async def existing_note() -> Note | None:
            return (await load_note_creation(rig, customer, recording)).existing_note

        note = await queued(rig, customer, recording)
        assert await existing_note() == note
        (task,) = await claim_notes(rig)
        assert await existing_note() == task.note
        done = await settle(rig, task)
        assert done is not None
        assert await existing_note() == done
        assert (await load_note_creation(rig, customer, recording, Language.ENGLISH)).existing_note is None
        await erase(rig, done)
        assert await existing_note() is None

    async def test_a_failed_note_does_not_block_a_new_one(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        await fail_unclaimed(rig, await queued(rig, customer, recording))
        assert (await load_note_creation(rig, customer, recording)).existing_note is None
        await queued(rig, customer, recording)

    async def test_of_many_requests_at_once_one_makes_the_note(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 500)
        recording = await recorded(rig, customer)
        results = await asyncio.gather(*(ask(rig, customer, recording) for _ in range(8)))
        (note,) = [one for one in results if isinstance(one, Note)]
        refusals = [one for one in results if isinstance(one, Conflict)]
        assert [refusal.details for refusal in refusals] == [{"id": str(note.id)}] * 7
        assert await rig.holds(customer.account_id) == [2]

    async def test_requests_at_once_spend_no_more_than_there_is(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 5)
        wanted = [await recorded(rig, customer) for _ in range(6)]
        results = await asyncio.gather(*(ask(rig, customer, recording, price=2) for recording in wanted))
        assert sum(isinstance(one, Note) for one in results) == 2
        assert sum(isinstance(one, InsufficientCredits) for one in results) == 4
        assert await money(rig, customer) == (5, 4, 0, 4)

    async def test_a_second_note_in_its_place_is_refused_by_the_store_itself(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        note = await queued(rig, customer, recording)
        with pytest.raises(rig.refusal):
            await _queue_unseen(rig, customer, evolve(note, id=new_id()))
        assert await rig.holds(customer.account_id) == [2]

    async def test_a_note_that_failed_before_it_began_emits_an_event_and_is_not_claimed(
        self, rig: StoreRig
    ) -> None:
        customer = await open_customer(rig)
        await register(rig, new_endpoint(customer, EventKind.NOTE_FAILED))
        recording = await recorded(rig, customer)
        note = notes.queue(new_id(), recording, customer.key_id, Language.INDONESIAN, AT)
        failed, _ = notes.fail(note, NoteFault.SHORT_OF_CREDITS)
        async with rig.store.begin() as tx:
            await tx.lock_account(customer.account_id)
            event = note_event(failed, EventKind.NOTE_FAILED)
            assert await tx.notes.save_refused(failed, [event]) == 1
        assert await find_note(rig, failed) == failed
        assert await claim_notes(rig) == []
        assert await rig.holds(customer.account_id) == []
        assert len(await rig.deliveries(customer.account_id)) == 1

    async def test_notes_of_several_recordings_and_languages_stand_side_by_side(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        made = [await queued(rig, customer, recording, language) for language in Language]
        made.append(await queued(rig, customer))
        assert [await find_note(rig, note) for note in made] == made
        assert await money(rig, customer) == (50, 6, 0, 6)

    async def test_a_completed_note_of_another_recording_does_not_block_a_new_one(
        self, rig: StoreRig
    ) -> None:
        customer = await open_customer(rig, 50)
        await completed(rig, customer)
        assert (await load_note_creation(rig, customer, await recorded(rig, customer))).existing_note is None
