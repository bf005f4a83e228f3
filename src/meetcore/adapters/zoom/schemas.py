"""Zoom's formats: the body of an order, responses, limits and waits of a 429, files of a recording.

Zoom cannot search by a foreign id, so the last line of a meeting's agenda holds ours. A customer's
description stands before it and cannot replace it. A response without a needed field, or without JSON, is an
unknown outcome.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Annotated, Final, TypeVar
from uuid import UUID

import msgspec
from attrs import evolve, field, frozen

from meetcore.adapters.bounded_http import HttpResponse
from meetcore.domain.meetings.meetings import MeetingOptions, Provisioned
from meetcore.domain.meetings.views import FoundMeeting, ListedMeeting, ProviderOrder
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.ports.video_provider import ProviderUnknown

_MAX_AGENDA: Final = 2000
_REFERENCE: Final = re.compile(
    r"(?:^|\s)Ref: (?P<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\s*\Z", re.ASCII
)


def meeting_body(order: ProviderOrder) -> dict[str, object]:
    """Return the body of `POST /users/{user}/meetings`; the customer becomes host by the host key."""
    body: dict[str, object] = {
        "topic": order.title,
        "type": 2,  # scheduled, once
        "start_time": order.start_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "timezone": "Asia/Jakarta",
        "duration": order.duration,
        "agenda": _agenda(order),
        "settings": {
            "host_video": False,
            "participant_video": False,
            "join_before_host": True,
            # Minutes; Zoom takes 0 (any time), 5 and 10. Before that the host is not reserved.
            "jbh_time": 10,
            "waiting_room": False,
            "mute_upon_entry": order.options.mic_off,
            "meeting_authentication": order.options.must_login,
            "approval_type": 2,  # without registration
            "audio": "both",
            "auto_recording": "cloud" if order.options.with_recording else "none",
            "email_notification": order.options.email_notification,
            "use_pmi": False,
        },
    }
    if order.password is not None:
        body["password"] = order.password
    return body


def reference_of(agenda: str) -> UUID | None:
    """Return the meeting id in an agenda; `None` for foreign meetings."""
    found = _REFERENCE.search(agenda)
    return None if found is None else UUID(found["id"])


def description_of(agenda: str) -> str | None:
    """Return the customer's text in an agenda."""
    return _REFERENCE.sub("", agenda).rstrip() or None


def options_of(settings: Mapping[str, object]) -> MeetingOptions:
    """Read options back from the settings that `meeting_body` writes."""
    return MeetingOptions(
        with_recording=settings.get("auto_recording") == "cloud",
        must_login=settings.get("meeting_authentication") is True,
        mic_off=settings.get("mute_upon_entry") is True,
        email_notification=settings.get("email_notification") is True,
    )


def _agenda(order: ProviderOrder) -> str:
    line = f"Ref: {order.meeting_id}"
    if not order.description:
        return line
    room = _MAX_AGENDA - len(line) - 2
    return f"{order.description[:room]}\n\n{line}"


T = TypeVar("T")

# By `file_type`; everything else is kept for its removal only.
_KINDS: Final = {"MP4": FileKind.VIDEO, "M4A": FileKind.AUDIO, "TRANSCRIPT": FileKind.TRANSCRIPT}
# In `recording_type`: the voice or the picture of an interpreter, beside the meeting's own.
_INTERPRETATION: Final = "interpretation"
NAMELESS: Final = "nameless:"
"""Begins our id of a file that Zoom gives none: captions and timelines."""

# A host's limit sets no header; only its message tells it apart.
_OF_A_HOST: Final = "particular user"
_OF_A_DAY: Final = "daily"
# A reset further away than a limit of a second allows means that the clocks differ.
_LONGEST_RESET_S: Final = 5.0


