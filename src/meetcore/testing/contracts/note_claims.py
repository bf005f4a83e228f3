"""Who works on which note, in a store: one worker on a note, one note of a recording, so many in all."""

import asyncio
from collections import Counter

import pytest
from attrs import evolve

from meetcore.domain.notes.notes import Language, NoteStatus, NoteStep
from meetcore.domain.notes.recordings import FileKind
from meetcore.ports.notes import NoteTask
from meetcore.testing.contracts.note_transactions import (
    claim_notes,
    fail_unclaimed,
    find_note,
    give_up,
    queued,
    recorded,
    settle,
    written,
)
from meetcore.testing.contracts.provider_event_inbox import new_file
from meetcore.testing.contracts.recording_transactions import keep_recording
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import open_customer


async def _renew(rig: StoreRig, task: NoteTask, seconds: float) -> bool:
    async with rig.store.begin() as tx:
        return await tx.notes.renew(task, seconds)


async def _is_any_overdue(rig: StoreRig, seconds: float) -> bool:
    async with rig.store.at_once() as tx:
        return await tx.notes.is_any_overdue(seconds)


async def _postpone(rig: StoreRig, task: NoteTask, seconds: float) -> bool:
    async with rig.store.begin() as tx:
        return await tx.notes.postpone(task, task.note, seconds)


