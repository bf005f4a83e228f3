"""Removal of meetings, recordings and notes that are past their retention."""

import asyncio
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.ids import instant_of
from meetcore.domain.meetings.meetings import Meeting, MeetingEvent, transition
from meetcore.domain.notes.recordings import Recording, RecordingStatus, expire
from meetcore.ports.queries import MeetingFilter, NoteFilter
from meetcore.ports.retention import Removal
from meetcore.testing.contracts.note_transactions import (
    claim_notes,
    completed,
    erase,
    fail_unclaimed,
    queued,
    recorded,
)
from meetcore.testing.contracts.recording_transactions import keep_recording
from meetcore.testing.contracts.store_rig import RetentionRig
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    MeetingSpec,
    abandon,
    new_host,
    open_customer,
    reserved,
    scheduled,
)

LATER = AT + timedelta(days=10_000)
"""When everything that the suite makes is past its retention."""


@pytest.mark.asyncio
class RetentionStoreContract:
    """What `ports.retention.RetentionStore` promises."""

    async def test_notes_that_are_over_are_removed_and_stay_known_as_removed(self, rig: RetentionRig) -> None:
        customer = await open_customer(rig, 100)
        over = [await completed(rig, customer), await erase(rig, await completed(rig, customer))]
        given_up = await queued(rig, customer)
        assert await fail_unclaimed(rig, given_up) is not None
        assert await rig.retention.remove_notes(LATER) == Removal(3, is_over=True)
        for note in (*over, given_up):
            assert await rig.queries.find_note(customer.account_id, note.id) is None
            assert await _is_known(rig, customer, note.id)
        assert await rig.queries.list_notes(customer.account_id, NoteFilter(), 10, None) == []

    async def test_notes_in_progress_stay(self, rig: RetentionRig) -> None:
        customer = await open_customer(rig, 100)
        waiting = await queued(rig, customer)
        await claim_notes(rig, 1)
        queued_note = await queued(rig, customer)
        assert await rig.retention.remove_notes(LATER) == Removal(0, is_over=True)
        for note in (waiting, queued_note):
            assert await rig.queries.find_note(customer.account_id, note.id) is not None
            assert not await _is_known(rig, customer, note.id)

    async def test_notes_that_are_not_past_their_retention_stay(self, rig: RetentionRig) -> None:
        customer = await open_customer(rig, 100)
        first, second = await completed(rig, customer), await completed(rig, customer)
        assert await rig.retention.remove_notes(_made_at(second.id)) == Removal(1, is_over=True)
        assert await rig.queries.find_note(customer.account_id, first.id) is None
        assert await rig.queries.find_note(customer.account_id, second.id) == second

    async def test_a_round_goes_on_where_it_stopped(self, rig: RetentionRig) -> None:
        customer = await open_customer(rig, 100)
        for _ in range(3):
            await completed(rig, customer)
        assert await rig.retention.remove_notes(LATER, 2) == Removal(2, is_over=False)
        assert await rig.retention.remove_notes(LATER, 2) == Removal(1, is_over=True)
        assert await rig.retention.remove_notes(LATER, 2) is None, "the next round is not due"
        await rig.begin_rounds()
        assert await rig.retention.remove_notes(LATER, 2) == Removal(0, is_over=True)

    async def test_a_round_passes_what_stays_and_finds_it_in_the_next_one(self, rig: RetentionRig) -> None:
        customer = await open_customer(rig, 100)
        waiting = await queued(rig, customer)
        for _ in range(2):
            await claim_notes(rig)
        assert await rig.retention.remove_notes(LATER, 1) == Removal(0, is_over=False)
        assert await rig.retention.remove_notes(LATER, 1) == Removal(0, is_over=True)
        await fail_unclaimed(rig, waiting)
        await rig.begin_rounds()
        assert await rig.retention.remove_notes(LATER, 1) == Removal(1, is_over=False)

    async def test_several_processes_remove_each_record_once(self, rig: RetentionRig) -> None:
        customer = await open_customer(rig, 100)
        for _ in range(6):
            await completed(rig, customer)
        removed = 0
        while removed < 6:
            found = await asyncio.gather(*(rig.retention.remove_notes(LATER, 1) for _ in range(4)))
            removed += sum(each.removed for each in found if each is not None)
        assert removed == 6

    async def test_a_round_in_progress_has_an_age(self, rig: RetentionRig) -> None:
        customer = await open_customer(rig, 100)
        for _ in range(2):
            await completed(rig, customer)
        assert dict((await rig.figures.read()).retention_rounds_s) == {"notes": 0, "meetings": 0}
        await rig.retention.remove_notes(LATER, 1)
        assert 0 <= (await rig.figures.read()).retention_rounds_s["notes"] < 60
        await rig.retention.remove_notes(LATER, 5)
        assert (await rig.figures.read()).retention_rounds_s["notes"] == 0

    async def test_a_meeting_goes_with_its_recording_and_leaves_the_ledger(self, rig: RetentionRig) -> None:
        customer = await _customer(rig)
        meeting = await _over(rig, customer)
        recording = await _recorded(rig, customer, meeting)
        entries = await rig.entries(customer.account_id)
        assert await rig.retention.remove_meetings(LATER) == Removal(1, is_over=True)
        assert await rig.queries.find_meeting(customer.account_id, meeting.id) is None
        assert await rig.queries.find_recording(customer.account_id, recording.id) is None
        assert await rig.queries.list_meetings(customer.account_id, MeetingFilter(AT), 10, None) == []
        assert await _is_known(rig, customer, meeting.id)
        assert await _is_known(rig, customer, recording.id)
        assert await rig.entries(customer.account_id) == entries
        assert str(meeting.id) in {entry.transfer.reference.id for entry in entries}

    async def test_a_meeting_of_another_account_is_not_known_as_removed(self, rig: RetentionRig) -> None:
        customer, other = await _customer(rig), await open_customer(rig)
        meeting = await _over(rig, customer)
        await rig.retention.remove_meetings(LATER)
        assert await _is_known(rig, customer, meeting.id)
        assert not await _is_known(rig, other, meeting.id)

    async def test_a_creation_that_was_given_up_is_removed_as_if_it_never_was(
        self, rig: RetentionRig
    ) -> None:
        customer = await _customer(rig)
        made = await reserved(rig, customer, MeetingSpec())
        assert await abandon(rig, made)
        assert await rig.retention.remove_meetings(LATER) == Removal(1, is_over=True)
        assert await rig.queries.find_meeting(customer.account_id, made.meeting.id) is None
        assert not await _is_known(rig, customer, made.meeting.id)

    async def test_meetings_that_ended_later_or_not_at_all_stay(self, rig: RetentionRig) -> None:
        customer = await _customer(rig)
        ended = await _over(rig, customer)
        to_come = await scheduled(rig, customer, MeetingSpec(ended.end_at))
        await reserved(rig, customer, MeetingSpec(ended.end_at + timedelta(hours=2)))
        assert await rig.retention.remove_meetings(ended.end_at) == Removal(0, is_over=True)
        await rig.begin_rounds()
        assert await rig.retention.remove_meetings(LATER) == Removal(1, is_over=True)
        assert await rig.queries.find_meeting(customer.account_id, to_come.id) is not None

    async def test_a_meeting_stays_until_its_recording_is_expired_and_removed(
        self, rig: RetentionRig
    ) -> None:
        customer = await _customer(rig)
        meeting = await _over(rig, customer)
        recording = await recorded(rig, customer, meeting_id=meeting.id)
        assert await rig.retention.remove_meetings(LATER) == Removal(0, is_over=True)
        await keep_recording(rig, expire(recording))  # its files are still to be removed at the provider
        await rig.begin_rounds()
        assert await rig.retention.remove_meetings(LATER) == Removal(0, is_over=True)

    async def test_a_meeting_stays_until_its_notes_are_gone(self, rig: RetentionRig) -> None:
        customer = await _customer(rig)
        meeting = await _over(rig, customer)
        recording = await recorded(rig, customer, meeting_id=meeting.id)
        note = await queued(rig, customer, recording)
        await fail_unclaimed(rig, note)
        await _expired(rig, recording)
        assert await rig.retention.remove_meetings(LATER) == Removal(0, is_over=True)
        assert await rig.retention.remove_notes(LATER) == Removal(1, is_over=True)
        await rig.begin_rounds()
        assert await rig.retention.remove_meetings(LATER) == Removal(1, is_over=True)

    async def test_a_meeting_stays_while_its_recording_is_looked_for_or_orphans_are(
        self, rig: RetentionRig
    ) -> None:
        customer = await _customer(rig)
        meeting = await _over(rig, customer)
        async with rig.store.begin() as tx:
            await tx.meetings.schedule_next_check(meeting, 60.0)
        doubtful = await scheduled(rig, customer, MeetingSpec(meeting.end_at, orphan_window_s=60.0))
        await _end(rig, doubtful)
        assert await rig.retention.remove_meetings(LATER) == Removal(0, is_over=True)


