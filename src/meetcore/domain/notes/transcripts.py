"""Transcripts: utterances with speakers and times, and the audio chunks of a recording.

A recording in several segments has one transcript: the segments' own, each moved by the media before it. A
recording without a provider transcript is split into pieces that are transcribed one by one; the split is the
same in every worker, so that transcripts of one worker are of use to the next.

Opens no file; `vtt` reads a provider's, adapters transcribe the rest.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import chain

from attrs import evolve, field, frozen

from meetcore.domain.notes.recordings import Recording, RecordingFile, Segment, segments


@frozen
class Utterance:
    """A spoken text between two instants in seconds of the media; the provider may give no `speaker`."""

    at_s: float
    until_s: float
    text: str = field(repr=False)
    speaker: str | None = field(default=None, repr=False)


Transcript = tuple[Utterance, ...]
"""What was said, in the order of time."""


def format_offset(at_s: float) -> str:
    """Format a position in a recording: `m:ss`, or `h:mm:ss` from an hour on."""
    minutes, seconds = divmod(int(at_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def moved(transcript: Iterable[Utterance], by_s: float) -> Transcript:
    """Shift utterances by so many seconds: a segment's transcript within its recording."""
    return tuple(evolve(one, at_s=one.at_s + by_s, until_s=one.until_s + by_s) for one in transcript)


def join(parts: Sequence[tuple[float, Transcript]]) -> Transcript:
    """Join transcripts, each with the seconds of media before it."""
    whole = chain.from_iterable(moved(transcript, offset_s) for offset_s, transcript in parts)
    return tuple(sorted(whole, key=lambda one: one.at_s))


def speech_of(transcript: Transcript) -> str:
    """Return the bare text, an utterance a line; empty without speech."""
    return "\n".join(text for one in transcript if (text := one.text.strip()))


@frozen
class Piece:
    """A stretch of a file's sound, `length_s` from `from_s` on; `offset_s` of the recording lie before it."""

    number: int
    file: RecordingFile
    from_s: float
    length_s: float
    offset_s: float


def offsets(recording: Recording) -> tuple[tuple[Segment, float], ...]:
    """Return each segment with the seconds of media before it."""
    placed: list[tuple[Segment, float]] = []
    before_s = 0.0
    for segment in segments(recording):
        placed.append((segment, before_s))
        before_s += segment.media_s or 0.0
    return tuple(placed)


def cut(recording: Recording, max_piece_s: float) -> tuple[Piece, ...]:
    """Return the pieces of a measured recording, numbered from 0, of equal length in each segment."""
    pieces: list[Piece] = []
    for segment, before_s in offsets(recording):
        media_s = segment.media_s or 0.0
        count = math.ceil(media_s / max_piece_s)
        for place in range(count):
            from_s = media_s * place / count
            pieces.append(Piece(len(pieces), segment.sound, from_s, media_s / count, before_s + from_s))
    return tuple(pieces)


def source_of(pieces: tuple[Piece, ...]) -> str:
    """Name these files and this split: a file that grew, another one or another split have another name."""
    parts = [(piece.file.provider_file_id, piece.file.size_bytes, round(piece.from_s, 3)) for piece in pieces]
    return sha256(repr(parts).encode()).hexdigest()[:32]


def merge(pieces: tuple[Piece, ...], transcripts: Mapping[int, Transcript]) -> Transcript:
    """Merge the transcripts of all pieces, each by its number, into that of the recording."""
    return join([(piece.offset_s, transcripts[piece.number]) for piece in pieces])
