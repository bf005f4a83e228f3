"""The end of recordings: everything at once for everybody, and on request every trace of their notes."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import msgspec
import pytest

from meetcore.domain.events import EventKind
from meetcore.domain.idempotency import fingerprint
from meetcore.domain.notes import Language, NoteStatus
from meetcore.domain.recordings import RETENTION, RecordingStatus
from meetcore.usecases.intent import Intent
from tests.unit.usecases.notary import Notary, notary
from tests.unit.usecases.studio import FILMED_AT, filmed
from tests.unit.usecases.town import told

ENDPOINT = "https://93.184.215.14/hook"


async def with_notes() -> Notary:
    """A recording with a note that is made, one that failed and one that waits."""
    one = await notary()
    await one.ask(Language.ENGLISH)
    await one.finish()
    one.town.listener.is_deaf = True
    async with one.town.state.change() as tables:
        tables.heard.clear()
    await one.ask(Language.INDONESIAN)
    await one.finish()
    await one.ask(Language.INDONESIAN)
    assert [note.status for note in one.town.notes()] == [
        NoteStatus.COMPLETED, NoteStatus.FAILED, NoteStatus.QUEUED,
    ]  # fmt: skip
    return one


async def test_a_recording_expires_when_its_retention_is_over() -> None:
    one = await notary()
    one.town.clock.set(FILMED_AT + RETENTION - timedelta(microseconds=1))
    assert not await one.town.expire_recordings()()
    assert one.status() is RecordingStatus.AVAILABLE
    one.town.clock.advance(1)
    rings = one.town.notes_doorbell.rings
    assert not await one.town.expire_recordings()()
    assert one.status() is RecordingStatus.EXPIRED
    assert one.town.notes_doorbell.rings == rings + 1
    assert not await one.town.expire_recordings()()


async def test_a_full_batch_tells_that_there_may_be_more_to_expire() -> None:
    one = await notary()
    one.town.clock.set(FILMED_AT + RETENTION)
    assert await one.town.expire_recordings()(1)
    assert not await one.town.expire_recordings()(1)


async def test_one_that_was_never_measured_expires_too() -> None:
    one = await notary()
    async with one.town.state.change() as tables:
        tables.recordings.clear()
    await one.film(filmed("rapat"))
    await one.expire()
    assert one.status() is RecordingStatus.EXPIRED
    await one.measure()
    assert not any(file.url for file in one.recording.files)


async def test_expiry_ends_what_is_in_progress_and_leaves_what_is_made() -> None:
    one = await with_notes()
    before = one.town.notes()
    await one.expire()
    assert [note.status for note in one.town.notes()] == [
        NoteStatus.COMPLETED, NoteStatus.FAILED, NoteStatus.FAILED,
    ]  # fmt: skip
    assert one.town.notes()[:2] == before[:2]
    assert len(one.town.told(EventKind.NOTE_FAILED)) == 2
    assert one.town.state.committed.heard == {}
    one.prove()


async def test_a_deletion_with_notes_leaves_ids_and_money() -> None:
    one = await with_notes()
    entries = one.town.entries()
    await one.delete(with_notes=True)
    assert {note.status for note in one.town.notes()} == {NoteStatus.ERASED}
    assert one.town.told(EventKind.NOTE_COMPLETED) == one.town.told(EventKind.NOTE_FAILED) == []
    assert one.town.entries() == entries
    one.prove()


async def test_notes_are_erased_when_their_recording_is_gone_already() -> None:
    one = await with_notes()
    await one.delete()
    await one.measure()
    assert not any(file.url for file in one.recording.files)
    await one.delete(with_notes=True)
    assert {note.status for note in one.town.notes()} == {NoteStatus.ERASED}
    one.prove()


async def test_a_deletion_is_carried_out_twice_without_harm_and_replayed_under_a_key() -> None:
    one = await notary()
    await one.ask()
    first = await one.delete(key="d")
    again = await one.delete(key="d")
    assert (again.payload, again.is_replay) == (first.payload, True)
    await one.delete()
    assert len(one.town.told(EventKind.NOTE_FAILED)) == 1
    one.prove()


@pytest.mark.spec("5/8")
async def test_what_is_not_there_cannot_be_deleted() -> None:
    one = await notary()
    town = one.town
    intent = Intent(None, fingerprint("DELETE", "/api/v1/recordings", {}), told)
    answer = await town.delete_recording()(town.caller, UUID(int=1), intent, town.now(), with_notes=True)
    assert msgspec.json.decode(answer.payload)[0] == "not_found"
    async with town.state.change() as tables:
        tables.recordings.clear()
    await one.film(filmed("rapat"))
    answer = await one.delete()
    assert msgspec.json.decode(answer.payload)[0] == "not_found", "nobody sees it yet"
    assert one.status() is RecordingStatus.MEASURING
