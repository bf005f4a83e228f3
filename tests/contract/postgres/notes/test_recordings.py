"""Recordings and reads of notes: at most one for each meeting, claimed by one worker, listed in pages."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.notes.notes import Language, Note
from meetcore.domain.notes.recordings import FileKind, Recording, RecordingStatus, expire, removed
from meetcore.domain.notes.views import NoteFilter, RecordingTask
from meetcore.ports.queries import MAX_PAGE
from tests.support.note_transactions import (
    claim_recordings,
    erase,
    fail_unclaimed,
    find_recording,
    keep_recording,
    measured,
    new_recording,
    queued,
    recorded,
)
from tests.support.postgres_rig import PostgresRig
from tests.support.records import new_file
from tests.support.transactions import Customer, new_id, open_customer


async def test_a_recording_is_read_back_as_it_was_written(rig: PostgresRig) -> None:
    recording = new_recording(await open_customer(rig))
    assert await find_recording(rig, recording) is None
    await keep_recording(rig, recording)
    assert await find_recording(rig, recording) == recording


async def test_a_meeting_has_at_most_one_recording(rig: PostgresRig) -> None:
    recording = new_recording(await open_customer(rig))
    await keep_recording(rig, recording)
    with pytest.raises(rig.refusal):
        await keep_recording(rig, evolve(recording, id=new_id()))
    assert await find_recording(rig, recording) == recording


async def test_a_recording_is_found_by_its_own_id_too_by_its_account_only(rig: PostgresRig) -> None:
    recording = new_recording(await open_customer(rig))
    other = await open_customer(rig)
    await keep_recording(rig, recording)
    async with rig.store.begin() as tx:
        assert await tx.recordings.load_by_id(recording.account_id, recording.id) == recording
        assert await tx.recordings.load_by_id(other.account_id, recording.id) is None
        assert await tx.recordings.load_by_id(recording.account_id, recording.meeting_id) is None


async def _renew(rig: PostgresRig, task: RecordingTask, seconds: float) -> bool:
    return await rig.alone.recordings.renew(task, seconds)


async def _postpone(rig: PostgresRig, task: RecordingTask, seconds: float) -> None:
    await rig.alone.recordings.postpone(task, seconds)


async def test_a_measured_recording_is_not_claimed_until_more_is_there(rig: PostgresRig) -> None:
    recording = new_recording(await open_customer(rig))
    await keep_recording(rig, recording)
    (task,) = await claim_recordings(rig, seconds=-1)
    done = measured(recording)
    await keep_recording(rig, done)
    assert await claim_recordings(rig) == []
    assert not await _renew(rig, task, -1)
    await _postpone(rig, task, -1)
    assert await claim_recordings(rig) == []
    done = evolve(done, files=(*done.files, new_file("a3", kind=FileKind.TRANSCRIPT)))
    await keep_recording(rig, done)
    assert await claim_recordings(rig) == [], "a transcript alone is no work"
    later = new_file("b1", starts_at=rig.now(), ends_at=rig.now() + timedelta(minutes=1))
    more = evolve(done, files=(*done.files, later))
    await keep_recording(rig, more)
    (task,) = await claim_recordings(rig)
    assert (task.recording, task.tries) == (more, 1), "the first try since the last success"


async def test_an_expired_recording_is_due_at_once_even_when_claimed(rig: PostgresRig) -> None:
    recording = new_recording(await open_customer(rig))
    await keep_recording(rig, recording)
    (measuring,) = await claim_recordings(rig)
    await keep_recording(rig, expire(recording))
    assert not await _renew(rig, measuring, 60)
    (removing,) = await claim_recordings(rig)
    assert (removing.recording, removing.tries) == (expire(recording), 1)
    await keep_recording(rig, expire(recording))
    assert await _renew(rig, removing, 60), "a second deletion leaves its lease"
    await keep_recording(rig, removed(expire(recording), [file.provider_file_id for file in recording.files]))
    assert await claim_recordings(rig) == []
    assert not await _renew(rig, removing, 60)


async def test_one_that_waits_for_its_provider_expires_at_once_all_the_same(rig: PostgresRig) -> None:
    recording = new_recording(await open_customer(rig))
    await keep_recording(rig, recording)
    (task,) = await claim_recordings(rig)
    await _postpone(rig, task, 3600)
    await keep_recording(rig, expire(recording))
    assert [task.recording for task in await claim_recordings(rig)] == [expire(recording)]


async def test_a_lease_is_kept_and_lost_to_the_next(rig: PostgresRig) -> None:
    await keep_recording(rig, new_recording(await open_customer(rig)))
    (expired,) = await claim_recordings(rig, seconds=-1)
    assert await _renew(rig, expired, 60)
    assert await claim_recordings(rig) == []
    assert await _renew(rig, expired, -1)
    (task,) = await claim_recordings(rig)
    assert (expired.tries, task.tries) == (1, 2)
    assert not await _renew(rig, expired, -1)
    await _postpone(rig, expired, -1)
    assert await claim_recordings(rig) == []


async def test_the_longest_due_recordings_come_first_up_to_the_limit(rig: PostgresRig) -> None:
    customer = await open_customer(rig)
    made = [new_recording(customer) for _ in range(3)]
    for recording in made:
        await keep_recording(rig, recording)
    for task, seconds in zip(await claim_recordings(rig), (-10, -30, -20), strict=True):
        await _postpone(rig, task, seconds)
    first = await claim_recordings(rig, 2)
    assert {task.recording.id for task in first} == {made[1].id, made[2].id}
    assert [task.recording.id for task in await claim_recordings(rig, 2)] == [made[0].id]


async def test_recordings_are_shared_by_claimers_at_once(rig: PostgresRig, customer: Customer) -> None:
    for _ in range(9):
        await keep_recording(rig, new_recording(customer))
    found = await asyncio.gather(*(claim_recordings(rig, 3) for _ in range(5)))
    found.append(await claim_recordings(rig))
    taken = [task.recording.id for tasks in found for task in tasks]
    assert len(taken) == len(set(taken)) == 9


async def test_what_is_past_its_retention_is_found_the_oldest_first(rig: PostgresRig) -> None:
    customer, now = await open_customer(rig), rig.now()

    def kept_until(seconds: float, status: RecordingStatus = RecordingStatus.AVAILABLE) -> Recording:
        expires_at = now + timedelta(seconds=seconds)
        return evolve(measured(new_recording(customer)), expires_at=expires_at, status=status)

    recent, old = kept_until(-1), kept_until(-60)
    unmeasured = evolve(new_recording(customer), expires_at=now - timedelta(seconds=30))
    for recording in (recent, kept_until(60), old, kept_until(-90, RecordingStatus.EXPIRED), unmeasured):
        await keep_recording(rig, recording)
    async with rig.store.begin() as tx:
        found = list(await tx.recordings.find_outlived(10))
        assert found == [_name(one) for one in (old, unmeasured, recent)]
        assert list(await tx.recordings.find_outlived(1)) == [_name(old)]
    await keep_recording(rig, expire(old))
    assert await find_recording(rig, old) == expire(old)
    assert list(await rig.alone.recordings.find_outlived(10)) == [_name(one) for one in (unmeasured, recent)]


def _name(recording: Recording) -> tuple[UUID, UUID]:
    return recording.account_id, recording.meeting_id


async def _recordings(
    rig: PostgresRig, customer: Customer, meeting_id: UUID | None = None, before: UUID | None = None
) -> list[Recording]:
    found = await rig.queries.list_recordings(customer.account_id, meeting_id, MAX_PAGE, before)
    return list(found)


async def _notes(
    rig: PostgresRig,
    customer: Customer,
    recording_id: UUID | None = None,
    before: UUID | None = None,
    *,
    meeting_id: UUID | None = None,
) -> list[Note]:
    wanted = NoteFilter(recording_id, meeting_id)
    return list(await rig.queries.list_notes(customer.account_id, wanted, MAX_PAGE, before))


async def test_the_recording_of_one_meeting_is_listed_alone(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig), await open_customer(rig)
    one, unmeasured = await recorded(rig, customer), new_recording(customer)
    await recorded(rig, customer)
    await keep_recording(rig, unmeasured)
    assert await _recordings(rig, customer, one.meeting_id) == [one]
    assert await _recordings(rig, customer, one.meeting_id, one.id) == []
    assert await _recordings(rig, customer, one.meeting_id, new_id()) == [one]
    assert await _recordings(rig, customer, unmeasured.meeting_id) == []
    assert await _recordings(rig, other, one.meeting_id) == []


async def test_the_notes_of_one_meeting_are_listed_alone(rig: PostgresRig) -> None:
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