@pytest.mark.asyncio
class NoteClaimsContract:
    """Notes that are due. A part of `NoteRepositoryContract`."""

    async def test_a_claimed_note_is_in_process_and_comes_with_its_recording(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        note = await queued(rig, customer, recording)
        (task,) = await claim_notes(rig)
        processing = evolve(note, status=NoteStatus.PROCESSING)
        assert task == NoteTask(task.token, processing, recording, 0)
        assert await find_note(rig, note) == processing
        assert str(task.token) not in repr(task)

    async def test_a_note_or_a_recording_that_nobody_takes_is_overdue(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        assert not await _is_any_overdue(rig, -1)
        await queued(rig, customer, recording)
        assert await _is_any_overdue(rig, -1)
        assert not await _is_any_overdue(rig, 30)
        await claim_notes(rig, seconds=60)
        assert not await _is_any_overdue(rig, -1), "until its lease runs out"
        await recorded(rig, customer, files=(new_file(),))
        assert await _is_any_overdue(rig, -1), "a file that is not measured"

    async def test_a_claimed_note_is_not_claimed_again_during_the_lease(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        assert len(await claim_notes(rig)) == 1
        assert await claim_notes(rig) == []

    async def test_a_claim_returns_the_recording_as_it_is_at_that_moment(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        await queued(rig, customer, recording)
        transcript = new_file("a3", kind=FileKind.TRANSCRIPT)
        more = evolve(recording, files=(*recording.files, transcript))
        await keep_recording(rig, more)
        (task,) = await claim_notes(rig)
        assert task.recording == more

    async def test_notes_are_claimed_in_the_order_they_were_requested(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        made = [(await queued(rig, customer)).id for _ in range(4)]
        assert [task.note.id for task in await claim_notes(rig, 3)] == made[:3]
        assert [task.note.id for task in await claim_notes(rig, 3)] == made[3:]

    async def test_a_dead_workers_note_is_taken_over_and_its_expiration_is_counted(
        self, rig: StoreRig
    ) -> None:
        note = await queued(rig, await open_customer(rig, 50))
        expirations = [(await claim_notes(rig, seconds=-1))[0].lease_expirations for _ in range(3)]
        (task,) = await claim_notes(rig)
        assert (expirations, task.lease_expirations, task.note.id) == ([0, 1, 2], 3, note.id)

    async def test_a_lost_lease_writes_nothing(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        note = await queued(rig, customer)
        (expired,) = await claim_notes(rig, seconds=-1)
        (task,) = await claim_notes(rig)
        changed = evolve(written(expired.note), tries=5)
        async with rig.store.begin() as tx:
            assert not await tx.notes.renew(expired, 60)
            assert not await tx.notes.save_step(expired, changed)
            assert not await tx.notes.postpone(expired, changed, 0)
            assert not await tx.notes.save_transcript_chunk(expired, "s", 0, ())
            assert await tx.notes.load_settlement(note.account_id, note.id, expired.token) is None
            assert await tx.notes.load_transcript_chunks(task, "s") == {}
        assert await settle(rig, expired) is None
        assert await give_up(rig, expired) is None
        assert await find_note(rig, note) == task.note
        assert await claim_notes(rig) == []
        assert await settle(rig, task) is not None

    async def test_an_expired_lease_stays_with_its_owner_until_it_is_taken_over(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig, seconds=-1)
        assert await _renew(rig, task, 60)
        assert await claim_notes(rig) == []
        assert await _renew(rig, task, -1)
        assert len(await claim_notes(rig)) == 1
        assert not await _renew(rig, task, 60)

    async def test_a_released_note_is_claimed_when_it_is_due_and_no_expiration_is_counted(
        self, rig: StoreRig
    ) -> None:
        note = await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig)
        tried = evolve(task, note=evolve(task.note, tries=3))
        assert await _postpone(rig, tried, 60)
        assert await find_note(rig, note) == tried.note
        assert await claim_notes(rig) == []
        assert not await _renew(rig, task, 60), "it has no lease"
        assert not await _postpone(rig, task, -1)

    async def test_a_note_that_was_given_back_and_is_due_again_is_a_claim_like_any_other(
        self, rig: StoreRig
    ) -> None:
        await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig)
        assert await _postpone(rig, evolve(task, note=evolve(task.note, tries=3)), -1)
        (again,) = await claim_notes(rig)
        assert (again.note.tries, again.lease_expirations) == (3, 0)

    async def test_a_finished_note_is_not_claimed(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        for _ in range(3):
            await queued(rig, customer)
        done, failed, gone = await claim_notes(rig, seconds=-1)
        assert await settle(rig, done)
        assert await give_up(rig, failed)
        assert await fail_unclaimed(rig, gone.note)
        assert await claim_notes(rig) == []
        for task in (done, failed, gone):
            assert not await _renew(rig, task, 60)
            assert not await _postpone(rig, task, 0)

    async def test_no_more_are_in_progress_than_there_may_be(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        for _ in range(5):
            await queued(rig, customer)
        taken = await claim_notes(rig, in_flight=2)
        assert len(taken) == 2
        assert await claim_notes(rig, in_flight=2) == []
        assert len(await claim_notes(rig, in_flight=3)) == 1
        assert await claim_notes(rig, in_flight=1) == []
        assert await settle(rig, taken[0])
        assert len(await claim_notes(rig, in_flight=3)) == 1
        assert await claim_notes(rig, limit=0) == []

    async def test_a_dead_worker_uses_no_slot(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        for _ in range(2):
            await queued(rig, customer)
        assert len(await claim_notes(rig, in_flight=2, seconds=-1)) == 2
        assert len(await claim_notes(rig, in_flight=2)) == 2

    async def test_a_waiting_note_uses_no_slot(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        for _ in range(2):
            await queued(rig, customer)
        (task,) = await claim_notes(rig, in_flight=1)
        assert await _postpone(rig, task, 60)
        (other,) = await claim_notes(rig, in_flight=1)
        assert other.note.id != task.note.id

    async def test_of_one_recording_one_note_is_made_at_a_time(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        made = [await queued(rig, customer, recording, language) for language in Language]
        taken = await claim_notes(rig)
        assert [task.note.id for task in taken] == [made[0].id]
        assert await claim_notes(rig) == []
        assert await settle(rig, taken[0])
        assert [task.note.id for task in await claim_notes(rig)] == [made[1].id]

    async def test_of_two_notes_whose_workers_died_one_is_taken_over(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        for language in Language:
            await queued(rig, customer, recording, language)
        assert len(await claim_notes(rig, seconds=-1)) == 1
        assert len(await claim_notes(rig, seconds=-1)) == 1
        assert len(await claim_notes(rig)) == 1
        assert await claim_notes(rig) == []

    async def test_the_account_with_the_least_in_progress_comes_first(self, rig: StoreRig) -> None:
        busy, waiting = await open_customer(rig, 50), await open_customer(rig, 50)
        for _ in range(4):
            await queued(rig, busy)
        late = [await queued(rig, waiting) for _ in range(2)]
        taken = await claim_notes(rig, 2)
        assert [task.note.account_id for task in taken] == [busy.account_id, waiting.account_id]
        (third,) = await claim_notes(rig, 1)
        assert third.note.account_id == busy.account_id, "as much in progress, and asked for earlier"
        (fourth,) = await claim_notes(rig, 1)
        assert fourth.note.id == late[1].id

    async def test_claimers_at_once_share_what_is_due_and_keep_the_bound(self, rig: StoreRig) -> None:
        customers = [await open_customer(rig, 50) for _ in range(3)]
        for customer in customers:
            for _ in range(2):
                recording = await recorded(rig, customer)
                for language in Language:
                    await queued(rig, customer, recording, language)
        found = await asyncio.gather(*(claim_notes(rig, 3, in_flight=5) for _ in range(6)))
        taken = [task for tasks in found for task in tasks]
        assert len(taken) == 5, "twelve are due, of six recordings"
        assert len({task.note.id for task in taken}) == 5
        assert len({task.recording.id for task in taken}) == 5
        by_account = Counter(task.note.account_id for task in taken)
        assert sorted(by_account.values()) == [1, 2, 2]
        more = await asyncio.gather(*(claim_notes(rig, 3, in_flight=99) for _ in range(6)))
        assert len({task.recording.id for tasks in [*found, *more] for task in tasks}) == 6
        assert sum(map(len, [*found, *more])) == 6

    async def test_a_note_whose_end_is_being_written_is_not_taken_over(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        note = await queued(rig, customer)
        (task,) = await claim_notes(rig, seconds=-1)
        ended, taken = await asyncio.gather(settle(rig, task), claim_notes(rig))
        assert (ended is None) == bool(taken)
        assert (await find_note(rig, note)).status is (
            NoteStatus.PROCESSING if taken else NoteStatus.COMPLETED
        )

    async def test_the_next_worker_goes_on_where_the_last_one_stopped(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig, seconds=-1)
        for step in (NoteStep.TRANSCRIBE, NoteStep.WRITE):
            note = evolve(written(task.note), step=step, duration_s=77, tries=1, draft=None)
            async with rig.store.begin() as tx:
                assert await tx.notes.save_step(task, note)
            (task,) = await claim_notes(rig, seconds=-1)
            assert task.note == note
        async with rig.store.begin() as tx:
            assert await tx.notes.save_step(task, written(task.note))
        (task,) = await claim_notes(rig)
        assert task.note == written(task.note)
