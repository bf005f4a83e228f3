"""The operations on recordings and notes, each described once, for both clients. See `operations`."""

from os import PathLike
from types import NoneType

from meetcore.client.calls import Call, Id, Listing, change, page_query, path_of, read
from meetcore.client.descriptors import M, Resource, listing, operation, procedure
from meetcore.client.downloading import WritesBytes, recording_download
from meetcore.client.procedures import Procedure
from meetcore.client.records import Download, DownloadUrl, Note, Page, Recording
from meetcore.client.waiting import NoteWait

__all__ = ["NoteOperations", "RecordingOperations"]


def _text(id_: Id | None) -> str | None:
    return None if id_ is None else str(id_)


class RecordingOperations(Resource[M]):
    """Recordings."""

    @listing
    def list(self, *, meeting_id: Id | None = None, page_size: int | None = None) -> Listing[Recording]:
        """List the recordings, the newest first.

        Args:
            meeting_id: only that of this meeting.
            page_size: how many a page holds, 1 to 100.
        """
        query = page_query(page_size, meeting_id=_text(meeting_id))
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

    @procedure
    def download(
        self, recording_id: Id, to: str | PathLike[str] | WritesBytes, *, part: int | None = None
    ) -> Procedure[Download]:
        """Download the recording, resumed where a connection breaks off.

        A meeting that was paused has a recording of several parts. All of them are downloaded to a path: the
        first into the file of that name, the second into one whose name ends in `-2`, and so on. A file is
        there once it is whole. An open file takes one part.

        Args:
            to: the path of a file, which is replaced; or a binary file that is open for writing.
            part: only this one, the first is 1.

        Raises:
            Gone: it was deleted, or is past its retention.
            ValueError: there is no such part, or an open file would have to take several.
            OSError: it cannot be written.
        """
        return recording_download(recording_id, to, part)

    @operation
    def delete(
        self, recording_id: Id, *, with_notes: bool | None = None, idempotency_key: str | None = None
    ) -> Call[None]:
        """Delete a recording for good.

        Args:
            with_notes: erase the notes made of it, too, and their events.
            idempotency_key: see `operations`.
        """
        query = {} if with_notes is None else {"with_notes": "true" if with_notes else "false"}
        return change("DELETE", path_of("recordings", recording_id), NoneType, idempotency_key, query=query)


class NoteOperations(Resource[M]):
    """Notes."""

    @operation
    def create(
        self, *, recording_id: Id, language: str | None = None, idempotency_key: str | None = None
    ) -> Call[Note]:
        """Have notes written, once, however often it has to be sent. They are charged when they are there.

        Args:
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
    def list(
        self,
        *,
        meeting_id: Id | None = None,
        recording_id: Id | None = None,
        page_size: int | None = None,
    ) -> Listing[Note]:
        """List the notes with their content, the newest first.

        Args:
            meeting_id: only those of this meeting.
            recording_id: only those on this recording.
            page_size: how many a page holds, 1 to 100.
        """
        query = page_query(page_size, meeting_id=_text(meeting_id), recording_id=_text(recording_id))
        return Listing(read("/notes", Page[Note], query))

    @procedure
    def wait(
        self,
        note_id: Id | None = None,
        *,
        meeting_id: Id | None = None,
        timeout_s: float = 1800.0,
    ) -> Procedure[Note]:
        """Wait until a note is completed: ask again, after 1 s at first and at most 15 s in the end.

        Args:
            meeting_id: instead of a note: the newest one of this meeting, which may not be there yet.
            timeout_s: seconds until it gives up.

        Raises:
            NoteFailed: it was not written, and cost nothing.
            WaitTimedOut: it is not there yet; ask for it later, or use a webhook.
            ValueError: give a note or a meeting, and a time above 0.
        """
        if (note_id is None) == (meeting_id is None):
            raise ValueError("give note_id or meeting_id")
        if not timeout_s > 0:
            raise ValueError("timeout_s is above 0")
        if note_id is not None:
            return NoteWait(read(path_of("notes", note_id), Note), timeout_s)
        query = page_query(1, meeting_id=_text(meeting_id))
        return NoteWait(read("/notes", Page[Note], query), timeout_s)

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
