"""Recordings and notes as rows: their columns; files, draft and transcript are sealed documents."""

from uuid import UUID

import msgspec
import structlog
from attrs import asdict, frozen

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.domain.notes.notes import Note, NoteDraft, Original
from meetcore.domain.notes.recordings import Recording, RecordingFile
from meetcore.domain.notes.transcripts import Transcript
from meetcore.ports.runtime import Cipher, CipherRefused

log = structlog.get_logger("meetcore.postgres")

RECORDING = Columns(Recording, "r", "recording_", without=("files",))

_files = msgspec.json.Decoder(tuple[RecordingFile, ...])
_FILES_CONTEXT = "{account_id}/recordings/{recording_id}/files"


def files_context(account_id: UUID, recording_id: UUID) -> str:
    """Return the context that the files of a recording are sealed for."""
    return _FILES_CONTEXT.format(account_id=account_id, recording_id=recording_id)


def recording(row: Row, cipher: Cipher) -> Recording:
    """Read a recording."""
    files = row["recording_files"]
    opened = b"[]" if files is None else cipher.open(files, _FILES_CONTEXT.format_map(row))
    return RECORDING.read(row, files=_files.decode(opened))


def readable_recording(row: Row, cipher: Cipher) -> Recording:
    """Read a recording to show; without files, and logged, where they do not open. Never write it back."""
    try:
        return recording(row, cipher)
    except (CipherRefused, msgspec.DecodeError):
        log.exception("recording does not open", recording_id=str(row["recording_id"]))
        return recording(row | {"recording_files": None}, cipher)


def recording_parameters(recording: Recording, cipher: Cipher) -> Row:
    """Return the parameters of a recording's columns."""
    found = RECORDING.parameters(recording)
    sealed = cipher.seal(msgspec.json.encode(recording.files), _FILES_CONTEXT.format_map(found))
    return found | {"recording_files": sealed}


NOTE = Columns(Note, "n", "note_", without=("draft", "transcript", "left_out", "original", "parts"))


@frozen
class _Content:
    """Encode the draft, or its parts so far, the transcript and what is left out as one document."""

    draft: NoteDraft | None = None
    transcript: Transcript = ()
    left_out: tuple[tuple[float, float], ...] = ()
    original: Original | None = None
    parts: tuple[tuple[str, str], ...] = ()


_content = msgspec.json.Decoder(_Content)
_transcript = msgspec.json.Decoder(Transcript)
_CONTEXT = "{account_id}/notes/{note_id}/content"


def note_context(account_id: UUID, note_id: UUID) -> str:
    """Return the context that the content of a note is sealed for."""
    return _CONTEXT.format(account_id=account_id, note_id=note_id)


def chunk_context(account_id: UUID, recording_id: UUID, source: str, number: int) -> str:
    """Return the context that the transcript of a chunk is sealed for."""
    return f"{account_id}/recordings/{recording_id}/heard/{source}/{number}"


def note(row: Row, cipher: Cipher) -> Note:
    """Read a note."""
    content = _Content()
    if row["note_content"] is not None:
        content = _content.decode(cipher.open(row["note_content"], _CONTEXT.format_map(row)))
    return NOTE.read(row, **asdict(content, recurse=False))


def readable_note(row: Row, cipher: Cipher) -> Note:
    """Read a note to show; without content, and logged, where it does not open. Never write it back."""
    try:
        return note(row, cipher)
    except (CipherRefused, msgspec.DecodeError):
        log.exception("note does not open", note_id=str(row["note_id"]))
        return note(row | {"note_content": None}, cipher)


def note_parameters(note: Note, cipher: Cipher) -> Row:
    """Return the parameters of a note's columns. One without draft and transcript has no content."""
    found = NOTE.parameters(note)
    sealed = None
    if note.draft is not None or note.transcript:
        content = _Content(note.draft, note.transcript, note.left_out, note.original, note.parts)
        document = msgspec.json.encode(content)
        sealed = cipher.seal(document, _CONTEXT.format_map(found))
    return found | {"note_content": sealed}


def transcript_chunk(row: Row, cipher: Cipher) -> Transcript:
    """Open the transcript of a chunk."""
    context = chunk_context(row["account_id"], row["recording_id"], row["source"], row["number"])
    return _transcript.decode(cipher.open(row["transcript"], context))


def sealed_transcript_chunk(
    account_id: UUID, recording_id: UUID, source: str, number: int, transcript: Transcript, cipher: Cipher
) -> bytes:
    """Seal the transcript of a chunk."""
    return cipher.seal(
        msgspec.json.encode(transcript), chunk_context(account_id, recording_id, source, number)
    )
