"""Claims of notes: one worker on a note, one note of a recording, a bound on all of them."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from attrs import evolve

from meetcore.domain.notes.notes import Language, NoteStatus, NoteStep, Original
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.domain.notes.views import NoteTask
from tests.support.note_transactions import (
    TRANSCRIPT,
    claim_notes,
    find_note,
    give_up,
    queued,
    recorded,
    settle,
    written,
)
from tests.support.postgres_rig import PostgresRig
from tests.support.records import new_file
from tests.support.transactions import open_customer


async def _is_any_overdue(rig: PostgresRig, seconds: float) -> bool:
    async with rig.store.at_once() as tx:
        return await tx.notes.is_any_overdue(seconds)


async def _postpone(rig: PostgresRig, task: NoteTask, seconds: float) -> bool:
    return await rig.alone.notes.postpone(task, task.note, seconds)


async def test_a_note_or_a_recording_that_nobody_takes_is_overdue(rig: PostgresRig) -> None:
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


async def test_notes_are_claimed_in_the_order_they_were_requested(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    made = [(await queued(rig, customer)).id for _ in range(4)]
    assert [task.note.id for task in await claim_notes(rig, 3)] == made[:3]
    assert [task.note.id for task in await claim_notes(rig, 3)] == made[3:]


async def test_a_lost_lease_writes_nothing(rig: PostgresRig) -> None:
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


async def test_notes_that_wait_for_a_transcript_are_woken_and_no_others(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    recording, other = await recorded(rig, customer), await recorded(rig, customer)
    waiting = await queued(rig, customer, recording)
    (task,) = await claim_notes(rig)
    assert await _postpone(rig, task, 60)
    await queued(rig, customer, other)
    (task,) = await claim_notes(rig)
    assert await _postpone(rig, task, 60)
    written_one = await queued(rig, customer, recording, Language.ENGLISH)
    (task,) = await claim_notes(rig)
    assert await rig.alone.notes.postpone(task, evolve(task.note, step=NoteStep.WRITE), 60)
    await rig.alone.notes.wake(recording)
    (task,) = await claim_notes(rig)
    assert task.note.id == waiting.id != written_one.id
    await rig.alone.notes.wake(recording)
    assert await claim_notes(rig) == [], "it is in the hands of a worker"


async def test_a_corrected_note_is_written_with_its_original(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    await queued(rig, customer)
    (task,) = await claim_notes(rig)
    done = await settle(rig, task)
    assert done is not None
    note = await find_note(rig, task.note)
    assert note is not None
    assert note.draft is not None
    edited = evolve(
        note,
        draft=evolve(note.draft, summary="Lain"),
        original=Original(note.draft, note.transcript),
        edited_at=rig.now(),
    )
    async with rig.store.begin() as tx:
        await tx.lock_account(note.account_id)
        assert await tx.notes.load(note.account_id, note.id) == note
        assert await tx.notes.load(note.id, note.id) is None
        await tx.notes.save_edited(edited)
    assert await find_note(rig, note) == edited


async def test_no_more_are_in_progress_than_there_may_be(rig: PostgresRig) -> None:
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


async def test_a_dead_worker_and_a_waiting_note_use_no_slot(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    for _ in range(2):
        await queued(rig, customer)
    assert len(await claim_notes(rig, in_flight=2, seconds=-1)) == 2
    (task,) = await claim_notes(rig, in_flight=1)
    assert await _postpone(rig, task, 60)
    (other,) = await claim_notes(rig, in_flight=1)
    assert other.note.id != task.note.id


async def test_of_two_notes_whose_workers_died_one_is_taken_over(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    recording = await recorded(rig, customer)
    for language in Language:
        await queued(rig, customer, recording, language)
    assert len(await claim_notes(rig, seconds=-1)) == 1
    assert len(await claim_notes(rig, seconds=-1)) == 1
    assert len(await claim_notes(rig)) == 1
    assert await claim_notes(rig) == []


async def test_the_account_with_the_least_in_progress_comes_first(rig: PostgresRig) -> None:
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


async def test_claimers_at_once_share_what_is_due_and_keep_the_bound(rig: PostgresRig) -> None:
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


async def test_a_note_whose_end_is_being_written_is_not_taken_over(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    note = await queued(rig, customer)
    (task,) = await claim_notes(rig, seconds=-1)
    ended, taken = await asyncio.gather(settle(rig, task), claim_notes(rig))
    assert (ended is None) == bool(taken)
    assert (await find_note(rig, note)).status is (NoteStatus.PROCESSING if taken else NoteStatus.COMPLETED)


OTHER = (Utterance(0.1, 0.2, "lain"),)


async def _load(rig: PostgresRig, task: NoteTask, source: str = "one") -> Mapping[int, Transcript]:
    return await rig.alone.notes.load_transcript_chunks(task, source)


async def _save(
    rig: PostgresRig, task: NoteTask, piece: int, transcript: Transcript = TRANSCRIPT, source: str = "one"
) -> bool:
    return await rig.alone.notes.save_transcript_chunk(task, source, piece, transcript)


async def test_each_recording_has_its_own_transcript_and_is_erased_alone(rig: PostgresRig) -> None:
    for customer in (await open_customer(rig, 50), await open_customer(rig, 50)):
        for _ in range(2):
            await queued(rig, customer)
    first, *others = await claim_notes(rig)
    assert len(others) == 3
    assert await _save(rig, first, 0)
    assert await _save(rig, first, 0, OTHER, "another")
    assert [await _load(rig, task) for task in others] == [{}, {}, {}]
    for task in others:
        assert await _save(rig, task, 0, OTHER)
    async with rig.store.begin() as tx:
        await tx.lock_account(first.note.account_id)
        await tx.notes.delete_transcript_chunks(first.note.account_id, first.recording.id)
    assert (await _load(rig, first), await _load(rig, first, "another")) == ({}, {})
    assert [await _load(rig, task) for task in others] == [{0: OTHER}] * 3
