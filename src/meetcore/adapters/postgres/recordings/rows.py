"""Recordings as rows: their columns, their files one sealed document."""

from uuid import UUID

import msgspec
import structlog

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.domain.notes.recordings import Recording, RecordingFile
from meetcore.ports.cipher import Cipher, CipherRefused

log = structlog.get_logger("meetcore.postgres")

RECORDING = Columns(Recording, "r", "recording_", without=("files",))
RECORDING_COLUMNS = f"{RECORDING.select}, r.files AS recording_files"

_files = msgspec.json.Decoder(tuple[RecordingFile, ...])
_CONTEXT = "{account_id}/recordings/{recording_id}/files"


def files_context(account_id: UUID, recording_id: UUID) -> str:
    """What the files of a recording are sealed for."""
    return _CONTEXT.format(account_id=account_id, recording_id=recording_id)


def recording(row: Row, cipher: Cipher) -> Recording:
    """A recording."""
    files = row["recording_files"]
    opened = b"[]" if files is None else cipher.open(files, _CONTEXT.format_map(row))
    return RECORDING.read(row, files=_files.decode(opened))


def readable_recording(row: Row, cipher: Cipher) -> Recording:
    """A recording for a reader; without files, and logged, where they do not open.

    Not for what is written back: the files may open again under another key.
    """
    try:
        return recording(row, cipher)
    except (CipherRefused, msgspec.DecodeError):
        log.exception("recording does not open", recording_id=str(row["recording_id"]))
        return recording(row | {"recording_files": None}, cipher)


def recording_parameters(recording: Recording, cipher: Cipher) -> Row:
    """The parameters of a recording's columns."""
    found = RECORDING.parameters(recording)
    sealed = cipher.seal(msgspec.json.encode(recording.files), _CONTEXT.format_map(found))
    return found | {"recording_files": sealed}
