"""Recordings of meetings: the one record that gathers a meeting's files at the provider.

A meeting has at most one recording. Its files come in several events: the segments of a meeting that was
paused, the transcript later than the media, each perhaps twice and in any order; the result is the same. It
is hidden until its media has been measured: the provider's times of a file include pauses, and notes are paid
by length.

An expired recording, by its age or because it was deleted, is not shown, and its files are removed at the
provider, later ones included.
"""

from collections.abc import Container, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from math import ceil
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Conflict
from meetcore.domain.machine import find_step, step
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus

RETENTION: Final = timedelta(days=90)
"""How long after its beginning a recording is kept, unless a setting says otherwise."""

_TO_COME = frozenset({MeetingStatus.SCHEDULED, MeetingStatus.CANCELLING})
# A meeting that is still scheduled here took place at the provider: the news of its start comes later.
_TAKES_PLACE = frozenset({MeetingStatus.SCHEDULED, MeetingStatus.STARTED, MeetingStatus.ENDED})


class FileKind(StrEnum):
    """The content of a file of a recording.

    OTHER is what is neither measured nor offered, and removed with the rest: chats, captions, tracks of an
    interpreter.
    """

    VIDEO = "video"
    AUDIO = "audio"
    TRANSCRIPT = "transcript"
    OTHER = "other"


@frozen
class RecordingFile:
    """One file of a recording, as the provider names it.

    A meeting that was paused has several of each kind; `starts_at` and `ends_at`, the provider's, include
    pauses and show which belong together. `url` opens the file for the holder of the provider's token; it is
    empty once the file is gone. `media_s` is the measured length in seconds, `None` before. `session_id` is
    the provider's id of the session that was recorded, by which it finds the file; empty if unknown.
    """

    provider_file_id: str
    kind: FileKind
    size_bytes: int
    starts_at: datetime
    ends_at: datetime
    url: str = field(repr=False)
    media_s: float | None = None
    session_id: str = ""


class RecordingStatus(StrEnum):
    """The availability of a recording's files. One that is being measured is invisible."""

    MEASURING = "measuring"
    AVAILABLE = "available"
    EXPIRED = "expired"


class RecordingEvent(StrEnum):
    """An event of a recording."""

    MEASURE = "measure"
    EXPIRE = "expire"


TRANSITIONS: Final = {
    (RecordingStatus.MEASURING, RecordingEvent.MEASURE): RecordingStatus.AVAILABLE,
    (RecordingStatus.AVAILABLE, RecordingEvent.MEASURE): RecordingStatus.AVAILABLE,
    (RecordingStatus.MEASURING, RecordingEvent.EXPIRE): RecordingStatus.EXPIRED,
    (RecordingStatus.AVAILABLE, RecordingEvent.EXPIRE): RecordingStatus.EXPIRED,
}
"""The whole machine: a missing key is illegal and changes nothing."""


@frozen
class Recording:
    """The recording of a meeting, in any number of files.

    `recorded_at` is the beginning of the earliest file, `expires_at` the end of its retention. `provider` and
    `provider_meeting_id` locate the files.
    """

    id: UUID
    account_id: UUID
    meeting_id: UUID
    provider: str
    provider_meeting_id: str
    status: RecordingStatus
    files: tuple[RecordingFile, ...]
    recorded_at: datetime
    created_at: datetime
    expires_at: datetime

    @property
    def media_s(self) -> float:
        """The measured length of the media in seconds."""
        return sum(one.media_s or 0.0 for one in segments(self))

    @property
    def duration_s(self) -> int:
        """The measured length of the media in whole seconds, rounded up."""
        return rounded_up(self.media_s)

    @property
    def size_bytes(self) -> int:
        """The size of all downloads."""
        return sum(one.download.size_bytes for one in segments(self))


@frozen
class RecordingReady:
    """A recording became available."""

    recording: Recording


@frozen
class Segment:
    """The files of one stretch of a recording between two pauses.

    `sound` is the file to measure and transcribe: of the audio, else of the video, the one that spans the
    longest time and is not known to be empty. `download` is the customer's: the largest picture, or the sound
    without one. `transcript` is the provider's own.
    """

    sound: RecordingFile
    download: RecordingFile
    transcript: RecordingFile | None

    @property
    def media_s(self) -> float | None:
        """The length of the media in seconds, `None` until it was measured."""
        return self.sound.media_s


def can_be_recorded(meeting: Meeting) -> bool:
    """Return whether a meeting was sold with a recording and took place: else its files are not offered."""
    return meeting.options.with_recording and meeting.status in _TAKES_PLACE


