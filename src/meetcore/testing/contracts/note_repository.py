"""A note's lifecycle in a store: requested, worked on under a lease, transcribed in pieces, ended.

Joins the four parts, each in a module of its own.
"""

from meetcore.testing.contracts.note_claims import NoteClaimsContract
from meetcore.testing.contracts.note_creation import NoteCreationContract
from meetcore.testing.contracts.note_endings import NoteEndingsContract
from meetcore.testing.contracts.note_transcription import NoteTranscriptionContract


class NoteRepositoryContract(
    NoteCreationContract, NoteClaimsContract, NoteTranscriptionContract, NoteEndingsContract
):
    """What `ports.notes.NoteRepository` promises."""
