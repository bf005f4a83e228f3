"""What was heard of recordings, in a store: kept piece by piece, for whoever goes on."""

from collections.abc import Mapping

import pytest

from meetcore.domain.notes import Language
from meetcore.domain.transcripts import Transcript, Utterance
from meetcore.ports.notes import NoteTask
from meetcore.testing.contracts.note_transactions import SAID, claim_notes, give_up, queued, recorded
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import open_customer

__all__ = ["NoteTranscriptionContract"]

OTHER = (Utterance(0.1, 0.2, "lain"),)


async def _heard(rig: StoreRig, task: NoteTask, source: str = "one") -> Mapping[int, Transcript]:
    async with rig.store.begin() as tx:
        return await tx.notes.load_heard(task, source)


async def _hear(
    rig: StoreRig, task: NoteTask, piece: int, heard: Transcript = SAID, source: str = "one"
) -> bool:
    async with rig.store.begin() as tx:
        return await tx.notes.save_heard(task, source, piece, heard)


@pytest.mark.asyncio
class NoteTranscriptionContract:
    """What was heard. A part of `NoteRepositoryContract`."""

    async def test_what_was_heard_is_read_back_by_its_piece(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig)
        assert await _heard(rig, task) == {}
        assert await _hear(rig, task, 2)
        assert await _hear(rig, task, 0, ())
        assert await _heard(rig, task) == {0: (), 2: SAID}

    async def test_a_piece_that_is_heard_again_is_heard_anew(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig)
        assert await _hear(rig, task, 0)
        assert await _hear(rig, task, 0, OTHER)
        assert await _heard(rig, task) == {0: OTHER}

    async def test_what_was_heard_of_another_source_is_not_it(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (task,) = await claim_notes(rig)
        assert await _hear(rig, task, 0)
        assert await _hear(rig, task, 0, OTHER, "another")
        assert await _heard(rig, task) == {0: SAID}
        assert await _heard(rig, task, "another") == {0: OTHER}
        assert await _heard(rig, task, "none") == {}

    async def test_who_goes_on_hears_only_the_rest(self, rig: StoreRig) -> None:
        await queued(rig, await open_customer(rig, 50))
        (dead,) = await claim_notes(rig, seconds=-1)
        assert await _hear(rig, dead, 0)
        (task,) = await claim_notes(rig)
        assert not await _hear(rig, dead, 1)
        assert await _heard(rig, task) == {0: SAID}

    async def test_a_second_language_has_heard_it_already(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 50)
        recording = await recorded(rig, customer)
        for language in Language:
            await queued(rig, customer, recording, language)
        (first,) = await claim_notes(rig)
        assert await _hear(rig, first, 0)
        assert await give_up(rig, first)
        (second,) = await claim_notes(rig)
        assert second.note.language is not first.note.language
        assert await _heard(rig, second) == {0: SAID}

    async def test_each_recording_is_heard_by_itself_and_forgotten_by_itself(self, rig: StoreRig) -> None:
        for customer in (await open_customer(rig, 50), await open_customer(rig, 50)):
            for _ in range(2):
                await queued(rig, customer)
        first, *others = await claim_notes(rig)
        assert len(others) == 3
        assert await _hear(rig, first, 0)
        assert await _hear(rig, first, 0, OTHER, "another")
        assert [await _heard(rig, task) for task in others] == [{}, {}, {}]
        for task in others:
            assert await _hear(rig, task, 0, OTHER)
        async with rig.store.begin() as tx:
            await tx.endpoints.lock_account(first.note.account_id)
            await tx.notes.drop_heard(first.note.account_id, first.recording.id)
        assert (await _heard(rig, first), await _heard(rig, first, "another")) == ({}, {})
        assert [await _heard(rig, task) for task in others] == [{0: OTHER}] * 3