class _Refusal(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


@frozen
class ZoomResponse(HttpResponse):
    """A response of Zoom. `is_after_doubt`: an earlier attempt of the request may have arrived."""

    is_after_doubt: bool = False

    @property
    def code(self) -> int:
        """Zoom's error number; 0 without one."""
        return self._refusal.code

    @property
    def message(self) -> str:
        """Zoom's message, never shown to customers."""
        return self._refusal.message

    @property
    def _refusal(self) -> _Refusal:
        try:
            return msgspec.json.decode(self.body, type=_Refusal)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _Refusal()


class Made(msgspec.Struct, frozen=True):
    """A meeting as Zoom creates or returns it."""

    id: int | str
    join_url: str
    password: str | None = None
    agenda: str = ""
    status: str = ""
    topic: str = ""
    start_time: str = ""
    duration: int = 0
    settings: dict[str, object] = {}

    def __repr__(self) -> str:
        return f"<meeting {self.id} at Zoom>"  # link and password stay out of logs


class Listed(msgspec.Struct, frozen=True):
    """A meeting in a list, its agenda shortened."""

    id: int | str
    start_time: str = ""
    created_at: str = ""


class MeetingPage(msgspec.Struct, frozen=True):
    """One page of a host's meetings."""

    meetings: list[Listed]
    next_page_token: str = ""


@frozen
class ListedFile:
    """A file in a list, with the uuid of its session; unfinished ones lack most fields, or have null."""

    id: str | None = ""
    meeting_id: str | None = ""
    file_type: str | None = ""
    recording_type: str | None = ""
    status: str | None = "completed"
    file_size: Annotated[int, msgspec.Meta(ge=0)] | None = 0
    recording_start: str | None = ""
    recording_end: str | None = ""
    download_url: str | None = field(default="", repr=False)


class ListedRecording(msgspec.Struct, frozen=True):
    """The files of a session, and the voices of its participants where each has a file."""

    recording_files: list[ListedFile]
    uuid: str = ""
    participant_audio_files: list[ListedFile] = []


class _Instance(msgspec.Struct, frozen=True):
    uuid: str = ""
    start_time: str = ""


class _Instances(msgspec.Struct, frozen=True):
    meetings: list[_Instance]


def decoded(response: HttpResponse, kind: type[T]) -> T:
    """Decode a response; raise `ProviderUnknown` for another shape."""
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ProviderUnknown(f"zoom: malformed response, status {response.status}") from None


def listed_meetings(listed: list[Listed]) -> tuple[ListedMeeting, ...]:
    """Convert a host's list, where meetings may be twice; raise `ProviderUnknown` for a malformed time."""
    try:
        found = {text_of(each.id): _instant(each.created_at) for each in listed}
    except ValueError:
        raise ProviderUnknown("zoom: malformed time of a meeting") from None
    return tuple(ListedMeeting(number, created_at) for number, created_at in found.items())


def found_meeting(made: Made) -> FoundMeeting:
    """Convert a meeting, with the order's fields read back; raise `ProviderUnknown` if malformed."""
    try:
        start_at = _instant(made.start_time) if made.start_time else None
    except ValueError:
        raise ProviderUnknown("zoom: malformed time of a meeting") from None
    return FoundMeeting(
        of_meeting(made, None), reference_of(made.agenda), made.topic, description_of(made.agenda),
        start_at, made.duration, options_of(made.settings),
    )  # fmt: skip


def text_of(number: int | str) -> str:
    """Return an id as text: Zoom sends numbers and strings."""
    return str(number)


def is_at(listed: Listed, at: datetime) -> bool:
    """Return whether a listed meeting begins at this instant, in any zone."""
    try:
        return _instant(listed.start_time) == at
    except ValueError:
        return False


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def provisioned(response: HttpResponse, password: str | None) -> Provisioned:
    """Convert a created meeting; its password is Zoom's, else the requested one."""
    return of_meeting(decoded(response, Made), password)


def of_meeting(made: Made, password: str | None) -> Provisioned:
    """Convert a meeting; raise `ProviderUnknown` without its link."""
    if not made.join_url.startswith(("https://", "http://")) or not text_of(made.id):
        raise ProviderUnknown("zoom: meeting without a join link")
    return Provisioned(text_of(made.id), made.join_url, made.password or password)


def session_uuids(response: HttpResponse) -> list[str]:
    """Return the uuids of the sessions that are over, the latest first; raise `ProviderUnknown`."""
    held = decoded(response, _Instances).meetings
    return [each.uuid for each in sorted(held, key=lambda each: each.start_time, reverse=True) if each.uuid]


def recorded_files(recording: ListedRecording) -> tuple[RecordingFile, ...]:
    """Return all finished files of a session; raise `ValueError` for a malformed time."""
    voices = ready_files(recording.participant_audio_files, recording.uuid)
    others = tuple(evolve(voice, kind=FileKind.OTHER) for voice in voices)
    return ready_files(recording.recording_files, recording.uuid) + others


def ready_files(listed: Iterable[ListedFile], uuid: str) -> tuple[RecordingFile, ...]:
    """Return the finished files of a session without those that lack something.

    Raises `ValueError` for a malformed time.
    """
    return tuple(file for one in listed if (file := _file(one, one.meeting_id or uuid)) is not None)


def _file(listed: ListedFile, session_id: str) -> RecordingFile | None:
    is_own = _INTERPRETATION not in (listed.recording_type or "")
    kind = _KINDS.get(listed.file_type or "", FileKind.OTHER) if is_own else FileKind.OTHER
    id, size_bytes = listed.id, listed.file_size
    if kind is FileKind.OTHER:
        id, size_bytes = id or (session_id and f"{NAMELESS}{listed.file_type} {session_id}"), size_bytes or 0
    is_done = listed.status == "completed" and size_bytes is not None and listed.download_url
    if not (is_done and id and listed.recording_start and listed.recording_end):
        return None
    start, end = _zoned(listed.recording_start), _zoned(listed.recording_end)
    url = listed.download_url or ""
    return RecordingFile(id, kind, size_bytes or 0, start, end, url, session_id=session_id)


def _zoned(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("time without a zone")
    return at.astimezone(UTC)


class Limit(Enum):
    """A rate limit of Zoom."""

    SECOND = auto()
    ACCOUNT_DAY = auto()
    HOST_DAY = auto()


def limit_of(response: ZoomResponse) -> Limit:
    """Return the exceeded limit; that of a second by default."""
    message = response.message.lower()
    kind = response.headers.get("X-RateLimit-Type", "").lower()
    if _OF_A_HOST in message:
        return Limit.HOST_DAY
    if _OF_A_DAY in kind or (not kind and _OF_A_DAY in message):
        return Limit.ACCOUNT_DAY
    return Limit.SECOND


def retry_after_s(response: ZoomResponse, now: datetime) -> float | None:
    """Return the seconds to wait by `Retry-After`: seconds, an HTTP date or Zoom's date-time; else `None`."""
    text = response.headers.get("Retry-After", "").strip()
    if not text:
        reset = response.headers.get("X-RateLimit-Reset", "").strip()
        wait_s = int(reset) - now.timestamp() if _is_number(reset) else None
        return None if wait_s is None or wait_s > _LONGEST_RESET_S else max(0.0, wait_s)
    if _is_number(text):
        return float(text)
    for read in (_instant, parsedate_to_datetime):
        try:
            at = read(text)
        except (ValueError, OverflowError):
            continue
        return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())
    return None


def next_utc_midnight(now: datetime) -> datetime:
    """Return the instant at which Zoom resets the daily limit of a host."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today + timedelta(days=1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12
