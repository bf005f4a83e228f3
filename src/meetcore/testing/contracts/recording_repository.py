"""Recordings in a store: at most one for each meeting, read back as it was written."""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.domain.recordings import RETENTION, FileKind, Recording, RecordingStatus
from meetcore.testing.contracts.acts import AT, Customer, new_id, open_customer
from meetcore.testing.contracts.provider_event_inbox import new_file
from meetcore.testing.contracts.store_rig import Rig, StoreRig

__all__ = ["RecordingRepositoryContract", "find_recording", "keep_recording", "new_recording"]


def new_recording(customer: Customer) -> Recording:
    """A recording of some meeting, with two files."""
    files = (new_file(), new_file("a2", kind=FileKind.AUDIO))
    return Recording(
        new_id(), customer.account_id, new_id(), "zoom", "85746065432", RecordingStatus.MEASURING, files,
        AT, AT, AT + RETENTION,
    )  # fmt: skip


async def keep_recording(rig: Rig, recording: Recording) -> None:
    """Write a recording under its account's lock."""
    async with rig.store.begin() as tx:
        await tx.endpoints.lock_account(recording.account_id)
        await tx.recordings.save(recording)


async def find_recording(rig: Rig, known: Recording) -> Recording | None:
    """Read it again."""
    async with rig.store.begin() as tx:
        await tx.endpoints.lock_account(known.account_id)
        return await tx.recordings.load(known.account_id, known.meeting_id)


async def _keep_and_fail(rig: Rig, recording: Recording) -> None:
    async with rig.store.begin() as tx:
        await tx.endpoints.lock_account(recording.account_id)
        await tx.recordings.save(recording)
        raise ZeroDivisionError


@pytest.mark.asyncio
class RecordingRepositoryContract:
    """What `ports.recordings.RecordingRepository` promises.

    Give a fixture `rig` that is a `StoreRig`, where you like::

        class TestMySQLRecordingRepository(RecordingRepositoryContract):
            @pytest_asyncio.fixture
            async def rig(self, mysql_pool):
                return await fresh_mysql_rig(mysql_pool)
    """

    async def test_a_recording_is_read_back_as_it_was_written(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        assert await find_recording(rig, recording) is None
        await keep_recording(rig, recording)
        assert await find_recording(rig, recording) == recording

    async def test_a_recording_is_written_again_with_what_was_added(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        await keep_recording(rig, recording)
        changed = evolve(
            recording,
            status=RecordingStatus.EXPIRED,
            files=(*recording.files, new_file("a3", kind=FileKind.TRANSCRIPT)),
            recorded_at=AT - timedelta(minutes=3),
        )
        await keep_recording(rig, changed)
        assert await find_recording(rig, recording) == changed

    async def test_a_recording_belongs_to_its_meeting_and_account(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        stranger = await open_customer(rig)
        await keep_recording(rig, recording)
        assert await find_recording(rig, evolve(recording, meeting_id=new_id())) is None
        assert await find_recording(rig, evolve(recording, account_id=stranger.account_id)) is None

    async def test_a_meeting_has_at_most_one_recording(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        await keep_recording(rig, recording)
        with pytest.raises(rig.refusal):
            await keep_recording(rig, evolve(recording, id=new_id()))
        assert await find_recording(rig, recording) == recording

    async def test_nothing_is_kept_of_a_recording_whose_transaction_failed(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        with pytest.raises(ZeroDivisionError):
            await _keep_and_fail(rig, recording)
        assert await find_recording(rig, recording) is None