async def _is_known(rig: RetentionRig, customer: Customer, record_id: UUID) -> bool:
    """Whether both queries and transactions know that it was removed."""
    async with rig.store.begin() as tx:
        inside = await tx.was_removed(customer.account_id, record_id)
    assert inside == await rig.queries.was_removed(customer.account_id, record_id)
    return inside


async def _customer(rig: RetentionRig) -> Customer:
    await rig.put_hosts(evolve(new_host(max_concurrent=9), provider_user_id="host-9"))
    return await open_customer(rig, 100)


async def _end(rig: RetentionRig, meeting: Meeting) -> None:
    async with rig.store.begin() as tx:
        ended = evolve(meeting, status=transition(meeting.status, MeetingEvent.END))
        await tx.lock_account(meeting.account_id)
        await tx.meetings.save_lifecycle(ended, [], invalidates_host_key=False)
        await tx.meetings.schedule_next_check(ended, None)


async def _over(rig: RetentionRig, customer: Customer) -> Meeting:
    """A meeting that has ended, and of which nothing is left to do."""
    meeting = await scheduled(rig, customer)
    await _end(rig, meeting)
    return meeting


async def _expired(rig: RetentionRig, recording: Recording) -> None:
    """End a recording, and remove its files at the provider."""
    gone = evolve(recording, status=RecordingStatus.EXPIRED, files=())
    await keep_recording(rig, gone)


async def _recorded(rig: RetentionRig, customer: Customer, meeting: Meeting) -> Recording:
    """A recording of a meeting that is expired, its files removed."""
    recording = await recorded(rig, customer, meeting_id=meeting.id)
    await _expired(rig, recording)
    return recording


def _made_at(id_: UUID) -> datetime:
    made_at = instant_of(id_)
    assert made_at is not None
    return made_at
