"""Reads of recordings and notes in PostgreSQL: one, or a page of an account's, by the primary key backwards."""

from meetcore.adapters.postgres.note_rows import NOTE_COLUMNS, RECORDING_COLUMNS

__all__ = [
    "FIND_NOTE",
    "FIND_RECORDING",
    "LIST_NOTES",
    "LIST_OF_MEETING",
    "LIST_OF_RECORDING",
    "LIST_RECORDINGS",
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
LIST_NOTES = f"""
SELECT {NOTE_COLUMNS} FROM notes n
WHERE n.account_id = %(account_id)s AND n.id < %(before)s AND n.status <> 'erased'
ORDER BY n.id DESC LIMIT %(limit)s
"""

# The notes on one recording, by its own index: there are few.
LIST_OF_RECORDING = f"""
SELECT {NOTE_COLUMNS} FROM notes n
WHERE n.account_id = %(account_id)s AND n.recording_id = %(recording_id)s AND n.id < %(before)s AND n.status <> 'erased'
ORDER BY n.id DESC LIMIT %(limit)s
"""
