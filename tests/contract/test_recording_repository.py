"""Recordings in every store: at most one for each meeting, read back as it was written."""

from meetcore.testing.contracts import RecordingRepositoryContract


class TestRecordingRepository(RecordingRepositoryContract):
    """In memory and in Postgres."""
