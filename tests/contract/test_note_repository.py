"""A note's life in every store: asked for, worked on under a lease, heard piece by piece, over."""

import pytest

from meetcore.testing.contracts import NoteRepositoryContract


@pytest.mark.spec("1/notes", "5/8")
class TestNoteRepository(NoteRepositoryContract):
    """In memory and in Postgres."""
