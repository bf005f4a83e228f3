"""Which recordings are due for a check at the provider, in a store: under a lease, one worker each."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.notes.recordings import FileKind, Recording, RecordingStatus, expire, removed
from meetcore.ports.recordings import RecordingTask
from meetcore.testing.contracts.provider_event_inbox import new_file
from meetcore.testing.contracts.recording_transactions import (
    claim_recordings,
    find_recording,
    keep_recording,
    measured,
    new_recording,
)
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import open_customer


async def _renew(rig: StoreRig, task: RecordingTask, seconds: float) -> bool:
    async with rig.store.begin() as tx:
        return await tx.recordings.renew(task, seconds)


async def _postpone(rig: StoreRig, task: RecordingTask, seconds: float) -> None:
    async with rig.store.begin() as tx:
        await tx.recordings.postpone(task, seconds)


@pytest.mark.asyncio
class RecordingWorkContract:
    """Recordings that are due. A part of `RecordingRepositoryContract`."""

    async def test_a_new_recording_is_due_at_once_to_one_worker(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        await keep_recording(rig, recording)
        (task,) = await claim_recordings(rig)
        assert task == RecordingTask(task.token, recording, 1)
        assert str(task.token) not in repr(task)
        assert await claim_recordings(rig) == []

    async def test_a_measured_recording_is_not_claimed_until_more_is_there(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        await keep_recording(rig, recording)
        (task,) = await claim_recordings(rig, seconds=-1)
        done = measured(recording)
        await keep_recording(rig, done)
        assert await claim_recordings(rig) == []
        assert not await _renew(rig, task, -1)
        await _postpone(rig, task, -1)
        assert await claim_recordings(rig) == []
        later = new_file("b1", starts_at=rig.now(), ends_at=rig.now() + timedelta(minutes=1))
        more = evolve(done, files=(*done.files, later))
        await keep_recording(rig, more)
        (task,) = await claim_recordings(rig)
        assert (task.recording, task.tries) == (more, 1), "the first try since the last success"

    async def test_a_transcript_alone_is_no_work(self, rig: StoreRig) -> None:
        done = measured(new_recording(await open_customer(rig)))
        await keep_recording(rig, done)
        await keep_recording(rig, evolve(done, files=(*done.files, new_file("a3", kind=FileKind.TRANSCRIPT))))
        assert await claim_recordings(rig) == []

    async def test_an_expired_recording_is_due_at_once_even_when_claimed(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        await keep_recording(rig, recording)
        (measuring,) = await claim_recordings(rig)
        await keep_recording(rig, expire(recording))
        assert not await _renew(rig, measuring, 60)
        (removing,) = await claim_recordings(rig)
        assert (removing.recording, removing.tries) == (expire(recording), 1)
        await keep_recording(rig, expire(recording))
        assert await _renew(rig, removing, 60), "a second deletion leaves its lease"
        await keep_recording(
            rig, removed(expire(recording), [file.provider_file_id for file in recording.files])
        )
        assert await claim_recordings(rig) == []
        assert not await _renew(rig, removing, 60)

    async def test_one_that_waits_for_its_provider_expires_at_once_all_the_same(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        await keep_recording(rig, recording)
        (task,) = await claim_recordings(rig)
        await _postpone(rig, task, 3600)
        await keep_recording(rig, expire(recording))
        assert [task.recording for task in await claim_recordings(rig)] == [expire(recording)]

    async def test_files_that_come_while_it_is_measured_leave_the_worker_at_it(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        await keep_recording(rig, recording)
        (task,) = await claim_recordings(rig)
        more = evolve(recording, files=(*recording.files, new_file("a9")))
        await keep_recording(rig, more)
        assert await claim_recordings(rig) == []
        assert await _renew(rig, task, -1)
        (again,) = await claim_recordings(rig)
        assert (again.recording, again.tries, again.had_expired_lease) == (more, 2, True)

    async def test_a_lease_is_kept_and_lost_to_the_next(self, rig: StoreRig) -> None:
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

    async def test_what_is_given_back_comes_when_it_is_due(self, rig: StoreRig) -> None:
        await keep_recording(rig, new_recording(await open_customer(rig)))
        (task,) = await claim_recordings(rig)
        await _postpone(rig, task, 60)
        assert await claim_recordings(rig) == []
        assert not await _renew(rig, task, -1)
        await _postpone(rig, task, -1)
        assert await claim_recordings(rig) == [], "it was given back once"

    async def test_the_longest_due_recordings_come_first_up_to_the_limit(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        made = [new_recording(customer) for _ in range(3)]
        for recording in made:
            await keep_recording(rig, recording)
        for task, seconds in zip(await claim_recordings(rig), (-10, -30, -20), strict=True):
            await _postpone(rig, task, seconds)
        first = await claim_recordings(rig, 2)
        assert {task.recording.id for task in first} == {made[1].id, made[2].id}
        assert [task.recording.id for task in await claim_recordings(rig, 2)] == [made[0].id]

    async def test_recordings_are_shared_by_claimers_at_once(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        for _ in range(9):
            await keep_recording(rig, new_recording(customer))
        found = await asyncio.gather(*(claim_recordings(rig, 3) for _ in range(5)))
        found.append(await claim_recordings(rig))
        taken = [task.recording.id for tasks in found for task in tasks]
        assert len(taken) == len(set(taken)) == 9

    async def test_what_is_past_its_retention_is_found_the_oldest_first(self, rig: StoreRig) -> None:
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
        async with rig.store.begin() as tx:
            assert list(await tx.recordings.find_outlived(10)) == [_name(one) for one in (unmeasured, recent)]


def _name(recording: Recording) -> tuple[UUID, UUID]:
    return recording.account_id, recording.meeting_id
