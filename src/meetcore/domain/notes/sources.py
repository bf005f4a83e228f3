"""The transcripts that a note is made of: each stretch of a recording has its own.

A stretch is a segment, known by its place in `recordings.segments`. What the provider transcribed keeps that
transcript, with its names, whatever the other stretches have; the rest is transcribed here, or left out. A
stretch of less than a second needs none.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from meetcore.domain.meetings.sessions import Session
from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.recordings import (
    Recording,
    RecordingFile,
    recorded_sessions,
    rounded_up,
    segments,
)
from meetcore.domain.notes.transcripts import Transcript, format_offset, join, offsets, speech_of

Provided = Mapping[int, Transcript]
"""The provider's transcripts by the places of their stretches."""
Span = tuple[float, float]
"""The first and the last second of a stretch within the recording."""


@frozen
class Sources:
    """A transcript, and the stretches of which there is none."""

    transcript: Transcript
    left_out: tuple[Span, ...] = ()


def find_lacking(recording: Recording, provided: Provided) -> tuple[RecordingFile, ...]:
    """Return the sounds of the stretches that the provider has no transcript of."""
    return tuple(sound for place, sound in _sounds(recording) if place not in provided)


def find_speechless(recording: Recording, provided: Provided) -> tuple[RecordingFile, ...]:
    """Return the sounds of the stretches without a transcript, or with an empty one."""
    return tuple(sound for place, sound in _sounds(recording) if not speech_of(provided.get(place, ())))


def waits_for_s(
    recording: Recording, lacking: Iterable[RecordingFile], wait: timedelta, now: datetime
) -> float:
    """Return for how many seconds transcripts are waited for, given the sounds of the stretches without one.

    Until so long after the recording's first files came, or after the end of the last of these stretches. One
    that ends in the future, by another clock, counts as there since the recording is.
    """
    ends = (sound.ends_at for sound in lacking if sound.ends_at <= now)
    return (max((recording.created_at, *ends)) + wait - now).total_seconds()


def transcript_wait(recording: Recording, wait: timedelta, *, can_transcribe: bool) -> timedelta:
    """Return how long transcripts of a recording are waited for, where `wait` is set.

    A provider takes up to twice the time that was recorded. Where nothing here `can_transcribe`, a note that
    does not wait for it fails for good.
    """
    if can_transcribe or not wait:
        return wait
    return max(wait, 2 * timedelta(seconds=recording.duration_s))


def waits_for_sessions_s(
    recording: Recording, held: Iterable[Session], wait: timedelta, now: datetime
) -> float:
    """Return for how many seconds the files of sessions are waited for: until so long after their ends."""
    recorded = recorded_sessions(recording.files)
    ends = [one.ended_at for one in held if one.ended_at is not None and one.id not in recorded]
    return (max(ends) + wait - now).total_seconds() if ends else 0.0


_FIRST_LOOK_S: Final = 60.0
_RARELY_S: Final = 300.0


def next_look_s(left_s: float, wait: timedelta) -> float:
    """Return in how many seconds a note that waits asks the provider again, `left_s` before its wait ends.

    In 1, 2, 4 and then always 5 minutes, and at the end: the provider's event of what is waited for makes the
    note due at once, and may be lost.
    """
    waited_s = wait.total_seconds() - left_s
    return min(left_s, max(_FIRST_LOOK_S, min(waited_s + _FIRST_LOOK_S, _RARELY_S)))


def join_sources(recording: Recording, provided: Provided, own: Transcript = ()) -> Transcript:
    """Join the provider's transcripts, and ours of the other stretches, in the recording's time."""
    placed = offsets(recording)
    return join([*((placed[place][1], transcript) for place, transcript in provided.items()), (0.0, own)])


def spans_of(recording: Recording, files: Container[RecordingFile]) -> tuple[Span, ...]:
    """Return where the stretches with these sounds lie."""
    return tuple(
        (before_s, before_s + (segment.media_s or 0.0))
        for segment, before_s in offsets(recording)
        if segment.sound in files
    )


def duration_s(recording: Recording, left_out: tuple[Span, ...]) -> int:
    """Return the length that is noted and paid for, without what is left out, in whole seconds, rounded up.

    At least one, where the recording has one: what was said may be known of sound that cannot be read.
    """
    noted_s = recording.media_s - sum(until_s - from_s for from_s, until_s in left_out)
    return min(recording.duration_s, max(1, rounded_up(noted_s)))


def mention_left_out(summary: str, left_out: tuple[Span, ...], language: Language) -> str:
    """Add a sentence to a summary for each stretch that the notes leave out."""
    said = [_LEFT_OUT[language].format(*map(format_offset, span)) for span in left_out]
    return "\n".join([summary, *said])


_LEFT_OUT: Final = {
    Language.INDONESIAN: (
        "Bagian rekaman dari {} sampai {} tidak termasuk dalam notulen ini, karena tidak ada transkripnya."
    ),
    Language.ENGLISH: (
        "The part of the recording from {} to {} is not in these notes, because there is no transcript of it."
    ),
}


def _sounds(recording: Recording) -> Iterator[tuple[int, RecordingFile]]:
    for place, segment in enumerate(segments(recording)):
        if (segment.media_s or 0.0) >= 1:
            yield place, segment.sound
