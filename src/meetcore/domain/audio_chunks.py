"""How a recording is heard that nobody wrote down: piece by piece, each by itself.

The pieces of one recording are the same whoever cuts it, so that what one worker has heard is of use to the
next.

Owns the cutting and the name of what is cut. Refuses to open a file.
"""

import math
from collections.abc import Mapping
from hashlib import sha256

from attrs import frozen

from meetcore.domain.recordings import Recording, RecordingFile, Segment, segments
from meetcore.domain.transcripts import Transcript, join

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
    told: list[tuple[Segment, float]] = []
    before_s = 0.0
    for segment in segments(recording):
        told.append((segment, before_s))
        before_s += segment.media_s or 0.0
    return tuple(told)


def cut(recording: Recording, max_piece_s: float) -> tuple[Piece, ...]:
    """The pieces to hear, numbered from 0. Those of one segment are of one length, so that none is a mere
    rest.

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
    """A name for these files, cut in this way. Another file, one that grew, another cut: another name."""
    told = [(piece.file.provider_file_id, piece.file.size_bytes, round(piece.from_s, 3)) for piece in pieces]
    return sha256(repr(told).encode()).hexdigest()[:32]


def merge(pieces: tuple[Piece, ...], heard: Mapping[int, Transcript]) -> Transcript:
    """The transcript of a recording of which every piece was heard.

    Raises:
        KeyError: one was not.
    """
    return join([(piece.offset_s, heard[piece.number]) for piece in pieces])
