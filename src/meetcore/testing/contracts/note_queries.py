"""Reads of recordings and notes in a store: one, or pages of what a customer sees, the newest first."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.notes.notes import Language, Note
from meetcore.domain.notes.recordings import Recording, RecordingStatus, expire
from meetcore.ports.queries import MAX_PAGE, NoteFilter
from meetcore.testing.contracts.note_transactions import (
    claim_notes,
    completed,
    erase,
    fail_unclaimed,
    queued,
    recorded,
)
from meetcore.testing.contracts.recording_transactions import keep_recording, measured, new_recording
from meetcore.testing.contracts.store_rig import QueriesRig
from meetcore.testing.contracts.transactions import Customer, new_id, open_customer


async def _recordings(
    rig: QueriesRig, customer: Customer, meeting_id: UUID | None = None, before: UUID | None = None
) -> list[Recording]:
    found = await rig.queries.list_recordings(customer.account_id, meeting_id, MAX_PAGE, before)
    return list(found)


async def _notes(
    rig: QueriesRig,
    customer: Customer,
    recording_id: UUID | None = None,
    before: UUID | None = None,
    *,
    meeting_id: UUID | None = None,
) -> list[Note]:
    wanted = NoteFilter(recording_id, meeting_id)
    return list(await rig.queries.list_notes(customer.account_id, wanted, MAX_PAGE, before))


@pytest.mark.asyncio
class NoteQueries:
    """A part of `QueriesContract`."""

    @pytest.mark.parametrize("status", list(RecordingStatus))
    async def test_a_recording_is_found_in_any_state_by_its_account_only(
        self, rig: QueriesRig, status: RecordingStatus
    ) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        recording = new_recording(customer, status=status)
        await keep_recording(rig, recording)
        assert await rig.queries.find_recording(customer.account_id, recording.id) == recording
        assert await rig.queries.find_recording(other.account_id, recording.id) is None
        assert await rig.queries.find_recording(customer.account_id, new_id()) is None

    async def test_recordings_are_listed_newest_first_once_they_are_measured(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        made = [measured(new_recording(customer)) for _ in range(4)]
        made[1] = expire(made[1])
        for recording in (*made, new_recording(customer), measured(new_recording(other))):
            await keep_recording(rig, recording)
        assert await _recordings(rig, customer) == made[::-1]
        assert await _recordings(rig, await open_customer(rig)) == []

    async def test_recordings_come_in_pages(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig)
        made = [await recorded(rig, customer) for _ in range(5)][::-1]
        pages: list[Sequence[Recording]] = []
        before: UUID | None = None
        while page := list(await rig.queries.list_recordings(customer.account_id, None, 2, before)):
            pages.append(page)
            before = page[-1].id
        assert pages == [made[:2], made[2:4], made[4:]]

    async def test_the_recording_of_one_meeting_is_listed_alone(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        one, unmeasured = await recorded(rig, customer), new_recording(customer)
        await recorded(rig, customer)
        await keep_recording(rig, unmeasured)
        assert await _recordings(rig, customer, one.meeting_id) == [one]
        assert await _recordings(rig, customer, one.meeting_id, one.id) == []
        assert await _recordings(rig, customer, one.meeting_id, new_id()) == [one]
        assert await _recordings(rig, customer, unmeasured.meeting_id) == []
        assert await _recordings(rig, other, one.meeting_id) == []

    async def test_a_note_is_found_in_any_state_by_its_account_only(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig, 50), await open_customer(rig)

        async def found(note: Note) -> Note | None:
            return await rig.queries.find_note(customer.account_id, note.id)

        note = await queued(rig, customer)
        assert await found(note) == note
        (task,) = await claim_notes(rig)
        assert await found(note) == task.note
        failed = await fail_unclaimed(rig, note)
        assert await found(note) == failed
        done = await completed(rig, customer)
        assert await found(done) == done
        erased = await erase(rig, done)
        assert await found(done) == erased
        assert await rig.queries.find_note(other.account_id, note.id) is None
        assert await found(evolve(note, id=new_id())) is None

    async def test_notes_are_listed_newest_first_but_for_the_erased(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig, 50), await open_customer(rig, 50)
        await erase(rig, await completed(rig, customer))
        first = await completed(rig, customer)
        second = await fail_unclaimed(rig, await queued(rig, customer))
        third = await queued(rig, customer)
        await queued(rig, other)
        assert await _notes(rig, customer) == [third, second, first]

    async def test_notes_come_in_pages(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 50)
        made = [await queued(rig, customer) for _ in range(5)][::-1]
        pages: list[Sequence[Note]] = []
        before: UUID | None = None
        while page := list(await rig.queries.list_notes(customer.account_id, NoteFilter(), 2, before)):
            pages.append(page)
            before = page[-1].id
        assert pages == [made[:2], made[2:4], made[4:]]

    async def test_the_notes_on_one_recording_are_listed_alone(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig, 50), await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        gone = await fail_unclaimed(rig, await queued(rig, customer, recording))
        assert gone is not None
        await erase(rig, gone)
        made = [await queued(rig, customer, recording, language) for language in Language]
        await queued(rig, customer)
        assert await _notes(rig, customer, recording.id) == made[::-1]
        assert await _notes(rig, customer, recording.id, made[1].id) == made[:1]
        found = await rig.queries.list_notes(customer.account_id, NoteFilter(recording.id), 1, None)
        assert list(found) == made[1:]
        assert await _notes(rig, other, recording.id) == []

    async def test_the_notes_of_one_meeting_are_listed_alone(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig, 50), await open_customer(rig, 50)
        recording, another = await recorded(rig, customer), await recorded(rig, customer)
        erased = await fail_unclaimed(rig, await queued(rig, customer, recording))
        assert erased is not None
        await erase(rig, erased)
        made = [await queued(rig, customer, recording, language) for language in Language]
        other_note = await queued(rig, customer, another)
        meeting_id = recording.meeting_id
        assert await _notes(rig, customer, meeting_id=meeting_id) == made[::-1]
        assert await _notes(rig, customer, None, made[1].id, meeting_id=meeting_id) == made[:1]
        wanted = NoteFilter(meeting_id=meeting_id)
        assert list(await rig.queries.list_notes(customer.account_id, wanted, 1, None)) == made[1:]
        assert await _notes(rig, other, meeting_id=meeting_id) == []
        assert await _notes(rig, customer, meeting_id=new_id()) == []
        assert await _notes(rig, customer, recording.id, meeting_id=meeting_id) == made[::-1]
        assert await _notes(rig, customer, another.id, meeting_id=another.meeting_id) == [other_note]
        assert await _notes(rig, customer, another.id, meeting_id=meeting_id) == []
