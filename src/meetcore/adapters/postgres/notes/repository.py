"""The repository of notes, from its parts."""

from meetcore.adapters.postgres.notes.create import NoteCreation
from meetcore.adapters.postgres.notes.erase import NoteErasure
from meetcore.adapters.postgres.notes.settle import NoteEnding
from meetcore.adapters.postgres.notes.work import NoteWork


class PostgresNoteRepository(NoteCreation, NoteWork, NoteEnding, NoteErasure):
    """Notes and their money."""
