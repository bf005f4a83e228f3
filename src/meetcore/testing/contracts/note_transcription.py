"""Transcripts of recordings in a store: kept piece by piece for the next worker."""

from collections.abc import Mapping

import pytest

from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.ports.notes import NoteTask
from meetcore.testing.contracts.note_transactions import TRANSCRIPT, claim_notes, give_up, queued, recorded
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import open_customer

OTHER = (Utterance(0.1, 0.2, "lain"),)


async def _load(rig: StoreRig, task: NoteTask, source: str = "one") -> Mapping[int, Transcript]:
    async with rig.store.begin() as tx:
        return await tx.notes.load_transcript_chunks(task, source)


async def _save(
    rig: StoreRig, task: NoteTask, piece: int, transcript: Transcript = TRANSCRIPT, source: str = "one"
) -> bool:
    async with rig.store.begin() as tx:
        return await tx.notes.save_transcript_chunk(task, source, piece, transcript)


@pytest.mark.asyncio
class NoteTranscriptionContract:
    """The transcripts of a recording. A part of `NoteRepositoryContract`."""

    async def test_a_transcript_is_read_back_by_its_piece(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig)
        assert await _load(rig, task) == {}
        assert await _save(rig, task, 2)
        assert await _save(rig, task, 0, ())
        assert await _load(rig, task) == {0: (), 2: TRANSCRIPT}

    async def test_a_piece_transcribed_again_replaces_its_transcript(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig)
        assert await _save(rig, task, 0)
        assert await _save(rig, task, 0, OTHER)
        assert await _load(rig, task) == {0: OTHER}

    async def test_transcripts_of_another_source_are_not_returned(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig)
        assert await _save(rig, task, 0)
        assert await _save(rig, task, 0, OTHER, "another")
        assert await _load(rig, task) == {0: TRANSCRIPT}
        assert await _load(rig, task, "another") == {0: OTHER}
        assert await _load(rig, task, "none") == {}

    async def test_the_next_worker_transcribes_only_what_is_missing(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (expired,) = await claim_notes(rig, seconds=-1)
        assert await _save(rig, expired, 0)
        (task,) = await claim_notes(rig)
        assert not await _save(rig, expired, 1)
        assert await _load(rig, task) == {0: TRANSCRIPT}

    async def test_a_second_language_reuses_the_transcript(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        for language in Language:
            await queued(rig, customer, recording, language)
        (first,) = await claim_notes(rig)
        assert await _save(rig, first, 0)
        assert await give_up(rig, first)
        (second,) = await claim_notes(rig)
        assert second.note.language is not first.note.language
        assert await _load(rig, second) == {0: TRANSCRIPT}

    async def test_each_recording_has_its_own_transcript_and_is_erased_alone(self, rig: StoreRig) -> None:
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
