"""A note's lifecycle in every store: requested, worked on under a lease, transcribed in pieces, ended."""

import pytest

from meetcore.testing.contracts import NoteRepositoryContract
from meetcore.testing.contracts.note_transactions import claim_notes, queued, recorded
from meetcore.testing.contracts.transactions import open_customer
from tests.support.postgres_rig import PostgresRig


@pytest.mark.spec("1/notes", "5/8")
class TestNoteRepository(NoteRepositoryContract):
    """In memory and in Postgres."""


async def test_a_note_that_does_not_decrypt_stops_no_other(postgres_rig: PostgresRig) -> None:
    """As when a key went missing: it is set aside, and delays no other meanwhile."""
    await postgres_rig.reset()
    broken, sound = [
        await queued(postgres_rig, customer, await recorded(postgres_rig, customer))
        for customer in (await open_customer(postgres_rig, 100), await open_customer(postgres_rig, 100))
    ]
    await postgres_rig.tamper_with(
        "UPDATE recordings SET files = '\\x00' WHERE id = %(id)s", id=broken.recording_id
    )
    assert [task.note.id for task in await claim_notes(postgres_rig)] == [sound.id]
    assert await claim_notes(postgres_rig) == []
    [row] = await postgres_rig.rows(
        "SELECT lease_token, due_at > clock_timestamp() + interval '50 minutes' AS is_later FROM notes"
        " WHERE id = %(id)s",
        id=broken.id,
    )
    assert row == {"lease_token": None, "is_later": True}
