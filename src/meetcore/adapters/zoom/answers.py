"""Zoom's answers as our types: only the fields that are used, others ignored.

An answer that lacks one of them, or is no JSON, is an unknown outcome.
"""

from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from meetcore.adapters.zoom.files import ListedFile, ready_files
from meetcore.adapters.zoom.http import HttpResponse
from meetcore.domain.meetings.meetings import Provisioned
from meetcore.domain.notes.recordings import RecordingFile
from meetcore.ports.video_provider import ProviderUnknown

T = TypeVar("T")


class Made(msgspec.Struct, frozen=True):
    """A meeting, as creating or reading it answers."""

    id: int | str
    join_url: str
    password: str | None = None
    agenda: str = ""
    status: str = ""

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


def text_of(number: int | str) -> str:
    """An id as text: Zoom has numbers here and texts there."""
    return str(number)


def is_at(listed: Listed, at: datetime) -> bool:
    """Whether a listed meeting begins at this instant, in any zone that Zoom gives."""
    try:
        start = datetime.fromisoformat(listed.start_time)
    except ValueError:
        return False  # none is set
    return (start if start.tzinfo is not None else start.replace(tzinfo=UTC)) == at


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
