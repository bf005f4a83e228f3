"""Recordings in a store: at most one for each meeting, read back as written, worked on while it is due.

Joins two parts: what a recording is, and `RecordingWorkContract`, who works on which.
"""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.domain.notes.recordings import FileKind, Recording, RecordingStatus
from meetcore.domain.webhooks.events import EventKind
from meetcore.testing.contracts.provider_event_inbox import new_file
from meetcore.testing.contracts.recording_transactions import find_recording, keep_recording, new_recording
from meetcore.testing.contracts.recording_work import RecordingWorkContract
from meetcore.testing.contracts.store_rig import Rig, StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    new_endpoint,
    new_event,
    new_id,
    open_customer,
    register,
)


async def _keep_and_fail(rig: Rig, recording: Recording) -> None:
    async with rig.store.begin() as tx:
        await tx.lock_account(recording.account_id)
        await tx.recordings.save(recording)
        raise ZeroDivisionError


@pytest.mark.asyncio
class RecordingRepositoryContract(RecordingWorkContract):
    """What `ports.recordings.RecordingRepository` promises."""

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
        other = await open_customer(rig)
        await keep_recording(rig, recording)
        assert await find_recording(rig, evolve(recording, meeting_id=new_id())) is None
        assert await find_recording(rig, evolve(recording, account_id=other.account_id)) is None

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

    async def test_a_recording_is_found_by_its_own_id_too_by_its_account_only(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        other = await open_customer(rig)
        await keep_recording(rig, recording)
        async with rig.store.begin() as tx:
            assert await tx.recordings.load_by_id(recording.account_id, recording.id) == recording
            assert await tx.recordings.load_by_id(other.account_id, recording.id) is None
            assert await tx.recordings.load_by_id(recording.account_id, recording.meeting_id) is None

    async def test_the_events_of_a_recording_are_saved_with_it(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        await register(rig, new_endpoint(customer, EventKind.RECORDING_READY))
        recording = new_recording(customer)
        events = [new_event(customer, EventKind.RECORDING_READY), new_event(customer, EventKind.CREDIT_LOW)]
        assert await keep_recording(rig, recording, *events) == 1
        assert await keep_recording(rig, recording) == 0
        (delivery,) = (await rig.deliveries(customer.account_id)).values()
        assert delivery.event_id == events[0].id

    async def test_the_length_of_a_file_is_kept_with_it(self, rig: StoreRig) -> None:
        recording = new_recording(await open_customer(rig))
        files = (recording.files[0], evolve(recording.files[1], media_s=2159.987))
        measured = evolve(recording, status=RecordingStatus.AVAILABLE, files=files)
        await keep_recording(rig, measured)
        assert await find_recording(rig, recording) == measured
