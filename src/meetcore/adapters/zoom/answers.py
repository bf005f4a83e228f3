"""Zoom's answers as our types: only the fields that are used, others ignored.

An answer that lacks one of them, or is no JSON, is an unknown outcome.
"""

from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from meetcore.adapters.zoom.files import ListedFile, ready_files
from meetcore.adapters.zoom.http import HttpResponse
from meetcore.adapters.zoom.orders import parts_of
from meetcore.domain.meetings.meetings import Provisioned
from meetcore.domain.notes.recordings import RecordingFile
from meetcore.ports.video_provider import FoundMeeting, ListedMeeting, ProviderUnknown

T = TypeVar("T")


class Made(msgspec.Struct, frozen=True):
    """A meeting, as creating or reading it answers."""

    id: int | str
    join_url: str
    password: str | None = None
    agenda: str = ""
    status: str = ""
    topic: str = ""

    def __repr__(self) -> str:
        return f"<meeting {self.id} at Zoom>"  # link and password are for who is in it


class Listed(msgspec.Struct, frozen=True):
    """A meeting in a list, which shortens its agenda."""

    id: int | str
    start_time: str = ""
    created_at: str = ""


class MeetingPage(msgspec.Struct, frozen=True):
    """One page of a host's meetings."""

    meetings: list[Listed]
    next_page_token: str = ""


class _Recording(msgspec.Struct, frozen=True):
    recording_files: list[ListedFile]


def decoded(response: HttpResponse, kind: type[T]) -> T:
    """Decode an answer as the expected type.

    Raises:
        ProviderUnknown: it is not that.
    """
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ProviderUnknown(f"zoom: an answer of {response.status} that cannot be read") from None


def listed_meetings(listed: list[Listed]) -> tuple[ListedMeeting, ...]:
    """A host's list as our type; a page may repeat what moved while the pages were read.

    Raises:
        ProviderUnknown: a time that cannot be read.
    """
    try:
        found = {text_of(each.id): _instant(each.created_at) for each in listed}
    except ValueError:
        raise ProviderUnknown("zoom: a meeting whose times cannot be read") from None
    return tuple(ListedMeeting(number, created_at) for number, created_at in found.items())


def found_meeting(made: Made) -> FoundMeeting:
    """A meeting at Zoom with what we wrote into it.

    Raises:
        ProviderUnknown: it has no link.
    """
    parts = parts_of(made.agenda)
    if parts is None:
        return FoundMeeting(of_meeting(made, None), None, made.topic, made.agenda or None)
    return FoundMeeting(
        of_meeting(made, None), parts.meeting_id, made.topic, parts.description or None, parts.memo
    )


def text_of(number: int | str) -> str:
    """An id as text: Zoom has numbers here and texts there."""
    return str(number)


def is_at(listed: Listed, at: datetime) -> bool:
    """Whether a listed meeting begins at this instant, in any zone that Zoom gives."""
    try:
        return _instant(listed.start_time) == at
    except ValueError:
        return False  # none is set


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def provisioned(response: HttpResponse, password: str | None) -> Provisioned:
    """What was made; the password as Zoom returns it, or as requested.

    Raises:
        ProviderUnknown: the answer lacks it.
    """
    return of_meeting(decoded(response, Made), password)


def of_meeting(made: Made, password: str | None) -> Provisioned:
    """A meeting at Zoom as our type.

    Raises:
        ProviderUnknown: it has no link.
    """
    if not made.join_url.startswith(("https://", "http://")) or not text_of(made.id):
        raise ProviderUnknown("zoom: a meeting without a link")
    return Provisioned(text_of(made.id), made.join_url, made.password or password)


def recording_files(response: HttpResponse) -> tuple[RecordingFile, ...]:
    """The files that are ready: video, audio and transcripts.

    Raises:
        ProviderUnknown: the answer lacks them.
    """
    try:
        return ready_files(decoded(response, _Recording).recording_files)
    except ValueError:
        raise ProviderUnknown("zoom: a recording whose times cannot be read") from None