def open_recording(
    id: UUID,
    meeting: Meeting,
    files: Iterable[RecordingFile],
    created_at: datetime,
    retention: timedelta = RETENTION,
) -> Recording | None:
    """Create the recording from the first files of a meeting; `None` without a file."""
    gathered = _gathered(files)
    if not gathered:
        return None
    recorded_at = _recorded_at(gathered)
    return Recording(
        id, meeting.account_id, meeting.id, meeting.provider, meeting.provider_meeting_id or "",
        RecordingStatus.MEASURING, gathered, recorded_at, created_at, recorded_at + retention,
    )  # fmt: skip


def gather_files(recording: Recording, files: Iterable[RecordingFile]) -> Recording:
    """Add files of a later event; the recording is unchanged where there is nothing new.

    A file is known by its id at the provider. Of two with one id the longer is kept: a provider reports a
    file again when it has grown. An expired recording gathers files, too, for removal.
    """
    gathered = _gathered((*recording.files, *files))
    return evolve(recording, files=gathered, recorded_at=_recorded_at(gathered))


def readdress(recording: Recording, files: Iterable[RecordingFile]) -> Recording:
    """Replace the addresses of files that are known in this size; those of an event soon expire."""
    fresh = {(file.provider_file_id, file.size_bytes): file.url for file in files if file.url}
    return evolve(
        recording,
        files=tuple(
            evolve(file, url=fresh.get((file.provider_file_id, file.size_bytes), file.url))
            for file in recording.files
        ),
    )


def segments(recording: Recording) -> tuple[Segment, ...]:
    """Return the stretches of a recording in time, each with some media.

    Files of one session belong to one stretch that overlap by more than half of the shorter of the two: a
    provider's times are whole seconds, so that one may end a second after the next begins. Sound decides,
    which is what is paid for: a video joins a stretch of sound before one of video, and each file the stretch
    that it overlaps the most.
    """
    stretches: list[list[RecordingFile]] = []
    files = sorted(recording.files, key=lambda file: (file.starts_at, file.ends_at, file.provider_file_id))
    for kind in (FileKind.AUDIO, FileKind.VIDEO, FileKind.TRANSCRIPT):
        for file in (one for one in files if one.kind is kind):
            best = max(stretches, key=partial(_fit, file), default=None)
            if best is not None and _fit(file, best) > _NO_FIT:
                best.append(file)
            elif kind is not FileKind.TRANSCRIPT:
                stretches.append([file])
    found = [_segment(stretch) for stretch in stretches]
    return tuple(sorted(found, key=lambda one: (one.sound.starts_at, one.sound.provider_file_id)))


def session_ids(recording: Recording) -> tuple[str, ...]:
    """Return the sessions that files are known of, each once."""
    return tuple(dict.fromkeys(file.session_id for file in recording.files if file.session_id))


def recorded_sessions(files: Iterable[RecordingFile]) -> frozenset[str]:
    """Return the sessions with media among files: a chat or captions may be there before it."""
    return frozenset(file.session_id for file in files if file.kind in (FileKind.AUDIO, FileKind.VIDEO))


def is_measured(recording: Recording) -> bool:
    """Return whether there is media, and the length of all of it is known."""
    found = segments(recording)
    return bool(found) and all(one.media_s is not None for one in found)


def measure(recording: Recording, lengths_s: Mapping[tuple[str, int], float]) -> Recording:
    """Set the lengths of files; the recording, unless expired, is available once all its media is measured.

    `lengths_s` are seconds of media by `provider_file_id` and `size_bytes`: a file that has grown since it
    was fetched still waits for its own, and one that no longer exists is ignored.
    """
    if recording.status is RecordingStatus.EXPIRED:
        return recording
    files = tuple(
        evolve(file, media_s=lengths_s.get((file.provider_file_id, file.size_bytes), file.media_s))
        for file in recording.files
    )
    measured = evolve(recording, files=files)
    if not is_measured(measured):
        return measured
    return evolve(measured, status=step(TRANSITIONS, recording.status, RecordingEvent.MEASURE))


def is_gone(recording: Recording, now: datetime) -> bool:
    """Return whether a recording is gone for its customer (rule 7/410): expired, or past its retention."""
    return recording.status is RecordingStatus.EXPIRED or now >= recording.expires_at


def became_ready(before: Recording, after: Recording, now: datetime) -> tuple[RecordingReady, ...]:
    """Return `RecordingReady` if measuring made a recording available before the end of its retention."""
    is_ready = after.status is not before.status and not is_gone(after, now)
    return (RecordingReady(after),) if is_ready else ()


def shown_status(recording: Recording, now: datetime) -> RecordingStatus:
    """Return the status that its customer reads: expired once past its retention, marked or not."""
    return RecordingStatus.EXPIRED if is_gone(recording, now) else recording.status


