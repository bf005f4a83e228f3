"""The operations on recordings and notes, each described once, for both clients. See `operations`."""

from types import NoneType

from meetcore.client.calls import Call, Id, Listing, change, page_query, path_of, read
from meetcore.client.note_records import DownloadUrl, Note, Recording
from meetcore.client.records import Page
from meetcore.client.surface import listing, operation

__all__ = ["NoteOperations", "RecordingOperations"]


class RecordingOperations:
    """Recordings."""

    @listing
    def list(self, *, meeting_id: Id | None = None, page_size: int | None = None) -> Listing[Recording]:
        """List the recordings, the newest first.

        Args:
            meeting_id: only that of this meeting.
            page_size: how many a page holds, 1 to 100.
        """
        query = page_query(page_size, meeting_id=None if meeting_id is None else str(meeting_id))
        return Listing(read("/recordings", Page[Recording], query))

    @operation
    def get(self, recording_id: Id) -> Call[Recording]:
        """Read a recording."""
        return read(path_of("recordings", recording_id), Recording)

    @operation
    def download_url(self, recording_id: Id) -> Call[DownloadUrl]:
        """Make a link that downloads it without a key, for 15 minutes.

        Raises:
            Gone: it was deleted, or is past its retention.
        """
        return read(path_of("recordings", recording_id, "download-url"), DownloadUrl)

    @operation
    def delete(
        self, recording_id: Id, *, with_notes: bool | None = None, idempotency_key: str | None = None
    ) -> Call[None]:
        """Delete a recording for good.

        Args:
            recording_id: which.
            with_notes: erase the notes made of it, too, and the events that told of them.
            idempotency_key: see `operations`.
        """
        query = {} if with_notes is None else {"with_notes": "true" if with_notes else "false"}
        return change("DELETE", path_of("recordings", recording_id), NoneType, idempotency_key, query=query)


class NoteOperations:
    """Notes."""

    @operation
    def create(
        self, *, recording_id: Id, language: str | None = None, idempotency_key: str | None = None
    ) -> Call[Note]:
        """Have notes written, once, however often it has to be sent. They are charged when they are there.

        Args:
            recording_id: of what.
            language: a `Language`; Indonesian when not given.
            idempotency_key: see `operations`.

        Raises:
            Conflict: there are notes on it in this language; `existing_id` names them.
            Gone: the recording was deleted, or is past its retention.
            Unprocessable: there is no sound in it.
            ServiceUnavailable: more of it has come and was not measured in time.
            InsufficientCredits, CreditCapExceeded: nothing is held or charged.
        """
        body: dict[str, object] = {"recording_id": str(recording_id)}
        if language is not None:
            body["language"] = language
        return change("POST", "/notes", Note, idempotency_key, body)

    @listing
    def list(self, *, recording_id: Id | None = None, page_size: int | None = None) -> Listing[Note]:
        """List the notes with their content, the newest first.

        Args:
            recording_id: only those on this recording.
            page_size: how many a page holds, 1 to 100.
        """
        query = page_query(page_size, recording_id=None if recording_id is None else str(recording_id))
        return Listing(read("/notes", Page[Note], query))

    @operation
    def get(self, note_id: Id) -> Call[Note]:
        """Read a note.

        Raises:
            Gone: it was erased with its recording.
        """
        return read(path_of("notes", note_id), Note)

    @operation
    def markdown(self, note_id: Id) -> Call[str]:
        """Read a note as Markdown, for people."""
        return read(path_of("notes", note_id), str, {"format": "markdown"})
