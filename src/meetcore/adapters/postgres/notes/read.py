"""Reads of notes: one, or a page of an account's, by the primary key backwards."""

from collections.abc import Sequence
from uuid import UUID

from attrs import asdict

from meetcore.adapters.postgres.notes.rows import NOTE_COLUMNS, readable_note
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.domain.notes.notes import Note
from meetcore.ports.queries import NoteFilter

# One of an account's notes.
_FIND_NOTE = f"""
SELECT {NOTE_COLUMNS} FROM notes n WHERE n.account_id = %(account_id)s AND n.id = %(id)s
"""

# A page of an account's notes.
_LIST_NOTES = f"""
SELECT {NOTE_COLUMNS} FROM notes n
WHERE n.account_id = %(account_id)s AND n.id < %(before)s AND n.status <> 'erased'
ORDER BY n.id DESC LIMIT %(limit)s
"""

# The notes on one recording, which are few: all are found by the recording's own index, then sorted. The offset keeps
# the planner from scanning all of an account's notes instead, in the requested order.
_OF_RECORDING = "n.recording_id = %(recording_id)s"

# A meeting has at most one recording, and the notes of a meeting are those on it.
_OF_MEETING = """n.recording_id = (
            SELECT r.id FROM recordings r
            WHERE r.account_id = %(account_id)s AND r.meeting_id = %(meeting_id)s)"""


def _list_few(condition: str) -> str:
    return f"""
SELECT * FROM (
    SELECT {NOTE_COLUMNS} FROM notes n
    WHERE n.account_id = %(account_id)s AND {condition} AND n.status <> 'erased' OFFSET 0
) AS few
WHERE note_id < %(before)s
ORDER BY note_id DESC LIMIT %(limit)s
"""


# A page of an account's notes: all, of a recording, of a meeting, of both.
_LISTS = {
    (False, False): _LIST_NOTES,
    (True, False): _list_few(_OF_RECORDING),
    (False, True): _list_few(_OF_MEETING),
    (True, True): _list_few(f"{_OF_RECORDING} AND {_OF_MEETING}"),
}


class NoteReads(Reads):
    """Reads of notes."""

    async def find_note(self, account_id: UUID, note_id: UUID) -> Note | None:
        row = await self._one(_FIND_NOTE, {"account_id": account_id, "id": note_id})
        return None if row is None else readable_note(row, self._cipher)

    async def list_notes(
        self, account_id: UUID, wanted: NoteFilter, limit: int, before: UUID | None
    ) -> Sequence[Note]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST} | asdict(wanted)
        return [readable_note(row, self._cipher) for row in await self._all(notes_statement(wanted), page)]


def notes_statement(wanted: NoteFilter) -> str:
    """The statement that reads a page of such notes."""
    return _LISTS[wanted.recording_id is not None, wanted.meeting_id is not None]
