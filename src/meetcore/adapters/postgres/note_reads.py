"""Reads of recordings and notes in PostgreSQL: one, or a page of an account's, by the primary key backwards."""

from meetcore.adapters.postgres.note_rows import NOTE_COLUMNS, RECORDING_COLUMNS
from meetcore.ports.queries import NoteFilter

__all__ = [
    "FIND_NOTE",
    "FIND_RECORDING",
    "LIST_OF_MEETING",
    "LIST_RECORDINGS",
    "notes_statement",
]

# One of an account's recordings.
FIND_RECORDING = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r WHERE r.account_id = %(account_id)s AND r.id = %(id)s
"""

# A page of an account's recordings; one that is being measured is not shown.
LIST_RECORDINGS = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r
WHERE r.account_id = %(account_id)s AND r.id < %(before)s AND r.status <> 'measuring'
ORDER BY r.id DESC LIMIT %(limit)s
"""

# The recording of a meeting, where it is shown.
LIST_OF_MEETING = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r
WHERE r.account_id = %(account_id)s AND r.meeting_id = %(meeting_id)s AND r.id < %(before)s AND r.status <> 'measuring'
LIMIT %(limit)s
"""

# One of an account's notes.
FIND_NOTE = f"""
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


def notes_statement(wanted: NoteFilter) -> str:
    """The statement that reads a page of such notes."""
    return _LISTS[wanted.recording_id is not None, wanted.meeting_id is not None]