def expire(recording: Recording) -> Recording:
    """Expire a recording, by its age or at its owner's request; idempotent. `removed` completes it."""
    status = find_step(TRANSITIONS, recording.status, RecordingEvent.EXPIRE)
    return recording if status is None else evolve(recording, status=status)


def check_begun(meeting: Meeting, now: datetime) -> None:
    """Check that no recording of a test call is deleted before its meeting, whose own would be removed, too.

    Raises `Conflict`, which names the meeting.
    """
    if meeting.status in _TO_COME and now < meeting.start_at:
        raise Conflict("The meeting is still to come: its recording would be removed, too.", meeting.id)


def removed(recording: Recording, file_ids: Container[str]) -> Recording:
    """Clear the addresses of files that were removed; raise `ValueError` for a recording not expired."""
    if recording.status is not RecordingStatus.EXPIRED:
        raise ValueError("only the files of an expired recording are removed")
    return evolve(
        recording,
        files=tuple(
            evolve(file, url="") if file.provider_file_id in file_ids else file for file in recording.files
        ),
    )


def needs_work(recording: Recording) -> bool:
    """Return whether its media must be measured or its files removed at the provider."""
    if recording.status is RecordingStatus.EXPIRED:
        return any(file.url for file in recording.files)
    return any(one.media_s is None for one in segments(recording))


_HALF: Final = 0.5
_INSTANT: Final = timedelta.resolution


_NO_FIT: Final = (False, 0.0, 0.0)


def _fit(file: RecordingFile, stretch: list[RecordingFile]) -> tuple[bool, float, float]:
    """Return how well a file fits into a stretch: whether that has sound, and what they share."""
    if file.session_id != stretch[0].session_id:
        return _NO_FIT
    # A file without a length lies within many, and joins none of them.
    others = [other for other in stretch if _span(other) > _INSTANT] or stretch
    shared = max(_shared(file, other) for other in others)
    return (stretch[0].kind is FileKind.AUDIO, *shared) if shared[0] > _HALF else _NO_FIT


def _shared(one: RecordingFile, other: RecordingFile) -> tuple[float, float]:
    """Return how much of the shorter of two files lies within the other, and how much of the longer."""
    until = min(one.starts_at + _span(one), other.starts_at + _span(other))
    common = until - max(one.starts_at, other.starts_at)
    shorter, longer = sorted((_span(one), _span(other)))
    return common / shorter, common / longer


def _span(file: RecordingFile) -> timedelta:
    return max(file.ends_at - file.starts_at, _INSTANT)


def _segment(files: list[RecordingFile]) -> Segment:
    sounds = [file for file in files if file.kind is FileKind.AUDIO]
    pictures = [file for file in files if file.kind is FileKind.VIDEO]
    transcripts = [file for file in files if file.kind is FileKind.TRANSCRIPT]
    return Segment(
        sound=max((*sounds, *pictures), key=_worth),
        download=max(pictures or sounds, key=_size),
        transcript=max(transcripts, key=_size, default=None),
    )


def _worth(file: RecordingFile) -> tuple[bool, bool, timedelta, bool, str]:
    """Order files by what they tell of a stretch's sound. One that turned out to be empty tells nothing."""
    span, is_audio = _span(file), file.kind is FileKind.AUDIO
    return file.media_s != 0.0, is_audio and span > _INSTANT, span, is_audio, file.provider_file_id


def _size(file: RecordingFile) -> tuple[int, str]:
    return file.size_bytes, file.provider_file_id


def rounded_up(seconds: float) -> int:
    """Return whole seconds. A millisecond of a container's padding does not begin another one."""
    return max(0, ceil(seconds - 0.001))


def _gathered(files: Iterable[RecordingFile]) -> tuple[RecordingFile, ...]:
    """Return each file once, in the order of time, independent of arrival."""
    known: dict[str, RecordingFile] = {}
    for file in files:
        earlier = known.get(file.provider_file_id)
        known[file.provider_file_id] = file if earlier is None else _preferred(earlier, file)
    return tuple(sorted(known.values(), key=lambda file: (file.starts_at, file.provider_file_id)))


def _preferred(one: RecordingFile, other: RecordingFile) -> RecordingFile:
    preferred = max(one, other, key=_weight)
    preferred = evolve(preferred, session_id=max(one.session_id, other.session_id))  # an event may lack it
    if one.size_bytes != other.size_bytes:  # it has grown: what was measured of it is not its length
        return preferred
    return evolve(preferred, media_s=one.media_s if other.media_s is None else other.media_s)


def _weight(file: RecordingFile) -> tuple[int, datetime, datetime, str, str]:
    return file.size_bytes, file.ends_at, file.starts_at, file.kind, file.url


def _recorded_at(files: tuple[RecordingFile, ...]) -> datetime:
    offered = [file for file in files if file.kind is not FileKind.OTHER]
    return min(file.starts_at for file in offered or files)
