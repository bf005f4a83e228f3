"""What is done with recordings: kept, measured and read again, each function one transaction.

Owns no expectation: that is the suites' business.
"""

from typing import Any

from attrs import evolve

from meetcore.domain.notes.recordings import RETENTION, FileKind, Recording, RecordingStatus
from meetcore.domain.webhooks.events import Event
from meetcore.ports.lease import Lease
from meetcore.ports.recordings import RecordingTask
from meetcore.testing.contracts.provider_event_inbox import new_file
from meetcore.testing.contracts.store_rig import Rig
from meetcore.testing.contracts.transactions import AT, Customer, new_id


def new_recording(customer: Customer, **fields: Any) -> Recording:
    """A recording of some meeting, with two files, that is to be measured; `fields` are attributes of it."""
    files = (new_file(), new_file("a2", kind=FileKind.AUDIO))
    recording = Recording(
        new_id(), customer.account_id, new_id(), "zoom", "85746065432", RecordingStatus.MEASURING, files,
        AT, AT, AT + RETENTION,
    )  # fmt: skip
    return evolve(recording, **fields)


async def keep_recording(rig: Rig, recording: Recording, *events: Event) -> int:
    """Write a recording under its account's lock; how many deliveries are due."""
    async with rig.store.begin() as tx:
        await tx.lock_account(recording.account_id)
        return await tx.recordings.save(recording, events)


async def find_recording(rig: Rig, known: Recording) -> Recording | None:
    """Read it again."""
    async with rig.store.begin() as tx:
        await tx.lock_account(known.account_id)
        return await tx.recordings.load(known.account_id, known.meeting_id)


def measured(recording: Recording) -> Recording:
    """The same when all of its media is measured."""
    files = tuple(evolve(file, media_s=90.0) for file in recording.files)
    return evolve(recording, status=RecordingStatus.AVAILABLE, files=files)


async def claim_recordings(rig: Rig, limit: int = 100, seconds: float = 60.0) -> list[RecordingTask]:
    """Claim what is due for so many seconds; a negative number is a worker that stops at once."""
    async with rig.store.begin() as tx:
        return list(await tx.recordings.claim(limit, Lease(new_id(), seconds)))
