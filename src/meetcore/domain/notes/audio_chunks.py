"""Split a recording without a provider transcript into pieces that are transcribed one by one.

The pieces of one recording are the same in every worker, so that transcripts of one worker are of use to the
next.

Owns the split and the name of its source. Opens no file.
"""

import math
from collections.abc import Mapping
from hashlib import sha256

from attrs import frozen

from meetcore.domain.notes.recordings import Recording, RecordingFile, Segment, segments
from meetcore.domain.notes.transcripts import Transcript, join

__all__ = ["Piece", "cut", "merge", "offsets", "source_of"]


@frozen
class Piece:
    """A stretch of a file's sound, `length_s` from `from_s` on; `offset_s` of the recording lie before it."""

    number: int
    file: RecordingFile
    from_s: float
    length_s: float
    offset_s: float


def offsets(recording: Recording) -> tuple[tuple[Segment, float], ...]:
    """Each segment, and how many seconds of media lie before it."""
    placed: list[tuple[Segment, float]] = []
    before_s = 0.0
    for segment in segments(recording):
        placed.append((segment, before_s))
        before_s += segment.media_s or 0.0
    return tuple(placed)


def cut(recording: Recording, max_piece_s: float) -> tuple[Piece, ...]:
    """Return the pieces to transcribe, numbered from 0. Those of one segment have equal length, so that no
    short remainder is left.

    Args:
        recording: measured.
        max_piece_s: how long a piece may be.
    """
    pieces: list[Piece] = []
    for segment, before_s in offsets(recording):
        media_s = segment.media_s or 0.0
        count = math.ceil(media_s / max_piece_s)
        for place in range(count):
            from_s = media_s * place / count
            pieces.append(Piece(len(pieces), segment.sound, from_s, media_s / count, before_s + from_s))
    return tuple(pieces)


def source_of(pieces: tuple[Piece, ...]) -> str:
    """Name these files and this split. Another file, a file that grew or another split gives another name."""
    parts = [(piece.file.provider_file_id, piece.file.size_bytes, round(piece.from_s, 3)) for piece in pieces]
    return sha256(repr(parts).encode()).hexdigest()[:32]


def merge(pieces: tuple[Piece, ...], transcripts: Mapping[int, Transcript]) -> Transcript:
    """Merge the transcripts of all pieces into that of the recording.

    Raises:
        KeyError: a piece has no transcript.
    """
    return join([(piece.offset_s, transcripts[piece.number]) for piece in pieces])
