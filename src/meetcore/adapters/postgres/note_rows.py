"""Rows of recordings and notes to records, their sealed documents opened."""

from typing import Any
from uuid import UUID

import msgspec
import structlog
from attrs import frozen

from meetcore.adapters.postgres.rows import Row, utc
from meetcore.domain.notes.notes import Language, Note, NoteDraft, NoteStatus, NoteStep
from meetcore.domain.notes.recordings import Recording, RecordingFile, RecordingStatus
from meetcore.domain.notes.transcripts import Transcript
from meetcore.ports.cipher import Cipher, CipherRefused

__all__ = [
    "NOTE_COLUMNS",
    "RECORDING_COLUMNS",
    "note",
    "note_parameters",
    "readable_note",
    "readable_recording",
    "recording",
    "recording_parameters",
    "sealed_transcript_chunk",
    "transcript_chunk",
]

RECORDING_COLUMNS = """
    r.account_id, r.id AS recording_id, r.meeting_id, r.status AS recording_status, r.files, r.recorded_at,
    r.created_at AS recording_created_at, r.provider, r.provider_meeting_id, r.expires_at"""

NOTE_COLUMNS = """
    n.account_id, n.id AS note_id, n.api_key_id AS note_api_key_id, n.recording_id, n.meeting_id,
    n.language, n.status AS note_status, n.step, n.duration_s, n.created_at AS note_created_at, n.tries, n.content,
    n.credits_charged, n.charge_id, n.error, n.completed_at"""


@frozen
class _Content:
    """The draft and the transcript, as one document."""

    draft: NoteDraft | None
    transcript: Transcript


log = structlog.get_logger("meetcore.postgres")

_encoder = msgspec.json.Encoder()
_files = msgspec.json.Decoder(tuple[RecordingFile, ...])
_content = msgspec.json.Decoder(_Content)
_transcript = msgspec.json.Decoder(Transcript)


def _files_context(account_id: UUID, recording_id: UUID) -> str:
    return f"{account_id}/recordings/{recording_id}/files"


def _note_context(account_id: UUID, note_id: UUID) -> str:
    return f"{account_id}/notes/{note_id}/content"


def _chunk_context(account_id: UUID, recording_id: UUID, source: str, piece: int) -> str:
    return f"{account_id}/recordings/{recording_id}/heard/{source}/{piece}"


def recording(row: Row, cipher: Cipher) -> Recording:
    """A recording."""
    files = b"[]"
    if row["files"] is not None:
        files = cipher.open(row["files"], _files_context(row["account_id"], row["recording_id"]))
    return Recording(
        id=row["recording_id"],
        account_id=row["account_id"],
        meeting_id=row["meeting_id"],
        provider=row["provider"],
        provider_meeting_id=row["provider_meeting_id"],
        status=RecordingStatus(row["recording_status"]),
        files=_files.decode(files),
        recorded_at=utc(row["recorded_at"]),
        created_at=utc(row["recording_created_at"]),
        expires_at=utc(row["expires_at"]),
    )


def readable_recording(row: Row, cipher: Cipher) -> Recording:
    """A recording for a reader; without files, and logged, where they do not open.

    Not for what is written back: the files may open again under another key.
    """
    try:
        return recording(row, cipher)
    except (CipherRefused, msgspec.DecodeError):
        log.exception("recording does not open", recording_id=str(row["recording_id"]))
        return recording(row | {"files": None}, cipher)


def recording_parameters(recording: Recording, cipher: Cipher) -> dict[str, Any]:
    """The columns of a recording."""
    context = _files_context(recording.account_id, recording.id)
    return {
        "account_id": recording.account_id,
        "id": recording.id,
        "meeting_id": recording.meeting_id,
        "provider": recording.provider,
        "provider_meeting_id": recording.provider_meeting_id,
        "status": recording.status.value,
        "files": cipher.seal(_encoder.encode(recording.files), context),
        "recorded_at": recording.recorded_at,
        "created_at": recording.created_at,
        "expires_at": recording.expires_at,
    }


def note(row: Row, cipher: Cipher) -> Note:
    """A note."""
    content = _Content(None, ())
    if row["content"] is not None:
        context = _note_context(row["account_id"], row["note_id"])
        content = _content.decode(cipher.open(row["content"], context))
    return Note(
        id=row["note_id"],
        account_id=row["account_id"],
        api_key_id=row["note_api_key_id"],
        recording_id=row["recording_id"],
        meeting_id=row["meeting_id"],
        language=Language(row["language"]),
        status=NoteStatus(row["note_status"]),
        step=NoteStep(row["step"]),
        duration_s=row["duration_s"],
        created_at=utc(row["note_created_at"]),
        tries=row["tries"],
        draft=content.draft,
        transcript=content.transcript,
        credits_charged=row["credits_charged"],
        charge_id=row["charge_id"],
        error=row["error"],
        completed_at=None if row["completed_at"] is None else utc(row["completed_at"]),
    )


def readable_note(row: Row, cipher: Cipher) -> Note:
    """A note for a reader; without content, and logged, where it does not open.

    Not for what is written back: the content may open again under another key.
    """
    try:
        return note(row, cipher)
    except (CipherRefused, msgspec.DecodeError):
        log.exception("note does not open", note_id=str(row["note_id"]))
        return note(row | {"content": None}, cipher)


def note_parameters(note: Note, cipher: Cipher) -> dict[str, Any]:
    """The columns of a note. One without draft and transcript has no content."""
    sealed = None
    if note.draft is not None or note.transcript:
        document = _encoder.encode(_Content(note.draft, note.transcript))
        sealed = cipher.seal(document, _note_context(note.account_id, note.id))
    return {
        "account_id": note.account_id,
        "note_id": note.id,
        "note_api_key_id": note.api_key_id,
        "recording_id": note.recording_id,
        "meeting_id": note.meeting_id,
        "language": note.language.value,
        "status": note.status.value,
        "step": note.step.value,
        "duration_s": note.duration_s,
        "created_at": note.created_at,
        "tries": note.tries,
        "content": sealed,
        "credits_charged": note.credits_charged,
        "charge_id": note.charge_id,
        "error": note.error,
        "completed_at": note.completed_at,
    }


def transcript_chunk(row: Row, cipher: Cipher) -> Transcript:
    """The transcript of a chunk."""
    context = _chunk_context(row["account_id"], row["recording_id"], row["source"], row["number"])
    return _transcript.decode(cipher.open(row["transcript"], context))


def sealed_transcript_chunk(
    account_id: UUID, recording_id: UUID, source: str, piece: int, transcript: Transcript, cipher: Cipher
) -> bytes:
    """The transcript of a chunk, sealed."""
    return cipher.seal(_encoder.encode(transcript), _chunk_context(account_id, recording_id, source, piece))
